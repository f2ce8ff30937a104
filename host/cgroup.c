#include "host/cgroup.h"
#include "base/util.h"
#include "host/inroot.h"
#include "host/mountinfo.h"

#include <fcntl.h>
#include <stdio.h>

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

static bool is_in_tree(const struct cgroup_line *line, enum cgroup_tree tree)
{
    if (!controllers[tree])
        return cursor_is(line->hierarchy, "0") && cursor_left(line->controllers) == 0;
    return cursor_has_word(line->controllers, ',', controllers[tree]);
}

bool cgroup_path(struct cursor text, enum cgroup_tree tree, char *out, size_t size)
{
    struct cgroup_line line;

    while (cgroup_next(&text, &line))
        if (is_in_tree(&line, tree))
            return cursor_copy(line.path, out, size);
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

/*
 * True if the path has a component "..", which the kernel writes for a cgroup
 * outside of the reader's view.
 */
static bool leads_up(const char *path)
{
    for (const char *p = path; (p = strstr(p, "/..")); p += 3)
        if (p[3] == '/' || p[3] == '\0')
            return true;
    return false;
}

/* Returns the part of path below root: "" or "/...". NULL if path is not below it. */
static const char *part_below(const char *path, const char *root)
{
    size_t n = strcmp(root, "/") == 0 ? 0 : strlen(root);

    if (strncmp(path, root, n) != 0 || (path[n] != '/' && path[n] != '\0') || leads_up(path + n))
        return NULL;
    return strcmp(path + n, "/") == 0 ? "" : path + n;
}

static bool shows_tree(const struct mount_entry *mount, enum cgroup_tree tree)
{
    if (!controllers[tree])
        return cursor_is(mount->type, "cgroup2");
    return cursor_is(mount->type, "cgroup") &&
           cursor_has_word(mount->options, ',', controllers[tree]);
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
    char root[PATH_MAX], point[PATH_MAX];
    struct mount_entry mount;

    while (mountinfo_next(&mountinfo, &mount)) {
        if (!shows_tree(&mount, tree) || !mountinfo_unescape(mount.root, root, sizeof root) ||
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
