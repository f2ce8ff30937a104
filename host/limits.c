#include "host/limits.h"
#include "base/util.h"
#include "host/cgroup.h"
#include "host/inroot.h"
#include "host/procfs.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* memory.stat has about fifty lines, and grows with each kernel. */
enum { TEXT_MAX = 512, STAT_TEXT_MAX = 8192 };

/* cgroup v1 shows "no limit" as the largest multiple of a page, PAGE_COUNTER_MAX. */
static const uint64_t NO_LIMIT = (uint64_t)1 << 62;

bool limit_parse(const char *text, size_t len, uint64_t *bytes)
{
    struct cursor all = cursor_of(text, len), line;

    if (!cursor_take_line(&all, &line))
        return false;
    if (cursor_is(line, "max")) {
        *bytes = UINT64_MAX;
        return true;
    }
    if (!cursor_take_decimal(&line, bytes) || cursor_left(line) > 0)
        return false;
    if (*bytes >= NO_LIMIT)
        *bytes = UINT64_MAX;
    return true;
}

/* In cgroup v1 the names without "total_" do not include the cgroups below. */
bool limit_files_parse(const char *text, size_t len, bool v2, bool active, uint64_t *bytes)
{
    static const char *const keys[2][2] = {{"total_inactive_file ", "total_active_file "},
                                           {"inactive_file ", "active_file "}};

    return cursor_find_number(cursor_of(text, len), keys[v2][active], bytes);
}

bool limit_meminfo_parse(const char *text, size_t len, struct limit_use *out)
{
    struct cursor all = cursor_of(text, len);
    uint64_t total, available;

    if (!meminfo_parse(all, "MemTotal:", &total) ||
        !meminfo_parse(all, "MemAvailable:", &available) || available > total)
        return false;
    *out = (struct limit_use){.used = total - available, .limit = total};
    return true;
}

/* "size resident shared text lib data dt", in pages (fs/proc/array.c, proc_pid_statm). */
bool limit_statm_parse(const char *text, size_t len, uint64_t *pages)
{
    struct cursor all = cursor_of(text, len);
    uint64_t size;

    return cursor_take_decimal(&all, &size) && cursor_take_char(&all, ' ') &&
           cursor_take_decimal(&all, pages);
}

/* ---- files ---- */

