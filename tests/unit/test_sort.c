/* The order of words. */
#include "base/list.h"
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

/* The second words are the first places, by which equal keys keep their order. */
static void test_pairs(void)
{
    static uint64_t pairs[2 * COUNT_MAX], scratch[2 * COUNT_MAX], keys[COUNT_MAX];
    uint64_t seed = 9;

    for (size_t i = 0; i < COUNT_MAX; i++) {
        keys[i] = pairs[2 * i] = random_word(&seed) & 0xff00000300;
        pairs[2 * i + 1] = i;
    }
    sort_pairs(pairs, scratch, COUNT_MAX);
    for (size_t i = 0; i < COUNT_MAX; i++)
        CHECK(pairs[2 * i] == keys[pairs[2 * i + 1]]);
    for (size_t i = 2; i < 2 * COUNT_MAX; i += 2)
        CHECK(pairs[i - 2] < pairs[i] || (pairs[i - 2] == pairs[i] && pairs[i - 1] < pairs[i + 1]));
}

int main(void)
{
    test_pairs();
    test_counts();
    test_bytes();
    test_equal();
    return check_result();
}
