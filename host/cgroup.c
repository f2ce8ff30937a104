#include "host/cgroup.h"
#include "base/util.h"
#include "host/inroot.h"
#include "host/task.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { CGROUP_TEXT_MAX = 64 << 10 };

/* ---- the text of /proc/PID/cgroup ---- */

bool cgroup_next(struct cursor *text, struct cgroup_line *out)
{
    struct cursor line;

    while (cursor_take_line(text, &line)) {
        if (!cursor_take_part(&line, ':', &out->hierarchy) ||
            !cursor_take_part(&line, ':', &out->controllers) || !cursor_begins(line, "/"))
            continue;
        out->path = line;
        return true;
    }
    return false;
}

bool cgroup_read(const struct procfs *proc, pid_t pid, char **out, struct cursor *text)
{
    char name[PROC_NAME_MAX];
    ssize_t n = procfs_slurp(proc, out, CGROUP_TEXT_MAX, "%s/cgroup", procfs_name(pid, name));

    *text = cursor_of(*out, n > 0 ? (size_t)n : 0);
    return n > 0;
}

/* The v1 controller of each tree; NULL: cgroup v2. */
static const char *const controllers[] = {
    [CGROUP_V1_MEMORY] = "memory",
    [CGROUP_V1_FREEZER] = "freezer",
    [CGROUP_V1_CPU] = "cpu",
    [CGROUP_V2] = NULL,
};

bool cgroup_path(struct cursor text, enum cgroup_tree tree, char *out, size_t size)
{
    const char *controller = controllers[tree];
    struct cgroup_line line;

    while (cgroup_next(&text, &line)) {
        const bool v2 = cursor_is(line.hierarchy, "0") && cursor_left(line.controllers) == 0;
        if (controller ? cursor_has_word(line.controllers, ',', controller) : v2)
            return cursor_copy(line.path, out, size);
    }
    return false;
}

bool cgroup_at_root(struct cursor text)
{
    struct cgroup_line line;
    bool at_root = false;

    while (cgroup_next(&text, &line)) {
        if (!cursor_is(line.path, "/"))
            return false;
        at_root = true;
    }
    return at_root;
}

/* ---- directories ---- */

/* Returns the part of path below root: "" or "/...". NULL if path is not below it. */
static const char *part_below(const char *path, const char *root)
{
    size_t n = strcmp(root, "/") == 0 ? 0 : strlen(root);

    if (strncmp(path, root, n) != 0 || (path[n] != '/' && path[n] != '\0'))
        return NULL;
    /* The kernel writes a component ".." for a cgroup outside of the reader's view. */
    for (const char *p = path + n; (p = strstr(p, "/..")); p += 3)
        if (p[3] == '/' || p[3] == '\0')
            return NULL;
    return strcmp(path + n, "/") == 0 ? "" : path + n;
}

static bool set_path(struct cgroup_dir *dir, const char *mount, const char *group)
{
    int n = snprintf(dir->path, sizeof dir->path, "%s%s", mount, group);

    dir->top = strlen(mount);
    return n > 0 && (size_t)n < sizeof dir->path;
}

bool cgroup_dir_mounted(struct cursor mountinfo, enum cgroup_tree tree, const char *path,
                        struct cgroup_dir *out)
{
    const char *controller = controllers[tree];
    char root[PATH_MAX], point[PATH_MAX];
    struct mount_entry mount;

    while (mountinfo_next(&mountinfo, &mount)) {
        if (!cursor_is(mount.type, controller ? "cgroup" : "cgroup2") ||
            (controller && !cursor_has_word(mount.options, ',', controller)))
            continue;
        if (!mountinfo_unescape(mount.root, root, sizeof root) ||
            !mountinfo_unescape(mount.point, point, sizeof point))
            continue;
        const char *group = part_below(path, root);
        if (group)
            return set_path(out, point, group);
    }
    return false;
}

bool cgroup_dir_usual(pid_t through, const char *mount, const char *path, struct cgroup_dir *out)
{
    const char *group = part_below(path, "/");

    out->through = through;
    return group && set_path(out, mount, group);
}

/* The process may have covered or moved the mount that mountinfo shows. */
int cgroup_dir_name(const struct procfs *proc, const struct cgroup_dir *dir)
{
    char name[PROC_NAME_MAX];
    AUTO_CLOSE int root =
        procfs_openf(proc, O_PATH | O_DIRECTORY, "%s/root", procfs_name(dir->through, name));

    return root < 0 ? root : group_name(proc, root, dir->path);
}

static bool find_through(const struct procfs *proc, pid_t through, enum cgroup_tree tree,
                         const char *path, struct cgroup_dir *out)
{
    AUTO_FREE char *mountinfo = NULL;
    struct cursor text;

    out->through = through;
    if (!mountinfo_read(proc, through, &mountinfo, &text) ||
        !cgroup_dir_mounted(text, tree, path, out))
        return false;
    AUTO_CLOSE int group = cgroup_dir_name(proc, out);
    return group >= 0 && faccessat(group, ".", X_OK, 0) == 0;
}

bool cgroup_dir_find(const struct procfs *proc, pid_t pid, enum cgroup_tree tree,
                     struct cgroup_dir *out)
{
    AUTO_FREE char *cgroups = NULL;
    struct cursor text;
    char path[PATH_MAX];

    if (!cgroup_read(proc, pid, &cgroups, &text) || !cgroup_path(text, tree, path, sizeof path))
        return false;
    return find_through(proc, PROC_SELF, tree, path, out) ||
           find_through(proc, pid, tree, path, out);
}

bool cgroup_dir_parent(struct cgroup_dir *dir)
{
    char *slash = strrchr(dir->path, '/');

    if (!slash || (size_t)(slash - dir->path) < dir->top)
        return false;
    *slash = '\0';
    return true;
}

