/* Why the kernel refused an attach: the one cause that applies. */
#pragma once

#include "attach/target.h"

/*
 * Refines *fault, which holds a FAULT_DENIED from ptrace(2) or /proc, into the
 * cause: another tracer, another user, capabilities or dumpable, yama. Leaves
 * FAULT_DENIED where none of them explains it. tid: the thread that was refused,
 * since each has a tracer of its own; 0: the first. Order and rules: ptrace(2),
 * "Ptrace access mode checking", and kernel/ptrace.c, __ptrace_may_access.
 */
enum fault_code permit_explain(const struct target *target, pid_t tid, struct fault *fault);

/* Has the tool CAP_SYS_PTRACE? What is refused to it then is refused to root as well. */
bool permit_tool_is_capable(const struct procfs *proc);

/* FAULT_TOOL_TRACED if the tool itself is traced: a child of it then has that tracer (strace -f).
 */
bool permit_tool_is_traced(const struct procfs *proc, struct fault *fault);
