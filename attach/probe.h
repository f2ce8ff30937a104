/* Harmless system calls whose errno tells what the kernel would say to an attach. */
#pragma once

#include "attach/target.h"

enum answer { ANSWER_UNKNOWN, ANSWER_NO, ANSWER_YES };

enum probe { PROBE_PTRACE, PROBE_VM, PROBE_GETFD, PROBE_COUNT };

/*
 * What the tool's own seccomp filter makes of the calls that it needs: an errno,
 * PROBE_KILLED, or 0 if the call gets through. Made of nobody, in a child of the
 * tool, as a filter may also kill.
 */
enum { PROBE_KILLED = 255 };

struct own_filter {
    unsigned char refuses[PROBE_COUNT];
};

void probe_filter(struct own_filter *filter);

/* "ptrace", "process_vm_readv", "pidfd_getfd" */
const char *probe_name(enum probe probe);

/*
 * The kernel's own answer, without touching the target: process_vm_readv(2) of
 * no mapped address and pidfd_getfd(2) of no descriptor are checked like an
 * attach (PTRACE_MODE_ATTACH_REALCREDS; mm_access, __pidfd_fget), before they
 * fail. Calls that the tool's own filter refuses are not tried.
 */
enum answer probe_attach(const struct target *target, const struct own_filter *filter);
