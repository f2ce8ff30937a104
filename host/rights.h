/* What decides about an attach: the kernel's security modules that can refuse it, and capabilities.
 */
#pragma once

#include "host/procfs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* ---- sets of capabilities, bit n for capability n (capabilities(7)) ---- */

/* Formats a set with at least one bit: "cap_net_admin, cap_sys_nice and 3 more". Returns out. */
const char *capabilities_name(uint64_t set, char *out, size_t size);

/* True if CAP_SYS_PTRACE is in the set. */
bool capabilities_have_ptrace(uint64_t set);
