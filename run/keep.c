#include "run/keep.h"
#include "base/list.h"
#include "base/util.h"
#include "run/outfile.h"

#include <dirent.h>
#include <fcntl.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TIME_LEN = sizeof "20261120T102233Z" - 1 };

/* The first part is the name of the process, the second the time. */
static const char form[] = "^(.+)-[0-9]+-([0-9]{8}T[0-9]{6}Z)-[0-9.]+[MG]iB(" KEEP_CUT_SHORT
                           ")?[.]watch(-[0-9]+)?[.]heap$";

/* Returns the length of the process name; *time is where the time begins. */
static size_t take_apart(const regex_t *regex, const char *file, size_t *time)
{
    regmatch_t parts[3];

    if (regexec(regex, file, ARRAY_LEN(parts), parts, 0))
        return 0;
    *time = (size_t)parts[2].rm_so;
    return (size_t)parts[1].rm_eo;
}

size_t keep_name(const char *file)
{
    regex_t regex;
    size_t time, len;

    if (regcomp(&regex, form, REG_EXTENDED))
        return 0;
    len = take_apart(&regex, file, &time);
    regfree(&regex);
    return len;
}

struct file {
    char *name;
    const char *time; /* in the name */
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
    int order = strncmp(a->time, b->time, TIME_LEN);

    return order ? order : compare_times(&a->written, &b->written);
}

struct files {
    regex_t regex;
    struct file *list;
    size_t count, room;
};

static bool add(struct files *files, const char *name, size_t time, const struct stat *st)
{
    if (!LIST_GROW(files->list, files->room, files->count))
        return false;
    char *copy = strdup(name);
    if (copy)
        files->list[files->count++] = (struct file){copy, copy + time, st->st_mtim};
    return copy != NULL;
}

/* Finds all files of the same group, and of the tool's user, except the newest itself. */
static bool find_others(struct files *files, DIR *dir, const char *newest)
{
    size_t time, len = take_apart(&files->regex, newest, &time);
    const struct dirent *entry;
    struct stat st;

    while (len > 0 && (entry = readdir(dir))) {
        if (strcmp(entry->d_name, newest) == 0 || strncmp(entry->d_name, newest, len) != 0 ||
            take_apart(&files->regex, entry->d_name, &time) != len)
            continue;
        if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode) ||
            st.st_uid != geteuid())
            continue;
        if (!add(files, entry->d_name, time, &st))
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

    if (!dir || regcomp(&files.regex, form, REG_EXTENDED)) {
        dir ? (void)closedir(dir) : util_close(&fd);
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
    regfree(&files.regex);
    closedir(dir);
    return removed;
}
