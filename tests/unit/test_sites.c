/* Allocation sites over several profiles: sizes, growth, order, and removal. */
#include "check.h"
#include "profile/sites.h"
#include "stub_symbols.h"

#include <math.h>
#include <string.h>

#define SECOND 1000000000ull
#define HEAD   "heap_v2/1\n  t*: 1: 1 [0: 0]\n"
#define MAPS                                                                                       \
    "\nMAPPED_LIBRARIES:\n"                                                                        \
    "1000-2000 r-xp 00000000 08:02 1 /bin/app\n"                                                   \
    "8000-9000 r-xp 00000000 08:02 2 /lib/libjemalloc.so.2\n"

static const struct stub_symbol app[] = {
    {0x1100, 0x1200, {{"main", "main", NULL, 0, 0}}},
    {0x1200, 0x1300, {{"parse", "parse", NULL, 0, 0}}},
    {0x1300, 0x1400, {{"grow", "grow", NULL, 0, 0}, {"load", "load", NULL, 0, 0}}},
    {0x1400, 0x1500, {{"walk", "walk", NULL, 0, 0}}},
    {0x1500, 0x1600, {{"serve", "serve", NULL, 0, 0}}},
    {0, 0, {{0}}},
};

static bool update(struct sites *sites, const char *text, uint64_t seconds)
{
    const struct symbols_options none = {0};
    const struct samples_options options = {0};
    struct heap_profile profile;
    struct samples samples;
    struct symbols *symbols;
    bool good;

    stub_next = app;
    good = heap_parse(&profile, text, strlen(text), NULL) == FAULT_NONE;
    symbols = locations_symbols(&profile, &none);
    good = good && symbols && samples_build(&samples, &options, &profile, symbols, NULL, NULL) &&
           sites_update(sites, &samples, seconds * SECOND);
    samples_free(&samples);
    heap_free(&profile);
    symbols_free(symbols);
    return good;
}

static const struct site *find(const struct sites *sites, const char *name)
{
    for (size_t i = 0; i < sites->count; i++)
        if (strcmp(sites->list[i].calls, name) == 0)
            return &sites->list[i];
    return NULL;
}

/* "grow <- load <- main" */
static bool is_called(const struct site *site, const char *expected)
{
    char text[256] = "";
    const char *call = site->calls;

    for (uint32_t i = 0; i < site->call_count; i++, call = site_next_call(call))
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " <- " : "", call);
    return strcmp(text, expected) == 0;
}

static bool is_empty_profile_taken(struct sites *sites, uint64_t seconds)
{
    return update(sites, HEAD MAPS, seconds);
}

/* The allocator's own calls are left out, inlined ones count, a recursion is one call. */
static void test_calls(void)
{
    static const char text[] = HEAD "@ 0x8100 0x1301 0x1101\n  t*: 2: 100 [0: 0]\n"
                                    "@ 0x8200 0x1301 0x1101\n  t*: 1: 50 [0: 0]\n"
                                    "@ 0x8100 0x1401 0x1402 0x1403 0x1201 0x1501 0x1101 0x1101\n"
                                    "  t*: 1: 70 [0: 0]\n" MAPS;
    struct sites sites;
    const struct site *grow, *walk;

    sites_init(&sites);
    CHECK(update(&sites, text, 1) && sites.count == 2);
    grow = find(&sites, "grow");
    walk = find(&sites, "walk");
    CHECK(grow && grow->now.bytes == 150 && grow->objects == 3);
    CHECK(grow && is_called(grow, "grow <- load <- main"));
    CHECK(walk && is_called(walk, "walk <- parse <- serve <- main"));
    CHECK(sites.bytes.now == 220 && sites.objects.now == 4 && sites.stacks == 3);
    sites_free(&sites);
}

static const char one[] = HEAD "@ 0x8100 0x1301 0x1101\n  t*: 1: 1000 [0: 0]\n"
                               "@ 0x8100 0x1201 0x1101\n  t*: 1: 5000 [0: 0]\n" MAPS;
static const char two[] = HEAD "@ 0x8100 0x1301 0x1101\n  t*: 1: 3000 [0: 0]\n"
                               "@ 0x8100 0x1201 0x1101\n  t*: 1: 4000 [0: 0]\n"
                               "@ 0x8100 0x1401 0x1101\n  t*: 1: 500 [0: 0]\n" MAPS;

static void test_growth(void)
{
    struct sites sites;

    sites_init(&sites);
    CHECK(sites_window(&sites) == 0);
    CHECK(update(&sites, one, 10) && sites_window(&sites) == 0);
    CHECK(sites_growth(&sites, find(&sites, "grow")).bytes == 0);
    CHECK(update(&sites, two, 14) && sites_window(&sites) == 4 * SECOND);
    CHECK(sites_growth(&sites, find(&sites, "grow")).bytes == 2000);
    CHECK(fabs(sites_growth(&sites, find(&sites, "grow")).per_second - 500) < 1e-6);
    CHECK(sites_growth(&sites, find(&sites, "parse")).bytes == -1000);
    CHECK(sites_growth(&sites, find(&sites, "walk")).bytes == 500); /* of nothing before */
    CHECK(sites_growth(&sites, find(&sites, "grow")).error == 0);   /* each allocation counts */
    sites_free(&sites);
}

