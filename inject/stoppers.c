#include "inject/stoppers.h"
#include "attach/target.h"
#include "host/task.h"
#include "inject/faults.h"
#include "inject/plan.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

enum {
    LOOKS_NS = 50000000, /* for which the threads are watched, without a signal on its way */
    LOOKS_MOST_NS = 1000000000,
    PAUSE_NS = 1000000,
    WATCHED_NS = 1000000000, /* for which a watch holds good, but for one look before each stop */
    THREADS_LOOKED_AT = 256,
    HANDLER_WORDS =
        1024 /* from the stack pointer of a thread that waits in a handler to its frame */
};

#define BIT(signal) (1ull << ((signal)-1))

uint64_t stoppers_signals(uint64_t caught)
{
    const uint64_t real_time = ~(BIT(REALTIME_FIRST) - 1);
    const uint64_t meant_for_threads = BIT(SIGUSR1) | BIT(SIGUSR2) | BIT(SIGSTKFLT) | BIT(SIGURG) |
                                       BIT(SIGXCPU) | BIT(SIGXFSZ) | BIT(SIGVTALRM) | BIT(SIGPROF) |
                                       BIT(SIGPWR) | real_time;

    return (caught & real_time & ~BIT(MUSL_SYNCCALL)) == (real_time & ~BIT(MUSL_SYNCCALL))
               ? 0
               : caught & meant_for_threads;
}

/* True if the words above sp contain the address of a signal restorer: a handler's frame. */
static bool is_in_handler(const struct injection_env *env, remote_addr sp)
{
    uint64_t words[HANDLER_WORDS];
    size_t len = sizeof words;

    while (len > MEMORY_PAGE && !memory_read(env->memory, sp, words, len))
        len /= 2;
    if (len <= MEMORY_PAGE)
        len = MEMORY_PAGE - sp % MEMORY_PAGE;
    if (sp % sizeof *words || !memory_read(env->memory, sp, words, len))
        return false;
    for (size_t i = 0; i < len / sizeof *words; i++)
        if (plan_is_restorer(env->plan, words[i]))
            return true;
    return false;
}

/*
 * Returns a thread that waits in the handler of one of the signals, which it blocks; 0: none.
 * *pending: another is about to run it, as soon as it gets a CPU.
 */
static pid_t find_waiting(const struct injection_env *env, uint64_t signals, bool *pending)
{
    const struct target *target = env->target;
    struct proc_syscall at;
    struct proc_status status;
    struct threads threads;
    pid_t found = 0;

    *pending = false;
    if (threads_list(&threads, target, NULL) != FAULT_NONE)
        return 0;
    for (size_t i = 0; i < threads.count && i < THREADS_LOOKED_AT && !found; i++) {
        const struct thread *thread = &threads.list[i];
        if (thread_status(target->proc, target->pid, thread->tid, &status))
            continue;
        *pending |= (status.sig_pending & ~status.sig_blocked & signals) != 0;
        if ((status.sig_blocked & signals) && thread_read_syscall(thread, target, &at) &&
            at.asleep && is_in_handler(env, at.sp))
            found = thread->tid;
    }
    threads_free(&threads);
    return found;
}

/* The watch goes on while a signal is on its way, which ends at the latest after a second. */
static fault_code watch_threads(const struct injection_env *env, uint64_t signals, uint64_t length,
                                struct fault *fault)
{
    const struct timespec pause = {0, PAUSE_NS};
    const uint64_t begun = clock_now();
    uint64_t now = begun, until = begun + length;
    bool pending;

    for (;; now = clock_now()) {
        pid_t tid = find_waiting(env, signals, &pending);
        if (tid)
            return fault_set(fault, FAULT_STOPS_THREADS, 0, "choose a thread", "thread %d",
                             (int)tid);
        if (pending && length)
            until = now + length;
        if (now >= until || now - begun >= LOOKS_MOST_NS)
            return FAULT_NONE;
        if (deadline_interrupted(env->deadline))
            return fault_set(fault, FAULT_INTERRUPTED, EINTR, "choose a thread", "%d",
                             env->target->pid);
        if (deadline_passed(env->deadline))
            return fault_set(fault, FAULT_NO_SAFE_POINT, ETIMEDOUT, "choose a thread",
                             "its threads were watched until then");
        nanosleep(&pause, NULL);
    }
}

fault_code stoppers_refuse(const struct injection_env *env, uint64_t *watched_at,
                           struct fault *fault)
{
    bool fresh = *watched_at && clock_now() - *watched_at < WATCHED_NS;
    struct proc_status status;
    uint64_t signals;
    fault_code rc;

    /* The handlers are those of now: it may have installed more since it was opened. */
    if (process_status(env->target->proc, target_via(env->target), &status))
        return FAULT_NONE;
    signals = stoppers_signals(status.sig_caught);
    rc = signals ? watch_threads(env, signals, fresh ? 0 : LOOKS_NS, fault) : FAULT_NONE;
    if (rc == FAULT_NONE && !fresh)
        *watched_at = clock_now();
    return rc;
}
