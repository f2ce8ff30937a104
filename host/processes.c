#include "host/processes.h"
#include "base/cursor.h"
#include "base/list.h"
#include "base/util.h"
#include "host/faults.h"
#include "host/task.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

bool processes_add(struct processes *processes, pid_t pid)
{
    if (!LIST_GROW(processes->list, processes->capacity, processes->count))
        return false;
    processes->list[processes->count++] = pid;
    return true;
}

static int compare_pids(const void *a, const void *b)
{
    const pid_t *left = a, *right = b;

    return (*left > *right) - (*left < *right);
}

void processes_sort(struct processes *processes)
{
    size_t kept = 0;

    if (processes->count)
        qsort(processes->list, processes->count, sizeof *processes->list, compare_pids);
    for (size_t i = 0; i < processes->count; i++)
        if (!kept || processes->list[i] != processes->list[kept - 1])
            processes->list[kept++] = processes->list[i];
    processes->count = kept;
}

static const pid_t *find_pid(const struct processes *processes, pid_t pid)
{
    if (!processes->count)
        return NULL;
    return bsearch(&pid, processes->list, processes->count, sizeof pid, compare_pids);
}

bool processes_has(const struct processes *processes, pid_t pid)
{
    return find_pid(processes, pid) != NULL;
}

fault_code processes_list(struct processes *processes, const struct procfs *proc,
                          struct fault *fault)
{
    struct task_dir dir;
    int rc = task_dir_of_processes(&dir, proc);
    pid_t pid;

    memset(processes, 0, sizeof *processes);
    while (rc == 0 && (pid = task_dir_next(&dir)))
        if (!processes_add(processes, pid))
            rc = -ENOMEM;
    task_dir_close(&dir);
    if (rc != 0) {
        processes_free(processes);
        return fault_set(fault, FAULT_INTERNAL, -rc, "list processes", "/proc");
    }
    processes_sort(processes);
    return FAULT_NONE;
}

void processes_free(struct processes *processes)
{
    free(processes->list);
    memset(processes, 0, sizeof *processes);
}

/* Returns 0 if there is no parent, or it is unknown. */
static pid_t parent_of(const struct procfs *proc, pid_t pid)
{
    struct proc_stat stat;

    return process_stat(proc, pid, &stat) == 0 ? stat.ppid : 0;
}

/* The reads are not atomic: if a pid is reused in between, the ancestors could form a circle. */
bool processes_add_ancestors(struct processes *processes, const struct procfs *proc, pid_t pid)
{
    bool good = true;

    while (good && pid > 0 && !processes_has(processes, pid)) {
        good = processes_add(processes, pid);
        processes_sort(processes);
        pid = parent_of(proc, pid);
    }
    return good;
}

/* Takes at most as many steps as there are processes: see processes_add_ancestors. */
static bool descends_from(const struct processes *family, const struct processes *all,
                          const pid_t *parents, pid_t pid)
{
    for (size_t step = 0; step < all->count; step++) {
        const pid_t *at = find_pid(all, pid);
        if (!at)
            return false;
        pid = parents[at - all->list];
        if (processes_has(family, pid))
            return true;
    }
    return false;
}

bool processes_add_descendants(struct processes *family, const struct processes *all,
                               const struct procfs *proc)
{
    AUTO_FREE pid_t *parents = calloc(all->count ? all->count : 1, sizeof *parents);
    struct processes found = {0};
    bool good = parents != NULL;

    for (size_t i = 0; good && i < all->count; i++)
        parents[i] = parent_of(proc, all->list[i]);
    for (size_t i = 0; good && i < all->count; i++)
        if (descends_from(family, all, parents, all->list[i]))
            good = processes_add(&found, all->list[i]);
    for (size_t i = 0; good && i < found.count; i++)
        good = processes_add(family, found.list[i]);
    processes_free(&found);
    processes_sort(family);
    return good;
}

enum { DEPTH_MAX = 64, MEMBERS_TEXT_MAX = 16 << 20 };

