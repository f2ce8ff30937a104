/*
 * A thread of its own for what attaches. A tracee can be detached only while it
 * is stopped: one that was asked to stop, and has not, stays attached to the
 * thread that asked, and is held from when it stops at last. With the end of
 * that thread the kernel lets go of it, whatever it does (kernel/exit.c,
 * forget_original_parent; kernel/ptrace.c, exit_ptrace): a tool that goes on
 * for hours leaves nothing behind in a hold that failed.
 */
#pragma once

/*
 * Calls function(ctx) in a new thread and returns when that has ended and lets
 * go of all that it was attached to. Signals come in there meanwhile, but for
 * job control's stops (Ctrl-Z), which stop the tool when it returns. Where no
 * thread can be had it is called here.
 */
void apart_run(void (*function)(void *ctx), void *ctx);
