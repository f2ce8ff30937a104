#include "attach/probe.h"

#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

/* Probes of nobody: pid 0 and file descriptor -1 do not exist. */
static long ptrace_nobody(void)
{
    return syscall(SYS_ptrace, PTRACE_SEIZE, 0, 0, 0);
}

static long probe_vm(pid_t pid)
{
    char byte;
    struct iovec local = {&byte, 1}, remote = {NULL, 1};

    return process_vm_readv(pid, &local, 1, &remote, 1, 0);
}

static long vm_nobody(void)
{
    return probe_vm(0);
}

static long getfd_nobody(void)
{
    return syscall(SYS_pidfd_getfd, -1, -1, 0);
}

static const struct question {
    const char *name;
    long (*call)(void);
    int expected; /* the errno if the call reaches the kernel */
} questions[] = {
    [PROBE_PTRACE] = {"ptrace", ptrace_nobody, ESRCH},
    [PROBE_VM] = {"process_vm_readv", vm_nobody, ESRCH},
    [PROBE_GETFD] = {"pidfd_getfd", getfd_nobody, EBADF},
};

const char *probe_name(enum probe probe)
{
    return questions[probe].name;
}

/* Makes the call in a child, whose exit status is the result. */
static unsigned char call_in_child(const struct question *question)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        long rc = question->call();
        _exit(rc >= 0 || errno == question->expected || errno >= PROBE_KILLED ? 0 : errno);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (pid < 0)
        return 0;
    return WIFEXITED(status) ? (unsigned char)WEXITSTATUS(status) : PROBE_KILLED;
}

void probe_filter(struct own_filter *filter)
{
    for (enum probe probe = 0; probe < PROBE_COUNT; probe++)
        filter->refuses[probe] = call_in_child(&questions[probe]);
}

/* The kernel looks at the flags first (perf_event_open, kernel/events/core.c). */
static long perf_with_no_flag(void)
{
    return syscall(SYS_perf_event_open, NULL, 0, -1, -1, ~0ul);
}

unsigned char probe_perf(void)
{
    static const struct question question = {"perf_event_open", perf_with_no_flag, EINVAL};

    return call_in_child(&question);
}

static enum answer answer_of(long rc, int answers)
{
    if (rc >= 0 || errno == answers)
        return ANSWER_YES;
    return errno == EPERM ? ANSWER_NO : ANSWER_UNKNOWN;
}

enum answer probe_attach(const struct target *target, const struct own_filter *filter)
{
    enum answer answer = ANSWER_UNKNOWN;

    if (!filter->refuses[PROBE_VM])
        answer = answer_of(probe_vm(target_via(target)), EFAULT);
    if (answer == ANSWER_UNKNOWN && target->pidfd >= 0 && !filter->refuses[PROBE_GETFD])
        answer = answer_of(syscall(SYS_pidfd_getfd, target->pidfd, -1, 0), EBADF);
    return answer;
}
