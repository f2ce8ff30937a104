/* The kernel's security modules that can refuse an attach. */
#pragma once

#include "host/procfs.h"

enum lsm_kind {
    LSM_NONE,     /* none that visibly confines the tool */
    LSM_APPARMOR, /* the tool runs under an enforced profile */
    LSM_SELINUX,  /* enforcing */
};

struct lsm {
    enum lsm_kind kind;
    char own[96], its[96]; /* the profile or context of the tool and of the target; "": unknown */
};

/*
 * Reads /proc/self/attr/current, /proc/PID/attr/current and SELinux's enforce file
 * below /sys. AppArmor lets an unconfined process attach to any other
 * (aa_may_ptrace), so only the tool's own profile matters.
 */
void lsm_read(struct lsm *lsm, const struct procfs *proc, pid_t pid);
