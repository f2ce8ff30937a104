#include "host/group_events.h"
#include "base/util.h"
#include "host/cgroup.h"
#include "host/inroot.h"
#include "host/limits.h"

/* The same numbers under each version's names; memory.oom_control has no count of `high`. */
struct event_files {
    enum cgroup_tree tree;
    const char *events, *peak;
};

static const struct event_files versions[] = {
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

static void read_events(const struct procfs *proc, int group, const struct event_files *files,
                        struct group_events *out)
{
    char text[512];
    ssize_t n = group_file_read(proc, group, files->events, text, sizeof text);

    if (n > 0)
        group_events_parse(text, (size_t)n, out);
    n = group_file_read(proc, group, files->peak, text, sizeof text);
    out->has_peak = n > 0 && limit_parse(text, (size_t)n, &out->peak);
}

void group_events_read(const struct procfs *proc, pid_t pid, struct group_events *out)
{
    struct cgroup_dir dir;

    *out = (struct group_events){0};
    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        AUTO_CLOSE int group = -1;
        if (!cgroup_dir_find(proc, pid, versions[i].tree, &dir))
            continue;
        group = cgroup_dir_name(proc, &dir);
        if (group >= 0)
            read_events(proc, group, &versions[i], out);
        return;
    }
}
