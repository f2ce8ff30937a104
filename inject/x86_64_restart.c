/* x86-64: system calls that a stop has interrupted, and how they are repeated. */
#include "inject/arch.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

/* Kernel-internal restart codes (include/linux/errno.h); found in rax at an event stop. */
enum { ERESTARTSYS = 512, ERESTARTNOINTR = 513, ERESTARTNOHAND = 514, ERESTART_RESTARTBLOCK = 516 };

static int64_t syscall_error(const arch_regs *regs)
{
    return (int64_t)regs->orig_rax < 0 ? 0 : (int64_t)(0 - regs->rax);
}

/* A positive errno, or one of the kernel's own. */
static bool is_restart_code(int64_t error)
{
    switch (error) {
    case ERESTARTSYS:
    case ERESTARTNOINTR:
    case ERESTARTNOHAND:
    case ERESTART_RESTARTBLOCK:
        return true;
    default:
        return false;
    }
}

bool arch_is_restart(int64_t result)
{
    return is_restart_code((int64_t)(0 - (uint64_t)result));
}

bool arch_restarts(const arch_regs *regs)
{
    return is_restart_code(syscall_error(regs));
}

bool arch_restarts_by_block(const arch_regs *regs)
{
    return syscall_error(regs) == ERESTART_RESTARTBLOCK;
}

/* From signal(7), "the following interfaces are never restarted". */
static const uint16_t never_restarted[] = {
    SYS_epoll_wait,     SYS_epoll_pwait, SYS_epoll_pwait2, SYS_rt_sigtimedwait,
    SYS_semop,          SYS_semtimedop,  SYS_io_getevents, SYS_io_pgetevents,
    SYS_io_uring_enter, SYS_recvfrom,    SYS_recvmsg,      SYS_recvmmsg,
    SYS_sendto,         SYS_sendmsg,     SYS_sendmmsg,     SYS_accept,
    SYS_accept4,        SYS_connect,     SYS_read,         SYS_readv,
    SYS_write,          SYS_writev,      SYS_preadv2,      SYS_pwritev2,
};

static bool is_in(const uint16_t *list, size_t count, long nr)
{
    for (size_t i = 0; i < count; i++)
        if (list[i] == nr)
            return true;
    return false;
}

bool arch_eintr_by_stop(const arch_regs *regs)
{
    return syscall_error(regs) == EINTR &&
           is_in(never_restarted, ARRAY_LEN(never_restarted), arch_syscall_nr(regs));
}

/* restart_syscall stands for one of poll, nanosleep, clock_nanosleep and futex. */
bool arch_is_repeatable(long nr)
{
    static const uint16_t waiting[] = {
        SYS_futex,           SYS_futex_waitv,   SYS_epoll_wait, SYS_epoll_pwait,
        SYS_epoll_pwait2,    SYS_poll,          SYS_ppoll,      SYS_select,
        SYS_pselect6,        SYS_nanosleep,     SYS_read,       SYS_clock_nanosleep,
        SYS_readv,           SYS_recvfrom,      SYS_recvmsg,    SYS_recvmmsg,
        SYS_accept,          SYS_accept4,       SYS_wait4,      SYS_waitid,
        SYS_rt_sigtimedwait, SYS_rt_sigsuspend, SYS_pause,      SYS_restart_syscall,
    };

    return is_in(waiting, ARRAY_LEN(waiting), nr);
}

/* mm/mmap.c, mm/mremap.c, mm/mprotect.c, mm/madvise.c, mm/mlock.c: mmap_write_lock. */
bool arch_locks_memory(long nr)
{
    static const uint16_t locking[] = {
        SYS_mmap,  SYS_munmap, SYS_mremap,  SYS_mprotect, SYS_pkey_mprotect, SYS_madvise, SYS_brk,
        SYS_mlock, SYS_mlock2, SYS_munlock, SYS_mlockall, SYS_munlockall,    SYS_shmat,   SYS_shmdt,
    };

    return is_in(locking, ARRAY_LEN(locking), nr);
}

/*
 * kernel/time/hrtimer.c: each nanosleep sets its restart function at its entry;
 * kernel/signal.c: the end of a signal handler clears it.
 */
bool arch_uses_restart_block(uint64_t nr)
{
    return nr == SYS_rt_sigreturn || nr == SYS_nanosleep || nr == SYS_clock_nanosleep ||
           nr == SYS_restart_syscall;
}

bool arch_is_restarted(const arch_regs *regs)
{
    return regs->orig_rax == SYS_restart_syscall;
}

void arch_name_restarted(arch_regs *regs, long nr)
{
    static const uint16_t by_block[] = {SYS_poll, SYS_nanosleep, SYS_clock_nanosleep, SYS_futex};

    if (is_in(by_block, ARRAY_LEN(by_block), nr))
        regs->orig_rax = (unsigned long long)nr;
}

bool arch_names_restart(const arch_regs *regs)
{
    return regs->rax == SYS_restart_syscall;
}

bool arch_is_syscall(const unsigned char code[ARCH_SYSCALL_LEN])
{
    return code[0] == 0x0f && code[1] == 0x05;
}

/* Reverses arch_do_signal_or_restart of arch/x86/kernel/signal.c. */
void arch_take_back_restart(arch_regs *regs)
{
    long nr = arch_syscall_nr(regs);

    regs->rip += ARCH_SYSCALL_LEN;
    regs->rax = (unsigned long long)-ERESTART_RESTARTBLOCK;
    regs->orig_rax = SYS_restart_syscall;
    arch_name_restarted(regs, nr);
}

/* mov $nr,%eax; syscall: how glibc makes the calls that restart in this way. */
long arch_loaded_nr(const unsigned char *code_end)
{
    const unsigned char *load = code_end - ARCH_SYSCALL_LEN - 5;
    uint32_t nr;

    if (load[0] != 0xb8)
        return -1;
    memcpy(&nr, load + 1, sizeof nr);
    return (long)nr;
}

void arch_rewind(arch_regs *regs)
{
    regs->rip -= ARCH_SYSCALL_LEN;
    regs->rax = regs->orig_rax;
    regs->orig_rax = (unsigned long long)-1;
}
