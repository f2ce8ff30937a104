#include "host/namesake.h"
#include "host/processes.h"
#include "host/task.h"

#include <string.h>

/* The first of its pids is the one here. */
static bool has_pid_below(const struct procfs *proc, pid_t process, pid_t pid)
{
    struct proc_status status;

    if (process_status(proc, process, &status))
        return false;
    for (size_t i = 1; i < status.ns_pid_count; i++)
        if (status.ns_pids[i] == (int)pid)
            return true;
    return false;
}

void namesakes_find(struct namesakes *found, const struct procfs *proc, pid_t pid)
{
    struct processes all = {0};

    memset(found, 0, sizeof *found);
    if (processes_list(&all, proc, NULL) != FAULT_NONE)
        return;
    for (size_t i = 0; i < all.count; i++) {
        if (!has_pid_below(proc, all.list[i], pid))
            continue;
        if (found->count < ARRAY_LEN(found->here))
            found->here[found->count] = all.list[i];
        found->count++;
    }
    processes_free(&all);
}
