#include "inject/outside.h"
#include "attach/probe.h"
#include "host/task.h"

#include <errno.h>

enum {
    PERIOD_NS = 50000, /* of the thread's CPU time, between two samples */
    PERIOD_SPAN = 16384,
    TICK_NS = 14000, /* what the timer of a sample costs the thread, in a virtual machine */
    WAKE_NS = 30000, /* and what its preemption by the tool costs */
    SEEK_NS = 100000000,
    QUIET_MS = 10,       /* without a sample: the thread does not run, or only in the kernel */
    BURST_NS = 50000000, /* debt, as time until the next stop, up to which samples are taken */
};

/* A seccomp filter may kill a caller of perf_event_open(2). */
static bool is_refused_by_filter(const struct target *target)
{
    struct proc_status own;

    return (process_status(target->proc, PROC_SELF, &own) || own.seccomp) && probe_perf();
}

/* The period differs each time, so that the samples do not keep step with the thread. */
static bool begin_samples(struct outside *outside, const struct target *target, pid_t tid)
{
    uint64_t period = PERIOD_NS + clock_now() % PERIOD_SPAN;
    int rc;

    outside_end(outside);
    rc = is_refused_by_filter(target) ? -EPERM : ip_samples_open(&outside->samples, tid, period);
    outside->tid = rc ? 0 : tid;
    outside->refused = rc && rc != -ESRCH;
    return rc == 0;
}

/* Charges the timer for all of the CPU time, also for that in the kernel, which has no samples. */
static void charge_samples(const struct outside *outside, struct stops *stops, uint64_t used,
                           bool woken)
{
    uint64_t ticks = (outside->samples.used - used) / PERIOD_NS;

    stops_charge_ns(stops, ticks * TICK_NS + (woken ? WAKE_NS : 0));
}

/*
 * Code of no known module was mapped a moment ago, by the loader, which is about to call it.
 */
static bool is_outside(const struct injection_env *env, remote_addr ip)
{
    return !ranges_find(&env->plan->forbidden, ip) && modules_at(env->modules, ip);
}

/* True if the thread waits for a CPU, or for the end of a long system call. */
static bool is_runnable(const struct injection_env *env, pid_t tid)
{
    struct thread thread = {.tid = tid};

    return thread_refresh(&thread, env->target) && thread.state == 'R';
}

/* Returns 1 at a sample outside, 0 if the allowance or SEEK_NS are used up, or -errno. */
static int seek_outside(struct outside *outside, const struct injection *injection)
{
    const struct injection_env *env = &injection->env;
    uint64_t until = clock_now() + SEEK_NS, ip;

    while (stops_until_credit(injection->stops) < BURST_NS && clock_now() < until &&
           !deadline_interrupted(env->deadline)) {
        uint64_t used = outside->samples.used;
        int rc = ip_samples_next(&outside->samples, QUIET_MS, &ip);
        charge_samples(outside, injection->stops, used, rc >= 0);
        if ((rc == 1 && is_outside(env, ip)) || (rc < 0 && rc != -EAGAIN) ||
            (rc == -EAGAIN && !is_runnable(env, outside->tid)))
            return rc;
    }
    return 0;
}

bool outside_await(struct outside *outside, const struct injection *injection, pid_t tid)
{
    int rc;

    if (outside->refused ||
        (outside->tid != tid && !begin_samples(outside, injection->env.target, tid)))
        return true;
    ip_samples_switch(&outside->samples, true);
    rc = seek_outside(outside, injection);
    if (rc != 1)
        outside_rest(outside);
    outside->refused = rc < 0 && rc != -EAGAIN;
    return rc != 0;
}

void outside_rest(const struct outside *outside)
{
    if (outside->tid && !outside->refused)
        ip_samples_switch(&outside->samples, false);
}

void outside_end(struct outside *outside)
{
    if (outside->tid)
        ip_samples_close(&outside->samples);
    outside->tid = 0;
}
