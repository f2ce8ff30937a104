/* The kernel's files about memory: limits, sums, pressure, and the mounts of cgroups. */
#include "fuzz.h"
#include "host/cgroup.h"
#include "host/group_account.h"
#include "host/limits.h"
#include "host/pressure.h"

#include <string.h>

static void parse_numbers(const char *text, size_t size)
{
    struct limit_use use;
    struct pressure pressure;
    uint64_t value;

    (void)limit_parse(text, size, &value);
    uint64_t kinds[GROUP_KINDS];

    if (!group_kinds_parse(text, size, size % 2, kinds))
        expect(kinds[GROUP_PROCESSES] == 0 && kinds[GROUP_FILES] == 0);
    (void)limit_files_parse(text, size, false, true, &value);
    (void)limit_files_parse(text, size, true, false, &value);
    (void)limit_statm_parse(text, size, &value);
    if (limit_meminfo_parse(text, size, &use))
        expect(use.used <= use.limit);
    if (pressure_parse(text, size, &pressure))
        expect(memmem(text, size, "some ", 5) != NULL);
}

/* A path that is found ends below the mount, and no part of it leads up. */
static void find_directory(const char *text, size_t size, enum cgroup_tree tree, const char *path)
{
    struct cgroup_dir dir;

    if (!cgroup_dir_mounted(cursor_of(text, size), tree, path, &dir))
        return;
    expect(dir.top <= strlen(dir.path) && strlen(dir.path) < sizeof dir.path);
    expect(dir.path[dir.top] == '\0' || dir.path[dir.top] == '/');
    expect(!strstr(dir.path + dir.top, "/../"));
}

static void parse_paths(const char *text, size_t size, enum cgroup_tree tree)
{
    char path[128];

    if (cgroup_path(cursor_of(text, size), tree, path, sizeof path)) {
        expect(path[0] == '/' && strlen(path) < sizeof path);
        find_directory(text, size, tree, path);
    }
    find_directory(text, size, tree, "/");
    find_directory(text, size, tree, "/docker/1");
    find_directory(text, size, tree, "/../a/b");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    parse_numbers((const char *)data, size);
    parse_paths((const char *)data, size, CGROUP_V1_MEMORY);
    parse_paths((const char *)data, size, CGROUP_V2);
    return 0;
}
