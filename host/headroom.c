#include "host/headroom.h"
#include "base/util.h"
#include "host/inroot.h"
#include "host/procfs.h"
#include "host/task.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    STAT_MAX = 8192,
    BATCH = 64 * 4096 /* MEMCG_CHARGE_BATCH */,
    STALE = 2 * BATCH,
    KEPT = BATCH - 4096
};

/* The same numbers under each version's names; those of memory.stat include the cgroups below. */
struct hierarchy {
    enum cgroup_tree tree;
    const char *mount, *limit, *usage;
    const char *files[2], *anonymous[2]; /* pages on the kernel's lists, without locked ones */
    const char *cache, *shmem;           /* page cache, and what of it is shared memory */
    const char *dirty, *writeback, *mapped;
    const char *swap_limit, *swap_usage;
    bool swap_apart;        /* they count swap alone; else memory and swap together */
    const char *swappiness; /* NULL: the same for all cgroups */
};

static const struct hierarchy hierarchies[] = {
    {.tree = CGROUP_V1_MEMORY,
     .mount = "/sys/fs/cgroup/memory",
     .limit = "memory.limit_in_bytes",
     .usage = "memory.usage_in_bytes",
     .files = {"total_inactive_file ", "total_active_file "},
     .anonymous = {"total_inactive_anon ", "total_active_anon "},
     .cache = "total_cache ",
     .shmem = "total_shmem ",
     .dirty = "total_dirty ",
     .writeback = "total_writeback ",
     .mapped = "total_mapped_file ",
     .swap_limit = "memory.memsw.limit_in_bytes",
     .swap_usage = "memory.memsw.usage_in_bytes",
     .swappiness = "memory.swappiness"},
    {.tree = CGROUP_V2,
     .mount = "/sys/fs/cgroup",
     .limit = "memory.max",
     .usage = "memory.current",
     .files = {"inactive_file ", "active_file "},
     .anonymous = {"inactive_anon ", "active_anon "},
     .cache = "file ",
     .shmem = "shmem ",
     .dirty = "file_dirty ",
     .writeback = "file_writeback ",
     .mapped = "file_mapped ",
     .swap_limit = "memory.swap.max",
     .swap_usage = "memory.swap.current",
     .swap_apart = true},
};

/* The least of all cgroups that were read, in bytes; UINT64_MAX: none was. */
struct survey {
    struct headroom *out; /* its bytes: without swap */
    uint64_t swap;        /* what the kernel may still swap out */
    uint64_t both;        /* below a limit of memory and swap together */
    uint64_t stale;       /* by which the numbers of memory.stat may be too large */
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

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/*
 * Returns the bytes of page cache that the kernel can drop at once. The lists of file
 * pages also have anonymous pages that MADV_FREE has put there, which may have been
 * written since; the page cache has shared memory, which is not on these lists.
 */
static uint64_t clean_cache(const struct hierarchy *kind, const char *stat)
{
    uint64_t listed = stat_number(stat, kind->files[0]) + stat_number(stat, kind->files[1]);
    uint64_t cache = amount_above(stat_number(stat, kind->cache), stat_number(stat, kind->shmem));
    uint64_t files = lesser(listed, cache);
    uint64_t mapped = lesser(stat_number(stat, kind->mapped), files);
    uint64_t busy = stat_number(stat, kind->dirty) + stat_number(stat, kind->writeback);

    return amount_above(files - mapped, busy);
}

/* UINT64_MAX: no limit of its own. Where the kernel does not count swap, there are no files. */
static uint64_t swap_left(const struct procfs *proc, const struct hierarchy *kind, int group)
{
    uint64_t limit, usage, swappiness;

    if (kind->swappiness && read_number(proc, group, kind->swappiness, &swappiness) && !swappiness)
        return 0; /* then a limit never makes the kernel swap (mm/vmscan.c, get_scan_count) */
    if (!kind->swap_apart || !read_number(proc, group, kind->swap_limit, &limit) ||
        !read_number(proc, group, kind->swap_usage, &usage))
        return UINT64_MAX;
    return amount_above(limit, usage);
}

/* Reads one cgroup; keeps what it has less of than those before. False if it has no limit. */
static bool read_group(const struct procfs *proc, const struct hierarchy *kind,
                       const struct cgroup_dir *dir, struct survey *survey)
{
    AUTO_CLOSE int group = cgroup_dir_name(proc, dir);
    uint64_t limit, usage, clean, anonymous, headroom;
    char stat[STAT_MAX];

    if (group < 0 || group_file_read(proc, group, "memory.stat", stat, sizeof stat) <= 0)
        return false;
    survey->swap = lesser(survey->swap, swap_left(proc, kind, group));
    if (!read_number(proc, group, kind->limit, &limit) ||
        !read_number(proc, group, kind->usage, &usage))
        return false;
    clean = amount_above(clean_cache(kind, stat), survey->stale);
    headroom = amount_above(limit, usage) + clean;
    anonymous = stat_number(stat, kind->anonymous[0]) + stat_number(stat, kind->anonymous[1]);
    survey->swap = lesser(survey->swap, amount_above(anonymous, survey->stale));
    if (!kind->swap_apart && read_number(proc, group, kind->swap_limit, &limit) &&
        read_number(proc, group, kind->swap_usage, &usage))
        survey->both = lesser(survey->both, amount_above(limit, usage) + clean);
    if (headroom >= survey->out->bytes)
        return true;
    survey->out->bytes = headroom;
    snprintf(survey->out->group, sizeof survey->out->group, "%s", dir->path);
    return true;
}

/* Reads the cgroup and its ancestors in all places that show them. */
static bool read_hierarchy(const struct procfs *proc, const struct hierarchy *kind, pid_t pid,
                           struct cursor cgroups, struct survey *survey)
{
    char path[PATH_MAX];
    struct cgroup_dir dir;
    bool seen = false;

