#include "run/outfile.h"
#include "base/util.h"
#include "host/inroot.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

enum {
    LINKS_MAX = 40,  /* as in the kernel */
    UNMAPPED = 65534 /* overflow uid: any user without a mapping in the user namespace */
};

struct walk {
    struct outfile *out;
    enum outfile_links links;
    bool to_directory;       /* a directory is wanted: ends with -EISDIR and dir */
    int dir;                 /* the present directory */
    int followed;            /* links followed so far */
    bool foreign;            /* below a procfs link into the root of a process */
    char path[2 * PATH_MAX]; /* the path as the last link has changed it */
    char *rest;              /* the part that is not walked yet */
};

static bool is_on_procfs(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

/* In a sticky directory where others may write, nobody else removes an entry. */
static bool is_guarded(const struct stat *dir)
{
    return dir->st_mode & S_ISVTX && dir->st_mode & (S_IWGRP | S_IWOTH);
}

/* Nobody but root makes devices: those of a rootless container belong to root outside of it. */
static bool is_trusted(const struct outfile *out, const struct stat *st)
{
    return st->st_uid == geteuid() || st->st_uid == 0 || st->st_uid == out->root ||
           (S_ISCHR(st->st_mode) && st->st_uid == UNMAPPED);
}

/* Applies the rules to an entry of the directory. */
static int check_entry(struct outfile *out, int dir, const char *name, const struct stat *st)
{
    struct stat where;

    if (fstat(dir, &where))
        return -errno;
    if (is_trusted(out, st) ||
        (S_ISREG(st->st_mode) && (!is_guarded(&where) || st->st_uid == where.st_uid)))
        return 0;
    out->link = S_ISLNK(st->st_mode);
    out->owner = st->st_uid;
    snprintf(out->at, sizeof out->at, "%s", name);
    return -EACCES;
}

static void move_to(struct walk *walk, int dir)
{
    util_close(&walk->dir);
    walk->dir = dir;
}

static int follow_text(struct walk *walk, int link, bool slash)
{
    char text[PATH_MAX + 1], whole[sizeof walk->path];
    ssize_t len = readlinkat(link, "", text, PATH_MAX - 1);
    int root, n;

    if (len <= 0)
        return len < 0 ? -errno : -ENOENT;
    text[len] = '\0';
    if (slash && !*walk->rest)
        strcat(text, "/"); /* it must be a directory */

    n = snprintf(whole, sizeof whole, "%s%s%s", text, *walk->rest ? "/" : "", walk->rest);
    if (n < 0 || (size_t)n >= sizeof whole)
        return -ENAMETOOLONG;
    memcpy(walk->path, whole, (size_t)n + 1);
    walk->rest = walk->path;
    if (text[0] == '/') {
        root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root < 0)
            return -errno;
        move_to(walk, root);
    }
    return 0;
}

static int end_walk(struct walk *walk, const char *name)
{
    struct outfile *out = walk->out;
    struct stat where;

    if (fstat(walk->dir, &where))
        return -errno;
    out->guarded = is_guarded(&where);
    out->name = strdup(name);
    if (!out->name)
        return -ENOMEM;
    out->dir = walk->dir;
    walk->dir = -1;
    return 0;
}

/* Handles an existing last component; with OUTFILE_LAST_LINK it is not followed. */
static int arrive(struct walk *walk, int named, const char *part, const struct stat *st)
{
    int rc = walk->links == OUTFILE_FOLLOW ? check_entry(walk->out, walk->dir, part, st) : 0;

    if (rc)
        return rc;
    walk->out->exists = S_ISREG(st->st_mode) || walk->links == OUTFILE_LAST_LINK;
    if (walk->out->exists)
        return end_walk(walk, part);
    if (walk->foreign)
        return -EINVAL;
    walk->out->special = fcntl(named, F_DUPFD_CLOEXEC, 0);
    return walk->out->special < 0 ? -errno : 0;
}

static int may_follow(void *ctx, int dir, const char *name, const struct stat *link)
{
    return check_entry(ctx, dir, name, link);
}

/* Links stay inside the root of the walk; the rules apply to them, too. */
static int move_in_root(struct walk *walk, const char *path)
{
    const struct inroot_guard guard = {may_follow, walk->out};
    int dir = inroot_walk_guarded(walk->dir, path, &guard);

    if (dir < 0)
        return dir;
    move_to(walk, dir);
    return 0;
}

