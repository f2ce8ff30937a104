/* Sorted ranges of addresses. */
#include "check.h"
#include "elf/modules.h"

#include <string.h>

static bool found(const struct code_ranges *ranges, remote_addr addr, const char *what)
{
    const struct code_range *range = ranges_find(ranges, addr);

    if (!what)
        return range == NULL;
    return range && strcmp(range->what, what) == 0 && addr >= range->start && addr < range->end;
}

static void test_empty(void)
{
    struct code_ranges ranges = {0};

    CHECK(found(&ranges, 0, NULL) && found(&ranges, UINT64_MAX, NULL));
    ranges_sort(&ranges);
    CHECK(ranges.count == 0);
    CHECK(ranges_add(&ranges, 5, 5, "empty") && ranges_add(&ranges, 6, 5, "backwards"));
    CHECK(ranges.count == 0);
    ranges_free(&ranges);
}

static void test_borders(void)
{
    struct code_ranges ranges = {0};

    CHECK(ranges_add(&ranges, 0x3000, 0x3001, "one"));
    CHECK(ranges_add(&ranges, 0x1000, 0x2000, "low"));
    CHECK(ranges_add(&ranges, 0xfffffffffffff000, UINT64_MAX, "high"));
    CHECK(ranges_add(&ranges, 0x2000, 0x2800, "next"));
    ranges_sort(&ranges);
    CHECK(ranges.count == 4);
    CHECK(found(&ranges, 0, NULL) && found(&ranges, 0xfff, NULL));
    CHECK(found(&ranges, 0x1000, "low") && found(&ranges, 0x1fff, "low"));
    CHECK(found(&ranges, 0x2000, "next") && found(&ranges, 0x27ff, "next"));
    CHECK(found(&ranges, 0x2800, NULL) && found(&ranges, 0x2fff, NULL));
    CHECK(found(&ranges, 0x3000, "one") && found(&ranges, 0x3001, NULL));
    CHECK(found(&ranges, 0xffffffffffffefff, NULL));
    CHECK(found(&ranges, 0xfffffffffffff000, "high"));
    CHECK(found(&ranges, UINT64_MAX - 1, "high") && found(&ranges, UINT64_MAX, NULL));
    ranges_free(&ranges);
    CHECK(ranges.count == 0 && ranges.list == NULL);
}

static void test_overlaps(void)
{
    struct code_ranges ranges = {0};

    CHECK(ranges_add(&ranges, 10, 20, "a"));
    CHECK(ranges_add(&ranges, 100, 110, "c"));
    CHECK(ranges_add(&ranges, 15, 30, "b")); /* over the end */
    CHECK(ranges_add(&ranges, 12, 14, "b")); /* within */
    CHECK(ranges_add(&ranges, 29, 40, "b")); /* only over ranges that were merged before */
    CHECK(ranges_add(&ranges, 100, 105, "c"));
    CHECK(ranges_add(&ranges, 40, 41, "d")); /* adjacent: stays separate */
    ranges_sort(&ranges);
    CHECK(ranges.count == 3);
    CHECK(found(&ranges, 9, NULL) && found(&ranges, 10, "a"));
    for (remote_addr addr = 10; addr < 40; addr++)
        CHECK(ranges_find(&ranges, addr) == &ranges.list[0]);
    CHECK(found(&ranges, 40, "d") && found(&ranges, 41, NULL));
    CHECK(found(&ranges, 100, "c") && found(&ranges, 109, "c") && found(&ranges, 110, NULL));
    ranges_free(&ranges);
}

static unsigned next_random(unsigned *state)
{
    *state = *state * 1103515245 + 12345;
    return *state >> 16;
}

/* Any set of ranges, compared with a bitmap of the addresses. */
static void test_random(unsigned seed)
{
    struct code_ranges ranges = {0};
    bool covered[1024] = {false};

    for (unsigned i = 0; i < 40; i++) {
        remote_addr start = next_random(&seed) % 1000, end = start + next_random(&seed) % 24;
        CHECK(ranges_add(&ranges, start, end, "x"));
        memset(covered + start, true, end - start);
    }
    ranges_sort(&ranges);
    for (remote_addr addr = 0; addr < 1024; addr++)
        CHECK(found(&ranges, addr, covered[addr] ? "x" : NULL));
    for (size_t i = 1; i < ranges.count; i++)
        CHECK(ranges.list[i - 1].end <= ranges.list[i].start);
    ranges_free(&ranges);
}

int main(void)
{
    test_empty();
    test_borders();
    test_overlaps();
    for (unsigned seed = 1; seed <= 50; seed++)
        test_random(seed);
    return check_result();
}
