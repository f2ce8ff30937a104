/*
 * Becomes a process of another user whose memory the tool reads by process_vm_readv(2) alone: that
 * waits for a page that never arrives (userfaultfd(2)), where /proc/PID/mem, which is closed then,
 * fails at once. The tool may not override the permissions of files.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Its files in /proc are that user's only when it is dumpable again. */
static inline bool become_nobody(void)
{
    return !syscall(SYS_setresgid, 65534, 65534, 65534) &&
           !syscall(SYS_setresuid, 65534, 65534, 65534) && !prctl(PR_SET_DUMPABLE, 1) &&
           !prctl(PR_SET_PDEATHSIG, SIGKILL);
}
