#include "attach/permit.h"
#include "attach/faults.h"
#include "host/container.h"
#include "host/rights.h"
#include "host/task.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

/* ---- probes ---- */

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

/* ---- the state ---- */

/*
 * Finds out by the owner of its files whether the process is dumpable: they belong
 * to root if it is not (task_dump_owner, fs/proc/base.c). Everybody may see that.
 * The files of root's own processes always do, so they give no answer.
 */
static enum answer is_dumpable(const struct target *target, uid_t euid)
{
    char name[32];
    struct stat st;

    snprintf(name, sizeof name, "%d/environ", (int)target_via(target));
    if (euid == 0 || fstatat(target->proc->dirfd, name, &st, AT_SYMLINK_NOFOLLOW))
        return ANSWER_UNKNOWN;
    return st.st_uid == euid ? ANSWER_YES : ANSWER_NO;
}

/* Reads the part that does not depend on rights: tracer, freezer. */
static bool read_view_state(struct permit_view *view, const struct target *target, pid_t tid)
{
    const struct procfs *proc = target->proc;
    int rc;

    memset(view, 0, sizeof *view);
    view->proc = proc;
    view->pid = target->pid;
    rc = tid ? thread_status(proc, target->pid, tid, &view->its)
             : process_status(proc, target->pid, &view->its);
    if (rc || process_status(proc, PROC_SELF, &view->own))
        return false;
    view->freezer = freezer_of_group(proc, target->pid, view->cgroup, sizeof view->cgroup);
    if (!view->freezer && freezer_of_threads(proc, target->pid)) {
        view->freezer = FREEZER_UNSEEN;
        view->cgroup[0] = '\0';
    }
    return true;
}

static void read_view_rights(struct permit_view *view, const struct target *target)
{
    char text[16];

    view->userns = userns_of(target->proc, target_via(target));
    view->dumpable = is_dumpable(target, view->its.euid);
    ssize_t n = procfs_read(target->proc, text, sizeof text, "sys/kernel/yama/ptrace_scope");
    view->yama = n > 0 && text[0] >= '0' && text[0] <= '9' ? text[0] - '0' : YAMA_ABSENT;
    lsm_read(&view->lsm, target->proc, target->pid);
}

bool permit_read(struct permit_view *view, const struct target *target, pid_t tid)
{
    if (!read_view_state(view, target, tid))
        return false;
    read_view_rights(view, target);
    return true;
}

/* ---- the ladder ---- */

static bool has_capability(const struct permit_view *view)
{
    return capabilities_have_ptrace(view->own.cap_effective);
}

/*
 * True if the capability counts in the target's user namespace (cap_capable,
 * security/commoncap.c).
 */
static bool is_capable(const struct permit_view *view)
{
    switch (view->userns) {
    case USERNS_OWNED:
        return true;
    case USERNS_OUTSIDE:
        return false;
    case USERNS_OTHER:
        return has_capability(view) && view->kernel != ANSWER_NO;
    default:
        return has_capability(view);
    }
}

/* Reads a stat for its comm, such as "gdb"; "?" if it cannot be read. */
static void read_comm(const struct procfs *proc, pid_t pid, struct proc_stat *stat)
{
    if (process_stat(proc, pid, stat))
        *stat = (struct proc_stat){.comm = "?"};
}

static fault_code name_tracer(const struct procfs *proc, int tracer, fault_code code,
                              struct fault *fault)
{
    struct proc_stat stat;

    read_comm(proc, tracer, &stat);
    fault_set(fault, code, EPERM, "attach", "%s", stat.comm);
    fault_set_reason(fault, strcmp(stat.comm, "jeattach") ? TRACER_OTHER : TRACER_JEATTACH);
    if (fault)
        fault->pid = tracer;
    return code;
}

/* The tool's own attach to a thread may outlast that thread. */
static fault_code judge_tracer(const struct permit_view *view, struct fault *fault)
{
    if (!view->its.tracer || view->its.tracer == getpid())
        return FAULT_NONE;
    return name_tracer(view->proc, view->its.tracer, FAULT_TRACED, fault);
}

