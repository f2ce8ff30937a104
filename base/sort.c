#include "base/sort.h"

#include <stdbool.h>
#include <string.h>

enum { BYTE_VALUES = 256 };

/* Returns the bits that are not the same in all words. */
static uint64_t find_differing_bits(const uint64_t *words, size_t count)
{
    uint64_t all = ~(uint64_t)0, any = 0;

    for (size_t i = 0; i < count; i++) {
        all &= words[i];
        any |= words[i];
    }
    return all ^ any;
}

/* Moves the words, in the order of one byte; those with the same byte keep theirs. */
static void distribute_words(const uint64_t *from, uint64_t *to, size_t count, unsigned shift)
{
    size_t counts[BYTE_VALUES] = {0}, at = 0;

    for (size_t i = 0; i < count; i++)
        counts[(from[i] >> shift) & 0xff]++;
    for (size_t i = 0; i < BYTE_VALUES; i++) {
        size_t n = counts[i];
        counts[i] = at;
        at += n;
    }
    for (size_t i = 0; i < count; i++)
        to[counts[(from[i] >> shift) & 0xff]++] = from[i];
}

static bool are_sorted(const uint64_t *words, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (words[i] < words[i - 1])
            return false;
    return true;
}

void sort_words(uint64_t *words, uint64_t *scratch, size_t count)
{
    uint64_t differing, *from = words, *to = scratch;

    if (are_sorted(words, count))
        return;
    differing = find_differing_bits(words, count);
    for (unsigned shift = 0; shift < 64; shift += 8) {
        uint64_t *sorted = to;
        if (!(differing >> shift & 0xff))
            continue;
        distribute_words(from, to, count, shift);
        to = from;
        from = sorted;
    }
    if (from != words)
        memcpy(words, from, count * sizeof *words);
}
