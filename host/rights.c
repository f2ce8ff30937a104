#include "host/rights.h"
#include "base/text.h"
#include "base/util.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static void read_label(const struct procfs *proc, char *out, size_t size, const char *who)
{
    ssize_t n = procfs_read(proc, out, size, "%s/attr/current", who);

    out[n > 0 ? strcspn(out, "\n") : 0] = '\0';
}

/* True for "user:role:type:level". */
static bool is_selinux_context(const char *label)
{
    size_t colons = 0;

    for (; *label; label++)
        colons += *label == ':';
    return colons >= 3;
}

static bool selinux_enforces(const struct procfs *proc, const char *label)
{
    char text[8];
    ssize_t n = procfs_read(proc, text, sizeof text, "self/root/sys/fs/selinux/enforce");

    /* Containers often hide the file. A label of this form exists only if SELinux runs. */
    return n > 0 ? text[0] == '1' : is_selinux_context(label);
}

void lsm_read(struct lsm *lsm, const struct procfs *proc, pid_t pid)
{
    char who[16];

    snprintf(who, sizeof who, "%d", (int)pid);
    read_label(proc, lsm->own, sizeof lsm->own, "self");
    read_label(proc, lsm->its, sizeof lsm->its, who);
    lsm->kind = LSM_NONE;
    if (text_ends_with(lsm->own, " (enforce)") || text_ends_with(lsm->own, " (kill)"))
        lsm->kind = LSM_APPARMOR;
    else if (is_selinux_context(lsm->own) && selinux_enforces(proc, lsm->own))
        lsm->kind = LSM_SELINUX;
}

enum { NAMED = 3 };

/* By number: include/uapi/linux/capability.h. */
static const char *const names[] = {
    "chown",
    "dac_override",
    "dac_read_search",
    "fowner",
    "fsetid",
    "kill",
    "setgid",
    "setuid",
    "setpcap",
    "linux_immutable",
    "net_bind_service",
    "net_broadcast",
    "net_admin",
    "net_raw",
    "ipc_lock",
    "ipc_owner",
    "sys_module",
    "sys_rawio",
    "sys_chroot",
    "sys_ptrace",
    "sys_pacct",
    "sys_admin",
    "sys_boot",
    "sys_nice",
    "sys_resource",
    "sys_time",
    "sys_tty_config",
    "mknod",
    "lease",
    "audit_write",
    "audit_control",
    "setfcap",
    "mac_override",
    "mac_admin",
    "syslog",
    "wake_alarm",
    "block_suspend",
    "audit_read",
    "perfmon",
    "bpf",
    "checkpoint_restore",
};

const char *capabilities_name(uint64_t set, char *out, size_t size)
{
    unsigned all = (unsigned)__builtin_popcountll(set), shown = 0;

    out[0] = '\0';
    for (unsigned bit = 0; bit < 64 && shown < NAMED; bit++) {
        size_t used = strlen(out);
        if (!(set >> bit & 1))
            continue;
        if (bit < ARRAY_LEN(names))
            snprintf(out + used, size - used, "%scap_%s", shown ? ", " : "", names[bit]);
        else
            snprintf(out + used, size - used, "%scapability %u", shown ? ", " : "", bit);
        shown++;
    }
    if (all > shown)
        snprintf(out + strlen(out), size - strlen(out), " and %u more", all - shown);
    return out;
}

bool capabilities_have_ptrace(uint64_t set)
{
    return set >> 19 & 1; /* linux/capability.h */
}
