#include "host/cgroup_dir.h"
#include "base/util.h"
#include "host/inroot.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { CGROUP_LIMIT = 64 << 10, MOUNTINFO_LIMIT = 16 << 20 };

struct span {
    const char *text;
    size_t len;
};

/* Takes what stands before the next `end`, or all that is left; false at the end of the text. */
static bool take(struct span *rest, char end, struct span *out)
{
    if (!rest->len)
        return false;
    const char *at = memchr(rest->text, end, rest->len);
    size_t n = at ? (size_t)(at - rest->text) : rest->len;

    *out = (struct span){rest->text, n};
    n += at != NULL;
    *rest = (struct span){rest->text + n, rest->len - n};
    return true;
}

static bool is(struct span span, const char *text)
{
    return span.len == strlen(text) && memcmp(span.text, text, span.len) == 0;
}

/* Is the word one of a list that commas separate? */
static bool lists(struct span list, const char *word)
{
    struct span one;

    while (take(&list, ',', &one))
        if (is(one, word))
            return true;
    return false;
}

static bool copy(struct span from, char *out, size_t size)
{
    if (from.len >= size || memchr(from.text, '\0', from.len))
        return false;
    memcpy(out, from.text, from.len);
    out[from.len] = '\0';
    return true;
}

/* "hierarchy:controllers:path"; of version 2 "0::path" (kernel/cgroup/cgroup.c). */
bool cgroup_tree_path(const char *text, size_t len, enum cgroup_tree tree, char *out, size_t size)
{
    struct span rest = {text, len}, line, id, controllers;

    while (take(&rest, '\n', &line)) {
        if (!take(&line, ':', &id) || !take(&line, ':', &controllers) || !line.len ||
            line.text[0] != '/')
            continue;
        if (tree == CGROUP_V2 ? is(id, "0") && !controllers.len : lists(controllers, "memory"))
            return copy(line, out, size);
    }
    return false;
}

static bool is_octal(char ch)
{
    return ch >= '0' && ch <= '7';
}

/* Undoes \040 and the like (fs/proc_namespace.c, mangle). */
static bool unescape(struct span from, char *out, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < from.len; i++) {
        const char *p = from.text + i;
        unsigned ch = (unsigned char)*p;
        if (*p == '\\' && from.len - i > 3 && is_octal(p[1]) && is_octal(p[2]) && is_octal(p[3])) {
            ch = (unsigned)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0'));
            i += 3;
        }
        if (n + 1 >= size || ch == 0 || ch > 255)
            return false;
        out[n++] = (char)ch;
    }
    out[n] = '\0';
    return true;
}

/* A group that lies outside of what a mount shows is written with "..". */
static bool leads_up(const char *path)
{
    for (const char *p = path; (p = strstr(p, "/..")); p += 3)
        if (p[3] == '/' || p[3] == '\0')
            return true;
    return false;
}

/* What of path is below root, "" or "/...". NULL: it is not below. */
static const char *below(const char *path, const char *root)
{
    size_t n = strcmp(root, "/") == 0 ? 0 : strlen(root);

    if (strncmp(path, root, n) != 0 || (path[n] != '/' && path[n] != '\0') || leads_up(path + n))
        return NULL;
    return strcmp(path + n, "/") == 0 ? "" : path + n;
}

/* What a line of mountinfo tells of a mount of a tree. */
struct mount {
    char root[PATH_MAX], point[PATH_MAX];
};

/*
 * "36 35 0:32 /root /point rw,relatime shared:1 - cgroup cgroup rw,memory":
 * id, parent, device, root, point, options, any number of optional fields, a
 * hyphen, type, source, options of the file system (proc(5)).
 */
static bool take_mount(struct span line, enum cgroup_tree tree, struct mount *out)
{
    struct span fields[5], word = {0}, type, source;

    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (!take(&line, ' ', &fields[i]))
            return false;
    while (take(&line, ' ', &word) && !is(word, "-"))
        ;
    if (!is(word, "-") || !take(&line, ' ', &type) || !take(&line, ' ', &source))
        return false;
    if (tree == CGROUP_V2 ? !is(type, "cgroup2") : !is(type, "cgroup") || !lists(line, "memory"))
        return false;
    return unescape(fields[3], out->root, sizeof out->root) &&
           unescape(fields[4], out->point, sizeof out->point);
}

bool cgroup_mounted(const char *text, size_t len, enum cgroup_tree tree, const char *path,
                    char *out, size_t size, size_t *top)
{
    struct span rest = {text, len}, line;
    struct mount mount;

    while (take(&rest, '\n', &line)) {
        const char *group = take_mount(line, tree, &mount) ? below(path, mount.root) : NULL;
        if (!group)
            continue;
        int n = snprintf(out, size, "%s%s", mount.point, group);
        *top = strlen(mount.point);
        return n > 0 && (size_t)n < size;
    }
    return false;
}

/* The process may have covered the mount that mountinfo shows, or moved it. */
static int name_dir(const struct procfs *proc, const struct cgroup_dir *dir)
{
    AUTO_CLOSE int root =
        dir->through ? procfs_openf(proc, O_PATH | O_DIRECTORY, "%d/root", (int)dir->through)
                     : open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

    return root < 0 ? root : group_name(proc, root, dir->path);
}

int cgroup_dir_open(const struct procfs *proc, const struct cgroup_dir *dir, const char *file)
{
    AUTO_CLOSE int group = name_dir(proc, dir);

    return group < 0 ? group : group_file_open(proc, group, file);
}

/* through 0: the tool's mounts; else those of the process, in its root. */
static bool find_through(const struct procfs *proc, pid_t through, enum cgroup_tree tree,
                         const char *path, struct cgroup_dir *out)
{
    AUTO_FREE char *text = NULL;
    ssize_t n = through ? procfs_slurp(proc, &text, MOUNTINFO_LIMIT, "%d/mountinfo", (int)through)
                        : procfs_slurp(proc, &text, MOUNTINFO_LIMIT, "self/mountinfo");

    out->through = through;
    if (n <= 0 ||
        !cgroup_mounted(text, (size_t)n, tree, path, out->path, sizeof out->path, &out->top))
        return false;
    AUTO_CLOSE int group = name_dir(proc, out);
    return group >= 0 && faccessat(group, ".", X_OK, 0) == 0;
}

bool cgroup_dir_find(const struct procfs *proc, pid_t pid, enum cgroup_tree tree,
                     struct cgroup_dir *out)
{
    AUTO_FREE char *text = NULL;
    char path[PATH_MAX];
    ssize_t n = procfs_slurp(proc, &text, CGROUP_LIMIT, "%d/cgroup", (int)pid);

    if (n <= 0 || !cgroup_tree_path(text, (size_t)n, tree, path, sizeof path))
        return false;
    return find_through(proc, 0, tree, path, out) || find_through(proc, pid, tree, path, out);
}

bool cgroup_dir_parent(struct cgroup_dir *dir)
{
    char *slash = strrchr(dir->path, '/');

    if (!slash || (size_t)(slash - dir->path) < dir->top)
        return false;
    *slash = '\0';
    return true;
}
