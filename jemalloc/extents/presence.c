#include "jemalloc/extents/presence.h"

void presence_begin(struct presence *presence, const struct pagemap *map, uint64_t limit)
{
    presence->map = map;
    presence->start = UINT64_MAX;
    presence->pieces_left = limit / pagemap_piece_bytes(map);
    presence->known = map->fd >= 0;
}

static bool move_window(struct presence *presence, remote_addr start)
{
    if (presence->start == start)
        return true;
    if (!presence->pieces_left)
        return false;
    presence->pieces_left--;
    presence->start = start;
    pagemap_states(presence->map, start, presence->states, PAGEMAP_PIECE);
    return true;
}

uint64_t presence_of(struct presence *presence, remote_addr start, uint64_t len)
{
    const uint64_t piece = pagemap_piece_bytes(presence->map), page = presence->map->page;
    const remote_addr end = start + len;
    uint64_t sum = 0;

    for (remote_addr at = start - start % page; presence->known && at < end; at += page) {
        const remote_addr first = at - at % piece;
        enum page_state state;
        presence->known = move_window(presence, first);
        state = presence->states[(at - first) / page];
        presence->known = presence->known && state != PAGE_UNKNOWN;
        sum += state == PAGE_PRESENT ? page : 0;
    }
    return presence->known ? sum : 0;
}
