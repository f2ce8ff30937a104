#include "run/trigger.h"
#include "jemalloc/tsd/tsd.h"
#include "run/faults.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REST_SHARE = 20 }; /* looks take at most a twentieth of a CPU */

static const uint64_t REST_MAX_NS = 2000000000;

/* The counter of one thread at the last look. */
struct trigger_thread {
    pid_t tid;
    bool known;
    uint64_t allocated;
};

/* ---- bytes allocated ---- */

static int compare_trigger_tids(const void *a, const void *b)
{
    pid_t x = ((const struct trigger_thread *)a)->tid, y = ((const struct trigger_thread *)b)->tid;

    return (x > y) - (x < y);
}

/* A thread that is new since the last look has started at 0. */
static struct trigger_thread count_one_thread(struct trigger *trigger,
                                              const struct tsd_thread *thread, bool first)
{
    const struct trigger_thread key = {.tid = thread->thread.tid}, *former = NULL;
    struct trigger_thread now = {.tid = thread->thread.tid, .known = !first};

    if (trigger->thread_count)
        former = bsearch(&key, trigger->threads, trigger->thread_count, sizeof key,
                         compare_trigger_tids);
    if (former)
        now = *former;
    if (!thread->has_counts)
        return now;
    if (!first && now.known) {
        /* A counter below its former value is that of another thread, which has the same id. */
        trigger->allocated += former && thread->allocated >= former->allocated
                                  ? thread->allocated - former->allocated
                                  : thread->allocated;
    }
    now.known = true;
    now.allocated = thread->allocated;
    return now;
}

static bool count_all_threads(struct trigger *trigger, const struct tsd_threads *threads,
                              bool first)
{
    const size_t count = threads->count;
    struct trigger_thread *list = calloc(count ? count : 1, sizeof *list);

    if (!list)
        return false;
    for (size_t i = 0; i < count; i++)
        list[i] = count_one_thread(trigger, &threads->list[i], first);
    free(trigger->threads);
    trigger->threads = list;
    trigger->thread_count = count;
    return true;
}

static uint64_t trigger_cpu_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static fault_code count_allocated(struct trigger *trigger, bool first, struct fault *fault)
{
    const uint64_t start = trigger_cpu_ns();
    struct attachment *attachment = trigger->attachment;
    struct tsd_threads threads = {0};
    struct modules now;
    /* The proof of the counters needs the present mappings. */
    const struct tsd_source source = {.instance = &attachment->instance,
                                      .modules = &now,
                                      .target = &attachment->target,
                                      .memory = &attachment->memory,
                                      .variables = &trigger->variables};
    fault_code rc = modules_load(&now, &attachment->target, fault);
    bool counts = false;
    uint64_t rest;

    if (rc == FAULT_NONE) {
        rc = tsd_threads_read(&threads, &source, fault);
        modules_free(&now);
    }
    for (size_t i = 0; i < threads.count; i++)
        counts = counts || threads.list[i].has_counts;
    if (rc == FAULT_NONE && first && !counts)
        rc = fault_set(fault, FAULT_NO_COUNTS, 0, "read threads", "%s",
                       threads.unknown_why ? threads.unknown_why
                                           : "this jemalloc was built without statistics");
    if (rc == FAULT_NONE && !count_all_threads(trigger, &threads, first))
        rc = fault_set(fault, FAULT_INTERNAL, ENOMEM, "read threads", "%zu threads", threads.count);
    tsd_threads_free(&threads);
    rest = (trigger_cpu_ns() - start) * REST_SHARE;
    trigger->rest_until = clock_now() + (rest < REST_MAX_NS ? rest : REST_MAX_NS);
    return rc;
}

/* ---- both ---- */

fault_code trigger_open(struct trigger *trigger, struct attachment *attachment,
                        const struct trigger_request *request, struct fault *fault)
{
    *trigger = (struct trigger){.request = *request, .attachment = attachment};
    trigger->rss = trigger->peak = target_rss(&attachment->target);
    if (!request->bytes)
        return FAULT_NONE;
    facts_locate(&trigger->variables, &attachment->instance, &attachment->modules,
                 &attachment->target, &attachment->memory);
    return count_allocated(trigger, true, fault);
}

void trigger_close(struct trigger *trigger)
{
    free(trigger->threads);
    trigger->threads = NULL;
    trigger->thread_count = 0;
}

/* A look that fails is made again: an end of the process ends the wait. */
bool trigger_look(struct trigger *trigger)
{
    const struct trigger_request *request = &trigger->request;
    struct fault ignored;

    trigger->rss = target_rss(&trigger->attachment->target);
    if (request->bytes && clock_now() >= trigger->rest_until)
        (void)count_allocated(trigger, false, &ignored);
    trigger->due =
        (request->bytes && trigger->allocated - trigger->allocated_taken >= request->bytes) ||
        (request->percent &&
         (double)trigger->rss > (double)trigger->peak * (1 + (double)request->percent / 100));
    return trigger->due;
}

void trigger_refresh(struct trigger *trigger)
{
    trigger->rest_until = 0;
    (void)trigger_look(trigger);
}

void trigger_rearm(struct trigger *trigger)
{
    trigger->due = false;
    trigger->allocated_taken = trigger->allocated;
    if (trigger->rss > trigger->peak)
        trigger->peak = trigger->rss;
}
