#include "inject/call.h"
#include "inject/acquire.h"
#include "inject/resume.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum {
    ABANDON_WAIT_NS = 1000000000,
    ENDING_NS = 2000000000, /* for the ending, even when the call used up the time */
    LARGEST_ERRNO = 4095,
    RECORDS_AT = sizeof(struct arch_call_header),
    ARGUMENTS_AT = RECORDS_AT + (INJECTION_CALLS_MAX + 1) * sizeof(struct arch_call),
};

/* Signals that an instruction of the call itself can raise: blocked they would kill, and handlers
 * for them (guard pages, emulated calls) are part of how the target works. */
static uint64_t call_mask(void)
{
    static const int synchronous[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    uint64_t mask = ~0ull;

    for (size_t i = 0; i < ARRAY_LEN(synchronous); i++)
        mask &= ~(1ull << (synchronous[i] - 1));
    return mask;
}

static enum fault_code lost(const struct injection *injection, struct fault *fault)
{
    const struct session *session = &injection->session;

    if (session->state == SESSION_EXECED)
        return fault_set(fault, FAULT_EXECED, 0, "call", "thread %d", session->tid);
    return fault_set(fault, FAULT_GONE, ESRCH, "call", "thread %d", session->tid);
}

static enum fault_code broken(const struct injection *injection, const char *what,
                              struct fault *fault)
{
    if (errno == ESRCH)
        return lost(injection, fault);
    return fault_set(fault, FAULT_INTERNAL, errno, "call", "%s, thread %d", what,
                     injection->session.tid);
}

/* ---- running ---- */

/*
 * The deadline has passed in the middle of the call. It is not torn down: the
 * thread is let go; if it runs, it is stopped once more for that.
 */
static enum fault_code abandon(struct injection *injection, struct fault *fault)
{
    struct session *session = &injection->session;
    struct deadline soon = {.at = clock_now() + ABANDON_WAIT_NS};

    if (session->state == SESSION_RUNNING && session_interrupt(session, NULL) == FAULT_NONE)
        session_wait(session, &soon, false, NULL);
    session_detach(session);
    return fault_set(fault, FAULT_CALL_DEADLINE, ETIMEDOUT, "call", "thread %d", session->tid);
}

/* To the next stop at a system call; signals and job control's stops are passed on. */
static enum fault_code step(struct injection *injection, struct fault *fault)
{
    struct session *session = &injection->session;

    do {
        enum fault_code rc;
        if (deadline_passed(&injection->until))
            return abandon(injection, fault);
        rc = session_to_syscall(session, fault);
        if (rc == FAULT_NONE)
            rc = session_wait(session, &injection->until, false, fault);
        if (rc == FAULT_CALL_DEADLINE)
            return abandon(injection, fault);
        if (rc != FAULT_NONE)
            return rc;
    } while (session->state == SESSION_SIGNAL || session->state == SESSION_GROUP ||
             session->state == SESSION_EVENT);
    if (session->state != SESSION_SYSCALL)
        return lost(injection, fault);
    injection->report.syscall_stops++;
    return FAULT_NONE;
}

/* Lets the thread make the one system call that its registers ask for; its result. */
static enum fault_code run_syscall(struct injection *injection, bool at_entry, int64_t *result,
                                   struct fault *fault)
{
    struct __ptrace_syscall_info info;
    enum fault_code rc = at_entry ? FAULT_NONE : step(injection, fault);

    if (rc == FAULT_NONE)
        rc = step(injection, fault);
    if (rc != FAULT_NONE)
        return rc;
    if (!session_syscall_info(&injection->session, &info) || info.op != PTRACE_SYSCALL_INFO_EXIT)
        return broken(injection, "system call exit", fault);
    *result = info.exit.rval;
    return FAULT_NONE;
}

/* ---- the scratch area ---- */

/*
 * Stage 0. The frames are on the thread's stack before its registers change,
 * so that from the first instruction on it can finish alone. Signals are
 * blocked only after the registers are set: a death in between must not leave
 * a thread with blocked signals.
 */
static enum fault_code enter_stage0(struct injection *injection, struct fault *fault)
{
    const struct injection_env *env = &injection->env;
    const struct arch_frames *frames = &injection->frames;
    arch_regs regs = injection->original;

    if (!memory_write(env->memory, frames->addr, frames->bytes, frames->len))
        return broken(injection, "write frames", fault);
    arch_enter_map(&regs, &env->plan->gadgets, frames, SCRATCH_LEN);
    injection->stage = STAGE_ENTERED;
    if (!arch_set_regs(&injection->session, &regs) ||
        !session_set_sigmask(&injection->session, call_mask()))
        return broken(injection, "set registers", fault);
    return FAULT_NONE;
}

/* Above the code pages, memory to read and write; the allocator's own system call, no other. */
static enum fault_code map_data(struct injection *injection, int64_t *result, struct fault *fault)
{
    const struct injection_env *env = &injection->env;
    const uint64_t args[6] = {injection->scratch + SCRATCH_CODE,
                              SCRATCH_LEN - SCRATCH_CODE,
                              PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                              (uint64_t)-1,
                              0};
    arch_regs regs = injection->original;

    arch_enter_syscall(&regs, &env->plan->gadgets, injection->frames.unmap, SYS_mmap, args);
    if (!arch_set_regs(&injection->session, &regs))
        return broken(injection, "set registers", fault);
    return run_syscall(injection, false, result, fault);
}

static enum fault_code refused(int64_t result, struct fault *fault)
{
    return fault_set(fault, FAULT_NO_SCRATCH, (int)-result, "map scratch memory", "%d bytes",
                     SCRATCH_LEN);
}

static bool is_error(int64_t result)
{
    return result < 0 && result >= -LARGEST_ERRNO;
}

static enum fault_code map_scratch(struct injection *injection, struct fault *fault)
{
    const struct injection_env *env = &injection->env;
    int64_t result = 0;
    enum fault_code rc = enter_stage0(injection, fault);

    if (rc == FAULT_NONE)
        rc = run_syscall(injection, false, &result, fault);
    if (rc != FAULT_NONE)
        return rc;
    if (is_error(result))
        return refused(result, fault);
    injection->scratch = (remote_addr)result;
    /* Orphaned so far, the thread would have stored it itself; from here on it need not. */
    if (!memory_write(env->memory, injection->frames.unmap_arg, &injection->scratch,
                      sizeof injection->scratch))
        return broken(injection, "write the scratch address", fault);
    rc = map_data(injection, &result, fault);
    if (rc == FAULT_NONE && is_error(result))
        return refused(result, fault);
    return rc;
}

static enum fault_code forge(struct injection *injection, struct fault *fault)
{
    arch_regs resume;

    resume_by_frame(injection, &resume);
    if (arch_forge(&injection->frames, &injection->original, &resume, injection->mask,
                   &injection->fp, &injection->env.plan->gadgets, SCRATCH_LEN))
        return FAULT_NONE;
    return fault_set(fault, FAULT_UNSUPPORTED, 0, "forge frames",
                     "extended register state of %zu bytes", injection->fp.len);
}

/* ---- the ending ---- */

/* The scratch area goes; the return from munmap would lead the thread into frame 0. */
static enum fault_code unmap_scratch(struct injection *injection, struct fault *fault)
{
    const struct arch_gadgets *gadgets = &injection->env.plan->gadgets;
    const uint64_t args[6] = {injection->scratch, SCRATCH_LEN, 0, 0, 0, 0};
    arch_regs regs = injection->original;
    int64_t result = 0;
    enum fault_code rc;

    bool at_entry = injection->stage == STAGE_RETURNED;

    if (at_entry)
        arch_become_syscall(&regs, gadgets, injection->frames.frame0, SYS_munmap, args);
    else
        arch_enter_syscall(&regs, gadgets, injection->frames.frame0, SYS_munmap, args);
    if (!arch_set_regs(&injection->session, &regs))
        return broken(injection, "set registers", fault);
    injection->stage = STAGE_ENTERED;
    rc = run_syscall(injection, at_entry, &result, fault);
    if (rc == FAULT_NONE && is_error(result))
        return fault_set(fault, FAULT_INTERNAL, (int)-result, "unmap scratch memory", "%#llx",
                         (unsigned long long)injection->scratch);
    return rc;
}

/* Registers last: until then the frame can still do it all. */
static enum fault_code restore(struct injection *injection, struct fault *fault)
{
    struct session *session = &injection->session;
    arch_regs regs;

    resume_by_tool(injection, &regs);
    if (!arch_set_fp(session, &injection->fp) || !session_set_sigmask(session, injection->mask) ||
        !arch_set_regs(session, &regs))
        return broken(injection, "restore registers", fault);
    return FAULT_NONE;
}

static bool is_held(const struct injection *injection)
{
    return injection->session.state == SESSION_SYSCALL || injection->session.state == SESSION_EVENT;
}

enum fault_code injection_end(struct injection *injection, struct fault *fault)
{
    enum fault_code rc = FAULT_NONE;

    injection->until.at = clock_now() + ENDING_NS;
    if (is_held(injection) && injection->stage == STAGE_UNTOUCHED) {
        resume_untouched(injection);
    } else if (is_held(injection) && injection->stage != STAGE_IN_CALL) {
        if (injection->scratch)
            rc = unmap_scratch(injection, fault);
        if (rc == FAULT_NONE)
            rc = restore(injection, fault);
    }
    session_detach(&injection->session);
    if (injection->report.tid && !injection->report.held_ns)
        injection->report.held_ns = clock_now() - injection->stopped_at;
    injection->env.memory->stopped_tid = 0;
    free(injection->data);
    injection->data = NULL;
    return rc;
}

/* ---- the beginning ---- */

/*
 * A shadow stack cannot be changed together with the registers in one step, so
 * a death in between would kill the target; strict seccomp kills at the mmap.
 */
static enum fault_code refuse_unsupported(const struct target *target, struct fault *fault)
{
    if (target->status.shadow_stack)
        return fault_set(fault, FAULT_UNSUPPORTED, 0, "begin",
                         "it uses a shadow stack (x86 CET), which a forged call would violate");
    if (target->status.seccomp == SECCOMP_MODE_STRICT)
        return fault_set(fault, FAULT_UNSUPPORTED, 0, "begin",
                         "it runs under strict seccomp, which kills it at any system call of ours");
    return FAULT_NONE;
}

static enum fault_code prepare(struct injection *injection, const struct injection_env *env,
                               struct fault *fault)
{
    memset(injection, 0, sizeof *injection);
    injection->env = *env;
    injection->until = *env->deadline;
    injection->data_used = ARGUMENTS_AT;
    injection->data = calloc(1, SCRATCH_DATA);
    if (!injection->data)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "begin", "%d bytes", SCRATCH_DATA);
    return refuse_unsupported(env->target, fault);
}

