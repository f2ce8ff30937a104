#include "host/processes.h"
#include "base/list.h"
#include "base/util.h"
#include "host/task.h"

#include <errno.h>
#include <string.h>

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

/* Returns the parents of all, in the same order; the caller frees them. */
static pid_t *read_parents(const struct processes *all, const struct procfs *proc)
{
    pid_t *parents = calloc(all->count ? all->count : 1, sizeof *parents);

    for (size_t i = 0; parents && i < all->count; i++)
        parents[i] = parent_of(proc, all->list[i]);
    return parents;
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
    AUTO_FREE pid_t *parents = read_parents(all, proc);
    struct processes found = {0};
    bool good = parents != NULL;

    for (size_t i = 0; good && i < all->count; i++)
        if (descends_from(family, all, parents, all->list[i]))
            good = processes_add(&found, all->list[i]);
    for (size_t i = 0; good && i < found.count; i++)
        good = processes_add(family, found.list[i]);
    processes_free(&found);
    processes_sort(family);
    return good;
}
