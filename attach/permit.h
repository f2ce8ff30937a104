/*
 * Why the kernel refuses an attach, or would: the one cause that applies.
 *
 * permit_look reads what both sides show, permit_judge goes down a ladder of
 * causes in the order in which the kernel checks them. Rules: ptrace(2), "Ptrace
 * access mode checking", and kernel/ptrace.c, __ptrace_may_access.
 */
#pragma once

#include "attach/probe.h"
#include "attach/target.h"
#include "host/freezer.h"
#include "host/lsm.h"
#include "host/namespaces.h"

enum { YAMA_ABSENT = -1 };

/* What was seen. What could not be read stays unknown, and explains nothing. */
struct permit_view {
    const struct procfs *proc;
    pid_t pid;
    struct proc_status its, own; /* its: of the thread that is asked about */
    enum userns userns;
    enum answer dumpable;
    int yama;            /* kernel.yama.ptrace_scope */
    bool memory_refused; /* reading memory failed, not an attach */
    struct lsm lsm;
    enum freezer freezer;
    char cgroup[FREEZER_PATH_MAX]; /* the frozen one; "" with FREEZER_UNSEEN */
    struct own_filter filter;      /* of probe_filter, where the tool is under a filter */
    enum answer kernel;            /* of probe_attach */
};

/*
 * Reads everything but the last two members, which it leaves as unknown. tid: the
 * thread that is asked about, since each has a tracer of its own; 0: the first.
 * False if the target or the tool cannot be read at all.
 */
bool permit_look(struct permit_view *view, const struct target *target, pid_t tid);

/* The cause; FAULT_NONE, with *fault as it was, if nothing that was seen is one. */
fault_code permit_judge(const struct permit_view *view, struct fault *fault);

/*
 * Refines *fault, a FAULT_DENIED or FAULT_NO_STOP of ptrace(2) or /proc, into the
 * cause. Leaves it as it is where nothing that can be seen explains it.
 */
fault_code permit_explain(const struct target *target, pid_t tid, struct fault *fault);

/*
 * The same before anything is tried, without ptrace: FAULT_NONE if an attach
 * should be possible. *certain: the kernel was asked, or it is no matter of rights;
 * else it is by the rules as far as they can be seen.
 */
fault_code permit_forecast(const struct target *target, pid_t tid, bool *certain,
                           struct fault *fault);

/*
 * Refines a FAULT_GONE of a pid that does not exist: it is hidden from the tool
 * (the mount option hidepid), or it is a pid of another pid namespace; what: the
 * processes that have it there, fault->pid: the only one.
 */
fault_code permit_explain_gone(const struct procfs *proc, pid_t pid, struct fault *fault);

/*
 * FAULT_NONE if /proc shows the pid namespace that the tool's system calls mean.
 * Otherwise, after `nsenter --pid` alone, a pid would name two processes.
 */
fault_code permit_check_procfs(const struct procfs *proc, struct fault *fault);

/* Has the tool CAP_SYS_PTRACE? What is refused to it then is refused to root as well. */
bool permit_tool_is_capable(const struct procfs *proc);

/* FAULT_TOOL_TRACED if the tool itself is traced: a child of it then has that tracer (strace -f).
 */
bool permit_tool_is_traced(const struct procfs *proc, struct fault *fault);