/* ptrace(2) checks the real ids, /proc the effective ones: the tool needs both. */
static bool ids_differ(const unsigned its[3], const unsigned own[2], unsigned *one, unsigned *other)
{
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < 2; k++)
            if (its[i] != own[k]) {
                *one = its[i];
                *other = own[k];
                return true;
            }
    return false;
}

static fault_code judge_user(const struct permit_view *view, struct fault *fault)
{
    const struct proc_status *a = &view->its, *b = &view->own;
    unsigned its, own;

    if (has_capability(view) || is_capable(view))
        return FAULT_NONE;
    if (ids_differ((unsigned[]){a->uid, a->euid, a->suid}, (unsigned[]){b->uid, b->euid}, &its,
                   &own))
        return fault_set(fault, FAULT_DENIED_UID, EPERM, "attach",
                         "its uid is %u, jeattach runs as %u", its, own);
    if (ids_differ((unsigned[]){a->gid, a->egid, a->sgid}, (unsigned[]){b->gid, b->egid}, &its,
                   &own))
        return fault_set(fault, FAULT_DENIED_GID, EPERM, "attach",
                         "its gid is %u, jeattach runs with %u", its, own);
    return FAULT_NONE;
}

static fault_code judge_dumpable(const struct permit_view *view, struct fault *fault)
{
    if (has_capability(view) || is_capable(view) || view->dumpable != ANSWER_NO)
        return FAULT_NONE;
    return fault_set(fault, FAULT_DENIED_DUMPABLE, EPERM, "attach",
                     "its files in /proc belong to root, not to uid %u", view->its.euid);
}

/* Finds capabilities that the tool lacks (cap_ptrace_access_check). */
static fault_code judge_capabilities(const struct permit_view *view, struct fault *fault)
{
    uint64_t more = view->its.cap_permitted & ~view->own.cap_permitted;
    char names[160];

    if (is_capable(view) || !more ||
        (view->userns != USERNS_SAME && view->userns != USERNS_UNKNOWN))
        return FAULT_NONE;
    return fault_set(fault, FAULT_DENIED_CAPS, EPERM, "attach", "%s",
                     capabilities_name(more, names, sizeof names));
}

static fault_code judge_namespace(const struct permit_view *view, struct fault *fault)
{
    static const char *const relations[] = {
        [USERNS_BELOW] = "a descendant of jeattach's own",
        [USERNS_OTHER] = "another one than jeattach's own",
        [USERNS_OUTSIDE] = "not a descendant of jeattach's own",
    };

    if (is_capable(view) || view->userns == USERNS_SAME || view->userns == USERNS_UNKNOWN)
        return FAULT_NONE;
    return fault_set(fault, FAULT_DENIED_USERNS, EPERM, "attach", "%s", relations[view->userns]);
}

/* /proc does not show whether the tool is an ancestor, or was named with PR_SET_PTRACER. */
static fault_code judge_yama(const struct permit_view *view, struct fault *fault)
{
    if (view->yama <= 0 || (view->yama < 3 && is_capable(view)))
        return FAULT_NONE;
    fault_set(fault, FAULT_DENIED_YAMA, EPERM, "attach", "%d", view->yama);
    fault_set_reason(fault, view->yama);
    return FAULT_DENIED_YAMA;
}

/* An attach needs ptrace(2). Memory can be read in another way, but not by every user. */
static fault_code judge_filter(const struct permit_view *view, struct fault *fault)
{
    enum probe probe = view->filter.refuses[PROBE_PTRACE] ? PROBE_PTRACE : PROBE_VM;
    const char *more = probe == PROBE_VM ? ", and only its owner may open /proc/PID/mem" : "";
    int err = view->filter.refuses[probe];

    if (!err || (probe == PROBE_VM && !view->memory_refused))
        return FAULT_NONE;
    if (err == PROBE_KILLED)
        return fault_set(fault, FAULT_DENIED_SECCOMP, 0, "attach", "it kills callers of %s%s",
                         probe_name(probe), more);
    return fault_set(fault, FAULT_DENIED_SECCOMP, err, "attach", "it refuses %s with %s%s",
                     probe_name(probe), strerrorname_np(err) ? strerrorname_np(err) : "an error",
                     more);
}