    /* At the usual place, except the root, which has no limit. */
    if (cgroup_path(cgroups, kind->tree, path, sizeof path) &&
        cgroup_dir_usual(PROC_SELF, kind->mount, path, &dir))
        for (; !cgroup_dir_is_top(&dir); cgroup_dir_parent(&dir))
            seen |= read_group(proc, kind, &dir, survey);

    /* The root cgroup as a process in a container sees it: that is the container's own. */
    if (!seen && cgroup_dir_usual(pid, kind->mount, "/", &dir))
        seen = read_group(proc, kind, &dir, survey);

    /*
     * Where a mount shows them, up to the mount's top. In a cgroup namespace the top is the root
     * of the namespace, which may have a limit.
     */
    if (!cgroup_dir_find(proc, pid, kind->tree, &dir))
        return seen;
    do
        seen |= read_group(proc, kind, &dir, survey);
    while (cgroup_dir_parent(&dir));
    return seen;
}

/* Returns what the host has left for all; 0 if it swaps nothing out while it can avoid that. */
static uint64_t host_swap(const struct procfs *proc)
{
    uint64_t bytes, swappiness;
    char text[32];
    ssize_t n = procfs_read(proc, text, sizeof text, "sys/vm/swappiness");
    struct cursor all = cursor_of(text, n > 0 ? (size_t)n : 0);

    if (cursor_take_decimal(&all, &swappiness) && !swappiness)
        return 0;
    return meminfo_read(proc, "SwapFree:", &bytes) ? bytes : 0;
}

bool headroom_read_on(const struct procfs *proc, pid_t pid, unsigned cpus, struct headroom *out)
{
    struct survey survey = {
        .out = out, .swap = host_swap(proc), .both = UINT64_MAX, .stale = (uint64_t)cpus * STALE};
    AUTO_FREE char *cgroups = NULL;
    struct cursor text;
    struct proc_stat stat;
    bool seen = false;

    *out = (struct headroom){.bytes = UINT64_MAX};
    if (!cgroup_read(proc, pid, &cgroups, &text))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(hierarchies); i++)
        seen |= read_hierarchy(proc, &hierarchies[i], pid, text, &survey);
    if (out->bytes < UINT64_MAX - survey.swap)
        out->bytes += survey.swap;
    out->bytes = lesser(out->bytes, survey.both);
    if (!seen)
        return false;

    /*
     * Where a batch fits, the kernel charges one for a single page and keeps the rest for the
     * CPU. Charges on other CPUs then miss it: it is given back only by a work item there, for
     * which the OOM killer does not wait (mm/memcontrol.c, try_charge_memcg, drain_all_stock).
     * The process may run on that many CPUs while one of its threads is stopped.
     */
    uint64_t used = process_stat(proc, pid, &stat) ? cpus : lesser(stat.threads + 1, cpus);
    out->bytes -= lesser(out->bytes / BATCH, used) * KEPT;
    return true;
}

bool headroom_read(const struct procfs *proc, pid_t pid, struct headroom *out)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    return headroom_read_on(proc, pid, cpus > 0 ? (unsigned)cpus : 1, out);
}
