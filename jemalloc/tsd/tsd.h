/*
 * What jemalloc knows about each thread: its tsd (tsd.h), in static thread-local
 * storage at the same distance from the thread pointer in every thread. Read from
 * memory, without a call and without a stop.
 *
 * The layout is chosen by the version and the commits after it (tsd/place.h), and then
 * proven on the data of all threads: prof_tdata is null or one of the data that the
 * reader knows, the state is a possible one, the count of bytes until the next sample is
 * below its bound or has the value that only a defect leaves. What cannot be proven
 * is THREAD_UNKNOWN, never guessed.
 */
#pragma once

#include "attach/target.h"
#include "elf/thread_pointers.h"
#include "jemalloc/facts.h"
#include "jemalloc/tsd/place.h"

/* Does a thread sample, if prof.active is true? */
enum thread_sampling {
    THREAD_UNKNOWN,
    THREAD_SAMPLES, /* its count of bytes until the next sample is below its bound */
    THREAD_FRESH,   /* has not allocated yet: it samples from its first allocation on */
    THREAD_ASLEEP,  /* the defect of 5.2 (activate.h): its count has no end */
    THREAD_OFF,     /* thread.prof.active is false, or will be: it has no data of its own yet, and
                       prof.thread_active_init is false */
};

struct tsd_thread {
    struct thread thread;
    enum thread_sampling sampling;
    bool has_counts;                 /* allocated and deallocated are known */
    uint64_t allocated, deallocated; /* bytes since it started */
    bool background;                 /* of jemalloc itself: it never samples */
    remote_addr pointer;             /* its thread pointer; 0: unknown */
    remote_addr wait;   /* address of the count of bytes until its next sample; 0: unknown */
    remote_addr active; /* address of its thread.prof.active (a byte); 0: unknown, or none yet */
};

struct tsd_threads {
    struct tsd_thread *list; /* ascending by tid */
    size_t count;
    size_t by_sampling[THREAD_OFF + 1]; /* without background threads */
    const char *unknown_why;            /* why some are THREAD_UNKNOWN, a clause; NULL: none is */
    struct tsd_place place;             /* where their data are; layout NULL: unknown */
};

/* What the threads are read with. All of it must outlive the call. */
struct tsd_source {
    const struct instance *instance;
    const struct modules *modules;
    const struct target *target;
    struct memory *memory;
    const struct fact_variables *variables; /* from facts_locate */
    const struct thread_pointers *pointers; /* NULL: they are read */
    const struct tsd_place *place; /* found by a read a moment ago; NULL: it is searched for */
    int64_t offset; /* of the counters from the thread pointer, if a call has told it; 0: search */
};

/* True if a thread of that name is one of jemalloc itself, which returns free pages. */
bool tsd_is_background(const char *comm);

/*
 * Lists all threads with what can be seen; tsd_threads_free releases the list. Fails only
 * if the threads cannot be listed: what cannot be seen is THREAD_UNKNOWN.
 */
fault_code tsd_threads_read(struct tsd_threads *threads, const struct tsd_source *source,
                            struct fault *fault);
void tsd_threads_free(struct tsd_threads *threads);

/*
 * Reads one of these threads again while it is stopped, by the thread pointer in its
 * registers: so wait and active are certainly its own, and stay so until it runs. The layout is
 * the one that was proven on all threads. Returns thread->sampling.
 */
enum thread_sampling tsd_thread_reread(struct tsd_thread *thread, remote_addr pointer,
                                       const struct tsd_threads *threads,
                                       const struct tsd_source *source);

/*
 * Whether this build has the defect of 5.2 (activate.h): from 5.1.0-89 (0f831365) to 5.2.1-20,
 * before 9e031c1d. A count without end proves it, a layout without such a count refutes it; the
 * version decides the rest. Unknown: the layout may have it, and the version is no release's.
 */
enum fact tsd_defect(const struct tsd_threads *threads, const char *version);

/* Returns "samples", "off", ...: one word, the same in text and JSON. */
const char *thread_sampling_text(enum thread_sampling sampling);
