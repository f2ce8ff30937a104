#include "inject/run.h"
#include "attach/target.h"
#include "host/task.h"
#include "inject/faults.h"
#include "inject/syscalls.h"

#include <errno.h>

enum { ABANDON_WAIT_NS = 1000000000, LARGEST_ERRNO = 4095 };

static fault_code thread_lost(const struct injection *injection, struct fault *fault)
{
    const struct session *session = &injection->session;

    if (session->state == SESSION_EXECED)
        return fault_set(fault, FAULT_EXECED, 0, "call", "thread %d", session->tid);
    return fault_set(fault, FAULT_GONE, ESRCH, "call", "thread %d", session->tid);
}

fault_code run_broken(const struct injection *injection, const char *what, struct fault *fault)
{
    if (errno == ESRCH)
        return thread_lost(injection, fault);
    return fault_set(fault, FAULT_INTERNAL, errno, "call", "%s, thread %d", what,
                     injection->session.tid);
}

void run_open_last(struct injection *injection)
{
    struct session *session = &injection->session;

    if (injection->stage != STAGE_LAST || session->state < SESSION_EVENT ||
        session->state > SESSION_GROUP)
        return;
    session_set_sigmask(session, injection->last.mask);
    injection->stage = STAGE_LEFT;
}

/*
 * Returns the signals that wait for the thread because the call blocks them, and that it would
 * take otherwise.
 */
static uint64_t waiting_signals(const struct injection *injection)
{
    const struct target *target = injection->env.target;
    struct proc_status status;

    if (thread_status(target->proc, target->pid, injection->session.tid, &status))
        return 0;
    return status.sig_pending & status.sig_caught & status.sig_blocked & ~injection->mask;
}

/*
 * Sets the fault of a thread that does not come back in time, by what /proc shows of it.
 * The tool has changed its registers, so the target is never as it was.
 */
static fault_code explain_wait(struct injection *injection, struct fault *fault)
{
    const struct target *target = injection->env.target;
    struct thread thread = {.tid = injection->session.tid};
    struct proc_syscall at;
    const char *name;

    injection->summary.outcome = INJECTION_ABANDONED;
    injection->summary.waits_in = -1;
    if (thread_refresh(&thread, target) && thread.state == 'D') {
        bool known = thread_read_syscall(&thread, target, &at) && at.asleep;
        injection->summary.waits_in = known ? at.nr : -1;
        if (known ? arch_locks_memory(at.nr) : injection->stage == STAGE_ENTERED) {
            name = known ? syscall_name(at.nr) : NULL;
            return fault_set(fault, FAULT_CALL_WAITS, ETIMEDOUT, "call", "thread %d waits in %s",
                             (int)thread.tid, name ? name : "the kernel");
        }
    }
    if (injection->stage == STAGE_IN_CALL && waiting_signals(injection))
        return fault_set(fault, FAULT_CALL_HANGS, ETIMEDOUT, "call", "thread %d", (int)thread.tid);
    return fault_set(fault, FAULT_CALL_DEADLINE, ETIMEDOUT, "call", "thread %d", (int)thread.tid);
}

/*
 * The deadline has passed. A call in progress is not aborted: the thread is
 * resumed, and so is one that was only being prepared, whose frames restore it.
 * If it is running, it is stopped once more for that.
 */
static fault_code abandon_call(struct injection *injection, struct fault *fault)
{
    struct session *session = &injection->session;
    struct deadline soon = {.at = clock_now() + ABANDON_WAIT_NS};
    fault_code rc = explain_wait(injection, fault);

    if (session->state == SESSION_RUNNING && session_interrupt(session, NULL) == FAULT_NONE)
        session_wait(session, &soon, NULL);
    run_open_last(injection);
    session_detach(session);
    return rc;
}

fault_code run_step(struct injection *injection, struct fault *fault)
{
    struct session *session = &injection->session;

    do {
        fault_code rc;
        if (deadline_passed(&injection->until))
            return abandon_call(injection, fault);
        rc = session_to_syscall(session, fault);
        if (rc == FAULT_NONE)
            rc = session_wait(session, &injection->until, fault);
        if (rc == FAULT_CALL_DEADLINE)
            return abandon_call(injection, fault);
        if (rc != FAULT_NONE)
            return rc;
    } while (session->state == SESSION_SIGNAL || session->state == SESSION_GROUP ||
             session->state == SESSION_EVENT);
    if (session->state != SESSION_SYSCALL)
        return thread_lost(injection, fault);
    return FAULT_NONE;
}

fault_code run_syscall(struct injection *injection, bool at_entry, int64_t *result,
                       struct fault *fault)
{
    struct __ptrace_syscall_info info;
    fault_code rc = at_entry ? FAULT_NONE : run_step(injection, fault);

    if (rc == FAULT_NONE)
        rc = run_step(injection, fault);
    if (rc != FAULT_NONE)
        return rc;
    if (!session_syscall_info(&injection->session, &info) || info.op != PTRACE_SYSCALL_INFO_EXIT)
        return run_broken(injection, "system call exit", fault);
    *result = info.exit.rval;
    return FAULT_NONE;
}

bool run_is_error(int64_t result)
{
    return result < 0 && result >= -LARGEST_ERRNO;
}
