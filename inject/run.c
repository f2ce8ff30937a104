#include "inject/run.h"
#include "inject/faults.h"

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
 * The deadline has passed. A call in progress is not aborted: the thread is
 * resumed, and so is one that was only being prepared, whose frames restore it.
 * If it is running, it is stopped once more for that.
 */
static fault_code abandon_call(struct injection *injection, struct fault *fault)
{
    struct session *session = &injection->session;
    struct deadline soon = {.at = clock_now() + ABANDON_WAIT_NS};

    if (session->state == SESSION_RUNNING && session_interrupt(session, NULL) == FAULT_NONE)
        session_wait(session, &soon, NULL);
    run_open_last(injection);
    session_detach(session);
    if (injection->stage != STAGE_IN_CALL)
        return fault_set(fault, FAULT_NO_SAFE_POINT, ETIMEDOUT, "prepare the call",
                         "one was found too late for the call");
    return fault_set(fault, FAULT_CALL_DEADLINE, ETIMEDOUT, "call", "thread %d", session->tid);
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
