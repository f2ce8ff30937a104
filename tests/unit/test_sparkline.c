/* Sparklines: heights, noise, values that are not known, more values than columns. */
#include "check.h"
#include "cli/output/sparkline.h"

#include <string.h>

static bool draws(const uint64_t *values, size_t count, size_t columns, const char *expected)
{
    char out[SPARKLINE_TEXT];

    sparkline(values, count, columns, expected[0] & 0x80, out);
    if (strcmp(out, expected) != 0)
        fprintf(stderr, "  got '%s'\n", out);
    return strcmp(out, expected) == 0;
}

static void test_heights(void)
{
    static const uint64_t rising[] = {1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000},
                          falling[] = {3000, 2000, 1000};

    CHECK(draws(rising, 8, 40, "▁▂▃▄▅▆▇█"));
    CHECK(draws(rising, 8, 40, "__..-=##"));
    CHECK(draws(falling, 3, 40, "█▅▁"));
    CHECK(draws(rising, 8, 4, "▁▃▆█")); /* two a column */
}

static void test_noise(void)
{
    static const uint64_t noise[] = {300 << 20, (300 << 20) + 4096, (300 << 20) - 65536},
                          same[] = {7, 7, 7};

    CHECK(draws(noise, 3, 40, "▁▁▁"));
    CHECK(draws(same, 3, 40, "▁▁▁"));
}

static void test_unknown(void)
{
    static const uint64_t gap[] = {5000, 0, 10000}, none[] = {0, 0};
    uint64_t many[1000];
    char out[SPARKLINE_TEXT];

    CHECK(draws(gap, 3, 40, "▁ █"));
    CHECK(draws(none, 2, 40, "  "));
    CHECK(draws(none, 0, 40, ""));
    for (size_t i = 0; i < 1000; i++)
        many[i] = i + 1;
    CHECK(strlen(sparkline(many, 1000, SIZE_MAX, true, out)) == SPARKLINE_TEXT - 1);
}

int main(void)
{
    test_heights();
    test_noise();
    test_unknown();
    return check_result();
}
