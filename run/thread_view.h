/*
 * What jemalloc knows of the threads of a target (jemalloc/tsd/tsd.h), read from its
 * memory: nothing is stopped and nothing is called.
 */
#pragma once

#include "jemalloc/tsd/tsd.h"
#include "run/attachment.h"

struct thread_view {
    struct fact_variables variables;
    struct tsd_source source; /* of the threads below; valid as long as the attachment */
    struct tsd_threads threads;
};

/*
 * After attachment_find, attachment_look or attachment_open. offset: of the counters
 * from the thread pointer, if a call has told it; else 0. Fails only if the threads
 * cannot be listed. thread_view_free releases it, after a failure, too.
 */
fault_code thread_view_read(struct thread_view *view, struct attachment *attachment, int64_t offset,
                            struct fault *fault);
void thread_view_free(struct thread_view *view);
