#include "host/selector.h"
#include "base/text.h"
#include "host/faults.h"
#include "host/processes.h"
#include "host/task.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/* include/linux/sched.h */
#define PF_KTHREAD 0x00200000u

static bool path_is(const char *path, const char *name)
{
    return strcmp(strchr(name, '/') ? path : text_base_name(path), name) == 0;
}

bool selector_name_is(const struct procfs *proc, pid_t pid, const char *name)
{
    static const char end[] = " (deleted)";
    char path[PATH_MAX];
    struct proc_stat stat;

    if (process_stat(proc, pid, &stat) == 0 && strcmp(stat.comm, name) == 0)
        return true;
    if (procfs_readlink(proc, path, sizeof path, "%d/exe", (int)pid) > 0) {
        /* fs/d_path.c appends this if the program was replaced on disk. */
        if (strlen(path) >= sizeof end && text_ends_with(path, end))
            path[strlen(path) - (sizeof end - 1)] = '\0';
        if (path_is(path, name))
            return true;
    }
    return procfs_read(proc, path, sizeof path, "%d/cmdline", (int)pid) > 0 && path_is(path, name);
}

bool selector_matches(const struct selector *selector, const struct procfs *proc, pid_t pid,
                      struct container *container)
{
    /* The container first: reading argv[0] reads the memory of the process. */
    if (selector->container && !container_has(proc, pid, selector->container, container))
        return false;
    return !selector->name || selector_name_is(proc, pid, selector->name);
}

/* The sets of processes that are known before the list is made. */
struct process_sets {
    struct processes all, own, group, family;
};

static fault_code find_sets(const struct selector *selector, const struct procfs *proc,
                            struct process_sets *sets, struct fault *fault)
{
    const char *root = selector->cgroup_root ? selector->cgroup_root : CGROUP_ROOT;
    fault_code rc = processes_list(&sets->all, proc, fault);
    bool good = true;
    char self[32];

    if (rc == FAULT_NONE && selector->cgroup)
        rc = cgroup_members(&sets->group, root, selector->cgroup, fault);
    if (rc != FAULT_NONE)
        return rc;
    for (size_t i = 0; good && i < selector->root_count; i++)
        good = processes_add(&sets->family, selector->roots[i]);
    processes_sort(&sets->family);
    if (good && selector->root_count)
        good = processes_add_descendants(&sets->family, &sets->all, proc);
    /* Uses /proc/self: if /proc is of another pid namespace, the tool has another pid there. */
    if (good && !selector->own_too && procfs_readlink(proc, self, sizeof self, "self") > 0)
        good = processes_add_ancestors(&sets->own, proc, (pid_t)atoi(self));
    return good ? FAULT_NONE : fault_set(fault, FAULT_INTERNAL, ENOMEM, "list processes", "/proc");
}

static bool is_root(const struct selector *selector, pid_t pid)
{
    for (size_t i = 0; i < selector->root_count; i++)
        if (selector->roots[i] == pid)
            return true;
    return false;
}

void selector_note_container(struct container containers[2], const struct container *container)
{
    struct container *first = &containers[0], *second = &containers[1];

    if (!first->engine)
        *first = *container;
    else if (strcmp(first->id, container->id) != 0 || first->owner != container->owner)
        *second = *container;
}

static bool add_if_match(const struct selector *selector, const struct procfs *proc,
                         const struct process_sets *sets, pid_t pid, struct matches *matches)
{
    struct container container = {0};
    struct proc_stat stat;
    bool counts = !selector->own_too || selector->container;
    bool process = counts && process_stat(proc, pid, &stat) == 0 && !(stat.flags & PF_KTHREAD) &&
                   stat.state != 'Z';

    if (selector->at)
        *selector->at = pid;
    matches->looked += process;
    if ((selector->container && !process) ||
        (selector->cgroup && !processes_has(&sets->group, pid)) ||
        (selector->root_count && !processes_has(&sets->family, pid)))
        return true;
    bool own = processes_has(&sets->own, pid) && !is_root(selector, pid);
    if (selector->match_later)
        return (!own || processes_add(&matches->own_list, pid)) &&
               processes_add(&matches->processes, pid);
    if (!selector_matches(selector, proc, pid, &container))
        return true;
    if (container.engine)
        selector_note_container(matches->containers, &container);
    matches->own += own;
    return own || processes_add(&matches->processes, pid);
}

fault_code selector_list(const struct selector *selector, const struct procfs *proc,
                         struct matches *matches, struct fault *fault)
{
    struct process_sets sets = {0};
    fault_code rc;

    memset(matches, 0, sizeof *matches);
    rc = find_sets(selector, proc, &sets, fault);
    for (size_t i = 0; rc == FAULT_NONE && i < sets.all.count; i++)
        if (!add_if_match(selector, proc, &sets, sets.all.list[i], matches))
            rc = fault_set(fault, FAULT_INTERNAL, ENOMEM, "list processes", "/proc");
    if (rc == FAULT_NONE && matches->containers[1].engine)
        rc = fault_set(fault, FAULT_AMBIGUOUS, 0, "find the container", "%s", selector->container);
    processes_free(&sets.all);
    processes_free(&sets.own);
    processes_free(&sets.group);
    processes_free(&sets.family);
    return rc;
}

void matches_free(struct matches *matches)
{
    processes_free(&matches->processes);
    processes_free(&matches->own_list);
}
