#include "jemalloc/tsd/tsd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static fault_code list_tsd_threads(struct tsd_threads *threads, const struct threads *all,
                                   struct fault *fault)
{
    threads->list = calloc(all->count ? all->count : 1, sizeof *threads->list);
    if (!threads->list)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "read threads", "%zu threads", all->count);
    threads->count = all->count;
    for (size_t i = 0; i < all->count; i++)
        threads->list[i] = (struct tsd_thread){.thread = all->list[i], .arena = THREAD_NO_ARENA};
    return FAULT_NONE;
}

fault_code tsd_threads_read(struct tsd_threads *threads, const struct tsd_source *source,
                            struct fault *fault)
{
    struct threads all;
    fault_code rc;

    memset(threads, 0, sizeof *threads);
    rc = threads_list(&all, source->target, fault);
    if (rc != FAULT_NONE)
        return rc;
    rc = list_tsd_threads(threads, &all, fault);
    threads_free(&all);
    threads->by_sampling[THREAD_UNKNOWN] = threads->count;
    threads->unknown_why = "this build does not show its threads' data";
    return rc;
}

void tsd_threads_free(struct tsd_threads *threads)
{
    free(threads->list);
    memset(threads, 0, sizeof *threads);
}

enum thread_sampling tsd_thread_reread(struct tsd_thread *thread, remote_addr pointer,
                                       const struct tsd_threads *threads,
                                       const struct tsd_source *source)
{
    (void)pointer, (void)threads, (void)source;
    thread->wait = thread->active = 0;
    thread->sampling = THREAD_UNKNOWN;
    return thread->sampling;
}

const char *thread_sampling_text(enum thread_sampling sampling)
{
    static const char *const texts[] = {
        [THREAD_UNKNOWN] = "unknown", [THREAD_SAMPLES] = "samples", [THREAD_FRESH] = "fresh",
        [THREAD_ASLEEP] = "asleep",   [THREAD_OFF] = "off",
    };

    return texts[sampling];
}
