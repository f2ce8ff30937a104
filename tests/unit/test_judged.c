/*
 * Trends that exact counts or the growth of the whole bound: a cache whose samples rise since
 * sampling has just begun, beside a leak. Raw stacks find the samples that have their calls.
 */
#include "check.h"
#include "profile/judged.h"
#include "profile/views/growth.h"
#include "stub_symbols.h"

#include <math.h>
#include <string.h>

#define MAPS "\nMAPPED_LIBRARIES:\n1000-2000 r-xp 00000000 08:02 1 /bin/app\n"

static const struct stub_symbol app[] = {
    {0x1100, 0x1200, {{"main", "main", "/src/main.c", 10, 1}}},
    {0x1200, 0x1300, {{"put", "put", "/src/cache.c", 20, 1}}},
    {0x1300, 0x1400, {{"leak", "leak", "/src/leak.c", 5, 1}}},
    {0x1400, 0x1500, {{"hidden", "hidden", "/src/hidden.c", 7, 1}}},
    {0x1500, 0x1600, {{"gone", "gone", "/src/gone.c", 9, 1}}},
    {0, 0, {{0}}},
};

static const char before[] = "heap_v2/524288\n@ 0x1101\n t*: 1: 1024 [0: 0]\n" MAPS;
static const char now[] = "heap_v2/524288\n"
                          "@ 0x1201 0x1101\n t*: 100: 102400 [0: 0]\n"
                          "@ 0x1301 0x1101\n t*: 40: 40960 [0: 0]\n"
                          "@ 0x1401 0x1101\n t*: 9: 9216 [0: 0]\n"
                          "@ 0x1101\n t*: 1: 1024 [0: 0]\n" MAPS;

/* As a look has them: also one that no profile has, and one twice, at another address. */
static const uint64_t words[] = {0x1301, 0x1101, 0x1401, 0x1101, 0x1201,
                                 0x1101, 0x1501, 0x1101, 0x1209, 0x1105};
static const struct heap_stack ranges[] = {{0, 2}, {2, 2}, {4, 2}, {6, 2}, {8, 2}};
enum { LEAK, HIDDEN, CACHE, GONE, CACHE_AGAIN, STACKS };

struct made {
    struct heap_profile profile, base, stacks;
    struct symbols *symbols;
    struct samples samples;
    uint32_t of[STACKS];
    regex_t ignore;
};

static bool make(struct made *made)
{
    struct samples_options options = {.filter.ignore = &made->ignore};
    struct symbols_options none = {0};

    memset(made, 0, sizeof *made);
    stub_next = app;
    if (regcomp(&made->ignore, "^hidden$", REG_NOSUB) != 0 ||
        heap_parse(&made->profile, now, strlen(now), NULL) != FAULT_NONE ||
        heap_parse(&made->base, before, strlen(before), NULL) != FAULT_NONE ||
        !heap_of_stacks(&made->stacks, words, ranges, STACKS) ||
        !(made->symbols = locations_symbols(&made->profile, &none)))
        return false;
    const struct samples_part parts[] = {{&made->profile, made->symbols, 30, false},
                                         {&made->base, made->symbols, 0, false}},
                              stacks = {&made->stacks, made->symbols, 0, false};
    return samples_build_series(&made->samples, &options, parts, 2, &stacks, made->of);
}

static void unmake(struct made *made)
{
    samples_free(&made->samples);
    symbols_free(made->symbols);
    heap_free(&made->profile);
    heap_free(&made->base);
    heap_free(&made->stacks);
    regfree(&made->ignore);
}

static const struct trend *trend_of_stack(const struct made *made, size_t stack)
{
    return &made->samples.trends[made->of[stack]];
}

static int64_t grown(const struct made *made, size_t stack)
{
    return amount_growth(&made->samples.list[made->of[stack]].values[VALUE_BYTES]);
}

static bool answers(const struct made *made, const char *wanted)
{
    struct display display = {.value = VALUE_BYTES};
    struct growth_answer answer;
    struct growth growth;
    char text[512];

    if (!CHECK(growth_make(&growth, &made->samples, 30)))
        return false;
    growth_answer_choose(&answer, &growth, &made->samples);
    growth_answer_text(&answer, &growth, &made->samples, &display, text, sizeof text);
    growth_free(&growth);
    if (!strstr(text, wanted))
        fprintf(stderr, "%s\n", text);
    return strstr(text, wanted) != NULL;
}

static void test_stacks(void)
{
    struct made made;

    if (CHECK(make(&made))) {
        const struct samples *samples = &made.samples;
        CHECK(made.of[LEAK] < samples->count && made.of[CACHE] < samples->count);
        CHECK(made.of[LEAK] != made.of[CACHE] && made.of[CACHE] == made.of[CACHE_AGAIN]);
        CHECK(made.of[HIDDEN] == TABLE_NONE);
        CHECK(made.of[GONE] < samples->count && grown(&made, GONE) == 0);
        CHECK(samples->count == 4 && samples->point_count == 2);
        CHECK(grown(&made, CACHE) > 49 << 20 && grown(&made, CACHE) < 53 << 20);
        CHECK(samples->evidence == EVIDENCE_SAMPLES);
        CHECK(trend_of_stack(&made, CACHE)->verdict == TREND_GROWS);
        CHECK(answers(&made, "leaking: put (cache.c:20) <- main (main.c:10) grows by "));
        CHECK(
            answers(&made, "(samples alone: a cache that replaces older objects looks the same)"));
    }
    unmake(&made);
}

