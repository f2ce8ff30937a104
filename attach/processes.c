#include "attach/processes.h"
#include "attach/util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* The pid that a directory's name is; 0: it is none. */
static pid_t pid_of_name(const char *name)
{
    char *end;
    long pid = strtol(name, &end, 10);

    return *name >= '1' && *name <= '9' && !*end && pid <= INT32_MAX ? (pid_t)pid : 0;
}

static bool processes_add(struct processes *processes, size_t *room, pid_t pid)
{
    if (processes->count == *room) {
        size_t larger = *room ? *room * 2 : 1024;
        pid_t *list = reallocarray(processes->list, larger, sizeof *list);
        if (!list)
            return false;
        processes->list = list;
        *room = larger;
    }
    processes->list[processes->count++] = pid;
    return true;
}

enum fault_code processes_list(struct processes *processes, const struct procfs *proc,
                               struct fault *fault)
{
    int fd = procfs_openf(proc, O_RDONLY | O_DIRECTORY, ".");
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    enum fault_code rc = FAULT_NONE;
    size_t room = 0;

    memset(processes, 0, sizeof *processes);
    if (!dir) {
        rc = fault_set(fault, FAULT_INTERNAL, fd < 0 ? -fd : errno, "list processes", "/proc");
        util_close(&fd);
        return rc;
    }
    while (rc == FAULT_NONE && (entry = readdir(dir))) {
        pid_t pid = pid_of_name(entry->d_name);
        if (pid && !processes_add(processes, &room, pid))
            rc = fault_set(fault, FAULT_INTERNAL, ENOMEM, "list processes", "/proc");
    }
    closedir(dir);
    if (rc != FAULT_NONE)
        processes_free(processes);
    return rc;
}

void processes_free(struct processes *processes)
{
    free(processes->list);
    memset(processes, 0, sizeof *processes);
}
