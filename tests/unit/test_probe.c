/* The kernel's own answer, without an attach; and the tool's own filter. */
#include "attach/permit.h"
#include "check.h"
#include "proc_text.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct own_filter none;

/* Runs it in a process of its own; its result is the exit status. */
static int in_child(int (*body)(const struct target *), const struct target *target)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        _exit(body(target));
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int ask_as_other_user(const struct target *target)
{
    if (setresgid(12345, 12345, 12345) || setresuid(12345, 12345, 12345))
        return 99;
    return probe_attach(target, &none) == ANSWER_NO ? 0 : 1;
}

static pid_t sleeping_child(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    return pid;
}

static void test_answers(void)
{
    const struct own_filter no_vm = {.refuses = {[PROBE_VM] = ENOSYS}},
                            neither = {.refuses = {[PROBE_VM] = EPERM, [PROBE_GETFD] = EPERM}};
    struct target target = {.pid = sleeping_child(), .pidfd = -1};

    target.pidfd = (int)syscall(SYS_pidfd_open, target.pid, 0);
    CHECK(probe_attach(&target, &none) == ANSWER_YES);
    if (target.pidfd >= 0) /* in the other order */
        CHECK(probe_attach(&target, &no_vm) == ANSWER_YES);
    CHECK(probe_attach(&target, &neither) == ANSWER_UNKNOWN);
    if (geteuid() == 0)
        CHECK(in_child(ask_as_other_user, &target) == 0);
    kill(target.pid, SIGKILL);
    waitpid(target.pid, NULL, 0);
    util_close(&target.pidfd);
    CHECK(probe_attach(&target, &none) == ANSWER_UNKNOWN); /* no such process */
}

static bool confine(unsigned nr, unsigned action)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static int refuses(const struct own_filter *filter, int ptrace_errno, int vm, int getfd)
{
    const unsigned char expected[PROBE_COUNT] = {[PROBE_PTRACE] = (unsigned char)ptrace_errno,
                                                 [PROBE_VM] = (unsigned char)vm,
                                                 [PROBE_GETFD] = (unsigned char)getfd};

    return memcmp(filter->refuses, expected, sizeof expected) == 0 ? 0 : 1;
}

static int under_filters(const struct target *target)
{
    struct own_filter filter;
    int wrong = 0;

    (void)target;
    probe_filter(&filter);
    wrong |= refuses(&filter, 0, 0, 0);
    if (!confine(SYS_process_vm_readv, SECCOMP_RET_ERRNO | ENOSYS))
        return 77;
    probe_filter(&filter);
    wrong |= refuses(&filter, 0, ENOSYS, 0);
    confine(SYS_ptrace, SECCOMP_RET_ERRNO | EPERM);
    probe_filter(&filter);
    wrong |= refuses(&filter, EPERM, ENOSYS, 0);
    confine(SYS_ptrace, SECCOMP_RET_KILL_PROCESS); /* the strictest counts */
    probe_filter(&filter);
    wrong |= refuses(&filter, PROBE_KILLED, ENOSYS, 0);
    return wrong;
}

static void test_filter(void)
{
    int rc = in_child(under_filters, NULL);

    CHECK(rc == 0 || rc == 77); /* 77: a kernel without filters */
    for (enum probe probe = 0; probe < PROBE_COUNT; probe++)
        CHECK(*probe_name(probe));
}

int main(void)
{
    test_answers();
    test_filter();
    return check_result();
}
