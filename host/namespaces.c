#include "host/namespaces.h"
#include "base/cursor.h"
#include "base/util.h"
#include "host/processes.h"
#include "host/task.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

/* ---- user namespaces ---- */

enum { DEPTH_MAX = 33 }; /* kernel/user_namespace.c: at most 32 below the first */

static bool same_namespace(int a, int b)
{
    struct stat x, y;

    return !fstat(a, &x) && !fstat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/*
 * Walks up from the process's namespace. The kernel shows only descendants of the
 * tool's own (EPERM).
 */
static enum userns search_ancestors(int own, int its)
{
    AUTO_CLOSE int ns = dup(its);
    uid_t owner;

    for (int depth = 0; depth < DEPTH_MAX && ns >= 0; depth++) {
        AUTO_CLOSE int below = ns;
        ns = ioctl(below, NS_GET_PARENT);
        if (ns < 0 || !same_namespace(own, ns))
            continue;
        /* The creator of a namespace has all capabilities in it (cap_capable). */
        if (ioctl(below, NS_GET_OWNER_UID, &owner) == 0 && owner == geteuid())
            return USERNS_OWNED;
        return USERNS_BELOW;
    }
    return USERNS_OUTSIDE;
}

static enum userns compare_links(const struct procfs *proc, pid_t pid)
{
    AUTO_CLOSE int own = procfs_openf(proc, O_RDONLY, "self/ns/user");
    AUTO_CLOSE int its = procfs_openf(proc, O_RDONLY, "%d/ns/user", (int)pid);

    if (own < 0 || its < 0)
        return USERNS_UNKNOWN;
    return same_namespace(own, its) ? USERNS_SAME : search_ancestors(own, its);
}

/*
 * A line of uid_map. `outside` is an id in the reader's namespace, or -1 if it has
 * none there (uid_m_show); for the reader's own namespace, an id in its parent.
 */
struct extent {
    uint32_t inside, outside, count;
};

static bool take_id_number(struct cursor *line, uint32_t *out)
{
    uint64_t value;

    cursor_skip_blanks(line);
    if (!cursor_take_decimal(line, &value) || value > UINT32_MAX)
        return false;
    *out = (uint32_t)value;
    return true;
}

static bool take_extent(struct cursor *map, struct extent *out)
{
    struct cursor line;

    return cursor_take_line(map, &line) && take_id_number(&line, &out->inside) &&
           take_id_number(&line, &out->outside) && take_id_number(&line, &out->count);
}

static bool is_inside(struct cursor own, const struct extent *extent)
{
    struct extent mine;

    while (take_extent(&own, &mine))
        if (extent->outside >= mine.inside &&
            (uint64_t)extent->outside + extent->count <= (uint64_t)mine.inside + mine.count)
            return true;
    return false;
}

/*
 * A descendant can map only ids that its parent has, each line out of one of the
 * parent's (map_write).
 */
static bool may_be_below(struct cursor own, struct cursor its)
{
    struct extent extent;

    while (take_extent(&its, &extent))
        if (extent.outside == UINT32_MAX || !is_inside(own, &extent))
            return false;
    return true;
}

static enum userns compare_maps(const struct procfs *proc, pid_t pid)
{
    AUTO_FREE char *own = NULL, *its = NULL;
    ssize_t n = procfs_slurp(proc, &own, 1 << 16, "self/uid_map");
    ssize_t m = procfs_slurp(proc, &its, 1 << 16, "%d/uid_map", (int)pid);
    struct cursor mine;
    struct extent first;

    if (n < 0 || m <= 0)
        return USERNS_UNKNOWN;
    if (n == m && memcmp(own, its, (size_t)n) == 0)
        return USERNS_SAME;
    mine = cursor_of(own, (size_t)n);
    if (!may_be_below(mine, cursor_of(its, (size_t)m)))
        return USERNS_OUTSIDE;
    if (take_extent(&mine, &first) && first.inside == 0 && first.outside == 0 &&
        first.count == UINT32_MAX) /* the tool's own is the initial one */
        return USERNS_BELOW;
    return USERNS_OTHER;
}

enum userns userns_of(const struct procfs *proc, pid_t pid)
{
    enum userns seen = compare_links(proc, pid);

    return seen != USERNS_UNKNOWN ? seen : compare_maps(proc, pid);
}

/* ---- pid namespaces ---- */

/* Skips the first of its pids, which is the one in the tool's pid namespace. */
static bool has_pid_below(const struct procfs *proc, pid_t process, pid_t pid)
{
    struct proc_status status;

    if (process_status(proc, process, &status))
        return false;
    for (size_t i = 1; i < status.ns_pid_count; i++)
        if (status.ns_pids[i] == (int)pid)
            return true;
    return false;
}

void namesakes_find(struct namesakes *found, const struct procfs *proc, pid_t pid)
{
    struct processes all = {0};

    memset(found, 0, sizeof *found);
    if (processes_list(&all, proc, NULL) != FAULT_NONE)
        return;
    for (size_t i = 0; i < all.count; i++) {
        if (!has_pid_below(proc, all.list[i], pid))
            continue;
        if (found->count < ARRAY_LEN(found->here))
            found->here[found->count] = all.list[i];
        found->count++;
    }
    processes_free(&all);
}

bool namespaces_vouch_for_mounts(const struct procfs *proc, pid_t pid)
{
    AUTO_CLOSE int its = procfs_openf(proc, O_RDONLY, "%d/ns/mnt", (int)pid);
    AUTO_CLOSE int own = procfs_openf(proc, O_RDONLY, "self/ns/mnt");
    AUTO_CLOSE int user = procfs_openf(proc, O_RDONLY, "self/ns/user");
    AUTO_CLOSE int owner = its < 0 ? -1 : ioctl(its, NS_GET_USERNS);

    if (its == -ENOENT)
        return true;
    return its >= 0 && own >= 0 &&
           (same_namespace(its, own) || (owner >= 0 && user >= 0 && same_namespace(owner, user)));
}

bool namespaces_share_clock(const struct procfs *proc, pid_t pid)
{
    char own[64], its[64];
    ssize_t a = procfs_readlink(proc, own, sizeof own, "self/ns/time");
    ssize_t b = procfs_readlink(proc, its, sizeof its, "%d/ns/time", (int)pid);

    if (a == -ENOENT)
        return true; /* a kernel without time namespaces */
    return a > 0 && a == b && memcmp(own, its, (size_t)a) == 0;
}
