#include "run/keep.h"
#include "base/list.h"
#include "base/util.h"
#include "run/outfile.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TIME_LEN = sizeof "20261120T102233Z" - 1 };

/* A name that is parsed from its end. */
struct back {
    const char *text;
    size_t len;
};

static bool drop(struct back *name, const char *end)
{
    size_t n = strlen(end);

    if (name->len < n || memcmp(name->text + name->len - n, end, n) != 0)
        return false;
    name->len -= n;
    return true;
}

/* Drops all characters of the set from the end; returns how many. */
static size_t drop_any(struct back *name, const char *set)
{
    size_t n = 0;

    while (name->len > 0 && strchr(set, name->text[name->len - 1])) {
        name->len--;
        n++;
    }
    return n;
}

/* Drops "20261120T102233Z"; *at is its start. */
static bool drop_time(struct back *name, const char **at)
{
    struct back rest = *name;

    if (!drop(&rest, "Z") || drop_any(&rest, "0123456789") != 6 || !drop(&rest, "T") ||
        drop_any(&rest, "0123456789") != 8)
        return false;
    *at = rest.text + rest.len;
    *name = rest;
    return true;
}

/* Drops ".watch.heap", or ".watch-2.heap" if a number was added. */
static bool drop_extension(struct back *name)
{
    if (drop(name, KEEP_EXTENSION))
        return true;
    return drop(name, ".heap") && drop_any(name, "0123456789") > 0 && drop(name, ".watch-");
}

/* Returns the length of the process name; *time is the start of the time. */
static size_t take_apart(const char *file, const char **time)
{
    struct back name = {file, strlen(file)};

    if (!drop_extension(&name))
        return 0;
    (void)drop(&name, KEEP_CUT_SHORT);
    if ((!drop(&name, "MiB") && !drop(&name, "GiB")) || drop_any(&name, "0123456789.") == 0 ||
        !drop(&name, "-") || !drop_time(&name, time) || !drop(&name, "-") ||
        drop_any(&name, "0123456789") == 0 || !drop(&name, "-"))
        return 0;
    return name.len;
}

size_t keep_name(const char *file)
{
    const char *time;

    return take_apart(file, &time);
}

struct file {
    char *name;
    struct timespec written;
};

static int compare_times(const struct timespec *a, const struct timespec *b)
{
    if (a->tv_sec != b->tv_sec)
        return a->tv_sec < b->tv_sec ? -1 : 1;
    return a->tv_nsec < b->tv_nsec ? -1 : a->tv_nsec > b->tv_nsec;
}

/* Orders by the times in the names; in the same second, by modification times. */
static int compare(const void *left, const void *right)
{
    const struct file *a = left, *b = right;
    const char *time_a = a->name, *time_b = b->name;

    take_apart(a->name, &time_a);
    take_apart(b->name, &time_b);
    int order = strncmp(time_a, time_b, TIME_LEN);
    return order ? order : compare_times(&a->written, &b->written);
}

struct files {
    struct file *list;
    size_t count, room;
};

static bool add(struct files *files, const char *name, const struct stat *st)
{
    if (!LIST_GROW(files->list, files->room, files->count))
        return false;
    char *copy = strdup(name);
    if (copy)
        files->list[files->count++] = (struct file){copy, st->st_mtim};
    return copy != NULL;
}

/* True if both files are of processes with the same name. */
static bool same_keep_group(const char *a, const char *b)
{
    const size_t len = keep_name(a);

    return len > 0 && keep_name(b) == len && memcmp(a, b, len) == 0;
}

/* Finds all files of the same group, and of the tool's user, except the newest itself. */
static bool find_others(struct files *files, DIR *dir, const char *newest)
{
    const struct dirent *entry;
    struct stat st;

    while ((entry = readdir(dir))) {
        if (strcmp(entry->d_name, newest) == 0 || !same_keep_group(entry->d_name, newest))
            continue;
        if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode) ||
            st.st_uid != geteuid())
            continue;
        if (!add(files, entry->d_name, &st))
            return false;
    }
    return true;
}

unsigned keep_newest(const char *directory, const char *newest, unsigned keep)
{
    struct files files = {0};
    int fd = outfile_directory(directory);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    unsigned removed = 0;

    if (!dir) {
        util_close(&fd);
        return 0;
    }
    if (find_others(&files, dir, newest) && files.count > 0 && files.count + 1 > keep) {
        qsort(files.list, files.count, sizeof *files.list, compare);
        for (size_t i = 0; i < files.count + 1 - keep; i++)
            removed += unlinkat(dirfd(dir), files.list[i].name, 0) == 0;
    }
    for (size_t i = 0; i < files.count; i++)
        free(files.list[i].name);
    free(files.list);
    closedir(dir);
    return removed;
}
