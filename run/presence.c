#include "run/presence.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define PAGEMAP_PRESENT (UINT64_C(1) << 63)
#define PAGEMAP_SWAPPED (UINT64_C(1) << 62)

int presence_open(struct presence_map *map, const struct target *target)
{
    char name[PROC_NAME_MAX];

    *map = (struct presence_map){.fd = -1, .last = UINT64_MAX};
    map->page = (uint64_t)sysconf(_SC_PAGESIZE);
    map->is_file = target->record != NULL;
    if (map->is_file)
        return 0;
    map->fd =
        procfs_openf(target->proc, O_RDONLY, "%s/pagemap", procfs_name(target_via(target), name));
    return map->fd < 0 ? map->fd : 0;
}

void presence_close(struct presence_map *map)
{
    util_close(&map->fd);
}

enum presence presence_at(struct presence_map *map, remote_addr addr)
{
    uint64_t page = addr / map->page, entry = 0;

    if (map->is_file || page == map->last)
        return map->is_file ? PAGE_PRESENT : map->last_found;
    if (pread(map->fd, &entry, sizeof entry, (off_t)(page * sizeof entry)) != sizeof entry)
        entry = 0;
    map->last = page;
    map->last_found = entry & PAGEMAP_PRESENT   ? PAGE_PRESENT
                      : entry & PAGEMAP_SWAPPED ? PAGE_SWAPPED
                                                : PAGE_EMPTY;
    return map->last_found;
}

size_t presence_len(struct presence_map *map, remote_addr addr, size_t len)
{
    remote_addr at = addr;

    while (at - addr < len && presence_at(map, at) == PAGE_PRESENT)
        at = (at / map->page + 1) * map->page;
    return at - addr < len ? (size_t)(at - addr) : len;
}
