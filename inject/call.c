/* An injection: its start, the frames and the scratch area, its end. */
#include "inject/call.h"
#include "host/task.h"
#include "inject/attempt.h"
#include "inject/faults.h"
#include "inject/perform.h"
#include "inject/resume.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum {
    ENDING_NS = 2000000000, /* least time for the ending, if the call used up the time limit */
    LARGEST_ERRNO = 4095,
    /*
     * fs.nr_open is below 2^30: if the tool dies, the thread's write fails with
     * EBADF and touches nothing. Odd, so that its call can be made void.
     */
    GATHER_FD = 0x3ffffffd,
};

_Static_assert(SCRATCH_CODE + SCRATCH_DATA + SCRATCH_GATHER < SCRATCH_LEN - (64 << 10),
               "space for the stack of any call");

/* ---- the frames and the scratch area ---- */

/* True for -4095 to -1, which are errors (the system call ABI). */
static bool is_error(int64_t result)
{
    return result < 0 && result >= -LARGEST_ERRNO;
}

/*
 * Makes one more system call, after which the thread would unmap the scratch
 * area and restore itself.
 */
static fault_code make_syscall(struct injection *injection, long nr, const uint64_t args[6],
                               int64_t *result, struct fault *fault)
{
    arch_regs regs = injection->original;

    arch_enter_syscall(&regs, &injection->env.plan->gadgets, injection->frames.unmap, nr, args);
    if (!arch_set_regs(&injection->session, &regs))
        return run_broken(injection, "set registers", fault);
    return run_syscall(injection, false, result, fault);
}

/*
 * The registers for mmap, with the frames behind it. The memory is executable
 * first and the upper part is made writable later (MDWE does not let memory
 * become executable). A filter might kill for that, so under a filter only calls
 * are made that an allocator itself makes.
 */
static arch_regs registers_for_map(const struct injection *injection)
{
    int prot = PROT_READ | (injection->direct ? PROT_WRITE : PROT_EXEC);
    arch_regs regs = injection->original;

    arch_enter_map(&regs, &injection->env.plan->gadgets, &injection->frames, SCRATCH_LEN, prot);
    return regs;
}

/*
 * The frames are on the thread's stack before its registers change, so that it
 * can finish alone from the first instruction on. Signals are blocked only
 * after the registers are set: if the tool dies in between, no thread may be
 * left with blocked signals.
 */
static fault_code map_first(struct injection *injection, int64_t *result, struct fault *fault)
{
    const struct arch_frames *frames = &injection->frames;
    arch_regs regs = registers_for_map(injection);
    fault_code rc;

    if (!memory_read(injection->env.memory, frames->addr, injection->beneath, frames->len) ||
        !memory_write(injection->env.memory, frames->addr, frames->bytes, frames->len))
        return run_broken(injection, "write frames", fault);
    injection->stage = STAGE_ENTERED;
    if (!arch_set_regs(&injection->session, &regs))
        return run_broken(injection, "set registers", fault);
    if (!session_set_sigmask(&injection->session, perform_call_mask()))
        return run_broken(injection, "block signals", fault);
    rc = run_syscall(injection, false, result, fault);
    if (rc != FAULT_NONE || injection->direct || (*result != -EPERM && *result != -EACCES) ||
        !arch_can_call_directly(&injection->env.plan->gadgets))
        return rc;
    /* Executable memory is refused (SELinux execmem, a seccomp filter): continues without it. */
    injection->direct = true;
    regs = registers_for_map(injection);
    if (!arch_set_regs(&injection->session, &regs))
        return run_broken(injection, "set registers", fault);
    return run_syscall(injection, false, result, fault);
}

static fault_code refuse_scratch(int64_t result, struct fault *fault)
{
    return fault_set(fault, FAULT_NO_SCRATCH, (int)-result, "map scratch memory", "%d bytes",
                     SCRATCH_LEN);
}

