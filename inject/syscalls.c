#include "inject/syscalls.h"

#include <stddef.h>
#include <sys/syscall.h>

#define NAMED(name) {SYS_##name, #name},

/* The system calls in which threads sleep or are likely to be found. */
static const struct {
    long nr;
    const char *name;
} names[] = {
    // clang-format off
    NAMED(read)
    NAMED(write)
    NAMED(readv)
    NAMED(writev)
    NAMED(pread64)
    NAMED(pwrite64)
    NAMED(ppoll)
    NAMED(pselect6)
    NAMED(epoll_pwait)
    NAMED(epoll_pwait2)
    NAMED(nanosleep)
    NAMED(clock_nanosleep)
    NAMED(futex)
    NAMED(restart_syscall)
    NAMED(accept)
    NAMED(accept4)
    NAMED(connect)
    NAMED(recvfrom)
    NAMED(recvmsg)
    NAMED(recvmmsg)
    NAMED(sendto)
    NAMED(sendmsg)
    NAMED(sendmmsg)
    NAMED(rt_sigtimedwait)
    NAMED(rt_sigsuspend)
    NAMED(rt_sigaction)
    NAMED(wait4)
    NAMED(waitid)
    NAMED(flock)
    NAMED(fcntl)
    NAMED(semop)
    NAMED(semtimedop)
    NAMED(msgrcv)
    NAMED(msgsnd)
    NAMED(mq_timedreceive)
    NAMED(mq_timedsend)
    NAMED(io_getevents)
    NAMED(io_uring_enter)
    NAMED(fsync)
    NAMED(fdatasync)
    NAMED(splice)
    NAMED(sendfile)
    NAMED(openat)
    NAMED(mkdirat)
    NAMED(ioctl)
    NAMED(sched_yield)
    NAMED(munmap)
    NAMED(mmap)
    NAMED(madvise)
    NAMED(getpid)
    NAMED(close)
    NAMED(process_vm_readv)
    NAMED(process_vm_writev)
    NAMED(ptrace)
#ifdef SYS_poll /* only on architectures that are old enough */
    NAMED(poll) NAMED(select) NAMED(pause) NAMED(epoll_wait) NAMED(open) NAMED(mkdir)
#endif
    // clang-format on
};

const char *syscall_name(long nr)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (names[i].nr == nr)
            return names[i].name;
    return NULL;
}
