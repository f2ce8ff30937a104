#include "host/group_account.h"
#include "base/util.h"
#include "host/cgroup.h"
#include "host/inroot.h"
#include "host/limits.h"
#include "host/processes.h"
#include "host/resident.h"
#include "host/task.h"

#include <string.h>

/* MEMBERS_MOST: reading the status of one took 25 us, and so does a cgroup. */
enum { STAT_TEXT_MAX = 8192, MEMBERS_MOST = 1000 };

static uint64_t stat_bytes(struct cursor text, const char *key)
{
    uint64_t bytes;

    return cursor_find_number(text, key, &bytes) ? bytes : 0;
}

bool group_kinds_parse(const char *text, size_t len, bool v2, uint64_t kinds[GROUP_KINDS])
{
    const struct cursor all = cursor_of(text, len);

    memset(kinds, 0, GROUP_KINDS * sizeof *kinds);
    if (!cursor_find_number(all, v2 ? "anon " : "total_rss ", &kinds[GROUP_PROCESSES]))
        return false;
    kinds[GROUP_SHARED] = stat_bytes(all, v2 ? "shmem " : "total_shmem ");
    kinds[GROUP_FILES] = amount_above(
        amount_above(stat_bytes(all, v2 ? "file " : "total_cache "), kinds[GROUP_SHARED]),
        stat_bytes(all, v2 ? "inactive_file " : "total_inactive_file "));
    if (!v2)
        return true;
    kinds[GROUP_SOCKETS] = stat_bytes(all, "sock ");
    kinds[GROUP_HUGE] = stat_bytes(all, "hugetlb ");
    kinds[GROUP_SLAB] = stat_bytes(all, "slab ");
    kinds[GROUP_TABLES] = stat_bytes(all, "pagetables ");
    kinds[GROUP_KERNEL] = amount_above(amount_above(stat_bytes(all, "kernel "), kinds[GROUP_SLAB]),
                                       kinds[GROUP_TABLES]);
    return true;
}

static void keep_largest(struct group_account *out, struct group_process process)
{
    for (size_t i = 0; i < GROUP_LARGEST; i++)
        if (process.own > out->largest[i].own) {
            const struct group_process smaller = out->largest[i];
            out->largest[i] = process;
            process = smaller;
        }
}

static void read_members(const struct procfs *proc, pid_t pid, int group, struct group_account *out)
{
    struct processes members;
    struct resident resident;
    struct proc_stat stat;

    if (!processes_of_group(&members, group, MEMBERS_MOST, &out->whole))
        return;
    for (size_t i = 0; i < members.count; i++) {
        if (members.list[i] == pid)
            continue;
        out->processes++;
        if (resident_read(proc, members.list[i], &resident) == 0)
            keep_largest(out,
                         (struct group_process){.pid = members.list[i], .own = resident.anonymous});
    }
    processes_free(&members);
    for (size_t i = 0; i < GROUP_LARGEST && out->largest[i].own; i++)
        if (process_stat(proc, out->largest[i].pid, &stat) == 0)
            memcpy(out->largest[i].comm, stat.comm, sizeof stat.comm);
}

void group_account_read(const struct procfs *proc, pid_t pid, size_t level,
                        struct group_account *out)
{
    struct cgroup_dir dir;
    struct resident own;
    char text[STAT_TEXT_MAX];
    const bool v1 = cgroup_dir_find(proc, pid, CGROUP_V1_MEMORY, &dir);
    uint64_t *kinds = out->kinds;
    bool found = v1 || cgroup_dir_find(proc, pid, CGROUP_V2, &dir);

    *out = (struct group_account){.known = false};
    for (; found && level > 0; level--)
        found = cgroup_dir_parent(&dir);
    AUTO_CLOSE int group = found ? cgroup_dir_name(proc, &dir) : -1;
    if (group < 0 || resident_read(proc, pid, &own) != 0)
        return;
    ssize_t n = group_file_read(proc, group, "memory.stat", text, sizeof text);
    out->known = n > 0 && group_kinds_parse(text, (size_t)n, !v1, kinds);
    if (!out->known)
        return;
    n = v1 ? group_file_read(proc, group, "memory.kmem.usage_in_bytes", text, sizeof text) : 0;
    if (n > 0)
        limit_parse(text, (size_t)n, &kinds[GROUP_KERNEL]);
    kinds[GROUP_PROCESSES] = amount_above(kinds[GROUP_PROCESSES], own.anonymous);
    kinds[GROUP_SHARED] = amount_above(kinds[GROUP_SHARED], own.shared);
    kinds[GROUP_FILES] = amount_above(kinds[GROUP_FILES], own.files);
    /* Through its own mounts the process chooses what lies below. */
    if (dir.through == PROC_SELF)
        read_members(proc, pid, group, out);
}
