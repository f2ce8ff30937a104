#include "perf/refusal.h"
#include "attach/faults.h"
#include "attach/permit.h"
#include "host/task.h"
#include "perf/event_open.h"
#include "perf/faults.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { CAP_SYS_ADMIN_BIT = 21, CAP_PERFMON_BIT = 38 }; /* linux/capability.h */

static const char stage[] = "sample page faults";

fault_code refusal_of_filter(const struct target *target, struct fault *fault)
{
    struct proc_status own;
    unsigned char filter = 0;
    const char *name;

    if (process_status(target->proc, PROC_SELF, &own) || own.seccomp)
        filter = probe_perf();
    if (!filter)
        return FAULT_NONE;
    if (filter == PROBE_KILLED)
        return fault_set(fault, FAULT_PERF_SECCOMP, 0, stage, "kills callers of perf_event_open");
    name = strerrorname_np(filter);
    return fault_set(fault, FAULT_PERF_SECCOMP, filter, stage, "refuses perf_event_open with %s",
                     name ? name : "an error");
}

/* What an event in the tool itself was refused for concerns every process. */
static fault_code judge_own(const struct refusal_view *view, struct fault *fault)
{
    if (view->own_err == ENOSYS || view->own_err == ENOENT || view->own_err == EOPNOTSUPP)
        return fault_set(fault, FAULT_PERF_ABSENT, view->own_err, stage, "%s",
                         strerrorname_np(view->own_err));
    if (view->own_err != EACCES && view->own_err != EPERM)
        return fault_set(fault, FAULT_INTERNAL, view->own_err, stage, "perf_event_open");
    if (!view->capable && view->paranoid > 2)
        return fault_set(fault, FAULT_PERF_PARANOID, view->own_err, stage, "%d", view->paranoid);
    return fault_set(fault, FAULT_PERF_MODULE, view->own_err, stage, "%s", view->modules);
}

fault_code refusal_judge(const struct refusal_view *view, struct fault *fault)
{
    switch (view->err) {
    case EMFILE:
    case ENFILE:
        return fault_set(fault, FAULT_PERF_FILES, view->err, stage, "%s",
                         strerrorname_np(view->err));
    case ENOMEM:
        return fault_set(fault, FAULT_INTERNAL, view->err, stage, "perf_event_open");
    default:
        break;
    }
    if (view->own_err)
        return judge_own(view, fault);
    if (view->err == EACCES)
        return fault_set(fault, FAULT_PERF_TARGET, view->err, stage, "perf_event_paranoid is %d",
                         view->paranoid);
    if (view->err == EPERM) /* its own event was opened, so the memory for samples is the cause */
        return fault_set(fault, FAULT_PERF_MEMORY, view->err, stage, "mmap");
    return fault_set(fault, FAULT_INTERNAL, view->err, stage, "perf_event_open");
}

static void read_refusal(struct refusal_view *view, const struct target *target)
{
    const struct procfs *proc = target->proc;
    struct event_form form = {.period = 1};
    struct proc_status own;
    char paranoid[16], lockdown[64];
    size_t used;
    ssize_t n;

    view->own_err = -event_form_probe(&form);
    n = procfs_read(proc, paranoid, sizeof paranoid, "sys/kernel/perf_event_paranoid");
    if (n <= 0 || sscanf(paranoid, "%d", &view->paranoid) != 1)
        view->paranoid = REFUSAL_UNKNOWN;
    if (process_status(proc, PROC_SELF, &own) == 0)
        view->capable =
            own.cap_effective >> CAP_PERFMON_BIT & 1 || own.cap_effective >> CAP_SYS_ADMIN_BIT & 1;
    /* Lists "lockdown,yama,apparmor; lockdown: none [integrity] confidentiality". */
    n = procfs_read(proc, view->modules, sizeof view->modules, "self/root/sys/kernel/security/lsm");
    if (n < 0)
        view->modules[0] = '\0';
    n = procfs_read(proc, lockdown, sizeof lockdown, "self/root/sys/kernel/security/lockdown");
    used = strlen(view->modules);
    if (n > 0)
        snprintf(view->modules + used, sizeof view->modules - used, "; lockdown: %.*s",
                 (int)strcspn(lockdown, "\n"), lockdown);
}

/* Without the capability, an event in another process needs the access of PTRACE_MODE_READ. */
static fault_code explain_target(const struct target *target, struct fault *fault)
{
    struct fault cause = {.code = FAULT_DENIED};
    bool certain;
    fault_code rc = permit_forecast(target, 0, &certain, &cause);

    if (rc != FAULT_DENIED_UID && rc != FAULT_DENIED_GID && rc != FAULT_DENIED_DUMPABLE &&
        rc != FAULT_DENIED_CAPS && rc != FAULT_DENIED_USERNS)
        return FAULT_PERF_TARGET;
    if (fault)
        *fault = cause;
    return rc;
}

fault_code refusal_explain(const struct target *target, int err, struct fault *fault)
{
    struct refusal_view view = {.err = err};
    fault_code rc;

    if (err == ESRCH || target_check(target, NULL) != FAULT_NONE) {
        rc = target_check_end(target, fault);
        return rc != FAULT_NONE ? rc
                                : fault_set(fault, FAULT_GONE, ESRCH, stage, "%d", target->pid);
    }
    read_refusal(&view, target);
    rc = refusal_judge(&view, fault);
    return rc == FAULT_PERF_TARGET ? explain_target(target, fault) : rc;
}