/* Forges the frames, sends the thread into its first mmap and records the address. */
static fault_code map_scratch(struct injection *injection, struct fault *fault)
{
    const struct arch_gadgets *gadgets = &injection->env.plan->gadgets;
    arch_regs resume;
    int64_t result = 0, ignored;
    fault_code rc;

    injection->filtered = injection->own.seccomp == STATUS_SECCOMP_FILTER;
    injection->direct = injection->filtered;
    if (injection->direct && !arch_can_call_directly(gadgets))
        return fault_set(fault, FAULT_UNSUPPORTED, 0, "begin",
                         "it runs under a seccomp filter, and its C library has no code through "
                         "which to call without executable memory");
    resume_by_frame(injection, &resume);
    perform_plan_last(injection);
    if (!arch_forge(&injection->frames, &injection->original, &resume, injection->mask,
                    &injection->fp, gadgets, SCRATCH_LEN, &injection->last))
        return fault_set(fault, FAULT_UNSUPPORTED, 0, "forge frames",
                         "its extended register state has %zu bytes", injection->fp.len);
    rc = map_first(injection, &result, fault);
    if (rc != FAULT_NONE)
        return rc;
    if (is_error(result))
        return refuse_scratch(result, fault);
    injection->scratch = (remote_addr)result;
    /* An orphaned thread would have stored it itself until now; from here on it need not. */
    if (!memory_write(injection->env.memory, injection->frames.unmap_arg, &injection->scratch,
                      sizeof injection->scratch))
        return run_broken(injection, "write the scratch address", fault);
    /*
     * A child that another thread forks would keep a copy for good: nobody unmaps it there.
     * mmap(2) has no flag for this, so a child that is forked between the two calls keeps the
     * area as it is then: addresses without pages. A failure is no reason to stop. Filters of
     * browsers' sandboxes check madvise's advice and kill for this one.
     */
    if (!injection->filtered) {
        const uint64_t args[6] = {injection->scratch, SCRATCH_LEN, MADV_DONTFORK, 0, 0, 0};
        rc = make_syscall(injection, SYS_madvise, args, &ignored, fault);
    }
    if (rc != FAULT_NONE || injection->direct)
        return rc;
    /*
     * Makes the memory above the code page readable and writable. mmap(2) with MAP_FIXED is not
     * used: if it fails for lack of memory (vm.overcommit_memory 2), kernels before 6.12 have
     * unmapped the range by then (mm/mmap.c, mmap_region), and another thread may have mapped
     * memory there, which we would unmap. mprotect(2) accounts for the pages before it changes
     * any.
     */
    const uint64_t data[6] = {injection->scratch + SCRATCH_CODE,
                              SCRATCH_LEN - SCRATCH_CODE,
                              PROT_READ | PROT_WRITE,
                              0,
                              0,
                              0};
    rc = make_syscall(injection, SYS_mprotect, data, &result, fault);
    return rc == FAULT_NONE && is_error(result) ? refuse_scratch(result, fault) : rc;
}

/* Makes the thread unmap it; its next return leads into frame 0. */
static fault_code unmap_scratch(struct injection *injection, struct fault *fault)
{
    const struct arch_gadgets *gadgets = &injection->env.plan->gadgets;
    const uint64_t args[6] = {injection->scratch, SCRATCH_LEN, 0, 0, 0, 0};
    arch_regs regs = injection->original;
    int64_t result = 0;
    bool at_entry = injection->stage == STAGE_RETURNED;
    fault_code rc;

    if (at_entry)
        arch_become_syscall(&regs, gadgets, injection->frames.last, SYS_munmap, args);
    else
        arch_enter_syscall(&regs, gadgets, injection->frames.last, SYS_munmap, args);
    if (!arch_set_regs(&injection->session, &regs))
        return run_broken(injection, "set registers", fault);
    injection->stage = STAGE_ENTERED;
    rc = run_syscall(injection, at_entry, &result, fault);
    if (rc == FAULT_NONE && is_error(result))
        return fault_set(fault, FAULT_INTERNAL, (int)-result, "unmap scratch memory", "%#llx",
                         (unsigned long long)injection->scratch);
    return rc;
}

/* ---- the start ---- */

static fault_code stop_thread(struct injection *injection, const struct injection_env *env,
                              bool looks, struct fault *fault)
{
    fault_code rc;

    memset(injection, 0, sizeof *injection);
    injection->env = *env;
    injection->until = *env->deadline;
    injection->sleeps = env->sleeps ? env->sleeps : injection->own_sleeps;
    injection->looks = looks;
    injection->open = env->plan->musl ? 1ull << (MUSL_SYNCCALL - 1) : 0;
    injection->data_used = SCRATCH_ARGUMENTS;
    injection->data = calloc(1, SCRATCH_DATA);
    if (injection->data)
        rc = acquire_thread(injection, fault);
    else
        rc = fault_set(fault, FAULT_INTERNAL, ENOMEM, "begin", "%d bytes", SCRATCH_DATA);
    if (rc != FAULT_NONE)
        injection_end(injection, NULL);
    return rc;
}

