/* x86-64: system calls that a stop has interrupted, and how they are repeated. */
#include "inject/arch.h"

#include <errno.h>
#include <linux/audit.h>
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

/*
 * The first block is from signal(7), "the following interfaces are never
 * restarted". The second lists calls that a file server may answer with EINTR
 * when the kernel notifies it of the stop (FUSE_INTERRUPT; fs/fuse/dev.c,
 * request_wait_answer) and that have the same effect however often they are
 * made. Calls that create, remove or rename a name are not among them.
 */
static const uint16_t made_again[] = {
    SYS_epoll_wait,     SYS_epoll_pwait, SYS_epoll_pwait2, SYS_rt_sigtimedwait,
    SYS_semop,          SYS_semtimedop,  SYS_io_getevents, SYS_io_pgetevents,
    SYS_io_uring_enter, SYS_recvfrom,    SYS_recvmsg,      SYS_recvmmsg,
    SYS_sendto,         SYS_sendmsg,     SYS_sendmmsg,     SYS_accept,
    SYS_accept4,        SYS_connect,     SYS_read,         SYS_readv,
    SYS_write,          SYS_writev,      SYS_preadv2,      SYS_pwritev2,

    SYS_open,           SYS_openat,      SYS_openat2,      SYS_creat,
    SYS_stat,           SYS_lstat,       SYS_fstat,        SYS_newfstatat,
    SYS_statx,          SYS_statfs,      SYS_fstatfs,      SYS_access,
    SYS_faccessat,      SYS_faccessat2,  SYS_readlink,     SYS_readlinkat,
    SYS_getdents,       SYS_getdents64,  SYS_getxattr,     SYS_lgetxattr,
    SYS_fgetxattr,      SYS_listxattr,   SYS_llistxattr,   SYS_flistxattr,
    SYS_fsync,          SYS_fdatasync,   SYS_syncfs,       SYS_sync_file_range,
    SYS_msync,          SYS_truncate,    SYS_ftruncate,    SYS_fallocate,
    SYS_pread64,        SYS_preadv,      SYS_pwrite64,     SYS_pwritev,
    SYS_chdir,          SYS_chmod,       SYS_fchmod,       SYS_fchmodat,
    SYS_chown,          SYS_fchown,      SYS_lchown,       SYS_fchownat,
    SYS_utimensat,
};

/*
 * The first block of those by their numbers in the i386 table, which int $0x80 uses
 * (arch/x86/entry/syscalls/syscall_32.tbl): epoll_wait, epoll_pwait, epoll_pwait2,
 * rt_sigtimedwait, rt_sigtimedwait_time64, ipc, semtimedop_time64, io_getevents,
 * io_pgetevents, io_pgetevents_time64, io_uring_enter, socketcall, recvfrom, recvmsg,
 * recvmmsg, recvmmsg_time64, sendto, sendmsg, sendmmsg, accept4, connect, read, readv,
 * write, writev, preadv2, pwritev2.
 */
static const uint16_t made_again_i386[] = {256, 319, 441, 177, 421, 117, 420, 247, 385,
                                           416, 426, 102, 371, 372, 337, 417, 369, 370,
                                           345, 364, 362, 3,   145, 4,   146, 378, 379};

/* True if the system call was made by int $0x80; false also before Linux 5.3. */
static bool is_i386_call(struct session *session)
{
    struct __ptrace_syscall_info info;

    return session_syscall_info(session, &info) && info.arch == AUDIT_ARCH_I386;
}

static bool is_in(const uint16_t *list, size_t count, long nr)
{
    for (size_t i = 0; i < count; i++)
        if (list[i] == nr)
            return true;
    return false;
}

bool arch_may_end_by_stop(long nr)
{
    return is_in(made_again, ARRAY_LEN(made_again), nr);
}

bool arch_eintr_by_stop(struct session *session, const arch_regs *regs)
{
    long nr = arch_syscall_nr(regs);

    if (syscall_error(regs) != EINTR)
        return false;
    if (is_i386_call(session))
        return is_in(made_again_i386, ARRAY_LEN(made_again_i386), nr);
    return arch_may_end_by_stop(nr);
}

/*
 * They close a file descriptor, which is gone when they return, even with EINTR
 * (fs/open.c, close).
 */
bool arch_bears_no_stop(long nr)
{
    static const uint16_t closing[] = {SYS_close, SYS_close_range, SYS_dup2, SYS_dup3};

    return is_in(closing, ARRAY_LEN(closing), nr);
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

/* Number 0 is restart_syscall in the i386 table, and read(2) is not restarted by a block. */
bool arch_is_restarted(const arch_regs *regs)
{
    return regs->orig_rax == SYS_restart_syscall ||
           (regs->orig_rax == 0 && arch_restarts_by_block(regs));
}

/* Each number of the i386 table belongs to another call in that of x86-64, which is none of these.
 */
void arch_name_restarted(arch_regs *regs, long nr)
{
    static const uint16_t by_block[] = {SYS_poll, SYS_nanosleep, SYS_clock_nanosleep, SYS_futex},
                          by_block_i386[] = {168, 162, 267, 407, 240, 422}; /* and for time64 */

    if (is_in(by_block, ARRAY_LEN(by_block), nr) ||
        (regs->orig_rax == 0 && is_in(by_block_i386, ARRAY_LEN(by_block_i386), nr)))
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

static bool peek(struct session *session, size_t offset, unsigned long long *value)
{
    uint64_t word;
    bool done = session_peek_register(session, offset, &word);

    *value = done ? word : 0;
    return done;
}

/*
 * Both stops are inside get_signal; arch/x86/kernel/signal.c, arch_do_signal_or_restart.
 * All threads may be waiting: single registers take half the time of the whole set.
 */
void arch_repeat_unless_handled(struct session *session)
{
    arch_regs regs = {.rax = 0};

    if (peek(session, offsetof(struct user, regs.rax), &regs.rax) && 0 - regs.rax == EINTR &&
        peek(session, offsetof(struct user, regs.cs), &regs.cs) && arch_is_native(&regs) &&
        peek(session, offsetof(struct user, regs.orig_rax), &regs.orig_rax) &&
        arch_eintr_by_stop(session, &regs))
        (void)session_poke_register(session, offsetof(struct user, regs.rax),
                                    (uint64_t)-ERESTARTNOHAND);
}
