/*
 * What follows once prof.active is true: which threads sample, as their own memory
 * shows it, and a visit to those that do not (jemalloc/activate.h).
 */
#pragma once

#include "jemalloc/activate.h"
#include "run/attachment.h"

/* What jemalloc knows of the threads of a target (jemalloc/tsd/tsd.h), read from its memory. */
struct thread_view {
    struct fact_variables variables;
    struct tsd_source source; /* of the threads below; valid as long as the attachment */
    struct tsd_threads threads;
};

/*
 * After attachment_find. offset: of the counters
 * from the thread pointer, if a call has told it; else 0. Fails only if the threads
 * cannot be listed. thread_view_free releases it, after a failure, too.
 */
fault_code thread_view_read(struct thread_view *view, struct attachment *attachment, int64_t offset,
                            struct fault *fault);
void thread_view_free(struct thread_view *view);

/* prof.thread_active_init: what new threads do. */
enum activating_init {
    INIT_TRUE, /* or unknown */
    INIT_FALSE,
    INIT_SWITCHED, /* it was false */
};

struct activating {
    size_t counts[THREAD_OFF + 1]; /* existing threads, by what they do now */
    const char *unknown_why;       /* why some are unknown, a clause; NULL: none is */
    enum activating_init init;
    bool visited;                 /* threads were visited: */
    struct activation activation; /* the visits */
    bool interrupted;             /* before all were visited; no fault */
};

/*
 * After prof.active has become true; state: what it was before. With request.repairs also where
 * thread.prof.active is false, and prof.thread_active_init. Nothing is called with WAY_MEMORY, and
 * nothing visited unless it repairs. A fault concerns the whole process; *result is valid then,
 * too: what was done before.
 */
fault_code activating_run(struct attachment *attachment, const struct prof_state *state,
                          struct activating *result, struct fault *fault);

/*
 * True if memory shows of every thread what it does: then no version needs a call, but a stop of
 * the threads that have the defect of 5.2, which request allows.
 */
bool activating_is_seen(struct attachment *attachment);
