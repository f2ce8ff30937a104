/*
 * Size classes and arenas in the report of malloc_stats_print("J"). The reports are those of a
 * program under each release (tests/fixtures/stats-*.json), without most classes: it allocated
 * 1000 objects of 48 bytes and freed every second one; with two arenas, in each of them.
 */
#include "check.h"
#include "jemalloc/bins.h"
#include "jemalloc/faults.h"

#include <stdlib.h>
#include <string.h>

static char *load(const char *release, size_t *len)
{
    char path[64], *text = malloc(1 << 16);
    FILE *file;

    snprintf(path, sizeof path, "../fixtures/stats-%s.json", release);
    file = fopen(path, "r");
    *len = file ? fread(text, 1, 1 << 16, file) : 0;
    if (file)
        fclose(file);
    return text;
}

static fault_code parse_text(struct bins *bins, const char *text)
{
    struct fault fault;

    return bins_parse(bins, text, strlen(text), &fault);
}

struct expected {
    const char *release, *name; /* name: of the last arena */
    size_t arenas;              /* with the sum */
    uint64_t objects, slabs, nonfull, allocated, cached, metadata;
};

static const struct expected expected[] = {
    {"4.5.0", "", 3, 1200, 8, 0, 361360, 0, 160400},
    {"5.0.1", "", 2, 700, 4, 0, 258888, 9600, 951112},
    {"5.2.1", "", 3, 1200, 8, 6, 418056, 29760, 1107368},
    {"5.3.0", "", 2, 700, 4, 3, 324416, 9600, 1196704},
    {"5.3.1", "auto_1", 3, 1124, 8, 6, 447168, 26112, 1309136},
    {"dev", "auto_0", 2, 624, 4, 3, 300288, 5952, 1253888},
};

static void check_sum(const struct bins *bins, const struct expected *want)
{
    const struct arena_bins *sum = &bins->arenas[0];
    const struct bin *bin = &sum->bins[3];

    CHECK(sum->arena == -1 && sum->threads == 1 && sum->bin_count == 5);
    CHECK(bin->size == 48 && bin->per_slab == 256 && bin->slab_bytes == 12288);
    CHECK(bin->objects == want->objects && bin->slabs == want->slabs);
    CHECK(bin->nonfull == want->nonfull && bin->requests == 1000 * (want->arenas - 1));
    CHECK(bin->allocations - bin->frees == bin->objects);
    CHECK(bin_live(bin) == 48 * want->objects);
    CHECK(bin_waste(bin) == (256 * want->slabs - want->objects) * 48);
    CHECK(sum->allocated == want->allocated && sum->cached == want->cached);
    CHECK(sum->metadata == want->metadata && sum->active > sum->allocated);
    CHECK(sum->large_count && sum->large[sum->large_count - 1].size == 114688);
    CHECK(sum->large[sum->large_count - 1].objects == want->arenas - 1);
    CHECK(large_live(&sum->large[sum->large_count - 1]) == 114688 * (want->arenas - 1));
}

static void test_releases(void)
{
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const struct expected *want = &expected[i];
        struct bins bins;
        struct fault fault;
        size_t len;
        char *text = load(want->release, &len);
        CHECK(bins_parse(&bins, text, len, &fault) == FAULT_NONE);
        free(text);
        if (!CHECK(bins.count == want->arenas))
            continue;
        check_sum(&bins, want);
        CHECK(bins.gauges.allocated == want->allocated && bins.gauges.has_retained);
        CHECK(bins.gauges.has_pinned == (strcmp(want->release, "dev") == 0));
        CHECK(bins.has_nonfull == (want->nonfull != 0));
        CHECK(bins.since_50 == (*want->release != '4') && *bins.version);
        CHECK(bins.arenas[bins.count - 1].arena == (int)bins.count - 2);
        CHECK(strcmp(bins.arenas[bins.count - 1].name, want->name) == 0);
        bins_free(&bins);
    }
}

/* The arenas are added up if the report has no "merged": of one arena, or with the option m. */
static void test_without_sum(void)
{
    struct bins with, without;
    struct fault fault;
    size_t len;
    char *text = load("5.2.1", &len), *merged = memmem(text, len, "\"merged\"", 8);

    CHECK(bins_parse(&with, text, len, &fault) == FAULT_NONE);
    if (CHECK(merged))
        memcpy(merged, "\"mergeX\"", 8);
    CHECK(bins_parse(&without, text, len, &fault) == FAULT_NONE);
    for (size_t i = 0; i < 5; i++)
        CHECK(memcmp(&with.arenas[0].bins[i], &without.arenas[0].bins[i],
                     sizeof with.arenas[0].bins[i]) == 0);
    CHECK(with.arenas[0].large_count == without.arenas[0].large_count);
    CHECK(memcmp(with.arenas[0].large, without.arenas[0].large,
                 with.arenas[0].large_count * sizeof *with.arenas[0].large) == 0);
    CHECK(with.arenas[0].active == without.arenas[0].active);
    CHECK(with.arenas[0].dirty == without.arenas[0].dirty);
    CHECK(with.arenas[0].metadata == without.arenas[0].metadata);
    CHECK(with.arenas[0].resident == without.arenas[0].resident);
    bins_free(&with);
    bins_free(&without);
    free(text);
}

#define ARENAS "\"arenas\":{\"page\":4096,\"bin\":[{\"size\":8,\"nregs\":512}]}"
#define ONE                                                                                        \
    "\"stats.arenas\":{\"0\":{\"bins\":[{\"curregs\":3,\"curslabs\":1,\"nonfull_slabs\":1}]}}"

/* jeattach stats --json of several processes. */
static void test_ours(void)
{
    struct bins bins;

    CHECK(parse_text(&bins, "{\"pid\":1,\"stats\":{\"jemalloc\":{" ARENAS "," ONE "}}}") ==
          FAULT_NONE);
    CHECK(bins.count == 2 && bins.arenas[0].bins[0].objects == 3);
    CHECK(bin_waste(&bins.arenas[0].bins[0]) == 509 * 8);
    bins_free(&bins);
}

static void test_refused(void)
{
    static const char *const texts[] = {
        "",
        "___ Begin jemalloc statistics ___\n",
        "{}",
        "[]",
        "{\"jemalloc\":1}",
        "{\"jemalloc\":{}}",
        "{\"jemalloc\":{" ARENAS "}}",
        "{\"jemalloc\":{" ONE "}}",
        "{\"jemalloc\":{" ARENAS ",\"stats.arenas\":{\"merged\":{\"nthreads\":1}}}}",
        "{\"jemalloc\":{" ARENAS "," ONE "}",
    };
    struct bins bins;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        CHECK(parse_text(&bins, texts[i]) == FAULT_STATS_REPORT);
        bins_free(&bins);
    }
}

/* Counts that contradict each other: read while they change, or forged. */
static void test_waste(void)
{
    const struct bin more = {.size = 8, .per_slab = 512, .slabs = 1, .objects = 513};
    const struct bin huge = {.size = 8, .per_slab = UINT64_MAX, .slabs = 2, .objects = 1};

    CHECK(bin_waste(&more) == 0 && bin_waste(&huge) == 0);
}

int main(void)
{
    test_releases();
    test_without_sum();
    test_ours();
    test_refused();
    test_waste();
    return check_result();
}
