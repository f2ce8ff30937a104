#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { LEAST = 64 << 10, HUGE_FROM = 4 << 20 };

/* Returns the bytes of the mapping of a list: the power of 2 for which its capacity was chosen. */
static size_t find_mapped_size(size_t bytes)
{
    size_t size = LEAST;

    while (size < bytes && size <= SIZE_MAX / 4)
        size *= 2;
    return size;
}

void *large_list_grow(void *list, size_t *capacity, size_t wanted, size_t item)
{
    size_t size;
    void *at;

    if (list && wanted <= *capacity)
        return list;
    if (wanted > SIZE_MAX / 4 / item)
        return NULL;
    size = find_mapped_size(wanted * item);
    if (list)
        at = mremap(list, find_mapped_size(*capacity * item), size, MREMAP_MAYMOVE);
    else
        at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    if (size >= HUGE_FROM)
        madvise(at, size, MADV_HUGEPAGE);
    *capacity = size / item;
    return at;
}

void large_list_free(void *list, size_t capacity, size_t item)
{
    if (list)
        munmap(list, find_mapped_size(capacity * item));
}

enum { BYTE_VALUES = 256 };

/*
 * Sorts records of `each` words, one or two, of which the first is the key: moves them in the
 * order of one byte after the other; those with the same byte keep theirs. each is a constant
 * wherever this is inlined.
 */
static inline void sort_records(uint64_t *words, uint64_t *scratch, size_t count, size_t each)
{
    uint64_t *from = words, *to = scratch, all = ~(uint64_t)0, any = 0;
    size_t ascending = 1;

    while (ascending < count && words[ascending * each] >= words[(ascending - 1) * each])
        ascending++;
    if (ascending >= count)
        return;
    for (size_t i = 0; i < count; i++) {
        all &= words[i * each];
        any |= words[i * each];
    }
    for (unsigned shift = 0; shift < 64; shift += 8) {
        size_t counts[BYTE_VALUES] = {0}, at = 0;
        if (!((all ^ any) >> shift & 0xff)) /* the byte is the same in all keys */
            continue;
        for (size_t i = 0; i < count; i++)
            counts[(from[i * each] >> shift) & 0xff]++;
        for (size_t i = 0; i < BYTE_VALUES; i++) {
            size_t n = counts[i];
            counts[i] = at;
            at += n;
        }
        for (size_t i = 0; i < count; i++) {
            size_t place = counts[(from[i * each] >> shift) & 0xff]++;
            memcpy(to + place * each, from + i * each, each * sizeof *to);
        }
        uint64_t *sorted = to;
        to = from;
        from = sorted;
    }
    if (from != words)
        memcpy(words, from, count * each * sizeof *words);
}

void sort_words(uint64_t *words, uint64_t *scratch, size_t count)
{
    sort_records(words, scratch, count, 1);
}

void sort_pairs(uint64_t *pairs, uint64_t *scratch, size_t count)
{
    sort_records(pairs, scratch, count, 2);
}
