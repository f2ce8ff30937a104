/* The calls: sends a stopped thread into functions and brings it back. */
#include "inject/perform.h"
#include "host/task.h"
#include "inject/faults.h"
#include "inject/syscalls.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

enum {
    RECORDS_AT = sizeof(struct arch_call_header),
    CHAIN_SIZE = 1024, /* at the top of the stack, for the return path of a direct call */
    NEITHER = 7,       /* neither a cancelability state nor a type: refused with EINVAL */
    ABANDON_WAIT_NS = 1000000000,
};

_Static_assert(RECORDS_AT + (INJECTION_CALLS_MAX + 4) * sizeof(struct arch_call) <=
                   SCRATCH_ARGUMENTS,
               "the arguments follow the records");

/* ---- from stop to stop ---- */

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

/*
 * In STAGE_LAST: unblocks the signals of a thread that does not return from
 * there. Otherwise does nothing.
 */
static void open_last(struct injection *injection)
{
    struct session *session = &injection->session;

    if (injection->stage != STAGE_LAST || session->state < SESSION_EVENT ||
        session->state > SESSION_GROUP)
        return;
    session_set_sigmask(session, injection->last.mask);
    injection->stage = STAGE_LEFT;
}

/*
 * Sets the fault of a thread that does not come back in time, by what /proc shows of it.
 * The tool has changed its registers, so the target is never as it was.
 */
static fault_code explain_wait(struct injection *injection, struct fault *fault)
{
    const struct target *target = injection->env.target;
    struct thread thread = {.tid = injection->session.tid};
    struct proc_status status;
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
    /* Signals wait for it because the call blocks them, which it would take otherwise. */
    if (injection->stage == STAGE_IN_CALL &&
        thread_status(target->proc, target->pid, thread.tid, &status) == 0 &&
        status.sig_pending & status.sig_caught & status.sig_blocked & ~injection->mask)
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
    open_last(injection);
    session_detach(session);
    return rc;
}

/* Runs to the next stop at a system call; passes signals and stops of job control on. */
static fault_code run_step(struct injection *injection, struct fault *fault)
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

/* ---- the records ---- */

static remote_addr data_address(const struct injection *injection)
{
    return injection->scratch + SCRATCH_CODE;
}

static remote_addr record_address(const struct injection *injection, size_t index)
{
    return data_address(injection) + RECORDS_AT + index * sizeof(struct arch_call);
}

/*
 * A cancellation that is pending for the thread would act at the dump's open
 * and unwind the thread out of the allocator with its locks held. So the list
 * of calls of an intercepted run is enclosed by two records of ours: the first
 * disables cancellation and stores the former state where the last one takes
 * its argument from, so that the state is restored even if the tool has died.
 *
 * A thread may also be asynchronously cancelable, for example in any system
 * call that is a cancellation point (glibc before 2.37); then a cancellation
 * that arrived during the call acts as soon as the state is restored. Therefore
 * the thread is made deferred-cancelable first, for as long as there is a
 * scratch area, and its last call restores its type. There a cancellation does
 * act: on the thread's own stack, with nothing left to be undone, and below a
 * signal frame through which an unwinder finds the thread's own frames. So
 * cleanup handlers run as they do for a cancellation that acts in the C
 * library's own signal handler.
 *
 * A static program may have no pthread_setcanceltype; then the state is
 * restored last.
 */
void perform_plan_last(struct injection *injection)
{
    const struct plan *plan = injection->env.plan;

    injection->last = (struct arch_last){.function = plan->setcanceltype ? plan->setcanceltype
                                                                         : plan->setcancelstate,
                                         .arg = NEITHER,
                                         .mask = injection->mask};
    injection->calm = plan->setcanceltype ? PTHREAD_CANCEL_DEFERRED : PTHREAD_CANCEL_DISABLE;
}

