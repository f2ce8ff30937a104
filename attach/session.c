#include "attach/session.h"
#include "attach/faults.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>

/* linux/ptrace.h since Linux 6.4 */
enum { GET_SYSCALL_USER_DISPATCH_CONFIG = 0x4211 };
struct dispatch_config {
    uint64_t mode, selector, offset, len;
};

enum { DEATH_LOOKS = 2000, DEATH_LOOK_NS = 500000 };

static bool is_stopped(const struct session *session)
{
    return session->state >= SESSION_EVENT && session->state <= SESSION_EXECED;
}

static uint64_t as_word(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

fault_code session_seize(struct session *session, const struct target *target, pid_t tid,
                         struct gate *gate, struct fault *fault)
{
    const uint64_t options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXIT | PTRACE_O_TRACEEXEC;

    memset(session, 0, sizeof *session);
    session->target = target;
    session->gate = gate;
    session->tid = tid;
    if (gate_ptrace(gate, PTRACE_SEIZE, tid, 0, options) < 0) {
        int err = errno;
        session->state = SESSION_LOST;
        return fault_set(fault, err == ESRCH ? FAULT_GONE : FAULT_DENIED, err, "seize", "thread %d",
                         (int)tid);
    }
    session->state = SESSION_RUNNING;
    return FAULT_NONE;
}

fault_code session_interrupt(struct session *session, struct fault *fault)
{
    assert(session->state == SESSION_RUNNING);
    session->stopped_at = clock_now();
    if (gate_ptrace(session->gate, PTRACE_INTERRUPT, session->tid, 0, 0) < 0) {
        session->state = SESSION_LOST;
        return fault_set(fault, FAULT_GONE, errno, "interrupt", "thread %d", (int)session->tid);
    }
    return FAULT_NONE;
}

/*
 * Waits like waitpid, but only peeks at a stop before a signal's delivery. If the
 * tool dies before it passes the signal on, the kernel delivers the signal in the
 * stop's code; a wait that consumes the stop clears that code (kernel/exit.c,
 * wait_task_stopped; kernel/signal.c, ptrace_stop). The signal would be lost, and a
 * collector that stops the world with signals would wait for its answer for ever.
 */
static pid_t wait_or_peek(pid_t tid, int *status)
{
    siginfo_t info;

    if (waitid(P_PID, (id_t)tid, &info, WEXITED | WSTOPPED | WNOWAIT | __WALL) < 0)
        return -1;
    if (info.si_code == CLD_TRAPPED && info.si_status > 0 && info.si_status < 0x80) {
        *status = W_STOPCODE(info.si_status);
        return tid;
    }
    return waitpid(tid, status, __WALL);
}

fault_code session_wait(struct session *session, const struct deadline *deadline,
                        struct fault *fault)
{
    int status;
    pid_t got;

    assert(session->state == SESSION_RUNNING);
    while ((got = wait_or_peek(session->tid, &status)) != session->tid) {
        if (got < 0 && errno != EINTR) {
            session->state = SESSION_LOST;
            return FAULT_NONE;
        }
        if (deadline_passed(deadline))
            return fault_set(fault, FAULT_CALL_DEADLINE, ETIMEDOUT, "wait", "thread %d",
                             session->tid);
    }

    /*
     * ptrace(2): bits 16 and up of the status are the event. PTRACE_EVENT_STOP with
     * SIGTRAP is our own stop; with a stopping signal it is a group stop.
     */
    int event = status >> 16, signal = WSTOPSIG(status);
    session->signal = 0;
    if (!WIFSTOPPED(status)) {
        session->state = SESSION_LOST;
    } else if (event == PTRACE_EVENT_STOP) {
        session->state = signal == SIGTRAP ? SESSION_EVENT : SESSION_GROUP;
    } else if (event == PTRACE_EVENT_EXIT) {
        session->state = SESSION_EXITING;
    } else if (event == PTRACE_EVENT_EXEC) {
        session->state = SESSION_EXECED;
    } else if (signal == (SIGTRAP | 0x80)) {
        session->state = SESSION_SYSCALL;
    } else {
        session->state = SESSION_SIGNAL;
        session->signal = signal;
    }
    return FAULT_NONE;
}

static fault_code resume(struct session *session, int request, struct fault *fault)
{
    assert(is_stopped(session));
    int signal = session->signal;
    session->signal = 0;
    session->state = SESSION_RUNNING;
    if (gate_ptrace(session->gate, request, session->tid, 0, (uint64_t)signal) == 0)
        return FAULT_NONE;
    if (errno == ESRCH) /* killed while stopped: the next wait reports it */
        return FAULT_NONE;
    session->state = SESSION_LOST;
    return fault_set(fault, FAULT_INTERNAL, errno, "resume", "thread %d", (int)session->tid);
}

fault_code session_to_syscall(struct session *session, struct fault *fault)
{
    return resume(session, PTRACE_SYSCALL, fault);
}

fault_code session_continue(struct session *session, struct fault *fault)
{
    return resume(session, PTRACE_CONT, fault);
}

void session_detach(struct session *session)
{
    const struct timespec pause = {0, DEATH_LOOK_NS};
    int status;
    bool killed =
        is_stopped(session) &&
        gate_ptrace(session->gate, PTRACE_DETACH, session->tid, 0, (uint64_t)session->signal) < 0 &&
        errno == ESRCH;

    session->state = SESSION_IDLE;
    /*
     * Lets a thread that was killed while it was stopped end. It is no longer stopped,
     * so it cannot be detached; but it stops once more, at PTRACE_EVENT_EXIT, and would
     * wait there for its tracer.
     */
    for (int look = 0; killed && look < DEATH_LOOKS; look++) {
        pid_t got = waitpid(session->tid, &status, __WALL | WNOHANG);
        if (got == 0)
            nanosleep(&pause, NULL);
        else if (got < 0 || !WIFSTOPPED(status) ||
                 gate_ptrace(session->gate, PTRACE_DETACH, session->tid, 0, 0) == 0)
            return;
    }
}

bool session_get_regset(struct session *session, unsigned type, void *buf, size_t *len)
{
    struct iovec iov = {buf, *len};

    assert(is_stopped(session));
    if (gate_ptrace(session->gate, (int)PTRACE_GETREGSET, session->tid, type, as_word(&iov)) < 0)
        return false;
    *len = iov.iov_len;
    return true;
}

bool session_set_regset(struct session *session, unsigned type, const void *buf, size_t len)
{
    struct iovec iov = {(void *)(uintptr_t)buf, len};

    assert(is_stopped(session));
    return gate_ptrace(session->gate, (int)PTRACE_SETREGSET, session->tid, type, as_word(&iov)) ==
           0;
}

bool session_get_sigmask(struct session *session, uint64_t *mask)
{
    assert(is_stopped(session));
    *mask = 0;
    return gate_ptrace(session->gate, (int)PTRACE_GETSIGMASK, session->tid, sizeof *mask,
                       as_word(mask)) == 0;
}

bool session_set_sigmask(struct session *session, uint64_t mask)
{
    assert(is_stopped(session));
    return gate_ptrace(session->gate, (int)PTRACE_SETSIGMASK, session->tid, sizeof mask,
                       as_word(&mask)) == 0;
}

bool session_syscall_info(struct session *session, struct __ptrace_syscall_info *info)
{
    assert(is_stopped(session));
    memset(info, 0, sizeof *info); /* the structure of an older kernel may be shorter */
    return gate_ptrace(session->gate, PTRACE_GET_SYSCALL_INFO, session->tid, sizeof *info,
                       as_word(info)) > 0;
}

bool session_dispatch(struct session *session, bool *on)
{
    struct dispatch_config config = {0};

    assert(is_stopped(session));
    if (gate_ptrace(session->gate, GET_SYSCALL_USER_DISPATCH_CONFIG, session->tid, sizeof config,
                    as_word(&config)) < 0)
        return false;
    *on = config.mode != 0;
    return true;
}

bool session_rseq(struct session *session, struct __ptrace_rseq_configuration *out)
{
    assert(is_stopped(session));
    memset(out, 0, sizeof *out);
    return gate_ptrace(session->gate, PTRACE_GET_RSEQ_CONFIGURATION, session->tid, sizeof *out,
                       as_word(out)) > 0 &&
           out->rseq_abi_pointer != 0;
}
