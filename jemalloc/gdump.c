#include "jemalloc/gdump.h"
#include "attach/target_paths.h"
#include "host/task.h"
#include "jemalloc/faults.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char stage[] = "prof.gdump";

/* The part of the prefix before the last slash; "." if there is none. */
static void directory_of(const char *prefix, char directory[PATH_MAX + 8])
{
    const char *slash = strrchr(prefix, '/');
    int length = slash == prefix ? 1 : slash ? (int)(slash - prefix) : 0;

    snprintf(directory, PATH_MAX + 8, "%.*s", length ? length : 1, length ? prefix : ".");
}

static void name_gdumps(const struct target *target, const char *path, char names[GDUMP_NAMES_MAX])
{
    struct proc_status status;
    int pid = (int)target->pid;

    if (process_status(target->proc, target_via(target), &status) == 0 && status.ns_pid)
        pid = status.ns_pid;
    snprintf(names, GDUMP_NAMES_MAX, "%s.%d.<n>.u<n>.heap", path, pid);
}

fault_code gdump_check(const struct target *target, const struct prof_state *state,
                       char names[GDUMP_NAMES_MAX], struct fault *fault)
{
    char directory[PATH_MAX + 8], path[2 * PATH_MAX];
    int err;

    if (!state->prefix[0])
        return fault_set(fault, FAULT_GDUMP, 0, stage,
                         "the prefix of its profiles' names (opt.prof_prefix) is empty: jemalloc "
                         "would write none");
    if (target_file_size_limit(target) != UINT64_MAX)
        return fault_set(fault, FAULT_GDUMP, 0, stage,
                         "it has a file size limit (RLIMIT_FSIZE): a larger profile would kill it");
    if (target_absolute_path(target, state->prefix, path, sizeof path))
        snprintf(path, sizeof path, "%s", state->prefix);
    directory_of(path, directory);
    err = target_may_create_in(target, directory);
    if (err)
        return fault_set(fault, FAULT_GDUMP, -err, stage, "the process cannot create files in %s",
                         directory);
    name_gdumps(target, path, names);
    return FAULT_NONE;
}
