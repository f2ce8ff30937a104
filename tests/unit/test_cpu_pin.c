/* Processes started from a pinned thread, and where both may run afterwards. */
#include "check.h"
#include "host/priority.h"

#include <pthread.h>

struct started {
    struct cpu_pin pin;
    cpu_set_t begun, later;
};

static void *start(void *data)
{
    struct started *started = data;

    sched_getaffinity(0, sizeof started->begun, &started->begun);
    cpu_pin_end(&started->pin);
    sched_getaffinity(0, sizeof started->later, &started->later);
    return NULL;
}

static void test_thread(void)
{
    struct started started;
    pthread_t thread;
    cpu_set_t before, kept, after;

    sched_getaffinity(0, sizeof before, &before);
    cpu_pin_begin(&started.pin);
    sched_getaffinity(0, sizeof kept, &kept);
    CHECK(started.pin.kept && CPU_COUNT(&kept) == 1 && CPU_ISSET((size_t)sched_getcpu(), &kept));
    if (!CHECK(pthread_create(&thread, NULL, start, &started) == 0))
        return;
    cpu_pin_end(&started.pin);
    sched_getaffinity(0, sizeof after, &after);
    pthread_join(thread, NULL);
    CHECK(CPU_EQUAL(&after, &before));
    CHECK(CPU_EQUAL(&started.begun, &kept));
    CHECK(CPU_EQUAL(&started.later, &before));
}

/* Without a saved affinity nothing is restored. */
static void test_not_kept(void)
{
    struct cpu_pin pin = {.kept = false};
    cpu_set_t before, after;

    CPU_ZERO(&pin.former);
    sched_getaffinity(0, sizeof before, &before);
    cpu_pin_end(&pin);
    sched_getaffinity(0, sizeof after, &after);
    CHECK(CPU_EQUAL(&after, &before));
}

int main(void)
{
    test_thread();
    test_not_kept();
    return check_result();
}
