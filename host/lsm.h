/* The kernel's security modules, as far as they can refuse an attach. */
#pragma once

#include "host/procfs.h"

enum lsm_kind {
    LSM_NONE,     /* none that is seen to confine the tool */
    LSM_APPARMOR, /* the tool runs under a profile that is enforced */
    LSM_SELINUX,  /* enforcing */
};

struct lsm {
    enum lsm_kind kind;
    char own[96], its[96]; /* the profile or context of the tool, of the target; "": not told */
};

/*
 * From /proc/self/attr/current, /proc/PID/attr/current and SELinux's enforce
 * file below /sys. AppArmor lets who is not confined by it attach to anybody
 * (aa_may_ptrace), so that only a profile of the tool's own counts.
 */
void lsm_look(struct lsm *lsm, const struct procfs *proc, pid_t pid);