bool cgroup_dir_is_top(const struct cgroup_dir *dir)
{
    return dir->path[dir->top] == '\0';
}

enum { MOUNTINFO_MAX = 16 << 20 };

/*
 * "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue"
 * (proc_pid_mountinfo(5)): id, parent, device, root, mount point, options, any number of optional
 * fields, a hyphen, type, source, options of the file system.
 */
static bool take_entry(struct cursor line, struct mount_entry *out)
{
    struct cursor fields[6], field;

    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (!cursor_take_part(&line, ' ', &fields[i]))
            return false;
    do {
        if (!cursor_take_part(&line, ' ', &field))
            return false;
    } while (!cursor_is(field, "-"));
    out->root = fields[3];
    out->point = fields[4];
    if (!cursor_take_part(&line, ' ', &out->type) || !cursor_take_part(&line, ' ', &field))
        return false;
    out->options = line;
    return true;
}

bool mountinfo_next(struct cursor *text, struct mount_entry *out)
{
    struct cursor line;

    while (cursor_take_line(text, &line))
        if (take_entry(line, out))
            return true;
    return false;
}

static bool is_octal(char ch)
{
    return ch >= '0' && ch <= '7';
}

bool mountinfo_unescape(struct cursor part, char *out, size_t size)
{
    size_t n = 0;

    while (cursor_left(part) > 0) {
        const char *p = part.at++;
        unsigned ch = (unsigned char)*p;
        if (ch == '\\' && part.end - p > 3 && is_octal(p[1]) && is_octal(p[2]) && is_octal(p[3])) {
            ch = (unsigned)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0'));
            part.at = p + 4;
        }
        if (n + 1 >= size || ch == 0 || ch > 255)
            return false;
        out[n++] = (char)ch;
    }
    out[n] = '\0';
    return true;
}

bool mountinfo_read(const struct procfs *proc, pid_t pid, char **out, struct cursor *text)
{
    char name[PROC_NAME_MAX];
    ssize_t n = procfs_slurp(proc, out, MOUNTINFO_MAX, "%s/mountinfo", procfs_name(pid, name));

    *text = cursor_of(*out, n > 0 ? (size_t)n : 0);
    return n > 0;
}

/* freezer.state and cgroup.events also reflect the state of the ancestors. */
static const struct {
    enum freezer freezer;
    enum cgroup_tree tree;
    const char *mount, *file, *word;
} places[] = {
    {FREEZER_V1, CGROUP_V1_FREEZER, "/sys/fs/cgroup/freezer", "freezer.state", "FROZEN"},
    {FREEZER_V1, CGROUP_V1_FREEZER, "/sys/fs/cgroup/freezer", "freezer.state", "FREEZING"},
    {FREEZER_V2, CGROUP_V2, "/sys/fs/cgroup", "cgroup.events", "frozen 1"},
    {FREEZER_V2, CGROUP_V2, "/sys/fs/cgroup/unified", "cgroup.events", "frozen 1"},
};

enum freezer freezer_of_group(const struct procfs *proc, pid_t pid, char *path, size_t size)
{
    AUTO_FREE char *cgroups = NULL;
    char group[FREEZER_PATH_MAX], state[256];
    struct cgroup_dir dir;
    struct cursor text;

    if (!cgroup_read(proc, pid, &cgroups, &text))
        return FREEZER_NONE;
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        if (!cgroup_path(text, places[i].tree, group, sizeof group) ||
            !cgroup_dir_usual(PROC_SELF, places[i].mount, group, &dir) ||
            strlen(dir.path) >= size) /* cut off, it would name another cgroup */
            continue;
        AUTO_CLOSE int opened = cgroup_dir_name(proc, &dir);
        if (opened >= 0 && group_file_read(proc, opened, places[i].file, state, sizeof state) > 0 &&
            strstr(state, places[i].word)) {
            strcpy(path, dir.path);
            return places[i].freezer;
        }
    }
    return FREEZER_NONE;
}

/*
 * cgroup v1 freezes a thread in its sleep (since 6.1) or in a separate function, in
 * the uninterruptible state: D, in a function where only an interruptible wait is
 * possible. With cgroup v2 the thread waits in get_signal, where no other thread
 * sleeps (do_freezer_trap). /proc/PID/wchan names the function to users who may
 * read the memory, and is "0" to others.
 */
static bool thread_is_frozen(const struct procfs *proc, pid_t pid, pid_t tid)
{
    static const char *const stops[] = {"do_freezer_trap", "get_signal", NULL};
    static const char *const sleeps[] = {
        "__refrigerator",        "refrigerator",  "hrtimer_nanosleep", "do_nanosleep",
        "common_nsleep",         "do_epoll_wait", "ep_poll",           "futex_",
        "poll_schedule_timeout", "do_poll",       "do_sys_poll",       "do_select",
        "do_sigtimedwait",       "sigsuspend",    "inet_csk_accept",   NULL};
    char where[128];
    struct proc_stat stat;

    if (thread_stat(proc, pid, tid, &stat) || !strchr("SD", stat.state) ||
        !thread_wchan(proc, pid, tid, where, sizeof where))
        return false;
    for (const char *const *name = stat.state == 'S' ? stops : sleeps; *name; name++)
        if (strncmp(where, *name, strlen(*name)) == 0)
            return true;
    return false;
}

bool freezer_of_threads(const struct procfs *proc, pid_t pid)
{
    struct task_dir dir;
    bool all = true;
    size_t count = 0;
    pid_t tid;

    (void)task_dir_of_threads(&dir, proc, pid);
    while (all && (tid = task_dir_next(&dir))) {
        all = thread_is_frozen(proc, pid, tid);
        count++;
    }
    task_dir_close(&dir);
    return all && count > 0;
}