/* Returns the number of records of ours before those of the calls. */
static size_t fill_records(struct injection *injection, const struct arch_call *calls, size_t count,
                           bool intercepted)
{
    struct arch_call *records = (struct arch_call *)(void *)(injection->data + RECORDS_AT);
    const struct plan *plan = injection->env.plan;
    remote_addr setcancelstate = intercepted && plan->setcanceltype ? plan->setcancelstate : 0;
    size_t first = 0;

    memset(records, 0, SCRATCH_ARGUMENTS - RECORDS_AT);
    if (intercepted && injection->last.function && !injection->calmed) {
        injection->calmed = true;
        records[first++] = (struct arch_call){
            .function = injection->last.function,
            .args = {injection->calm, injection->frames.last_arg},
        };
    }
    if (setcancelstate) {
        const size_t last = first + 1 + count;
        records[first++] = (struct arch_call){
            .function = setcancelstate,
            .args = {PTHREAD_CANCEL_DISABLE,
                     record_address(injection, last) + offsetof(struct arch_call, args)},
        };
        records[last] = (struct arch_call){.function = setcancelstate};
    }
    memcpy(records + first, calls, count * sizeof *calls);
    return first;
}

/* The trampoline once, if there is executable memory; the records and the arguments each time. */
static bool write_records(struct injection *injection)
{
    struct arch_call_header header = {injection->env.plan->errno_location, arch_fp_control()};
    struct memory *memory = injection->env.memory;
    size_t len;
    const unsigned char *code = arch_trampoline(&len);

    memcpy(injection->data, &header, sizeof header);
    if (!injection->code_written && !injection->direct) {
        injection->code_written = memory_write_code(memory, injection->scratch, code, len);
        if (!injection->code_written)
            return false;
    }
    return memory_write(memory, data_address(injection), injection->data, injection->data_used);
}

/* ---- the thread's system calls ---- */

/* One system call of the thread, from its entry to its exit. */
struct intercepted {
    bool entered; /* its entry was seen: it is not the void call that led into the function */
    uint64_t nr, args[6];
    bool stood_in;
    int64_t result;
};

static fault_code at_entry(struct injection *injection, const struct intercept *intercept,
                           const struct __ptrace_syscall_info *info, struct intercepted *call,
                           struct fault *fault)
{
    arch_regs regs;

    call->entered = true;
    call->nr = info->entry.nr;
    memcpy(call->args, info->entry.args, sizeof call->args);
    call->stood_in = intercept &&
                     intercept->enter(intercept->ctx, call->nr, call->args, &call->result) ==
                         INTERCEPT_STAND_IN &&
                     arch_can_void(info, injection->filtered);
    if (arch_uses_restart_block(call->nr))
        injection->restart_block_used = true;
    if (!call->stood_in)
        return FAULT_NONE;
    if (!arch_get_regs(&injection->session, &regs))
        return run_broken(injection, "read registers", fault);
    arch_void_syscall(&regs, injection->filtered);
    if (!arch_set_regs(&injection->session, &regs))
        return run_broken(injection, "set registers", fault);
    return FAULT_NONE;
}

static fault_code at_exit(struct injection *injection, const struct intercept *intercept,
                          const struct __ptrace_syscall_info *info, struct intercepted *call,
                          struct fault *fault)
{
    arch_regs regs;

    if (!call->stood_in) {
        if (intercept && call->entered && !arch_is_restart(info->exit.rval))
            intercept->leave(intercept->ctx, call->nr, call->args, info->exit.rval);
        return FAULT_NONE;
    }
    call->stood_in = false;
    if (!arch_get_regs(&injection->session, &regs))
        return run_broken(injection, "read registers", fault);
    arch_set_result(&regs, call->result);
    if (!arch_set_regs(&injection->session, &regs))
        return run_broken(injection, "set registers", fault);
    return FAULT_NONE;
}

/*
 * Signals that an instruction of the call itself can raise stay unblocked:
 * blocked they would kill, and their handlers (guard pages, emulated calls) are
 * part of the target's normal operation.
 */
