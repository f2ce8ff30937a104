/* What is known of one target, found without stopping anything. */
#pragma once

#include "elf/modulefile.h"
#include "jemalloc/activate.h"
#include "jemalloc/instance.h"
#include "jemalloc/reader/reader.h"
#include "jemalloc/tsd/place.h"
#include "run/caller.h"
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
    bool every;                   /* finds all instances of jemalloc, also without instance */
    uint64_t timeout_ns;          /* for one attach */
    enum way way;
    uint64_t search_ns;              /* limit for finding a safe point; 0: until the deadline */
    bool force_hooks;                /* functions of the application may run in a call */
    bool repairs;                    /* threads that are switched off are visited, in any way */
    bool may_reset;                  /* prof.reset may be called where nothing else helps */
    const struct run_events *events; /* NULL: none */
};

/* What was read from memory (run/access.h). */
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
    struct instances instances; /* all of them with request.instance or every */
    struct deadline deadline;
    struct stall_guard stall_guard;
    struct caller caller;
    bool unreadable;   /* memory does not show the profile, as was reported (run/access.h) */
    bool counts_noted; /* that memory does not show the counts (run/account.h) */
    bool reader_opened;
    struct reader reader; /* if reader_opened */
    struct read_summary read;
    struct prof_byte byte;          /* found by access_find_byte */
    struct tsd_place threads_place; /* found by thread_view_read; layout NULL: not yet */
    bool opened;                    /* target is the process of the request */
    char variable[PREFIX_MAX + 16]; /* MALLOC_CONF, _RJEM_MALLOC_CONF */
    const char *root; /* directory with the files of a core file's process; NULL: none */
    struct kept_files kept_files; /* for names after its end; empty: not kept */
};

/*
 * Reads identity, modules and jemalloc, without stopping a thread; works on a traced process, too.
 * Finds all instances if request->instance or every is set, else only the default. Pointers in the
 * request must stay valid until attachment_close, which is needed after a failure, too.
 */
fault_code attachment_find(struct attachment *attachment, const struct attach_request *request,
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
/*
 * Reads its mappings again, as it may have grown. False: they are as before, because it runs other
 * code now (fault->code is FAULT_NONE), or because they could not be read.
 */
bool attachment_map_again(struct attachment *attachment, struct fault *fault);
/*
 * Between two looks at one process: stops the deadline's ticks.
 * attachment_renew is needed before the next one.
 */
void attachment_rest(struct attachment *attachment);
/*
 * Before another look: checks that it is still the same process in the same program (else
 * FAULT_GONE, FAULT_REUSED, FAULT_EXECED). Reads the modules again, as a library may have been
 * loaded. Restarts the deadline with request.timeout_ns; interrupted is its flag (interrupt.h),
 * NULL if what follows must not be interrupted.
 */
fault_code attachment_renew(struct attachment *attachment, const volatile sig_atomic_t *interrupted,
                            struct fault *fault);
/*
 * Refines the fault of something that was done to the target: to the end of the
 * target, or to the rule behind a refusal of the kernel.
 */
fault_code attachment_explain(struct attachment *attachment, fault_code code, struct fault *fault);
/*
 * Refines the fault of a search that may have failed because memory is left in swap, or because
 * the kernel refuses to show it.
 */
fault_code attachment_unless_refused(const struct attachment *attachment, fault_code rc,
                                     struct fault *fault);
/* Returns what reads jemalloc's data in memory; the attachment must outlive it. deadline: NULL:
 * none. */
struct reader_source attachment_source(struct attachment *attachment,
                                       const struct deadline *deadline);
/* Reads what memory shows of the state of profiling; the rest of it is unknown. */
void attachment_read_facts(struct attachment *attachment, struct prof_state *state);
/* True if rc says that the process, not only a thread of it, has ended or is another program. */
bool attachment_is_gone(const struct attachment *attachment, fault_code rc);
/* Closes everything; idempotent. */
void attachment_close(struct attachment *attachment);

/* Reports a note to request.events. */
void attachment_note(const struct attachment *attachment, const struct run_note *note);
