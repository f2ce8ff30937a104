#include "host/namesake.h"
#include "host/parse.h"
#include "host/processes.h"

#include <string.h>

/* The first of its pids is the one here. */
static bool has_pid_below(const struct procfs *proc, pid_t process, pid_t pid)
{
    AUTO_FREE char *text = NULL;
    int pids[NS_PIDS_MAX];
    ssize_t n = procfs_slurp(proc, &text, PROCFS_STATUS_MAX, "%d/status", (int)process);
    size_t count = n > 0 ? parse_ns_pids(text, (size_t)n, pids) : 0;

    for (size_t i = 1; i < count; i++)
        if (pids[i] == (int)pid)
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
