/* Why the kernel refuses perf events. */
#include "attach/faults.h"
#include "check.h"
#include "perf/faults.h"
#include "perf/page_faults.h"
#include "perf/refusal.h"

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

static bool judged(struct refusal_view view, fault_code code, const char *word)
{
    struct fault fault = {.code = FAULT_NONE};

    return refusal_judge(&view, &fault) == code && fault.code == code && strstr(fault.what, word);
}

static void test_causes(void)
{
    /* Debian's default for users */
    CHECK(judged((struct refusal_view){EACCES, EACCES, 3, false, ""}, FAULT_PERF_PARANOID, "3"));
    CHECK(judged((struct refusal_view){EPERM, EPERM, 4, false, ""}, FAULT_PERF_PARANOID, "4"));
    /* not the cause for root */
    CHECK(judged((struct refusal_view){EPERM, EPERM, 3, true, "lockdown,selinux"},
                 FAULT_PERF_MODULE, "selinux"));
    CHECK(judged((struct refusal_view){EACCES, EACCES, 2, false, "x"}, FAULT_PERF_MODULE, "x"));
    CHECK(judged((struct refusal_view){EACCES, 0, 2, false, ""}, FAULT_PERF_TARGET, "is 2"));
    CHECK(judged((struct refusal_view){ENOSYS, ENOSYS, 2, true, ""}, FAULT_PERF_ABSENT, "ENOSYS"));
    CHECK(judged((struct refusal_view){ENOENT, ENOENT, 2, true, ""}, FAULT_PERF_ABSENT, "ENOENT"));
    CHECK(judged((struct refusal_view){EMFILE, 0, 2, true, ""}, FAULT_PERF_FILES, "EMFILE"));
    CHECK(judged((struct refusal_view){EPERM, 0, 2, false, ""}, FAULT_PERF_MEMORY, ""));
    CHECK(judged((struct refusal_view){E2BIG, E2BIG, 2, true, ""}, FAULT_INTERNAL, "perf_event"));
}

/* ---- live: the tool confined in a child ---- */

static bool confine_perf(unsigned action)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Samples the parent. Returns true if it is refused with the code and the word. */
static bool is_refused(pid_t pid, fault_code code, const char *word)
{
    struct page_fault_request request = {.period = 100};
    struct page_faults *faults = NULL;
    struct fault fault = {.code = FAULT_NONE};
    struct procfs proc;
    struct target target;

    if (procfs_open(&proc, "/proc") || target_open(&target, &proc, pid, &fault) != FAULT_NONE)
        return false;
    fault_code rc = page_faults_open(&faults, &target, &request, &fault);
    page_faults_close(faults);
    if (rc != code || !strstr(fault.what, word))
        fprintf(stderr, "code %x, what '%s'\n", (unsigned)rc, fault.what);
    return rc == code && strstr(fault.what, word);
}

static int in_fork(int (*body)(void))
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        _exit(body());
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int under_filter(unsigned action, const char *word)
{
    return confine_perf(action) && is_refused(getppid(), FAULT_PERF_SECCOMP, word) ? 0 : 1;
}

static int under_eperm(void)
{
    return under_filter(SECCOMP_RET_ERRNO | EPERM, "EPERM");
}

static int under_enosys(void)
{
    return under_filter(SECCOMP_RET_ERRNO | ENOSYS, "ENOSYS");
}

static int under_kill(void)
{
    return under_filter(SECCOMP_RET_KILL_PROCESS, "kills");
}

static int as_other_user(void)
{
    pid_t parent = getppid();

    if (setresgid(12345, 12345, 12345) || setresuid(12345, 12345, 12345))
        return 2;
    return is_refused(parent, FAULT_DENIED_UID, "12345") ? 0 : 1;
}

/* Whether an event can be opened here at all, which the live cases need. */
static bool has_events(void)
{
    struct fault fault;
    struct procfs proc;
    struct target target;
    struct page_faults *faults = NULL;
    struct page_fault_request request = {.period = 100};

    if (procfs_open(&proc, "/proc") || target_open(&target, &proc, getpid(), &fault))
        return false;
    fault_code rc = page_faults_open(&faults, &target, &request, &fault);
    page_faults_close(faults);
    return rc == FAULT_NONE;
}

static void test_live(void)
{
    CHECK(in_fork(under_eperm) == 0);
    CHECK(in_fork(under_enosys) == 0);
    CHECK(in_fork(under_kill) == 0);
    if (geteuid() == 0 && has_events())
        CHECK(in_fork(as_other_user) == 0);
}

int main(void)
{
    test_causes();
    test_live();
    return check_result();
}
