#include "elf/ranges.h"
#include "base/search.h"

#include <string.h>

bool ranges_add(struct code_ranges *ranges, remote_addr start, remote_addr end, const char *what)
{
    struct code_range *list;

    if (start >= end)
        return true;
    list = reallocarray(ranges->list, ranges->count + 1, sizeof *list);
    if (!list)
        return false;
    ranges->list = list;
    list[ranges->count++] = (struct code_range){start, end, what};
    return true;
}

static int compare_range_start(const void *a, const void *b)
{
    const struct code_range *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* Merges overlapping ranges, so that a binary search by start is sufficient. */
void ranges_sort(struct code_ranges *ranges)
{
    size_t kept = 0;

    if (ranges->count == 0)
        return;
    qsort(ranges->list, ranges->count, sizeof *ranges->list, compare_range_start);
    for (size_t i = 1; i < ranges->count; i++) {
        struct code_range *last = &ranges->list[kept], *next = &ranges->list[i];
        if (next->start >= last->end)
            ranges->list[++kept] = *next;
        else if (next->end > last->end)
            last->end = next->end;
    }
    ranges->count = kept + 1;
}

const struct code_range *ranges_find(const struct code_ranges *ranges, remote_addr addr)
{
    size_t low = SEARCH_FIRST(i, ranges->count, addr < ranges->list[i].end);
    return low < ranges->count && addr >= ranges->list[low].start ? &ranges->list[low] : NULL;
}

void ranges_free(struct code_ranges *ranges)
{
    free(ranges->list);
    memset(ranges, 0, sizeof *ranges);
}