uint64_t perform_call_mask(void)
{
    static const int synchronous[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    uint64_t mask = ~0ull;

    for (size_t i = 0; i < ARRAY_LEN(synchronous); i++)
        mask &= ~(1ull << (synchronous[i] - 1));
    return mask;
}

/*
 * The signal by which musl stops all threads is unblocked while the function runs, and at no other
 * time: the tool's own system calls could not be told apart from those of a
 * handler. They are unblocked before the registers are set: a thread that
 * continues without the tool must not be left in the call with them blocked.
 */
static bool open_signals(struct injection *injection, bool open)
{
    uint64_t mask = perform_call_mask();

    if (!injection->open)
        return true;
    return session_set_sigmask(&injection->session,
                               open ? mask & ~(injection->open & ~injection->mask) : mask);
}

/* Runs the thread until it is at the sigreturn that would run the unmap frame at frame. */
static fault_code run_to_sigreturn(struct injection *injection, remote_addr frame,
                                   const struct intercept *intercept, struct fault *fault)
{
    struct intercepted call = {0};

    injection->stage = STAGE_IN_CALL;
    for (;;) {
        struct __ptrace_syscall_info info;
        fault_code rc = run_step(injection, fault);
        if (rc != FAULT_NONE)
            return rc;
        if (!session_syscall_info(&injection->session, &info))
            return run_broken(injection, "system call information", fault);
        if (arch_is_final_sigreturn(&info, frame))
            break;
        if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
            rc = at_entry(injection, intercept, &info, &call, fault);
        else if (info.op == PTRACE_SYSCALL_INFO_EXIT)
            rc = at_exit(injection, intercept, &info, &call, fault);
        if (rc != FAULT_NONE)
            return rc;
    }
    injection->stage = STAGE_RETURNED;
    if (!open_signals(injection, false))
        return run_broken(injection, "block signals", fault);
    return FAULT_NONE;
}

/* ---- through the trampoline: one run for the whole list ---- */

static fault_code run_trampoline(struct injection *injection, const struct intercept *intercept,
                                 struct fault *fault)
{
    arch_regs regs = injection->original;

    arch_enter_trampoline(&regs, injection->scratch, data_address(injection),
                          injection->scratch + SCRATCH_LEN - 64, injection->frames.unmap);
    if (!open_signals(injection, true) || !arch_set_regs(&injection->session, &regs))
        return run_broken(injection, "set registers", fault);
    return run_to_sigreturn(injection, injection->frames.unmap, intercept, fault);
}

/* ---- directly: one run per call, without executable memory ---- */

/*
 * After a call: brings a thread that is at the entry of its sigreturn, where registers cannot be
 * set for a call, to the exit of a void call.
 */
static fault_code leave_call(struct injection *injection, struct fault *fault)
{
    int64_t ignored;
    arch_regs regs;

    if (injection->stage != STAGE_RETURNED)
        return FAULT_NONE;
    if (!arch_get_regs(&injection->session, &regs))
        return run_broken(injection, "read registers", fault);
    arch_repeat_sigreturn(&regs, &injection->env.plan->gadgets, injection->filtered);
    if (!arch_set_regs(&injection->session, &regs))
        return run_broken(injection, "set registers", fault);
    return run_syscall(injection, true, &ignored, fault);
}

/*
 * The function returns into the store gadget, which puts its result into the
 * record, and from there into a frame above the scratch stack that leads to
 * munmap, as that of the trampoline does.
 */
static fault_code run_direct(struct injection *injection, const struct arch_call *call,
                             remote_addr result_at, const struct intercept *intercept,
                             struct fault *fault)
{
    const struct injection_env *env = &injection->env;
    const struct arch_gadgets *gadgets = &env->plan->gadgets;
    remote_addr at = ((injection->scratch + SCRATCH_LEN - CHAIN_SIZE) & ~15ull) - 8;
    unsigned char chain[CHAIN_SIZE];
    arch_regs regs = injection->original;
    struct arch_fp clean = injection->fp;
    fault_code rc = leave_call(injection, fault);

    if (rc != FAULT_NONE)
        return rc;
    arch_reset_fp(&clean);
    arch_enter_direct(&regs, gadgets, call, result_at, at);
    size_t len =
        arch_return_chain(chain, sizeof chain, &injection->frames, gadgets, injection->scratch);
    if (!memory_write(env->memory, at, chain, len) || !arch_set_fp(&injection->session, &clean) ||
        !open_signals(injection, true) || !arch_set_regs(&injection->session, &regs))
        return run_broken(injection, "set registers", fault);
    return run_to_sigreturn(injection, at + ARCH_CHAIN_FRAME, intercept, fault);
}

/* Does what the trampoline does itself: reads the thread's errno before the first call. */
static fault_code save_errno(struct injection *injection, struct fault *fault)
{
    struct arch_call call = {.function = injection->env.plan->errno_location};
    remote_addr at = record_address(injection, INJECTION_CALLS_MAX + 3);
    fault_code rc;

    if (!call.function || injection->errno_at)
        return FAULT_NONE;
    rc = run_direct(injection, &call, at, NULL, fault);
    if (rc == FAULT_NONE && (!memory_read(injection->env.memory, at, &injection->errno_at,
                                          sizeof injection->errno_at) ||
                             !memory_read(injection->env.memory, injection->errno_at,
                                          &injection->errno_value, sizeof injection->errno_value)))
        return run_broken(injection, "read errno", fault);
    return rc;
}

/* The records are read again each time: one may have filled in an argument of another. */
static fault_code run_directly(struct injection *injection, const struct intercept *intercept,
                               struct fault *fault)
{
    fault_code rc = save_errno(injection, fault);

    for (size_t i = 0; rc == FAULT_NONE; i++) {
        remote_addr at = record_address(injection, i);
        struct arch_call call;
        if (!memory_read(injection->env.memory, at, &call, sizeof call))
            return run_broken(injection, "read a call", fault);
        if (!call.function)
            break;
        at += offsetof(struct arch_call, result);
        rc = run_direct(injection, &call, at, intercept, fault);
    }
    return rc;
}

/* ---- both ---- */

fault_code injection_call(struct injection *injection, struct arch_call *calls, size_t count,
                          const struct intercept *intercept, struct fault *fault)
{
    size_t first;
    fault_code rc;

    if (count > INJECTION_CALLS_MAX)
        return fault_set(fault, FAULT_INTERNAL, E2BIG, "call", "%zu calls at once", count);
    first = fill_records(injection, calls, count, intercept != NULL);
    if (!write_records(injection)) {
        if (errno == ESRCH)
            return run_broken(injection, "write arguments", fault);
        /* The memory was mapped and cannot be written: the target gets no more pages. */
        return fault_set(fault, FAULT_NO_SCRATCH, ENOMEM, "write arguments", "a page");
    }
    if (injection->direct)
        rc = run_directly(injection, intercept, fault);
    else
        rc = run_trampoline(injection, intercept, fault);
    if (rc != FAULT_NONE)
        return rc;
    if (!memory_read(injection->env.memory, data_address(injection), injection->data,
                     injection->data_used))
        return run_broken(injection, "read results", fault);
    memcpy(calls, injection->data + RECORDS_AT + first * sizeof *calls, count * sizeof *calls);
    for (size_t i = 0; i < count; i++)
        if (!calls[i].done && !injection->direct)
            return fault_set(fault, FAULT_INTERNAL, 0, "call", "call %zu left no result", i);
    injection->summary.calls += (unsigned)count;
    injection->data_used = SCRATCH_ARGUMENTS;
    return FAULT_NONE;
}

/* ---- the last call ---- */

/*
 * The thread's signals are still blocked: a signal that arrived during the call
 * ends pause(2) and similar calls only if it is taken there. A cancellation
 * that acts makes the thread leave for good. The first system call on that way
 * unblocks the signals, which from then on are the thread's own business.
 */
static bool run_to_frame0(struct injection *injection)
{
    struct __ptrace_syscall_info info;

    injection->stage = STAGE_LAST;
    for (;;) {
        if (run_step(injection, NULL) != FAULT_NONE)
            return false;
        if (!session_syscall_info(&injection->session, &info))
            continue;
        if (arch_is_final_sigreturn(&info, injection->frames.frame0))
            return true;
        open_last(injection);
    }
}

fault_code perform_last(struct injection *injection, bool *back, struct fault *fault)
{
    arch_regs regs = injection->original;
    uint64_t arg;

    *back = true;
    if (!injection->calmed ||
        !memory_read(injection->env.memory, injection->frames.last_arg, &arg, sizeof arg) ||
        arg == NEITHER || arg == injection->calm)
        return FAULT_NONE; /* the call would change nothing */
    arch_enter_last(&regs, &injection->last, &injection->frames, arg);
    if (!arch_set_regs(&injection->session, &regs))
        return run_broken(injection, "set registers", fault);
    *back = run_to_frame0(injection);
    if (!*back)
        return FAULT_NONE;
    injection->stage = STAGE_RETURNED;
    return leave_call(injection, fault);
}
