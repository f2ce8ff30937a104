#include "host/headroom.h"
#include "base/util.h"
#include "host/inroot.h"
#include "host/meminfo.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { STAT_MAX = 8192 };

/*
 * The same numbers under each version's names. cgroup v1 does not show how much
 * kernel memory it could reclaim: all of it may be.
 */
struct hierarchy {
    enum cgroup_tree tree;
    const char *mount, *limit, *usage;
    const char *kernel;         /* NULL: in memory.stat */
    const char *reclaimable[3]; /* in memory.stat; they include the cgroups below */
};

static const struct hierarchy hierarchies[] = {
    {CGROUP_V1_MEMORY,
     "/sys/fs/cgroup/memory",
     "memory.limit_in_bytes",
     "memory.usage_in_bytes",
     "memory.kmem.usage_in_bytes",
     {"total_inactive_file ", "total_active_file ", NULL}},
    {CGROUP_V2,
     "/sys/fs/cgroup",
     "memory.max",
     "memory.current",
     NULL,
     {"inactive_file ", "active_file ", "slab_reclaimable "}},
};

/* False for "max", which means that there is no limit. */
static bool read_number(const struct procfs *proc, int group, const char *file, uint64_t *out)
{
    char text[64];
    ssize_t n = group_file_read(proc, group, file, text, sizeof text);
    struct cursor all = cursor_of(text, n > 0 ? (size_t)n : 0);

    return cursor_take_decimal(&all, out);
}

/* Finds a line "name number" (mm/memcontrol.c, memory_stat_format); name ends with a blank. */
static uint64_t stat_number(const char *text, const char *name)
{
    uint64_t value;

    return cursor_find_number(cursor_of(text, strlen(text)), name, &value) ? value : 0;
}

/* Reads one cgroup; keeps it if it has less headroom than those before. */
static bool read_group(const struct procfs *proc, const struct hierarchy *kind,
                       const struct cgroup_dir *dir, struct headroom *out)
{
    AUTO_CLOSE int group = cgroup_dir_name(proc, dir);
    uint64_t limit, usage, kernel = 0, headroom;
    char text[STAT_MAX];

    if (group < 0 || !read_number(proc, group, kind->limit, &limit) ||
        !read_number(proc, group, kind->usage, &usage) ||
        group_file_read(proc, group, "memory.stat", text, sizeof text) <= 0)
        return false;
    if (kind->kernel)
        read_number(proc, group, kind->kernel, &kernel);
    headroom = (limit > usage ? limit - usage : 0) + kernel;
    for (size_t i = 0; i < ARRAY_LEN(kind->reclaimable) && kind->reclaimable[i]; i++)
        headroom += stat_number(text, kind->reclaimable[i]);
    if (headroom >= out->bytes)
        return true;
    out->bytes = headroom;
    snprintf(out->group, sizeof out->group, "%s", dir->path);
    return true;
}

/* Reads the cgroup and its ancestors except the root, which has no limit. */
static bool read_ancestors(const struct procfs *proc, const struct hierarchy *kind,
                           struct cursor cgroups, struct headroom *out)
{
    char path[PATH_MAX];
    struct cgroup_dir dir;
    bool seen = false;

    if (!cgroup_path(cgroups, kind->tree, path, sizeof path) ||
        !cgroup_dir_usual(PROC_SELF, kind->mount, path, &dir))
        return false;
    for (; !cgroup_dir_is_top(&dir); cgroup_dir_parent(&dir))
        seen |= read_group(proc, kind, &dir, out);
    return seen;
}

/* Reads the root cgroup as a process in a container sees it: that is the container's own. */
static bool read_in_target(const struct procfs *proc, const struct hierarchy *kind, pid_t pid,
                           struct headroom *out)
{
    struct cgroup_dir dir;

    return cgroup_dir_usual(pid, kind->mount, "/", &dir) && read_group(proc, kind, &dir, out);
}

/*
 * Reads the cgroup and its ancestors where a mount shows them, up to the mount's top.
 * In a cgroup namespace the top is the root of the namespace, which may have a limit.
 */
static bool read_mounted(const struct procfs *proc, const struct hierarchy *kind, pid_t pid,
                         struct headroom *out)
{
    struct cgroup_dir dir;
    bool seen = false;

    if (!cgroup_dir_find(proc, pid, kind->tree, &dir))
        return false;
    do
        seen |= read_group(proc, kind, &dir, out);
    while (cgroup_dir_parent(&dir));
    return seen;
}

static bool has_swap(const struct procfs *proc)
{
    uint64_t bytes;

    return meminfo_read(proc, "SwapFree:", &bytes) && bytes > 0;
}

bool headroom_read(const struct procfs *proc, pid_t pid, struct headroom *out)
{
    AUTO_FREE char *cgroups = NULL;
    struct cursor text;
    bool seen = false;

    *out = (struct headroom){.bytes = UINT64_MAX};
    if (has_swap(proc) || !cgroup_read(proc, pid, &cgroups, &text))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(hierarchies); i++) {
        seen |= read_ancestors(proc, &hierarchies[i], text, out) ||
                read_in_target(proc, &hierarchies[i], pid, out);
        seen |= read_mounted(proc, &hierarchies[i], pid, out);
    }
    return seen;
}