enum fault_code injection_begin(struct injection *injection, const struct injection_env *env,
                                struct fault *fault)
{
    enum fault_code rc = prepare(injection, env, fault);

    if (rc == FAULT_NONE)
        rc = acquire_thread(injection, fault);
    if (rc == FAULT_NONE)
        rc = forge(injection, fault);
    if (rc == FAULT_NONE)
        rc = map_scratch(injection, fault);
    if (rc != FAULT_NONE)
        injection_end(injection, NULL);
    return rc;
}

/* ---- the call ---- */

remote_addr injection_put(struct injection *injection, const void *bytes, size_t len)
{
    size_t at = injection->data_used, room = (len + 7) & ~(size_t)7;

    if (room < len || room > SCRATCH_DATA - at)
        return 0;
    memcpy(injection->data + at, bytes, len);
    injection->data_used = at + room;
    return injection->scratch + SCRATCH_CODE + at;
}

bool injection_get(struct injection *injection, remote_addr addr, void *out, size_t len)
{
    uint64_t at = addr - injection->scratch - SCRATCH_CODE;

    if (at > SCRATCH_DATA || len > SCRATCH_DATA - at)
        return false;
    memcpy(out, injection->data + at, len);
    return true;
}

static bool write_records(struct injection *injection, const struct arch_call *calls, size_t count)
{
    struct memory *memory = injection->env.memory;
    struct arch_call_header header = {injection->env.plan->errno_location, arch_fp_control()};
    size_t code_len;
    const unsigned char *code = arch_trampoline(&code_len);

    if (!injection->code_written && !memory_write_code(memory, injection->scratch, code, code_len))
        return false;
    injection->code_written = true;
    memcpy(injection->data, &header, sizeof header);
    memset(injection->data + RECORDS_AT, 0, ARGUMENTS_AT - RECORDS_AT);
    memcpy(injection->data + RECORDS_AT, calls, count * sizeof *calls);
    return memory_write(memory, injection->scratch + SCRATCH_CODE, injection->data,
                        injection->data_used);
}

