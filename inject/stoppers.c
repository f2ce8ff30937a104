#include "inject/stoppers.h"
#include "attach/threads.h"
#include "host/task.h"
#include "inject/plan.h"

#include <signal.h>

enum {
    LOOKS = 256,        /* at other threads before a stop */
    HELD_LOOKS = 32,    /* while one is stopped, some 30 us each */
    BLOCKING_TICKS = 2, /* of user time; a handler that waits asleep needs microseconds */
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
 * True if a thread that is awake blocks the signals outside of a handler as well. Not known at
 * once: it may be in a handler, and not yet asleep there, for as long as it gets no CPU. So it
 * counts as outside only when it has worked for a while since it was first seen so.
 */
static bool blocks_anyway(const struct injection *injection, pid_t tid)
{
    const struct target *target = injection->env.target;
    struct stop_record *record = stops_of(injection->stops, tid);
    struct proc_stat stat;

    if (thread_stat(target->proc, target->pid, tid, &stat))
        return true; /* it has ended */
    if (!record->blocks)
        record->blocks_from = stat.user_ticks;
    record->blocks = true;
    return stat.user_ticks - record->blocks_from >= BLOCKING_TICKS;
}

/* Looks at a thread whose record may be another one's: that one stays. */
static void forget_blocking(const struct injection *injection, pid_t tid)
{
    const struct stop_record *record = stops_find(injection->stops, tid);

    if (record && record->blocks)
        stops_of(injection->stops, tid)->blocks = false;
}

/*
 * A handler's own signal is blocked while it runs. Threads that block the signal all the time
 * never run it. The look ends at the first thread that has certainly been stopped; one of which it
 * is not known does not end it, so that all of these are measured over the same time.
 */
static bool have_stopped(const struct injection *injection, pid_t tid, size_t most)
{
    const struct target *target = injection->env.target;
    const uint64_t stoppers = injection->stoppers;
    bool stopped = false, unknown = false;
    struct proc_syscall at;
    struct proc_status status;
    struct threads threads;

    if (threads_list(&threads, target, NULL) != FAULT_NONE)
        return true;
    for (size_t i = 0; i < threads.count && i < most && !stopped; i++) {
        const struct thread *thread = &threads.list[i];
        if (thread_status(target->proc, target->pid, thread->tid, &status))
            continue;
        stopped = thread->tid != tid && (status.sig_pending & ~status.sig_blocked & stoppers);
        const bool blocks = status.sig_blocked & stoppers;
        if (blocks && !thread_read_syscall(thread, target, &at))
            continue;
        if (blocks && !at.asleep)
            unknown |= !blocks_anyway(injection, thread->tid);
        const bool waits = blocks && at.asleep && is_in_handler(&injection->env, at.sp);
        if (!blocks || waits)
            forget_blocking(injection, thread->tid);
        stopped |= waits;
    }
    threads_free(&threads);
    return stopped || unknown;
}

bool stoppers_before(const struct injection *injection, pid_t tid)
{
    return injection->stoppers && !injection->looks && have_stopped(injection, tid, LOOKS);
}

/*
 * At its stop a thread sleeps once. It has not been awake before that if it is where it slept, and
 * has neither slept nor lost its CPU besides: on its way it may have stopped others, lost its CPU
 * to them, and be in another system call of the same frame size.
 */
static bool has_slept_since(const struct injection *injection)
{
    const struct stop_record *record = stops_find(injection->stops, injection->session.tid);
    const struct proc_status *own = &injection->own;

    return record && record->at.asleep && record->switches && injection->own_known &&
           own->voluntary_switches - record->switches <= 1 &&
           own->other_switches == record->other_switches &&
           arch_sp(&injection->original) == record->at.sp &&
           arch_pc(&injection->original) == record->at.pc;
}

bool stoppers_held(const struct injection *injection)
{
    return injection->stoppers && !injection->looks && !has_slept_since(injection) &&
           have_stopped(injection, injection->session.tid, HELD_LOOKS);
}
