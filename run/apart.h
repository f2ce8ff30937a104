/*
 * A separate thread for each attach. A tracee can be detached only while it is
 * stopped: if it was interrupted and has not stopped yet, it stays attached to
 * the tracing thread, and stays stopped once it stops. When the tracing thread
 * ends, the kernel detaches its tracees, whatever they do (kernel/exit.c,
 * forget_original_parent; kernel/ptrace.c, exit_ptrace). So a tool that runs
 * for hours leaves nothing attached after a failed attach.
 */
#pragma once

/*
 * Calls function(ctx) in a new thread; returns when the thread has ended and
 * all its tracees are detached. Until then signals are delivered to that
 * thread; job control's stops (Ctrl-Z) take effect when this returns. If no
 * thread can be created, the function is called in this one.
 */
void apart_run(void (*function)(void *ctx), void *ctx);
