#include "host/lsm.h"
#include "base/text.h"

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
