#include "host/capabilities.h"
#include "base/util.h"

#include <stdio.h>
#include <string.h>

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