static void test_error_of_samples(void)
{
    static const char text[] = "heap_v2/524288\n  t*: 1: 1 [0: 0]\n"
                               "@ 0x8100 0x1301 0x1101\n  t*: 4: 4096 [0: 0]\n" MAPS;
    struct sites sites;
    struct site_growth growth;

    sites_init(&sites);
    CHECK(is_empty_profile_taken(&sites, 1) && update(&sites, text, 2));
    growth = sites_growth(&sites, find(&sites, "grow"));
    /* Four samples of 1 KiB estimate 2 MiB, plus or minus two standard deviations of 1 MiB. */
    CHECK(growth.bytes > 2000000 && growth.bytes < 2200000);
    CHECK(growth.error > 0.95 * (double)growth.bytes && growth.error <= (double)growth.bytes);
    sites_free(&sites);
}

static bool is_first(const struct sites *sites, enum sites_order order, const char *a,
                     const char *b, const char *c)
{
    const struct site **list = sites_sorted(sites, order);
    bool good = list && sites->count == 3 && strcmp(list[0]->calls, a) == 0 &&
                strcmp(list[1]->calls, b) == 0 && strcmp(list[2]->calls, c) == 0;

    free(list);
    return good;
}

static void test_order(void)
{
    struct sites sites;

    sites_init(&sites);
    CHECK(update(&sites, one, 1) && update(&sites, two, 2));
    CHECK(is_first(&sites, SITES_BY_SIZE, "parse", "grow", "walk"));
    CHECK(is_first(&sites, SITES_BY_GROWTH, "grow", "walk", "parse"));
    sites_free(&sites);
}

/* The window moves on; growth since the first profile stays. */
static void test_window(void)
{
    struct sites sites;

    sites_init(&sites);
    CHECK(update(&sites, one, 0));
    for (uint64_t i = 1; i <= 3 * SITES_HISTORY; i++)
        CHECK(update(&sites, two, 2 * i));
    CHECK(sites_window(&sites) == 2 * (SITES_HISTORY - 1) * SECOND);
    CHECK(sites_growth(&sites, find(&sites, "grow")).bytes == 0);
    CHECK(site_growth_in_all(find(&sites, "grow")) == 2000);
    sites_free(&sites);
}

/* Sites that are gone are removed once they have no growth to report. */
static void test_forgotten(void)
{
    struct sites sites;

    sites_init(&sites);
    CHECK(update(&sites, one, 0) && update(&sites, two, 1));
    for (uint64_t i = 1; i < SITES_HISTORY; i++)
        CHECK(is_empty_profile_taken(&sites, 1 + i) && find(&sites, "walk"));
    CHECK(sites_growth(&sites, find(&sites, "walk")).bytes == -500);
    CHECK(is_empty_profile_taken(&sites, 100) && !find(&sites, "walk"));
    CHECK(sites.count == 2 && site_growth_in_all(find(&sites, "parse")) == -5000);
    CHECK(update(&sites, two, 101) && find(&sites, "walk")->now.bytes == 500);
    CHECK(find(&sites, "grow")->now.bytes == 3000 && sites.count == 3);
    sites_free(&sites);
}

/* Counts say that one site grows by 1,500 bytes, and that the other only replaces what was. */
static void test_judged(void)
{
    static const uint64_t words[] = {0x1301, 0x1101, 0x1201, 0x1101, 0x1501, 0x1101};
    static const struct heap_stack ranges[] = {{2, 2}, {4, 2}, {0, 2}};
    const struct symbols_options none = {0};
    const struct samples_options options = {0};
    struct verdict_stack stacks[8] = {{0}};
    struct verdict verdict = {.kind = VERDICT_GROWS, .seconds = 4, .stacks = stacks};
    uint32_t site_of[] = {TABLE_NONE, TABLE_NONE, TABLE_NONE};
    struct heap_profile raw;
    struct samples samples = {0};
    struct symbols *symbols = NULL;
    struct sites sites;
    const struct site *grow, *parse;

    sites_init(&sites);
    CHECK(update(&sites, HEAD MAPS, 6) && update(&sites, two, 10));
    CHECK(sites.evidence == EVIDENCE_SAMPLES);
    if (CHECK(heap_of_stacks(&raw, words, ranges, ARRAY_LEN(ranges))) &&
        CHECK((symbols = locations_symbols(&raw, &none))) &&
        CHECK(samples_build(&samples, &options, &raw, symbols, NULL, NULL)))
        sites_number(&sites, &samples, site_of);
    grow = find(&sites, "grow");
    parse = find(&sites, "parse");
    CHECK(grow && site_of[2] == grow - sites.list && parse && site_of[0] == parse - sites.list);
    CHECK(site_of[1] == TABLE_NONE); /* it is no site */
    stacks[site_of[2]] =
        (struct verdict_stack){.low = 1400, .high = 1600, .estimate = 1500, .grows = true};
    stacks[site_of[0]] = (struct verdict_stack){.low = -9000, .high = 100};
    CHECK(sites_growth(&sites, parse).trend.verdict == TREND_GROWS);
    sites_judge(&sites, &verdict);
    CHECK(sites.evidence == EVIDENCE_COUNTS);
    CHECK(sites_growth(&sites, grow).trend.verdict == TREND_GROWS);
    CHECK(sites_growth(&sites, grow).bytes == 1500 && sites_growth(&sites, grow).per_second == 375);
    CHECK(sites_growth(&sites, parse).trend.verdict == TREND_REPLACED);
    CHECK(sites_growth(&sites, parse).bytes == 100);
    const struct site **list = sites_sorted(&sites, SITES_BY_GROWTH);
    CHECK(list && list[0] == grow && list[1] == parse);
    free(list);
    CHECK(update(&sites, two, 14) && sites.evidence == EVIDENCE_SAMPLES);
    samples_free(&samples);
    symbols_free(symbols);
    heap_free(&raw);
    sites_free(&sites);
}

int main(void)
{
    test_calls();
    test_growth();
    test_error_of_samples();
    test_order();
    test_window();
    test_forgotten();
    test_judged();
    return check_result();
}
