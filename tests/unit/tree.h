/* A temporary directory with files: a recorded /proc, or a place to write to. */
#pragma once

#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TREE_PATH_MAX = 1024 };

struct tree {
    char path[512];
};

static inline bool tree_make(struct tree *tree)
{
    const char *base = getenv("TMPDIR");

    snprintf(tree->path, sizeof tree->path, "%s/jeattach-unit.XXXXXX", base ? base : "/tmp");
    return mkdtemp(tree->path) != NULL;
}

static inline int tree_unlink(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline void tree_remove(struct tree *tree)
{
    nftw(tree->path, tree_unlink, 16, FTW_DEPTH | FTW_PHYS);
}

/* The full name of a file of the tree; out holds TREE_PATH_MAX bytes. */
static inline char *tree_name(const struct tree *tree, const char *name, char *out)
{
    snprintf(out, TREE_PATH_MAX, "%s/%s", tree->path, name);
    return out;
}

/* Makes the directories of a path. */
static inline void tree_parents(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
}

static inline bool tree_write_bytes(const struct tree *tree, const char *name, const void *bytes,
                                    size_t len)
{
    char path[TREE_PATH_MAX];

    tree_parents(tree_name(tree, name, path));
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    bool good = fd >= 0 && write(fd, bytes, len) == (ssize_t)len;
    if (fd >= 0)
        close(fd);
    return good;
}

static inline bool tree_write(const struct tree *tree, const char *name, const char *text)
{
    return tree_write_bytes(tree, name, text, strlen(text));
}

static inline bool tree_link(const struct tree *tree, const char *name, const char *to)
{
    char path[TREE_PATH_MAX];

    tree_parents(tree_name(tree, name, path));
    unlink(path);
    return symlink(to, path) == 0;
}

/* Reads at most size - 1 bytes and ends them with a NUL; -1 if there is no such file. */
static inline ssize_t tree_read(const struct tree *tree, const char *name, char *buf, size_t size)
{
    char path[TREE_PATH_MAX];
    int fd = open(tree_name(tree, name, path), O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, buf, size - 1) : -1;

    if (fd >= 0)
        close(fd);
    buf[n > 0 ? n : 0] = '\0';
    return n;
}
