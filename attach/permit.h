/*
 * Finds the one cause for which the kernel refuses an attach, or would refuse it.
 *
 * permit_read reads the state of the target and the tool. permit_judge goes down a
 * ladder of causes in the order in which the kernel checks them. Rules: ptrace(2),
 * "Ptrace access mode checking", and kernel/ptrace.c, __ptrace_may_access.
 */
#pragma once

#include "attach/target.h"
#include "host/cgroup.h"
#include "host/namespaces.h"
#include "host/rights.h"

/* ---- probes: harmless system calls whose errno shows how the kernel would answer ---- */

enum answer { ANSWER_UNKNOWN, ANSWER_NO, ANSWER_YES };

enum probe { PROBE_PTRACE, PROBE_VM, PROBE_GETFD, PROBE_COUNT };

/*
 * The answer of the tool's own seccomp filter to the calls that an attach needs: an
 * errno, PROBE_KILLED, or 0 if the call passes. Probes use pid 0 in a forked child,
 * because a filter may kill the caller.
 */
enum { PROBE_KILLED = 255 };

struct own_filter {
    unsigned char refuses[PROBE_COUNT];
};

void probe_filter(struct own_filter *filter);

/* The answer of that filter to perf_event_open(2), in the same way. */
unsigned char probe_perf(void);

/* "ptrace", "process_vm_readv", "pidfd_getfd" */
const char *probe_name(enum probe probe);

/*
 * Returns the kernel's answer without touching the target. process_vm_readv(2) of
 * an unmapped address and pidfd_getfd(2) of an invalid file descriptor pass the
 * same check as an attach before they fail (PTRACE_MODE_ATTACH_REALCREDS;
 * mm_access, __pidfd_fget). Does not try calls that the tool's own filter refuses.
 */
enum answer probe_attach(const struct target *target, const struct own_filter *filter);

/* ---- the cause ---- */

enum { YAMA_ABSENT = -1 };

/* The state of both. A member that could not be read is unknown, and explains nothing. */
struct permit_view {
    const struct procfs *proc;
    pid_t pid;
    struct proc_status its, own; /* its: of the thread in question */
    enum userns userns;
    enum answer dumpable;
    int yama;            /* kernel.yama.ptrace_scope */
    bool memory_refused; /* a read of memory failed, not an attach */
    struct lsm lsm;
    enum freezer freezer;
    char cgroup[FREEZER_PATH_MAX]; /* the frozen cgroup; "" with FREEZER_UNSEEN */
    struct own_filter filter;      /* from probe_filter, if the tool is under a filter */
    enum answer kernel;            /* from probe_attach */
};

/*
 * Reads all but the last two members, which stay unknown. tid is the thread in
 * question, since each has its own tracer; 0: the first thread. False if the target
 * or the tool cannot be read at all.
 */
bool permit_read(struct permit_view *view, const struct target *target, pid_t tid);

/* Returns the cause; FAULT_NONE, with *fault unchanged, if the state shows none. */
fault_code permit_judge(const struct permit_view *view, struct fault *fault);

/*
 * Refines *fault into the cause: a FAULT_DENIED of ptrace(2) or /proc, or the failure
 * to stop a thread where it can be used, which a freezer explains. Leaves it unchanged
 * if nothing visible explains it.
 */
fault_code permit_explain(const struct target *target, pid_t tid, struct fault *fault);

/*
 * Finds the cause before an attempt, without ptrace: FAULT_NONE if an attach should
 * be possible. Sets *certain if the kernel gave an answer, or the cause does not
 * depend on rights; otherwise the result follows from the visible rules only.
 */
fault_code permit_forecast(const struct target *target, pid_t tid, bool *certain,
                           struct fault *fault);

/*
 * Refines a FAULT_GONE for a pid that does not exist: the process is hidden from
 * the tool (the mount option hidepid), or the pid is one in another pid namespace.
 * Then fault->what lists the processes that have it there, and fault->pid is set if
 * there is only one.
 */
fault_code permit_explain_gone(const struct procfs *proc, pid_t pid, struct fault *fault);

/*
 * FAULT_NONE if /proc shows the pid namespace of the tool's system calls. Otherwise
 * a pid would name two processes, for example after `nsenter --pid` without a new
 * /proc.
 */
fault_code permit_check_procfs(const struct procfs *proc, struct fault *fault);

/* True if the tool has CAP_SYS_PTRACE: then root would be refused, too. */
bool permit_tool_is_capable(const struct procfs *proc);

/*
 * FAULT_TOOL_TRACED if the tool itself is traced: its children then have that
 * tracer (strace -f).
 */
bool permit_tool_is_traced(const struct procfs *proc, struct fault *fault);