/* One system call of the thread, from its entry to its exit. */
struct watched {
    uint64_t nr, args[6];
    bool stood_in;
    int64_t result;
};

static enum fault_code at_entry(struct injection *injection, const struct watch *watch,
                                const struct __ptrace_syscall_info *info, struct watched *call,
                                struct fault *fault)
{
    arch_regs regs;

    call->nr = info->entry.nr;
    memcpy(call->args, info->entry.args, sizeof call->args);
    call->stood_in =
        watch && arch_can_void(info) &&
        watch->enter(watch->ctx, call->nr, call->args, &call->result) == WATCH_STAND_IN;
    if (arch_uses_restart_block(call->nr))
        injection->restart_block_used = true;
    if (!call->stood_in)
        return FAULT_NONE;
    if (!arch_get_regs(&injection->session, &regs))
        return broken(injection, "read registers", fault);
    arch_void_syscall(&regs);
    if (!arch_set_regs(&injection->session, &regs))
        return broken(injection, "set registers", fault);
    return FAULT_NONE;
}

static enum fault_code at_exit(struct injection *injection, const struct watch *watch,
                               const struct __ptrace_syscall_info *info, struct watched *call,
                               struct fault *fault)
{
    arch_regs regs;

    if (!call->stood_in) {
        if (watch)
            watch->leave(watch->ctx, call->nr, call->args, info->exit.rval);
        return FAULT_NONE;
    }
    call->stood_in = false;
    if (!arch_get_regs(&injection->session, &regs))
        return broken(injection, "read registers", fault);
    arch_set_result(&regs, call->result);
    if (!arch_set_regs(&injection->session, &regs))
        return broken(injection, "set registers", fault);
    return FAULT_NONE;
}