static void test_objects(void)
{
    static const uint32_t of[] = {7, TABLE_NONE};
    struct verdict_object objects[] = {{.stack = 0}, {.stack = 1}, {.stack = TABLE_NONE}};

    judged_objects(objects, ARRAY_LEN(objects), of, ARRAY_LEN(of));
    CHECK(objects[0].stack == 7 && objects[1].stack == TABLE_NONE &&
          objects[2].stack == TABLE_NONE);
}

/* The counts: the leak has grown by 18 MiB to 22 MiB, the cache by 1 MiB at most. */
static void judge(struct made *made, enum verdict_kind kind)
{
    struct verdict_stack stacks[8] = {{0}};
    struct verdict verdict = {.kind = kind, .seconds = 30, .stacks = stacks};

    stacks[made->of[LEAK]] = (struct verdict_stack){.low = 18 << 20,
                                                    .high = 22 << 20,
                                                    .estimate = 20 << 20,
                                                    .grows = kind == VERDICT_GROWS,
                                                    .candidate = kind == VERDICT_ONE_OF};
    stacks[made->of[CACHE]] =
        (struct verdict_stack){.low = -5e7, .high = 1 << 20, .candidate = kind == VERDICT_ONE_OF};
    judged_by_verdict(&made->samples, &verdict);
}

static void test_verdict(void)
{
    struct made made;

    if (CHECK(make(&made))) {
        judge(&made, VERDICT_GROWS);
        CHECK(trend_of_stack(&made, LEAK)->verdict == TREND_GROWS);
        CHECK(trend_of_stack(&made, LEAK)->low == 18 << 20 && grown(&made, LEAK) == 20 << 20);
        CHECK(trend_of_stack(&made, CACHE)->verdict == TREND_REPLACED);
        CHECK(trend_of_stack(&made, CACHE)->high == 1 << 20 && grown(&made, CACHE) == 1 << 20);
        CHECK(trend_of_stack(&made, GONE)->verdict == TREND_UNCLEAR && grown(&made, GONE) == 0);
        /* What is not certain is within the error wherever amounts are shown. */
        const struct amount *cache = &made.samples.list[made.of[CACHE]].values[VALUE_BYTES];
        CHECK((double)amount_growth(cache) <= samples_error(&made.samples, cache) * 1.001);
        CHECK(answers(&made, "leaking: leak (leak.c:5) <- main (main.c:10) grows by 683 KiB/s"));
        CHECK(answers(&made, "20 MiB in 30 s") && made.samples.evidence == EVIDENCE_COUNTS);
    }
    unmake(&made);
}

static void test_one_of(void)
{
    struct made made;

    if (CHECK(make(&made))) {
        judge(&made, VERDICT_ONE_OF);
        CHECK(trend_of_stack(&made, LEAK)->verdict == TREND_CANDIDATE);
        CHECK(trend_of_stack(&made, CACHE)->verdict == TREND_CANDIDATE);
        CHECK(answers(&made, "one of 2 stacks grows, as leak (leak.c:5) <- main (main.c:10) may, "
                             "by up to 22 MiB"));
    }
    unmake(&made);
    if (CHECK(make(&made))) {
        judge(&made, VERDICT_TOO_SHORT);
        CHECK(trend_of_stack(&made, LEAK)->verdict == TREND_UNCLEAR);
        CHECK(trend_of_stack(&made, LEAK)->high > 20 << 20);
        CHECK(answers(&made, "nothing grows"));
    }
    unmake(&made);
}

/* The whole has not grown; has by what the leak alone cannot be; by more than the cache can. */
static void test_total(void)
{
    struct verdict_total still = {VERDICT_NOTHING, 30, 0, 4096, 65536},
                         some = {VERDICT_GROWS, 30, 20e6, 4096, 21e6},
                         more = {VERDICT_GROWS, 30, 75e6, 4096, 76e6};
    struct made made;

    if (CHECK(make(&made))) {
        judged_by_total(&made.samples, &still);
        CHECK(trend_of_stack(&made, LEAK)->verdict == TREND_REPLACED);
        CHECK(trend_of_stack(&made, CACHE)->verdict == TREND_REPLACED);
        CHECK(grown(&made, CACHE) <= 65536 && answers(&made, "nothing grows"));
    }
    unmake(&made);
    if (CHECK(make(&made))) {
        judged_by_total(&made.samples, &some);
        CHECK(trend_of_stack(&made, LEAK)->verdict == TREND_CANDIDATE);
        CHECK(trend_of_stack(&made, CACHE)->verdict == TREND_CANDIDATE);
        CHECK(trend_of_stack(&made, CACHE)->high <= 21e6);
    }
    unmake(&made);
    if (CHECK(make(&made))) {
        judged_by_total(&made.samples, &more);
        CHECK(trend_of_stack(&made, CACHE)->verdict == TREND_GROWS);
        CHECK(trend_of_stack(&made, CACHE)->low < 60e6 && trend_of_stack(&made, CACHE)->low > 0);
        CHECK(made.samples.evidence == EVIDENCE_TOTAL);
    }
    unmake(&made);
}

int main(void)
{
    test_stacks();
    test_objects();
    test_verdict();
    test_one_of();
    test_total();
    return check_result();
}
