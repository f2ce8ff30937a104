/*
 * The events of all threads of a process, and the rings that they write into.
 *
 * Usual way: an event for each thread and each CPU, which threads that start later
 * inherit, and a ring for each CPU. With very many threads and CPUs, the kernel would copy
 * one event for each CPU whenever a thread starts (inherit_task_group), and the tool would
 * need as many file descriptors. Beyond SOURCES_THREADS_MAX threads or SOURCES_MAX events
 * there is therefore one event for each CPU, which samples all processes of the host. Where
 * the kernel refuses that, beyond SOURCES_MAX events or at the limit of open files, a thread
 * has one event with a ring of its own, as far as the memory for rings goes, and new threads
 * are found in /proc.
 */
#pragma once

#include "attach/target.h"
#include "base/interruptions.h"
#include "perf/event_open.h"
#include "perf/ring.h"

enum { SOURCES_THREADS_MAX = 512, SOURCES_MAX = 8192 };

enum sources_way {
    SOURCES_INHERITED, /* for each thread and CPU */
    SOURCES_LISTED,    /* for each thread, with a ring of its own */
    SOURCES_OF_CPUS,   /* for each CPU: samples of other processes come, too */
};

struct source {
    int fd;           /* -1: closed */
    uint64_t id;      /* in its samples */
    pid_t tid;        /* -1: of all processes */
    bool late;        /* the thread was found when others had been opened */
    struct ring ring; /* if listed */
};

/* Sorted. */
struct tid_list {
    pid_t *tids;
    size_t count, capacity;
};

struct cpu_ring {
    int cpu, fd;
    struct ring ring;
};

struct sources {
    const struct target *target;
    const struct deadline *deadline; /* of the opening */
    struct event_form form;
    size_t ring_size, ring_least; /* bytes; of a ring on a machine with one CPU; the least of any */
    size_t files_max;             /* file descriptors that the tool may use */
    enum sources_way way;
    int cpus_err;           /* why the events of CPUs are not used, -errno; 0: not tried */
    size_t expected;        /* threads that share the memory for rings, if listed */
    size_t ring_bytes;      /* of all rings of threads */
    struct cpu_ring *rings; /* of each CPU, unless listed */
    size_t cpu_count;
    struct source *list;
    size_t count, capacity;
    struct tid_list opened; /* the threads that have been opened, or could not be */
    size_t late_count;
    uint64_t faults; /* that closed events have counted */
    size_t refused;  /* threads that could not be opened, or not before the deadline */
    int refused_err; /* the last reason, -errno */
};

/*
 * Opens all threads with the form's period, or as many as it can until the deadline or the
 * interrupt. sources_close releases everything, also after a failure: -errno of the kernel,
 * or -ESRCH if the process has no threads left.
 */
int sources_open(struct sources *sources);

/* True if there are by now so many threads that sources_open would choose another way. */
bool sources_outgrown(const struct sources *sources);

/* Returns how many threads are not observed; *all is the number of threads. */
size_t sources_missed(const struct sources *sources, size_t *all);

/* What to do with a ring. */
typedef void (*ring_action)(void *ctx, struct ring *ring);

/*
 * If listed: opens the threads that have started, and closes those that have ended, after
 * a last action on their rings. Otherwise does nothing.
 */
void sources_renew(struct sources *sources, ring_action action, void *ctx);

/* Stops the counting: no record follows. The rings can still be read. */
void sources_stop(struct sources *sources);
/* Closes the events, and keeps the rings of the CPUs for the next sources_open. */
void sources_clear(struct sources *sources);
/* Closes the rings, too, for a sources_open with other sizes. */
void sources_clear_rings(struct sources *sources);
void sources_close(struct sources *sources);

/* Calls the action for each ring. */
void sources_each_ring(struct sources *sources, ring_action action, void *ctx);

/*
 * Returns the number of faults that the kernel has counted since the first sources_open:
 * those of the host with SOURCES_OF_CPUS.
 */
uint64_t sources_faults(const struct sources *sources);

/*
 * True if a sample of a thread, from the event of another, is one too many: the thread
 * started while the threads were opened, and has inherited an event besides its own. Its
 * own is closed then.
 */
bool sources_is_double(struct sources *sources, pid_t tid, uint64_t event);
