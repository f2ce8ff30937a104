/*
 * One ptrace session on one thread.
 *
 * PTRACE_SEIZE without EXITKILL: when the tool dies, the kernel lets the
 * thread go on with whatever registers it has. Which registers those are, at
 * every moment, is the business of inject/.
 */
#pragma once

#include "attach/deadline.h"
#include "attach/gate.h"
#include "attach/target.h"

#include <sys/ptrace.h>

enum session_state {
    SESSION_IDLE,    /* not attached */
    SESSION_RUNNING, /* attached, the thread runs */
    SESSION_EVENT,   /* stopped by PTRACE_INTERRUPT */
    SESSION_SYSCALL, /* stopped at the entry or exit of a system call */
    SESSION_SIGNAL,  /* stopped before a signal is delivered: session.signal */
    SESSION_GROUP,   /* stopped with its process by job control */
    SESSION_EXITING, /* at PTRACE_EVENT_EXIT: about to end */
    SESSION_EXECED,  /* the process has become another program */
    SESSION_LOST,    /* the thread is gone; nothing is attached */
};

struct session {
    const struct target *target;
    struct gate *gate;
    pid_t tid;
    enum session_state state;
    int signal;          /* SESSION_SIGNAL: to be passed on at the next resume */
    uint64_t stopped_at; /* CLOCK_MONOTONIC ns, just before the interrupt was asked for */
};

/* Attaches; the thread goes on running. FAULT_DENIED* come from the kernel's EPERM. */
fault_code session_seize(struct session *session, const struct target *target, pid_t tid,
                         struct gate *gate, struct fault *fault);

/* Asks a running thread to stop; session_wait then sees SESSION_EVENT. */
fault_code session_interrupt(struct session *session, struct fault *fault);

/*
 * Waits for the next stop and sets session->state. FAULT_CALL_DEADLINE when
 * the deadline passes first. Ctrl-C does not end it: a thread that has been
 * woken must be seen to its stop. The thread's end, its exec and its exit are states, not faults.
 */
fault_code session_wait(struct session *session, const struct deadline *deadline,
                        struct fault *fault);

/* Lets a stopped thread go on, to the next system call stop or without those. */
fault_code session_to_syscall(struct session *session, struct fault *fault);
fault_code session_continue(struct session *session, struct fault *fault);

/* Detaches a stopped thread, passing a pending signal on. Idempotent. */
void session_detach(struct session *session);

/* NT_* register sets (elf.h). *len is in and out, in bytes. False with errno. */
bool session_get_regset(struct session *session, unsigned type, void *buf, size_t *len);
bool session_set_regset(struct session *session, unsigned type, const void *buf, size_t len);

/* The blocked signals, bit n-1 for signal n; the real mask during ppoll(2) and the like. */
bool session_get_sigmask(struct session *session, uint64_t *mask);
bool session_set_sigmask(struct session *session, uint64_t mask);

bool session_syscall_info(struct session *session, struct __ptrace_syscall_info *info);

/*
 * Is syscall user dispatch (prctl(2), PR_SET_SYSCALL_USER_DISPATCH) on for the thread? False with
 * EIO where the kernel does not know the request (before 6.4).
 */
bool session_dispatch(struct session *session, bool *on);

/* False if the kernel does not know the request (before 5.13) or no rseq area is registered. */
bool session_rseq(struct session *session, struct __ptrace_rseq_configuration *out);
