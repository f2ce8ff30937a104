#include "run/peek/presence.h"

int presence_open(struct presence_map *map, const struct target *target)
{
    *map = (struct presence_map){.is_file = target->record != NULL, .first = UINT64_MAX / 2};
    map->pages.fd = -1;
    return map->is_file ? 0 : pagemap_open(&map->pages, target->proc, target_via(target));
}

void presence_close(struct presence_map *map)
{
    pagemap_close(&map->pages);
}

enum page_state presence_at(struct presence_map *map, remote_addr addr)
{
    enum page_state found;
    uint64_t page;

    if (map->is_file)
        return PAGE_PRESENT;
    page = addr / map->pages.page;
    if (page - map->first >= PRESENCE_WINDOW) {
        map->first = page;
        pagemap_states(&map->pages, addr, map->states, PRESENCE_WINDOW);
    }
    found = map->states[page - map->first];
    return found == PAGE_UNKNOWN ? PAGE_EMPTY : found;
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
