/* Ranges that nest, overlap and touch; any input against a search of all of them. */
#include "check.h"
#include "profile/symbols/spans.h"

#include <stdlib.h>

static void add(struct spans *spans, uint64_t start, uint64_t end, uint32_t depth, uint32_t value)
{
    CHECK(spans_add(spans, (struct span){start, end, depth, value}));
}

static void test_empty(void)
{
    struct spans spans = {0};

    add(&spans, 5, 5, 0, 1);
    add(&spans, 6, 5, 0, 1);
    CHECK(spans.count == 0 && spans_finish(&spans));
    CHECK(spans_find(&spans, 5) == SPANS_NONE && spans_find(&spans, UINT64_MAX) == SPANS_NONE);
    spans_free(&spans);
}

static void test_nested(void)
{
    struct spans spans = {0};

    add(&spans, 0x20, 0x30, 1, 2);
    add(&spans, 0x10, 0x50, 0, 1);
    add(&spans, 0x24, 0x28, 2, 3);
    add(&spans, 0x30, 0x38, 1, 4);
    CHECK(spans_finish(&spans));
    CHECK(spans_find(&spans, 0xf) == SPANS_NONE && spans_find(&spans, 0x10) == 1);
    CHECK(spans_find(&spans, 0x1f) == 1 && spans_find(&spans, 0x20) == 2);
    CHECK(spans_find(&spans, 0x24) == 3 && spans_find(&spans, 0x27) == 3);
    CHECK(spans_find(&spans, 0x28) == 2 && spans_find(&spans, 0x2f) == 2);
    CHECK(spans_find(&spans, 0x30) == 4 && spans_find(&spans, 0x38) == 1);
    CHECK(spans_find(&spans, 0x4f) == 1 && spans_find(&spans, 0x50) == SPANS_NONE);
    spans_free(&spans);
}

static void test_ends_of_the_address_space(void)
{
    struct spans spans = {0};

    add(&spans, 0, 1, 0, 1);
    add(&spans, UINT64_MAX - 1, UINT64_MAX, 0, 2);
    CHECK(spans_finish(&spans));
    CHECK(spans_find(&spans, 0) == 1 && spans_find(&spans, 1) == SPANS_NONE);
    CHECK(spans_find(&spans, UINT64_MAX - 1) == 2 && spans_find(&spans, UINT64_MAX) == SPANS_NONE);
    spans_free(&spans);
}

/* The expected result, from all ranges: the deepest, and the last to start among those. */
static bool agrees(const struct span *all, size_t count, uint64_t address, uint32_t value)
{
    const struct span *best = NULL;
    bool among = false;

    for (size_t i = 0; i < count; i++) {
        if (address < all[i].start || address >= all[i].end)
            continue;
        if (!best || all[i].depth > best->depth ||
            (all[i].depth == best->depth && all[i].start > best->start))
            best = &all[i];
    }
    for (size_t i = 0; best && i < count; i++) /* equal ones may replace each other */
        among = among || (all[i].value == value && all[i].depth == best->depth &&
                          all[i].start == best->start && address < all[i].end);
    return best ? among : value == SPANS_NONE;
}

static void test_random(void)
{
    enum { RANGES = 60, ADDRESSES = 220, ROUNDS = 300 };
    size_t wrong = 0, found = 0;

    srand(1);
    for (int round = 0; round < ROUNDS; round++) {
        struct span all[RANGES];
        struct spans spans = {0};
        for (uint32_t i = 0; i < RANGES; i++) {
            uint64_t start = (uint64_t)rand() % 200;
            all[i] = (struct span){start, start + (uint64_t)rand() % 30, (uint32_t)rand() % 4, i};
            wrong += !spans_add(&spans, all[i]);
        }
        wrong += !spans_finish(&spans);
        for (uint64_t address = 0; address < ADDRESSES; address++) {
            uint32_t value = spans_find(&spans, address);
            wrong += !agrees(all, RANGES, address, value);
            found += value != SPANS_NONE;
        }
        for (size_t i = 1; i < spans.count; i++)
            wrong += spans.list[i].start < spans.list[i - 1].end;
        spans_free(&spans);
    }
    CHECK(wrong == 0);
    CHECK(found > ROUNDS * 100);
}

int main(void)
{
    test_empty();
    test_nested();
    test_ends_of_the_address_space();
    test_random();
    return check_result();
}