static bool is_group(int dirfd)
{
    return faccessat(dirfd, "cgroup.procs", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/*
 * Opens the path as the operator wrote it, through any link; the directory at its
 * end must be a cgroup.
 */
static int open_absolute(const char *path)
{
    AUTO_CLOSE int fd = path[0] == '/' ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    struct statfs fs;

    if (fd < 0 || fstatfs(fd, &fs) || !is_group(fd))
        return -1;
    return fs.f_type == CGROUP2_SUPER_MAGIC || fs.f_type == CGROUP_SUPER_MAGIC ? steal_fd(&fd) : -1;
}

/* Opens the path as if root were "/". */
static int open_in_root(int root, const char *path)
{
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    AUTO_CLOSE int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof how);

    if (fd < 0 && errno == ENOSYS && !strstr(path, "..")) /* before Linux 5.6 */
        fd = openat(root, path + strspn(path, "/"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 && is_group(fd) ? steal_fd(&fd) : -1;
}

/* Skips processes of another pid namespace: they are listed as 0 (cgroup_procs_show). */
static bool add_members(struct processes *members, const struct procfs *group, size_t *left)
{
    AUTO_FREE char *text = NULL;
    ssize_t n = procfs_slurp(group, &text, MEMBERS_TEXT_MAX, "cgroup.procs");
    struct cursor rest, line;
    uint64_t pid;
    bool good = true;

    if (n == -ENOMEM)
        return false;
    rest = cursor_of(text, n > 0 ? (size_t)n : 0);
    for (; good && *left && cursor_take_line(&rest, &line); --*left)
        if (cursor_take_decimal(&line, &pid) && pid > 0 && pid <= INT32_MAX)
            good = processes_add(members, (pid_t)pid);
    return good;
}

/*
 * Adds the members of a cgroup and of those below it. One that is removed in between has none. Each
 * cgroup and each line takes one off *left, and at 0 it ends.
 */
static bool collect_members(struct processes *members, int group, int depth, size_t *left)
{
    const struct procfs here = {.dirfd = group};
    int fd = openat(group, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    bool good = add_members(members, &here, left);

    if (!dir)
        util_close(&fd);
    while (dir && good && *left && depth < DEPTH_MAX && (entry = readdir(dir))) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
            continue;
        AUTO_CLOSE int below =
            openat(group, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        --*left;
        good = below < 0 || collect_members(members, below, depth + 1, left);
    }
    if (dir)
        closedir(dir);
    return good;
}

bool processes_of_group(struct processes *members, int group, size_t most, bool *whole)
{
    memset(members, 0, sizeof *members);
    if (!collect_members(members, group, 0, &most)) {
        processes_free(members);
        return false;
    }
    *whole = most > 0;
    processes_sort(members);
    return true;
}

/* Takes over fd; counts the cgroups. */
static bool take_group(struct processes *members, int fd, size_t *groups)
{
    AUTO_CLOSE int group = fd;
    size_t left = SIZE_MAX;

    if (group < 0)
        return true;
    ++*groups;
    return collect_members(members, group, 0, &left);
}

/* With cgroup v1 each hierarchy has a mount below the root, and the root is not a cgroup. */
static bool take_relative(struct processes *members, int root, const char *path, size_t *groups)
{
    bool good = take_group(members, open_in_root(root, path), groups);
    int fd = is_group(root) ? -1 : openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;

    if (!dir)
        util_close(&fd);
    while (dir && good && (entry = readdir(dir))) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
            continue;
        AUTO_CLOSE int mount = open_in_root(root, entry->d_name);
        good = mount < 0 || take_group(members, open_in_root(mount, path), groups);
    }
    if (dir)
        closedir(dir);
    return good;
}

fault_code cgroup_members(struct processes *members, const char *root, const char *path,
                          struct fault *fault)
{
    AUTO_CLOSE int dirfd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    size_t groups = 0;

    memset(members, 0, sizeof *members);
    bool good = take_group(members, open_absolute(path), &groups);
    if (good && !groups && dirfd >= 0)
        good = take_relative(members, dirfd, path, &groups);
    processes_sort(members);
    if (good && groups)
        return FAULT_NONE;
    processes_free(members);
    if (!good)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "list a cgroup", "%s", path);
    return fault_set(fault, FAULT_NO_GROUP, 0, "find the cgroup", "%s", path);
}
