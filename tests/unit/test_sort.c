/* The order of words. */
#include "base/sort.h"
#include "check.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT_MAX = 3000 };

static int compare_words(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static uint64_t random_word(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed ^ *seed >> 33;
}

/* Compares with qsort(3); only the bits in mask vary. */
static bool sorts_as_qsort(size_t count, uint64_t mask, uint64_t others, uint64_t seed)
{
    static uint64_t words[COUNT_MAX + 1], expected[COUNT_MAX], scratch[COUNT_MAX];
    const uint64_t guard = seed;

    for (size_t i = 0; i < count; i++)
        words[i] = expected[i] = (random_word(&seed) & mask) | others;
    words[count] = guard;
    qsort(expected, count, sizeof *expected, compare_words);
    sort_words(words, scratch, count);
    return memcmp(words, expected, count * sizeof *words) == 0 && words[count] == guard;
}

static void test_counts(void)
{
    for (size_t count = 0; count < 70; count++)
        CHECK(sorts_as_qsort(count, UINT64_MAX, 0, count + 1));
    CHECK(sorts_as_qsort(COUNT_MAX, UINT64_MAX, 0, 7));
}

/* An odd and an even number of bytes differ: the result is in the words, not in the scratch. */
static void test_bytes(void)
{
    for (unsigned bytes = 1; bytes <= 8; bytes++)
        for (unsigned low = 0; low + bytes <= 8; low++) {
            uint64_t mask = (bytes == 8 ? UINT64_MAX : ((uint64_t)1 << 8 * bytes) - 1) << 8 * low;
            CHECK(sorts_as_qsort(COUNT_MAX, mask, ~mask & 0x7f5555aaaa33cc10, bytes));
        }
    CHECK(sorts_as_qsort(COUNT_MAX, 0xff000000000000ff, 0, 3));
}

static void test_equal(void)
{
    CHECK(sorts_as_qsort(COUNT_MAX, 0, 0x7f0000001000, 1));
    CHECK(sorts_as_qsort(COUNT_MAX, 1, 0, 1));
    CHECK(sorts_as_qsort(COUNT_MAX, (uint64_t)1 << 63, 5, 1));
}

int main(void)
{
    test_counts();
    test_bytes();
    test_equal();
    return check_result();
}