/* Runs the thread until it stands at the trampoline's sigreturn. */
static enum fault_code run_calls(struct injection *injection, const struct watch *watch,
                                 struct fault *fault)
{
    struct watched call = {0};

    for (;;) {
        struct __ptrace_syscall_info info;
        enum fault_code rc = step(injection, fault);
        if (rc != FAULT_NONE)
            return rc;
        if (!session_syscall_info(&injection->session, &info))
            return broken(injection, "system call information", fault);
        if (arch_is_final_sigreturn(&info, injection->frames.unmap))
            return FAULT_NONE;
        if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
            rc = at_entry(injection, watch, &info, &call, fault);
        else if (info.op == PTRACE_SYSCALL_INFO_EXIT)
            rc = at_exit(injection, watch, &info, &call, fault);
        if (rc != FAULT_NONE)
            return rc;
    }
}

static enum fault_code read_results(struct injection *injection, struct arch_call *calls,
                                    size_t count, struct fault *fault)
{
    if (!memory_read(injection->env.memory, injection->scratch + SCRATCH_CODE, injection->data,
                     injection->data_used))
        return broken(injection, "read results", fault);
    memcpy(calls, injection->data + RECORDS_AT, count * sizeof *calls);
    for (size_t i = 0; i < count; i++)
        if (!calls[i].done)
            return fault_set(fault, FAULT_INTERNAL, 0, "call", "call %zu left no result", i);
    injection->report.calls += (unsigned)count;
    injection->data_used = ARGUMENTS_AT;
    return FAULT_NONE;
}

/*
 * While the thread makes many system calls the tool runs on its processor: the
 * one always waits for the other, and a wake-up on another processor costs
 * more than the switch.
 */
static bool share_processor(const struct injection *injection, cpu_set_t *former)
{
    struct thread thread = {.tid = injection->session.tid};
    cpu_set_t one;

    if (sched_getaffinity(0, sizeof *former, former) ||
        !thread_refresh(&thread, injection->env.target) || thread.cpu >= CPU_SETSIZE)
        return false;
    CPU_ZERO(&one);
    CPU_SET((unsigned)thread.cpu, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
}

enum fault_code injection_call(struct injection *injection, struct arch_call *calls, size_t count,
                               struct watch *watch, struct fault *fault)
{
    arch_regs regs = injection->original;
    cpu_set_t former;
    bool shared;
    enum fault_code rc;

    if (count > INJECTION_CALLS_MAX)
        return fault_set(fault, FAULT_INTERNAL, E2BIG, "call", "%zu calls at once", count);
    if (!write_records(injection, calls, count))
        return broken(injection, "write arguments", fault);
    arch_enter_trampoline(&regs, injection->scratch, injection->scratch + SCRATCH_CODE,
                          injection->scratch + SCRATCH_LEN - 64, injection->frames.unmap);
    if (!arch_set_regs(&injection->session, &regs))
        return broken(injection, "set registers", fault);
    injection->stage = STAGE_IN_CALL;
    shared = watch && share_processor(injection, &former);
    rc = run_calls(injection, watch, fault);
    if (shared)
        sched_setaffinity(0, sizeof former, &former);
    if (rc != FAULT_NONE)
        return rc;
    injection->stage = STAGE_RETURNED;
    return read_results(injection, calls, count, fault);
}
