/* What is started on the starter's processor, and where both may go on from there. */
#include "check.h"
#include "host/processor.h"

#include <pthread.h>

struct started {
    struct processor processor;
    cpu_set_t begun, later;
};

static void *start(void *data)
{
    struct started *started = data;

    sched_getaffinity(0, sizeof started->begun, &started->begun);
    processor_release(&started->processor);
    sched_getaffinity(0, sizeof started->later, &started->later);
    return NULL;
}

static void test_thread(void)
{
    struct started started;
    pthread_t thread;
    cpu_set_t before, kept, after;

    sched_getaffinity(0, sizeof before, &before);
    processor_keep(&started.processor);
    sched_getaffinity(0, sizeof kept, &kept);
    CHECK(started.processor.kept && CPU_COUNT(&kept) == 1 &&
          CPU_ISSET((size_t)sched_getcpu(), &kept));
    if (!CHECK(pthread_create(&thread, NULL, start, &started) == 0))
        return;
    processor_release(&started.processor);
    sched_getaffinity(0, sizeof after, &after);
    pthread_join(thread, NULL);
    CHECK(CPU_EQUAL(&after, &before));
    CHECK(CPU_EQUAL(&started.begun, &kept));
    CHECK(CPU_EQUAL(&started.later, &before));
}

/* Where nothing was kept nothing is given back. */
static void test_not_kept(void)
{
    struct processor processor = {.kept = false};
    cpu_set_t before, after;

    CPU_ZERO(&processor.former);
    sched_getaffinity(0, sizeof before, &before);
    processor_release(&processor);
    sched_getaffinity(0, sizeof after, &after);
    CHECK(CPU_EQUAL(&after, &before));
}

int main(void)
{
    test_thread();
    test_not_kept();
    return check_result();
}