/* Only if the kernel has refused a probe, and none of its own rules explains that. */
static fault_code judge_module(const struct permit_view *view, struct fault *fault)
{
    static const char *const names[] = {
        [LSM_APPARMOR] = "AppArmor: jeattach runs under the profile",
        [LSM_SELINUX] = "SELinux is enforcing: jeattach runs as",
    };
    const struct lsm *lsm = &view->lsm;

    if (view->kernel != ANSWER_NO || lsm->kind == LSM_NONE)
        return FAULT_NONE;
    fault_set(fault, FAULT_DENIED_LSM, EPERM, "attach", "%s %s, the target as %s", names[lsm->kind],
              lsm->own, *lsm->its ? lsm->its : "?");
    fault_set_reason(fault, (int)lsm->kind);
    return FAULT_DENIED_LSM;
}

static fault_code judge_freezer(const struct permit_view *view, struct fault *fault)
{
    if (!view->freezer)
        return FAULT_NONE;
    fault_set(fault, FAULT_FROZEN, 0, "attach", "%s",
              *view->cgroup ? view->cgroup : "it is not visible here, but every thread is frozen");
    fault_set_reason(fault, (int)view->freezer);
    return FAULT_FROZEN;
}

static const struct rung {
    fault_code (*judge)(const struct permit_view *view, struct fault *fault);
    bool of_rights; /* not the cause if the kernel has granted the same check */
} ladder[] = {
    {judge_tracer, false},      {judge_user, true},      {judge_dumpable, true},
    {judge_capabilities, true}, {judge_namespace, true}, {judge_yama, true},
    {judge_filter, false},      {judge_module, true},    {judge_freezer, false},
};

/* Sets *of_rights to that of the rung with the cause. */
static fault_code judge_rungs(const struct permit_view *view, bool *of_rights, struct fault *fault)
{
    for (size_t i = 0; i < ARRAY_LEN(ladder); i++) {
        *of_rights = ladder[i].of_rights;
        if (*of_rights && view->kernel == ANSWER_YES)
            continue;
        fault_code code = ladder[i].judge(view, fault);
        if (code != FAULT_NONE)
            return code;
    }
    return FAULT_NONE;
}

fault_code permit_judge(const struct permit_view *view, struct fault *fault)
{
    bool of_rights;

    return judge_rungs(view, &of_rights, fault);
}

/* ---- a target that exists ---- */

static bool read_and_probe(struct permit_view *view, const struct target *target, pid_t tid)
{
    if (!read_view_state(view, target, tid))
        return false;
    if (view->own.seccomp)
        probe_filter(&view->filter);
    view->kernel = probe_attach(target, &view->filter);
    if (view->kernel != ANSWER_YES)
        read_view_rights(view, target);
    return true;
}

/* Landlock, BPF programs and others leave no trace in /proc. */
static void explain_no_rule(const struct permit_view *view, struct fault *fault)
{
    int err = fault && fault->code == FAULT_DENIED ? fault->err : EPERM;
    char modules[128];
    ssize_t n =
        procfs_read(view->proc, modules, sizeof modules, "self/root/sys/kernel/security/lsm");

    fault_set(fault, FAULT_DENIED, err, "attach", "no rule of ptrace(2) forbids it%s%s",
              n > 0 ? "; security modules: " : "", n > 0 ? modules : "");
}

/* In other pid namespaces TracerPid is also 0 if the tracer is outside of the namespace. */
static bool is_first_pidns(const struct procfs *proc)
{
    char text[64];

    /* PROC_PID_INIT_INO, include/uapi/linux/nsfs.h */
    return procfs_readlink(proc, text, sizeof text, "self/ns/pid") > 0 &&
           strcmp(text, "pid:[4026531836]") == 0;
}

