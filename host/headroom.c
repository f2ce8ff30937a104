#include "host/headroom.h"
#include "base/cursor.h"
#include "base/util.h"
#include "host/inroot.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { GROUPS_TEXT_MAX = 64 << 10, STAT_MAX = 8192 };

/*
 * The same numbers in each version's words. Version 1 does not tell how much of
 * the kernel's own memory it would give back: all of it may be.
 */
struct hierarchy {
    const char *controller, *mount, *limit, *usage;
    const char *kernel;         /* NULL: in memory.stat */
    const char *reclaimable[3]; /* of memory.stat, with the groups below */
};

static const struct hierarchy hierarchies[] = {
    {"memory",
     "sys/fs/cgroup/memory",
     "memory.limit_in_bytes",
     "memory.usage_in_bytes",
     "memory.kmem.usage_in_bytes",
     {"total_inactive_file ", "total_active_file ", NULL}},
    {"",
     "sys/fs/cgroup",
     "memory.max",
     "memory.current",
     NULL,
     {"inactive_file ", "active_file ", "slab_reclaimable "}},
};

/* "max" is no number, and means that there is no limit. */
static bool read_number(const struct procfs *proc, int group, const char *file, uint64_t *out)
{
    char text[64];
    ssize_t n = group_file_read(proc, group, file, text, sizeof text);
    struct cursor all = cursor_of(text, n > 0 ? (size_t)n : 0);

    return cursor_take_decimal(&all, out);
}

/* "name number", a line each (mm/memcontrol.c, memory_stat_format). */
static uint64_t stat_number(const char *text, const char *name)
{
    uint64_t value;

    return cursor_find_number(cursor_of(text, strlen(text)), name, &value) ? value : 0;
}

/* One directory; takes it if it has less than what was seen so far. */
static bool look_at(const struct procfs *proc, const struct hierarchy *kind, int root,
                    const char *path, struct headroom *out)
{
    char directory[sizeof out->group], text[STAT_MAX];
    uint64_t limit, usage, kernel = 0, headroom;

    snprintf(directory, sizeof directory, "/%s%s", kind->mount, path);
    AUTO_CLOSE int group = root < 0 ? root : group_name(proc, root, directory);
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
    snprintf(out->group, sizeof out->group, "%s", directory);
    return true;
}

/* From the group itself up to the root of the hierarchy, which has no limit. */
static bool look_upwards(const struct procfs *proc, const struct hierarchy *kind, int root,
                         const char *text, struct headroom *out)
{
    char path[CGROUP_PATH_MAX], *slash;
    bool seen = false;

    if (!cgroup_path(text, kind->controller, path, sizeof path))
        return false;
    while ((slash = strrchr(path, '/')) && path[1]) {
        seen |= look_at(proc, kind, root, path, out);
        *slash = '\0';
    }
    return seen;
}

static bool has_swap(const struct procfs *proc)
{
    char text[4096];
    uint64_t kilobytes;
    ssize_t n = procfs_read(proc, text, sizeof text, "meminfo");

    return n > 0 && cursor_find_number(cursor_of(text, (size_t)n), "SwapFree:", &kilobytes) &&
           kilobytes > 0;
}

bool headroom_read(const struct procfs *proc, pid_t pid, struct headroom *out)
{
    AUTO_FREE char *text = NULL;
    bool seen = false;

    *out = (struct headroom){.bytes = UINT64_MAX};
    if (has_swap(proc) || procfs_slurp(proc, &text, GROUPS_TEXT_MAX, "%d/cgroup", (int)pid) <= 0)
        return false;
    AUTO_CLOSE int own = procfs_openf(proc, O_PATH | O_DIRECTORY, "self/root");
    AUTO_CLOSE int its = procfs_openf(proc, O_PATH | O_DIRECTORY, "%d/root", (int)pid);
    for (size_t i = 0; i < ARRAY_LEN(hierarchies); i++)
        if (!look_upwards(proc, &hierarchies[i], own, text, out)) /* a container sees its own */
            seen |= look_at(proc, &hierarchies[i], its, "", out);
        else
            seen = true;
    return seen;
}