fault_code injection_stop(struct injection *injection, const struct injection_env *env,
                          struct fault *fault)
{
    return stop_thread(injection, env, true, fault);
}

fault_code injection_begin(struct injection *injection, const struct injection_env *env,
                           struct fault *fault)
{
    fault_code rc = stop_thread(injection, env, false, fault);

    if (rc != FAULT_NONE)
        return rc;
    rc = map_scratch(injection, fault);
    if (rc != FAULT_NONE)
        injection_end(injection, NULL);
    return rc;
}

/* ---- what the calls use ---- */

remote_addr injection_put(struct injection *injection, const void *bytes, size_t len)
{
    size_t at = injection->data_used, padded = (len + 7) & ~(size_t)7;

    if (padded < len || padded > SCRATCH_DATA - at)
        return 0;
    memcpy(injection->data + at, bytes, len);
    injection->data_used = at + padded;
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

bool injection_gather(struct injection *injection, struct gather *gather)
{
    const struct arch_gather head = {.size = SCRATCH_GATHER - sizeof head, .fd = GATHER_FD};
    size_t function, flush;

    if (injection->direct || !arch_gather_functions(&function, &flush))
        return false;
    *gather = (struct gather){
        .function = injection->scratch + function,
        .context = injection->scratch + SCRATCH_CODE + SCRATCH_DATA,
        .flush.function = injection->scratch + flush,
    };
    gather->flush.args[0] = gather->context;
    return memory_write(injection->env.memory, gather->context, &head, sizeof head);
}

bool gather_is_write(const struct gather *gather, uint64_t nr, const uint64_t args[6])
{
    return arch_is_write(nr) && args[0] == GATHER_FD &&
           args[1] == gather->context + sizeof(struct arch_gather) && args[2] <= SCRATCH_GATHER;
}

/* ---- the end ---- */

static fault_code undo_injection(struct injection *injection, struct fault *fault)
{
    struct memory *memory = injection->env.memory;
    struct session *session = &injection->session;
    const struct arch_frames *frames = &injection->frames;
    fault_code rc = FAULT_NONE;
    bool back = true;
    arch_regs regs;
    int now;

    /* Direct calls may have changed errno (the trampoline restores it itself). */
    if (injection->errno_at && memory_read(memory, injection->errno_at, &now, sizeof now) &&
        now != injection->errno_value)
        memory_write(memory, injection->errno_at, &injection->errno_value,
                     sizeof injection->errno_value);
    if (injection->scratch)
        rc = unmap_scratch(injection, fault);
    if (rc == FAULT_NONE)
        rc = perform_last(injection, &back, fault);
    if (!back)
        injection->summary.outcome = INJECTION_LEFT;
    if (rc != FAULT_NONE || !back)
        return rc;
    /* Sets the registers last: until then the frame can still do everything. */
    resume_by_tool(injection, &regs);
    if (!arch_set_fp(session, &injection->fp) || !session_set_sigmask(session, injection->mask) ||
        !arch_set_regs(session, &regs))
        return run_broken(injection, "restore registers", fault);
    /*
     * The thread is as it was, and so becomes the memory below its red zone. That is mostly dead,
     * but a later function may leave part of it unwritten, and a look at its stack would take the
     * frames for those of a running handler. If the thread is a coroutine whose stack is an array
     * on the stack of the thread, the bytes below the array are in use.
     */
    (void)memory_write(memory, frames->addr, injection->beneath, frames->len);
    return FAULT_NONE;
}

fault_code injection_end(struct injection *injection, struct fault *fault)
{
    enum session_state state = injection->session.state;
    bool held = state == SESSION_SYSCALL || state == SESSION_EVENT;
    fault_code rc = FAULT_NONE;

    injection->until.at = clock_now() + ENDING_NS;
    if (injection->until.at < injection->env.deadline->at)
        injection->until.at = injection->env.deadline->at;
    if (held && injection->stage == STAGE_UNTOUCHED)
        resume_untouched(injection);
    else if (held && injection->stage != STAGE_IN_CALL)
        rc = undo_injection(injection, fault);
    session_detach(&injection->session);
    if (injection->summary.tid && !injection->summary.held_ns)
        injection->summary.held_ns = clock_now() - injection->stopped_at;
    priority_restore(&injection->priority);
    injection->env.memory->stopped_tid = 0;
    free(injection->data);
    injection->data = NULL;
    return rc;
}