fault_code permit_explain(const struct target *target, pid_t tid, struct fault *fault)
{
    fault_code code = fault ? fault->code : FAULT_DENIED;
    struct permit_view view;
    fault_code cause = FAULT_NONE;

    if (code != FAULT_DENIED) { /* the attach succeeded: only one cause remains */
        if (read_view_state(&view, target, tid))
            cause = judge_freezer(&view, fault);
    } else if (read_and_probe(&view, target, tid)) {
        view.memory_refused = fault && fault->reason == DENIED_MEMORY;
        cause = permit_judge(&view, fault);
        if (cause == FAULT_NONE && view.kernel == ANSWER_NO)
            explain_no_rule(&view, fault);
        else if (cause == FAULT_NONE && view.kernel == ANSWER_YES && !is_first_pidns(target->proc))
            fault_set(
                fault, code, EPERM, "attach",
                "a tracer outside this pid namespace, which is not visible here, may be attached");
    }
    return cause == FAULT_NONE ? code : cause;
}

fault_code permit_forecast(const struct target *target, pid_t tid, bool *certain,
                           struct fault *fault)
{
    struct permit_view view;
    fault_code cause;
    bool of_rights;

    *certain = false;
    if (!read_and_probe(&view, target, tid))
        return FAULT_NONE;
    cause = judge_rungs(&view, &of_rights, fault);
    *certain = view.kernel != ANSWER_UNKNOWN || (cause != FAULT_NONE && !of_rights);
    if (cause != FAULT_NONE || view.kernel != ANSWER_NO)
        return cause;
    explain_no_rule(&view, fault);
    return FAULT_DENIED;
}

/* ---- a target that does not exist ---- */

fault_code permit_explain_gone(const struct procfs *proc, pid_t pid, struct fault *fault)
{
    struct namesakes found;
    char list[200] = "", text[16];

    if ((kill(pid, 0) == 0 || errno == EPERM) &&
        procfs_read(proc, text, sizeof text, "%d/stat", (int)pid) < 0)
        return fault_set(fault, FAULT_HIDDEN, EPERM, "look up the process", "%d", (int)pid);
    namesakes_find(&found, proc, pid);
    if (!found.count)
        return fault ? fault->code : FAULT_GONE;
    for (size_t i = 0; i < found.count && i < ARRAY_LEN(found.here); i++) {
        const int here = (int)found.here[i];
        struct container container;
        struct proc_stat stat;
        char one[128];
        size_t used = strlen(list);
        read_comm(proc, here, &stat);
        /* "56789 (redis-server, docker 0123456789ab)" */
        if (container_read(proc, here, &container) && container.engine)
            snprintf(one, sizeof one, "%d (%s, %s %.12s)", here, stat.comm, container.engine,
                     container.id);
        else
            snprintf(one, sizeof one, "%d (%s)", here, stat.comm);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", one);
    }
    fault_set(fault, FAULT_OTHER_PIDNS, ESRCH, "look up the process", "%s%s", list,
              found.count > ARRAY_LEN(found.here) ? ", ..." : "");
    if (fault && found.count == 1)
        fault->pid = found.here[0];
    return FAULT_OTHER_PIDNS;
}

fault_code permit_check_procfs(const struct procfs *proc, struct fault *fault)
{
    char self[32];
    ssize_t n = procfs_readlink(proc, self, sizeof self, "self");

    if (n > 0 && atoi(self) == getpid())
        return FAULT_NONE;
    return fault_set(fault, FAULT_PROCFS, n < 0 ? (int)-n : 0, "open",
                     n > 0 ? "/proc/self is %s, but getpid() returns %d" : "/proc/self is missing",
                     self, (int)getpid());
}

/* ---- the tool itself ---- */

bool permit_tool_is_capable(const struct procfs *proc)
{
    struct proc_status own;

    return process_status(proc, PROC_SELF, &own) == 0 &&
           capabilities_have_ptrace(own.cap_effective);
}

bool permit_tool_is_traced(const struct procfs *proc, struct fault *fault)
{
    struct proc_status own;

    if (process_status(proc, PROC_SELF, &own) || !own.tracer)
        return false;
    name_tracer(proc, own.tracer, FAULT_TOOL_TRACED, fault);
    return true;
}
