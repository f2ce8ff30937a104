/*
 * A ptrace session on one thread.
 *
 * Uses PTRACE_SEIZE without EXITKILL: if the tool dies, the kernel resumes the
 * thread with the registers that it has then. inject/ ensures that these are safe
 * at every moment.
 */
#pragma once

#include "attach/gate.h"
#include "attach/target.h"
#include "base/interruptions.h"

#include <sys/ptrace.h>

enum session_state {
    SESSION_IDLE,    /* not attached */
    SESSION_RUNNING, /* attached, the thread runs */
    SESSION_EVENT,   /* stopped by PTRACE_INTERRUPT */
    SESSION_SYSCALL, /* stopped at the entry or exit of a system call */
    SESSION_SIGNAL,  /* stopped before a signal is delivered: session.signal */
    SESSION_GROUP,   /* stopped with its process by job control */
    SESSION_EXITING, /* at PTRACE_EVENT_EXIT: about to end */
    SESSION_EXECED,  /* the process now runs another program */
    SESSION_LOST,    /* the thread is gone; nothing is attached */
};

struct session {
    const struct target *target;
    struct gate *gate;
    pid_t tid;
    enum session_state state;
    int signal;          /* SESSION_SIGNAL: passed on at the next resume */
    uint64_t stopped_at; /* CLOCK_MONOTONIC ns, just before the interrupt */
};

/* Attaches; the thread continues to run. FAULT_DENIED* come from the kernel's EPERM. */
fault_code session_seize(struct session *session, const struct target *target, pid_t tid,
                         struct gate *gate, struct fault *fault);

/* Interrupts a running thread; session_wait then sees SESSION_EVENT. */
fault_code session_interrupt(struct session *session, struct fault *fault);

/*
 * Waits for the next stop and sets session->state. FAULT_CALL_DEADLINE if the
 * deadline passes first. Ctrl-C does not end the wait: a thread that was
 * interrupted must be followed to its stop. The thread's exec, exit and end are
 * states, not faults.
 */
fault_code session_wait(struct session *session, const struct deadline *deadline,
                        struct fault *fault);

/* Resumes a stopped thread: to the next system call stop, or without those. */
fault_code session_to_syscall(struct session *session, struct fault *fault);
fault_code session_continue(struct session *session, struct fault *fault);

/* Detaches a stopped thread and passes a pending signal on. Idempotent. */
void session_detach(struct session *session);

/*
 * Access NT_* register sets (elf.h). *len is in bytes: the capacity before, the
 * length after. False with errno.
 */
bool session_get_regset(struct session *session, unsigned type, void *buf, size_t *len);
bool session_set_regset(struct session *session, unsigned type, const void *buf, size_t len);

/*
 * The blocked signals, bit n-1 for signal n: during ppoll(2) and the like the real
 * mask, not the temporary one.
 */
bool session_get_sigmask(struct session *session, uint64_t *mask);
bool session_set_sigmask(struct session *session, uint64_t mask);

bool session_syscall_info(struct session *session, struct __ptrace_syscall_info *info);

/*
 * Sets *on if syscall user dispatch (prctl(2), PR_SET_SYSCALL_USER_DISPATCH) is
 * active in the thread. False with EIO if the kernel does not know the request
 * (before 6.4).
 */
bool session_dispatch(struct session *session, bool *on);

/* False if the kernel does not know the request (before 5.13) or no rseq area is registered. */
bool session_rseq(struct session *session, struct __ptrace_rseq_configuration *out);