/* Walks the rest of a path below /proc/PID/root, which is dir. */
static int walk_in_root(struct walk *walk)
{
    char *slash = strrchr(walk->rest, '/');
    const char *name = slash ? slash + 1 : walk->rest;
    struct stat st;

    if (fstat(walk->dir, &st))
        return -errno;
    walk->out->root = st.st_uid;
    if (walk->to_directory) {
        int rc = move_in_root(walk, *walk->rest ? walk->rest : ".");
        return rc ? rc : -EISDIR;
    }
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return -EISDIR;
    if (slash) {
        *slash = '\0';
        int rc = move_in_root(walk, walk->rest);
        if (rc)
            return rc;
    }
    if (fstatat(walk->dir, name, &st, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT ? end_walk(walk, name) : -errno;
    if (S_ISDIR(st.st_mode))
        return -EISDIR;
    if (walk->links == OUTFILE_FOLLOW && !S_ISREG(st.st_mode))
        return S_ISLNK(st.st_mode) ? -ELOOP : -EINVAL;
    return arrive(walk, -1, name, &st);
}

/* A procfs link leads to the object itself, whatever its text is. 1: the text is to be walked. */
static int follow_magic(struct walk *walk, const char *part, bool last)
{
    AUTO_CLOSE int to = openat(walk->dir, part, O_PATH | O_CLOEXEC);
    struct stat st;

    if (to < 0 || fstat(to, &st))
        return -errno;
    if (S_ISDIR(st.st_mode) && (!last || walk->to_directory)) {
        walk->foreign |= !is_on_procfs(to);
        move_to(walk, steal_fd(&to));
        if (strcmp(part, "root") == 0)
            return walk_in_root(walk);
        return last ? -EISDIR : 0;
    }
    if (!last)
        return -ENOTDIR;
    if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
        return 1;
    walk->out->special = steal_fd(&to);
    return 0;
}

static int follow(struct walk *walk, int link, const char *part, const struct stat *st, bool slash)
{
    const bool last = !*walk->rest, made = is_on_procfs(link); /* by the kernel */
    int rc;

    if (last && !slash && walk->links == OUTFILE_LAST_LINK)
        return arrive(walk, link, part, st);
    rc = made ? 0 : check_entry(walk->out, walk->dir, part, st);
    if (rc)
        return rc;
    if (walk->followed++ == LINKS_MAX || walk->foreign)
        return -ELOOP;
    rc = made ? follow_magic(walk, part, last) : 1;
    return rc == 1 ? follow_text(walk, link, slash) : rc;
}

static int step(struct walk *walk, const char *part, bool last, bool slash)
{
    bool up = strcmp(part, "..") == 0;
    AUTO_CLOSE int named = openat(walk->dir, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (named < 0)
        return errno == ENOENT && !up && last && !slash ? end_walk(walk, part) : -errno;
    if (fstat(named, &st))
        return -errno;
    if (S_ISLNK(st.st_mode))
        return follow(walk, named, part, &st, slash);
    if (!S_ISDIR(st.st_mode))
        return last && !slash ? arrive(walk, named, part, &st) : -ENOTDIR;
    if (!last || walk->to_directory) {
        /* O_DIRECTORY triggers an automount; O_PATH alone would see an empty directory. */
        int dir = openat(walk->dir, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (dir < 0)
            return -errno;
        move_to(walk, dir);
    }
    return last ? -EISDIR : 0;
}

/* Returns -EISDIR, with walk->dir, if the path ends at a directory. */
static int walk_all(struct walk *walk, struct outfile *out, const char *path)
{
    struct stat root = {0};
    int rc = 0;

    (void)stat("/", &root);
    *out = (struct outfile){.begun = true, .dir = -1, .special = -1, .root = root.st_uid};
    walk->out = out;
    walk->dir = -1;
    if (!*path)
        return -ENOENT;
    if (strlen(path) >= PATH_MAX)
        return -ENAMETOOLONG;
    memcpy(walk->path, path, strlen(path) + 1);
    walk->rest = walk->path;
    walk->dir = open(path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (walk->dir < 0)
        return -errno;

    while (rc == 0 && !out->name && out->special < 0) {
        /* The next component is cut off the rest. */
        char *part = walk->rest + strspn(walk->rest, "/"), *end = part + strcspn(part, "/");
        bool slash = *end == '/';
        if (end == part)
            return -EISDIR;
        walk->rest = end + strspn(end, "/");
        *end = '\0';
        rc = step(walk, part, !*walk->rest, slash);
    }
    return rc;
}

int outfile_find(struct outfile *out, const char *path, enum outfile_links links)
{
    struct walk walk = {.links = links};
    int rc = walk_all(&walk, out, path);

    util_close(&walk.dir);
    return rc;
}

void outfile_close(struct outfile *out)
{
    if (!out->begun)
        return;
    util_close(&out->dir);
    util_close(&out->special);
    free(out->name);
    out->name = NULL;
    out->begun = false;
}

void outfile_make_directory(const char *path)
{
    size_t len = strlen(path);
    AUTO_FREE char *name = NULL;
    struct outfile out = {.begun = false};

    while (len > 1 && path[len - 1] == '/')
        len--;
    name = strndup(path, len);
    if (name && outfile_find(&out, name, OUTFILE_LAST_LINK) == 0 && out.name && !out.exists)
        (void)mkdirat(out.dir, out.name, S_IRWXU);
    outfile_close(&out);
}

int outfile_replaceable(struct outfile *out, const char *name)
{
    struct stat st;

    if (fstatat(out->dir, name, &st, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT ? 0 : -errno;
    if (S_ISDIR(st.st_mode))
        return -EISDIR;
    return check_entry(out, out->dir, name, &st);
}

int outfile_directory(const char *path)
{
    struct outfile out;
    struct walk walk = {.links = OUTFILE_FOLLOW, .to_directory = true};
    int rc = walk_all(&walk, &out, path);

    if (rc == -EISDIR) {
        rc = openat(walk.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        rc = rc < 0 ? -errno : rc;
    } else if (rc == 0)
        rc = -ENOTDIR;
    util_close(&walk.dir);
    outfile_close(&out);
    return rc;
}

bool outfile_is_irregular(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

static bool is_that(const struct outfile *out, struct stat *st)
{
    return fstatat(out->dir, out->name, st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st->st_mode);
}

bool outfile_identify(const char *path, dev_t *dev, ino_t *ino)
{
    struct outfile out;
    struct stat st;
    bool found = outfile_find(&out, path, OUTFILE_LAST_LINK) == 0 && out.name && is_that(&out, &st);

    outfile_close(&out);
    if (found) {
        *dev = st.st_dev;
        *ino = st.st_ino;
    }
    return found;
}

bool outfile_remove(const char *path, dev_t dev, ino_t ino)
{
    struct outfile out;
    struct stat st;
    bool removed = outfile_find(&out, path, OUTFILE_LAST_LINK) == 0 && out.name &&
                   is_that(&out, &st) && st.st_dev == dev && st.st_ino == ino &&
                   unlinkat(out.dir, out.name, 0) == 0;

    outfile_close(&out);
    return removed;
}
