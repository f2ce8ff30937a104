/*
 * gaps FILE SLEEPERS SPINNERS: a process whose threads record when they did not run.
 *
 * A sleeper wakes at fixed times and records how late it was. (With many threads on few CPUs, gaps
 * between iterations of busy loops would show only the scheduler.) A spinner only reads the clock
 * and records its longest gap between two readings. Slot i belongs to thread i, the sleepers first;
 * thread 0 is the main thread.
 */
#include "slots.h"

#include <err.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

enum { PERIOD_NS = 4000000, MAX_THREADS = 1024 };

struct worker {
    struct slot *slot;
    uint64_t phase_ns; /* of the first wake-up, so that the sleepers do not all wake at once */
    void (*run)(const struct worker *);
};

static uint64_t sleep_until(uint64_t deadline, struct slot *slot)
{
    struct timespec at = {(time_t)(deadline / 1000000000u), (long)(deadline % 1000000000u)};

    if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0)
        atomic_fetch_add_explicit(&slot->broken, 1, memory_order_relaxed);
    return clock_ns();
}

static void sleeper_run(const struct worker *worker)
{
    uint64_t deadline = clock_ns() + PERIOD_NS + worker->phase_ns;

    for (;;) {
        uint64_t woken = sleep_until(deadline, worker->slot);

        if (woken > deadline)
            slot_record(worker->slot, woken - deadline);
        do {
            deadline += PERIOD_NS;
        } while (deadline < woken);
    }
}

static void spinner_run(const struct worker *worker)
{
    uint64_t last = clock_ns();

    for (;;) {
        uint64_t now = clock_ns();

        slot_record(worker->slot, now - last);
        last = now;
    }
}

static void *worker_main(void *arg)
{
    const struct worker *worker = arg;

    atomic_store(&worker->slot->tid, (uint64_t)gettid());
    worker->run(worker);
    return NULL;
}

static long count_parse(const char *text)
{
    char *end;
    long count = strtol(text, &end, 10);

    if (*text == '\0' || *end != '\0' || count < 0 || count > MAX_THREADS)
        errx(2, "not a number of threads: %s", text);
    return count;
}

static void workers_start(struct worker *workers, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        pthread_t thread;

        if (pthread_create(&thread, NULL, worker_main, &workers[i]) != 0)
            errx(1, "cannot create thread %zu", i);
    }
}

static void workers_prepare(struct worker *workers, struct slot *slots, size_t sleepers,
                            size_t count)
{
    for (size_t i = 0; i < count; i++) {
        workers[i].slot = &slots[i];
        workers[i].phase_ns = i * PERIOD_NS / count;
        workers[i].run = i < sleepers ? sleeper_run : spinner_run;
    }
}

int main(int argc, char **argv)
{
    static struct worker workers[2 * MAX_THREADS];
    struct slot *slots;
    size_t sleepers;
    size_t count;

    if (argc != 4)
        errx(2, "usage: gaps FILE SLEEPERS SPINNERS");
    sleepers = (size_t)count_parse(argv[2]);
    count = sleepers + (size_t)count_parse(argv[3]);
    slots = slots_map(argv[1], count);
    if (count == 0 || slots == NULL)
        err(1, "%s", argv[1]);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* must not outlive the harness */
    prctl(PR_SET_TIMERSLACK, 1);      /* inherited by threads created later */
    workers_prepare(workers, slots, sleepers, count);
    workers_start(workers, count);
    worker_main(&workers[0]);
}