static ssize_t read_at_start(int fd, char *text, size_t size)
{
    ssize_t n = fd < 0 ? -1 : pread(fd, text, size - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    return n;
}

static uint64_t read_limit(int fd)
{
    char text[TEXT_MAX];
    ssize_t n = read_at_start(fd, text, sizeof text);
    uint64_t bytes;

    return n > 0 && limit_parse(text, (size_t)n, &bytes) ? bytes : UINT64_MAX;
}

/*
 * Above memory.high the kernel slows a cgroup down until it hardly grows: here that
 * counts as a limit.
 */
static void read_limits(struct limit_group *group, uint64_t machine)
{
    uint64_t hard = read_limit(group->hard_fd), high = read_limit(group->high_fd);

    group->limit = high < hard ? high : hard;
    if (group->limit >= machine)
        group->limit = UINT64_MAX;
}

static void close_group(struct limit_group *group)
{
    util_close(&group->usage_fd);
    util_close(&group->stat_fd);
    util_close(&group->hard_fd);
    util_close(&group->high_fd);
}

/* The root cgroup of v2 has no memory.current. */
static void open_group(struct limits *limits, const struct procfs *proc,
                       const struct cgroup_dir *dir, bool v2, size_t level)
{
    struct limit_group *group = &limits->groups[limits->count];
    AUTO_CLOSE int named = cgroup_dir_name(proc, dir);

    *group = (struct limit_group){
        .level = level,
        .usage_fd = group_file_open(proc, named, v2 ? "memory.current" : "memory.usage_in_bytes"),
        .stat_fd = group_file_open(proc, named, "memory.stat"),
        .hard_fd = group_file_open(proc, named, v2 ? "memory.max" : "memory.limit_in_bytes"),
        .high_fd = v2 ? group_file_open(proc, named, "memory.high") : -1,
        .v2 = v2};
    if (group->usage_fd < 0) {
        close_group(group);
        return;
    }
    read_limits(group, limits->machine);
    limits->count++;
}

static bool read_machine(const struct limits *limits, struct limit_use *out)
{
    char text[STAT_TEXT_MAX];
    ssize_t n = read_at_start(limits->machine_fd, text, sizeof text);

    return n > 0 && limit_meminfo_parse(text, (size_t)n, out);
}

void limits_open(struct limits *limits, const struct procfs *proc, pid_t pid)
{
    struct cgroup_dir dir;
    struct limit_use machine;
    size_t level = 0;
    bool v1;

    memset(limits, 0, sizeof *limits);
    limits->machine_fd = procfs_openf(proc, O_RDONLY, "meminfo");
    limits->machine = read_machine(limits, &machine) ? machine.limit : UINT64_MAX;
    v1 = cgroup_dir_find(proc, pid, CGROUP_V1_MEMORY, &dir);
    if (!v1 && !cgroup_dir_find(proc, pid, CGROUP_V2, &dir))
        return;
    do
        open_group(limits, proc, &dir, !v1, level++);
    while (limits->count < LIMITS_GROUPS && cgroup_dir_parent(&dir));
}

void limits_renew(struct limits *limits)
{
    for (size_t i = 0; i < limits->count; i++)
        read_limits(&limits->groups[i], limits->machine);
}

void limits_close(struct limits *limits)
{
    for (size_t i = 0; i < limits->count; i++)
        close_group(&limits->groups[i]);
    util_close(&limits->machine_fd);
    limits->count = 0;
}

uint64_t limits_smallest(const struct limits *limits)
{
    uint64_t smallest = limits->machine;

    for (size_t i = 0; i < limits->count; i++)
        if (limits->groups[i].limit < smallest)
            smallest = limits->groups[i].limit;
    return smallest;
}

static bool read_usage(const struct limit_group *group, uint64_t *used)
{
    char text[TEXT_MAX];
    ssize_t n = read_at_start(group->usage_fd, text, sizeof text);

    return n > 0 && limit_parse(text, (size_t)n, used);
}

/*
 * Subtracts inactive file pages. The kernel sums memory.stat up over all CPUs for
 * each reader, so it is read only when it matters.
 */
static void read_files(const struct limit_group *group, struct limit_use *use)
{
    char text[STAT_TEXT_MAX];
    ssize_t n = read_at_start(group->stat_fd, text, sizeof text);
    const size_t len = n > 0 ? (size_t)n : 0;
    uint64_t inactive, active;

    if (limit_files_parse(text, len, group->v2, false, &inactive))
        use->used -= inactive < use->used ? inactive : use->used;
    if (limit_files_parse(text, len, group->v2, true, &active))
        use->cached = active < use->used ? active : use->used;
}

static double used_share(struct limit_use use)
{
    return (double)use.used / (double)use.limit;
}

bool limits_use(const struct limits *limits, double exact, struct limit_use *out)
{
    bool any = false;

    for (size_t i = 0; i < limits->count; i++) {
        struct limit_use use = {.limit = limits->groups[i].limit, .level = limits->groups[i].level};
        if (use.limit == 0 || use.limit == UINT64_MAX || !read_usage(&limits->groups[i], &use.used))
            continue;
        if (used_share(use) >= exact)
            read_files(&limits->groups[i], &use);
        if (!any || used_share(use) > used_share(*out))
            *out = use;
        any = true;
    }
    return any || read_machine(limits, out);
}

bool limits_own_use(const struct limits *limits, uint64_t *used)
{
    struct limit_use use = {.used = 0};

    if (limits->count > 0 && read_usage(&limits->groups[0], &use.used))
        read_files(&limits->groups[0], &use);
    else if (!read_machine(limits, &use))
        return false;
    *used = use.used;
    return true;
}

/* The same numbers under each version's names; memory.oom_control has no count of `high`. */
static const struct {
    enum cgroup_tree tree;
    const char *events, *peak;
} versions[] = {
    {CGROUP_V1_MEMORY, "memory.oom_control", "memory.max_usage_in_bytes"},
    {CGROUP_V2, "memory.events", "memory.peak"},
};

bool group_events_parse(const char *text, size_t len, struct group_events *out)
{
    struct cursor all = cursor_of(text, len);

    out->known = cursor_find_number(all, "oom_kill ", &out->oom_kills);
    if (!out->known || !cursor_find_number(all, "high ", &out->high))
        out->high = 0;
    return out->known;
}

void group_events_read(const struct procfs *proc, pid_t pid, struct group_events *out)
{
    struct cgroup_dir dir;
    char text[TEXT_MAX];

    *out = (struct group_events){0};
    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        AUTO_CLOSE int group = -1;
        if (!cgroup_dir_find(proc, pid, versions[i].tree, &dir))
            continue;
        group = cgroup_dir_name(proc, &dir);
        if (group < 0)
            return;
        ssize_t n = group_file_read(proc, group, versions[i].events, text, sizeof text);
        if (n > 0)
            group_events_parse(text, (size_t)n, out);
        n = group_file_read(proc, group, versions[i].peak, text, sizeof text);
        out->has_peak = n > 0 && limit_parse(text, (size_t)n, &out->peak);
        return;
    }
}
