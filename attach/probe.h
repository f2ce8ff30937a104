/* Probes: harmless system calls whose errno shows how the kernel would answer an attach. */
#pragma once

#include "attach/target.h"

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
