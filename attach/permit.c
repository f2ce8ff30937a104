#include "attach/permit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool read_status_of(const struct procfs *proc, const char *who, struct proc_status *out)
{
    AUTO_FREE char *text = NULL;
    ssize_t n = procfs_slurp(proc, &text, PROCFS_STATUS_MAX, "%s/status", who);

    return n > 0 && parse_status(text, (size_t)n, out);
}

static bool is_capable(const struct proc_status *status)
{
    const uint64_t cap_sys_ptrace = 1u << 19; /* linux/capability.h */

    return status->cap_permitted & cap_sys_ptrace;
}

static int yama_scope(const struct target *target)
{
    char text[16];
    ssize_t n = procfs_read(target->proc, text, sizeof text, "sys/kernel/yama/ptrace_scope");
    return n > 0 ? text[0] - '0' : 0;
}

static enum fault_code name_tracer(const struct procfs *proc, int tracer, enum fault_code code,
                                   struct fault *fault)
{
    char text[1024];
    struct proc_stat stat = {.comm = "?"};
    ssize_t n = procfs_read(proc, text, sizeof text, "%d/stat", tracer);

    if (n > 0)
        parse_stat(text, (size_t)n, &stat);
    fault_set(fault, code, EPERM, "attach", "%s", stat.comm);
    if (fault)
        fault->pid = tracer;
    return code;
}

enum fault_code permit_explain(const struct target *target, pid_t tid, struct fault *fault)
{
    struct proc_status its, own;
    char who[48];

    if (tid)
        snprintf(who, sizeof who, "%d/task/%d", (int)target->pid, (int)tid);
    else
        snprintf(who, sizeof who, "%d", (int)target->pid);
    if (!read_status_of(target->proc, who, &its) || !read_status_of(target->proc, "self", &own))
        return FAULT_DENIED;
    if (its.tracer && its.tracer != getpid()) /* its own attach may outlast a thread's end */
        return name_tracer(target->proc, its.tracer, FAULT_TRACED, fault);
    int yama = yama_scope(target);
    if (yama == 3)
        return fault_set(fault, FAULT_DENIED_YAMA, EPERM, "attach", "3");
    if (is_capable(&own))
        return FAULT_DENIED;
    if (its.uid != own.euid || its.euid != own.euid)
        return fault_set(fault, FAULT_DENIED_UID, EPERM, "attach", "uid %u, the tool runs as %u",
                         its.uid, own.euid);
    if (its.cap_permitted & ~own.cap_permitted)
        return fault_set(fault, FAULT_DENIED_CAPS, EPERM, "attach", "it has capabilities %#llx",
                         (unsigned long long)(its.cap_permitted & ~own.cap_permitted));
    if (yama > 0)
        return fault_set(fault, FAULT_DENIED_YAMA, EPERM, "attach", "%d", yama);
    return fault_set(fault, FAULT_DENIED_CAPS, EPERM, "attach", "it is not dumpable");
}

bool permit_tool_is_capable(const struct procfs *proc)
{
    struct proc_status own;

    return read_status_of(proc, "self", &own) && is_capable(&own);
}

bool permit_tool_is_traced(const struct procfs *proc, struct fault *fault)
{
    struct proc_status own;

    if (!read_status_of(proc, "self", &own) || !own.tracer)
        return false;
    name_tracer(proc, own.tracer, FAULT_TOOL_TRACED, fault);
    return true;
}
