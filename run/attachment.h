/* One target and all that a call in it needs, opened without stopping anything. */
#pragma once

#include "elf/kept_files.h"
#include "inject/call.h"
#include "jemalloc/hooks.h"
#include "jemalloc/instance.h"
#include "jemalloc/prof_byte.h"
#include "jemalloc/reader/reader.h"
#include "jemalloc/tsd/place.h"
#include "run/events.h"
#include "run/stall_guard.h"

#include <stdio.h>

/* How a profile or the switch is reached. */
enum way {
    WAY_DEFAULT, /* through memory where that is proven, else by a call */
    WAY_MEMORY,  /* only through memory: no thread is stopped */
    WAY_CALL,    /* only by a call */
};

struct attach_request {
    pid_t pid;
    const struct target_pin *pin; /* the process as it was chosen; NULL: whichever has the pid */
    pid_t thread;                 /* the only thread that may be stopped; 0: any */
    size_t instance;              /* of jemalloc, from 1; 0: the default */
    uint64_t timeout_ns;          /* for one attach */
    enum way way;
    bool force_hooks;                /* functions of the application may run in a call */
    const struct run_events *events; /* NULL: none */
};

/* What was read from memory (run/readout.h). */
struct read_summary {
    unsigned count;      /* profiles */
    uint64_t longest_ns; /* the longest read */
    struct reading last;
};

struct attachment {
    struct attach_request request;
    struct procfs proc;
    struct target target;
    struct gate gate;
    struct memory memory;
    struct modules modules;
    struct instance instance;   /* the one that is worked on */
    struct instances instances; /* all of them after attachment_look, or with request.instance */
    struct plan plan;
    struct deadline deadline;
    struct stall_guard stall_guard;
    struct injection injection;
    enum target_end end;           /* of that thread, or its process, when it was resumed */
    struct injection_summary last; /* of the last thread that was stopped; injection may be newer */
    struct hooks_consent hooks;    /* request.force_hooks, and what ran because of it */
    bool planned;                  /* plan is made: calls are possible */
    bool reads;                    /* profiles are read from memory (run/readout.h) */
    bool owes;                     /* calls only give back what calls have changed */
    bool switches;                 /* prof.active is reached through memory (readout_act) */
    bool reader_opened;
    struct reader reader; /* if reader_opened */
    struct read_summary read;
    struct prof_byte byte;          /* found by switching_find (run/switching.h) */
    struct tsd_place threads_place; /* found by thread_view_read; layout NULL: not yet */
    bool frame_checked;             /* on a child of the tool, once */
    unsigned holds;                 /* so far: threads stopped */
    unsigned calls;                 /* in all holds */
    uint64_t longest_ns;            /* the longest hold */
    uint64_t search_ns;             /* limit for finding a safe point; 0: until the deadline */
    struct interrupted_sleep sleeps[INJECTION_SLEEPS]; /* kept from one hold to the next */
    struct stops stops;                                /* as well */
    bool opened;                                       /* target is the process of the request */
    char variable[PREFIX_MAX + 16];                    /* MALLOC_CONF, _RJEM_MALLOC_CONF */
    const char *root; /* directory with the files of a core file's process; NULL: none */
    struct kept_files kept_files; /* for names after its end; empty: not kept */
};

/*
 * Reads identity, modules, jemalloc and the code to avoid, without stopping a
 * thread. Finds all instances if request->instance is set, else only the
 * default. Pointers in the request must stay valid until attachment_close,
 * which is needed after a failure, too.
 */
fault_code attachment_open(struct attachment *attachment, const struct attach_request *request,
                           struct fault *fault);
/* The same without the plan of a call; works on a traced process, too. */
fault_code attachment_find(struct attachment *attachment, const struct attach_request *request,
                           struct fault *fault);
/* The same without the plan of a call and with all instances; works on a traced process, too. */
fault_code attachment_look(struct attachment *attachment, const struct attach_request *request,
                           struct fault *fault);
/*
 * Does the same for a process that has ended (target->record), with its memory from
 * source. No call is possible, and no /proc is read. target is copied.
 */
fault_code attachment_look_recorded(struct attachment *attachment,
                                    const struct attach_request *request,
                                    const struct target *target, const struct memory_source *source,
                                    struct fault *fault);
/*
 * Opens a process whatever it has: its identity, memory and mappings, without jemalloc.
 * No call is possible; of the functions below only rest, explain, note and close.
 */
fault_code attachment_map(struct attachment *attachment, const struct attach_request *request,
                          struct fault *fault);
/* After attachment_find or attachment_look: makes the plan, so that calls are possible. */
fault_code attachment_prepare(struct attachment *attachment, struct fault *fault);
/* Runs while a thread is stopped: attachment->injection is ready for calls. */
typedef fault_code (*held_action)(struct attachment *attachment, void *ctx, struct fault *fault);
/*
 * Checks the forged frame on a child of the tool, stops one thread of the
 * target, runs the action and resumes the thread in any case. All of it runs in
 * a separate thread of the tool (apart.h). FAULT_CALL_FORBIDDEN with WAY_MEMORY.
 */
fault_code attachment_hold(struct attachment *attachment, held_action action, void *ctx,
                           struct fault *fault);
/*
 * Between two holds of one process: stops the deadline's ticks.
 * attachment_renew is needed before the next hold.
 */
void attachment_rest(struct attachment *attachment);
/*
 * Before another hold: checks that it is still the same process in the same
 * program (else FAULT_GONE, FAULT_REUSED, FAULT_EXECED). Reads modules, threads
 * and the code to avoid again, as a library may have been loaded. Restarts the
 * deadline with request.timeout_ns; interrupted is its flag (interrupt.h), NULL
 * if this hold must not be interrupted.
 */
fault_code attachment_renew(struct attachment *attachment, const volatile sig_atomic_t *interrupted,
                            struct fault *fault);
/*
 * Refines the fault of something that was done to the target: to the end of the
 * target, or to the rule behind a refusal of the kernel.
 */
fault_code attachment_explain(struct attachment *attachment, fault_code code, struct fault *fault);
/* For code that stops threads itself, after a hold that has checked the frame. */
struct injection_env attachment_env(struct attachment *attachment);
/* Returns what reads jemalloc's data in memory; the attachment must outlive it. deadline: NULL:
 * none. */
struct reader_source attachment_source(struct attachment *attachment,
                                       const struct deadline *deadline);
/* True if rc says that the process, not only a thread of it, has ended or is another program. */
bool attachment_is_gone(const struct attachment *attachment, fault_code rc);
/* Closes everything; idempotent. */
void attachment_close(struct attachment *attachment);

/* Reports a note to request.events. */
void attachment_note(const struct attachment *attachment, const struct run_note *note);
