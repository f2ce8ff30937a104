#include "attach/freezer.h"
#include "attach/util.h"

#include <stdio.h>
#include <string.h>

enum { CGROUP_TEXT_MAX = 64 << 10, FILE_MAX = 1024 };

/*
 * The path of one hierarchy in the text of /proc/PID/cgroup, whose lines are
 * "number:controllers:path"; controller "" is version 2. False if it is not
 * there or above the tool's own cgroup namespace ("/..").
 */
static bool path_of(const char *text, const char *controller, char *out, size_t size)
{
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        char list[128], path[FREEZER_PATH_MAX];
        int number;
        bool v2 = sscanf(line, "%d::%511[^\n]", &number, path) == 2;
        if (!v2 && sscanf(line, "%d:%127[^:\n]:%511[^\n]", &number, list, path) != 3)
            continue;
        if (*controller ? v2 || strcmp(list, controller) != 0 : !v2)
            continue;
        snprintf(out, size, "%s", path);
        return strncmp(out, "/..", 3) != 0;
    }
    return false;
}

/* freezer.state and cgroup.events tell of the groups above as well. */
static const struct {
    const char *controller, *mount, *file, *word;
} places[] = {
    {"freezer", "/sys/fs/cgroup/freezer", "freezer.state", "FROZEN"},
    {"freezer", "/sys/fs/cgroup/freezer", "freezer.state", "FREEZING"},
    {"", "/sys/fs/cgroup", "cgroup.events", "frozen 1"},
    {"", "/sys/fs/cgroup/unified", "cgroup.events", "frozen 1"},
};

bool freezer_holds(const struct procfs *proc, pid_t pid, char *path, size_t size)
{
    AUTO_FREE char *text = NULL;
    char below[FREEZER_PATH_MAX], state[256];

    if (procfs_slurp(proc, &text, CGROUP_TEXT_MAX, "%d/cgroup", (int)pid) <= 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        if (!path_of(text, places[i].controller, below, sizeof below))
            continue;
        snprintf(path, size, "%s%s", places[i].mount, strcmp(below, "/") == 0 ? "" : below);
        if (procfs_read(proc, state, sizeof state, "self/root%s/%s", path, places[i].file) > 0 &&
            strstr(state, places[i].word))
            return true;
    }
    return false;
}
