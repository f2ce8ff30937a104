#include "run/peek/presence.h"

int presence_open(struct presence_map *map, const struct target *target)
{
    *map = (struct presence_map){.is_file = target->record != NULL, .last = UINT64_MAX};
    map->pages.fd = -1;
    return map->is_file ? 0 : pagemap_open(&map->pages, target->proc, target_via(target));
}

void presence_close(struct presence_map *map)
{
    pagemap_close(&map->pages);
}

enum page_state presence_at(struct presence_map *map, remote_addr addr)
{
    uint64_t page;

    if (map->is_file)
        return PAGE_PRESENT;
    page = addr / map->pages.page;
    if (page == map->last)
        return map->last_found;
    map->last = page;
    pagemap_states(&map->pages, addr, &map->last_found, 1);
    if (map->last_found == PAGE_UNKNOWN)
        map->last_found = PAGE_EMPTY;
    return map->last_found;
}

size_t presence_len(struct presence_map *map, remote_addr addr, size_t len)
{
    remote_addr at = addr;

    if (map->is_file)
        return len;
    while (at - addr < len && presence_at(map, at) == PAGE_PRESENT)
        at = (at / map->pages.page + 1) * map->pages.page;
    return at - addr < len ? (size_t)(at - addr) : len;
}
