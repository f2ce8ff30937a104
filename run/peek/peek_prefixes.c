#include "run/peek/peek_rows.h"

#include <string.h>

enum { PREFIX_LEAST = 3, PREFIX_SHARE = 10 };

struct prefix_search {
    const struct peek_sample *samples;
    size_t total;
    struct peek_prefix found[PEEK_SHOWN * 2];
    size_t count;
};

/* -1: the text is shorter. */
static int byte_of(const struct peek_sample *sample, size_t at)
{
    return at < sample->shown_len ? sample->shown[at] : -1;
}

/* Returns the end of the texts that have the same byte at `at` as the first one. */
static size_t group_end(const struct prefix_search *search, size_t first, size_t end, size_t at)
{
    size_t i = first;

    while (i < end && byte_of(&search->samples[i], at) == byte_of(&search->samples[first], at))
        i++;
    return i;
}

static bool is_common(const struct prefix_search *search, size_t hits)
{
    return hits * PREFIX_SHARE >= search->total && hits > 1;
}

static void report_prefix(struct prefix_search *search, size_t first, size_t end, size_t len)
{
    if (search->count < ARRAY_LEN(search->found))
        search->found[search->count++] = (struct peek_prefix){len, end - first, first};
}

/* Returns how many of the texts [first, end) have the commonest byte at `at`. */
static size_t largest_group(const struct prefix_search *search, size_t first, size_t end, size_t at)
{
    size_t largest = 0;

    for (size_t i = first, next; i < end; i = next) {
        next = group_end(search, i, end, at);
        if (byte_of(&search->samples[i], at) >= 0 && next - i > largest)
            largest = next - i;
    }
    return largest;
}

/* Of the texts [first, end), which agree in len bytes: a longer prefix is worth more than this
 * one if most texts have it. */
static void search_prefixes(struct prefix_search *search, size_t first, size_t end, size_t len)
{
    if (len >= PREFIX_LEAST &&
        (len == PEEK_SHOWN || largest_group(search, first, end, len) * 3 < (end - first) * 2)) {
        report_prefix(search, first, end, len);
        return;
    }
    for (size_t i = first, next; i < end; i = next) {
        next = group_end(search, i, end, len);
        if (byte_of(&search->samples[i], len) >= 0 && is_common(search, next - i))
            search_prefixes(search, i, next, len + 1);
    }
}

static int compare_prefixes(const void *a, const void *b)
{
    const struct peek_prefix *one = a, *two = b;

    return one->hits > two->hits ? -1 : one->hits < two->hits;
}

size_t peek_prefixes_find(const struct peek_sample *samples, size_t count,
                          struct peek_prefix prefixes[PEEK_PREFIXES])
{
    struct prefix_search search = {.samples = samples, .total = count};
    size_t n;

    search_prefixes(&search, 0, count, 0);
    qsort(search.found, search.count, sizeof *search.found, compare_prefixes);
    n = search.count < PEEK_PREFIXES ? search.count : PEEK_PREFIXES;
    memcpy(prefixes, search.found, n * sizeof *prefixes);
    return n;
}
