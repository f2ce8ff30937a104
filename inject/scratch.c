#include "inject/scratch.h"
#include "inject/faults.h"
#include "inject/perform.h"
#include "inject/resume.h"
#include "inject/run.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/*
 * Signals that an instruction of the call itself can raise stay unblocked:
 * blocked they would kill, and their handlers (guard pages, emulated calls) are
 * part of the target's normal operation.
 */
uint64_t scratch_call_mask(void)
{
    static const int synchronous[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    uint64_t mask = ~0ull;

    for (size_t i = 0; i < ARRAY_LEN(synchronous); i++)
        mask &= ~(1ull << (synchronous[i] - 1));
    return mask;
}

static fault_code forge_frames(struct injection *injection, struct fault *fault)
{
    arch_regs resume;

    resume_by_frame(injection, &resume);
    perform_plan_last(injection);
    if (arch_forge(&injection->frames, &injection->original, &resume, injection->mask,
                   &injection->fp, &injection->env.plan->gadgets, SCRATCH_LEN, &injection->last))
        return FAULT_NONE;
    return fault_set(fault, FAULT_UNSUPPORTED, 0, "forge frames",
                     "its extended register state has %zu bytes", injection->fp.len);
}

/*
 * The frames are on the thread's stack before its registers change, so that it
 * can finish alone from the first instruction on. Signals are blocked only
 * after the registers are set: if the tool dies in between, no thread may be
 * left with blocked signals.
 */
static fault_code enter_frames(struct injection *injection, const arch_regs *regs,
                               struct fault *fault)
{
    const struct arch_frames *frames = &injection->frames;

    if (!memory_read(injection->env.memory, frames->addr, injection->beneath, frames->len) ||
        !memory_write(injection->env.memory, frames->addr, frames->bytes, frames->len))
        return run_broken(injection, "write frames", fault);
    injection->stage = STAGE_ENTERED;
    if (!arch_set_regs(&injection->session, regs))
        return run_broken(injection, "set registers", fault);
    if (!session_set_sigmask(&injection->session, scratch_call_mask()))
        return run_broken(injection, "block signals", fault);
    return FAULT_NONE;
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
 * A child that another thread forks would keep a copy for good: nobody unmaps
 * it there. mmap(2) has no flag for this, so a child that is forked between the
 * two calls keeps the area as it is then: addresses without pages. A failure is
 * no reason to stop.
 */
static fault_code hide_from_children(struct injection *injection, struct fault *fault)
{
    const uint64_t args[6] = {injection->scratch, SCRATCH_LEN, MADV_DONTFORK, 0, 0, 0};
    int64_t ignored;

    return make_syscall(injection, SYS_madvise, args, &ignored, fault);
}

/*
 * Makes the memory above the code page readable and writable. mmap(2) with
 * MAP_FIXED is not used: if it fails for lack of memory (vm.overcommit_memory
 * 2), kernels before 6.12 have unmapped the range by then (mm/mmap.c,
 * mmap_region), and another thread may have mapped memory there, which we would
 * unmap. mprotect(2) accounts for the pages before it changes any.
 */
static fault_code open_data(struct injection *injection, int64_t *result, struct fault *fault)
{
    const uint64_t args[6] = {injection->scratch + SCRATCH_CODE,
                              SCRATCH_LEN - SCRATCH_CODE,
                              PROT_READ | PROT_WRITE,
                              0,
                              0,
                              0};

    return make_syscall(injection, SYS_mprotect, args, result, fault);
}

/* Executable memory is refuse_scratch (SELinux execmem, a seccomp filter): continues without it. */
static bool wants_direct(const struct injection *injection, int64_t result)
{
    return !injection->direct && arch_can_call_directly(&injection->env.plan->gadgets) &&
           (result == -EPERM || result == -EACCES);
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

static fault_code map_first(struct injection *injection, int64_t *result, struct fault *fault)
{
    arch_regs regs = registers_for_map(injection);
    fault_code rc = enter_frames(injection, &regs, fault);

    if (rc == FAULT_NONE)
        rc = run_syscall(injection, false, result, fault);
    if (rc != FAULT_NONE || !wants_direct(injection, *result))
        return rc;
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

static fault_code choose_way(struct injection *injection, struct fault *fault)
{
    const struct injection_env *env = &injection->env;

    injection->filtered = injection->own.seccomp == STATUS_SECCOMP_FILTER;
    injection->direct = injection->filtered;
    if (injection->direct && !arch_can_call_directly(&env->plan->gadgets))
        return fault_set(fault, FAULT_UNSUPPORTED, 0, "begin",
                         "it runs under a seccomp filter, and its C library has no code through "
                         "which to call without executable memory");
    return FAULT_NONE;
}

fault_code scratch_map(struct injection *injection, struct fault *fault)
{
    int64_t result = 0;
    fault_code rc = choose_way(injection, fault);

    if (rc == FAULT_NONE)
        rc = forge_frames(injection, fault);
    if (rc == FAULT_NONE)
        rc = map_first(injection, &result, fault);
    if (rc != FAULT_NONE)
        return rc;
    if (run_is_error(result))
        return refuse_scratch(result, fault);
    injection->scratch = (remote_addr)result;
    /* An orphaned thread would have stored it itself until now; from here on it need not. */
    if (!memory_write(injection->env.memory, injection->frames.unmap_arg, &injection->scratch,
                      sizeof injection->scratch))
        return run_broken(injection, "write the scratch address", fault);
    /* Filters of browsers' sandboxes check madvise's advice and kill for this one. */
    if (!injection->filtered)
        rc = hide_from_children(injection, fault);
    if (rc != FAULT_NONE || injection->direct)
        return rc;
    rc = open_data(injection, &result, fault);
    return rc == FAULT_NONE && run_is_error(result) ? refuse_scratch(result, fault) : rc;
}

fault_code scratch_unmap(struct injection *injection, struct fault *fault)
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
    if (rc == FAULT_NONE && run_is_error(result))
        return fault_set(fault, FAULT_INTERNAL, (int)-result, "unmap scratch memory", "%#llx",
                         (unsigned long long)injection->scratch);
    return rc;
}
