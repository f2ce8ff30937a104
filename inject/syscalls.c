#include "inject/syscalls.h"

#include <stddef.h>
#include <sys/syscall.h>

/* Those in which threads sleep. */
#define SLEEPS(X)                                                                                  \
    X(read)                                                                                        \
    X(write)                                                                                       \
    X(readv)                                                                                       \
    X(writev)                                                                                      \
    X(pread64)                                                                                     \
    X(pwrite64)                                                                                    \
    X(ppoll)                                                                                       \
    X(pselect6)                                                                                    \
    X(epoll_pwait)                                                                                 \
    X(epoll_pwait2)                                                                                \
    X(nanosleep)                                                                                   \
    X(clock_nanosleep)                                                                             \
    X(futex)                                                                                       \
    X(restart_syscall)                                                                             \
    X(accept)                                                                                      \
    X(accept4)                                                                                     \
    X(connect)                                                                                     \
    X(recvfrom)                                                                                    \
    X(recvmsg)                                                                                     \
    X(recvmmsg)                                                                                    \
    X(sendto) X(sendmsg) X(sendmmsg) X(rt_sigtimedwait) X(rt_sigsuspend) X(wait4) X(waitid)        \
        X(flock) X(fcntl) X(semop) X(semtimedop) X(msgrcv) X(msgsnd) X(mq_timedreceive)            \
            X(mq_timedsend) X(io_getevents) X(io_uring_enter) X(fsync) X(fdatasync) X(splice)      \
                X(sendfile) X(openat) X(ioctl) X(sched_yield) X(munmap) X(mmap) X(madvise)

/* Only on machines as old as they. */
#ifdef SYS_epoll_wait
#define SLEEPS_OLD(X) X(epoll_wait) X(poll) X(select) X(pause)
#else
#define SLEEPS_OLD(X)
#endif

const char *syscall_name(long nr)
{
#define ENTRY(name) {SYS_##name, #name},
    static const struct {
        long nr;
        const char *name;
    } names[] = {SLEEPS(ENTRY) SLEEPS_OLD(ENTRY)};
#undef ENTRY

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (names[i].nr == nr)
            return names[i].name;
    return NULL;
}
