/* The order of the facts, and the one step that explain suggests, for every combination. */
#include "check.h"
#include "run/explain/explain.h"
#include "run/faults.h"

/* A process with jemalloc that can do everything, and needs nothing. */
static struct explain_facts usual(void)
{
    return (struct explain_facts){.readable = true,
                                  .callable = true,
                                  .jemalloc = true,
                                  .counts = true,
                                  .objects = true,
                                  .wasteful = true,
                                  .prof = PROF_READY,
                                  .profile = true,
                                  .rise = RISE_NONE};
}

static void test_rights(void)
{
    struct explain_facts facts = usual();

    facts.readable = false;
    for (unsigned rise = RISE_UNKNOWN; rise <= RISE_FALLING; rise++) {
        facts.rise = (enum rise_state)rise;
        CHECK(explain_decide(&facts) == STEP_PERMIT);
    }
    facts.halted = true;
    CHECK(explain_decide(&facts) == STEP_PERMIT);
}

static void test_halted(void)
{
    struct explain_facts facts = usual();

    facts.halted = true;
    facts.callable = false;
    facts.free_pages = facts.slack = 0.9;
    CHECK(explain_decide(&facts) == STEP_DUMP);
    facts.profile = false;
    CHECK(explain_decide(&facts) == STEP_PEEK);
    facts.objects = false;
    CHECK(explain_decide(&facts) == STEP_AGAIN);
    facts.unclear = true; /* memory shows no more than it did */
    CHECK(explain_decide(&facts) == STEP_AGAIN);
    facts.jemalloc = false;
    CHECK(explain_decide(&facts) == STEP_AGAIN);
}

static void test_growing(void)
{
    struct explain_facts facts = usual();

    facts.rise = RISE_GROWING;
    facts.free_pages = 0.9; /* would not stop the growth */
    CHECK(explain_decide(&facts) == STEP_LEAK);
    facts.prof = PROF_INACTIVE; /* leak switches it on */
    CHECK(explain_decide(&facts) == STEP_LEAK);
    facts.prof = PROF_DISABLED;
    CHECK(explain_decide(&facts) == STEP_LEAK);
    facts.prof = PROF_UNKNOWN;
    CHECK(explain_decide(&facts) == STEP_LEAK);
    facts = usual();
    facts.rise = RISE_STEP;
    CHECK(explain_decide(&facts) == STEP_LEAK);
    facts.jemalloc = false;
    CHECK(explain_decide(&facts) == STEP_LEAK);
}

static void test_free_memory(void)
{
    struct explain_facts facts = usual();

    facts.free_pages = EXPLAIN_FREE_PAGES;
    facts.slack = EXPLAIN_SLACK;
    CHECK(explain_decide(&facts) == STEP_PURGE);
    facts.free_pages = EXPLAIN_FREE_PAGES - 0.01;
    CHECK(explain_decide(&facts) == STEP_FRAG);
    facts.slack = EXPLAIN_SLACK - 0.01;
    CHECK(explain_decide(&facts) == STEP_DUMP);
    facts.free_pages = facts.slack = 0.9;
    facts.callable = false; /* frag reads */
    CHECK(explain_decide(&facts) == STEP_FRAG);
    facts.wasteful = false; /* a tiny process, of which frag would say that nothing is wasted */
    CHECK(explain_decide(&facts) == STEP_DUMP);
    facts.wasteful = true;
    facts.objects = false;
    CHECK(explain_decide(&facts) == STEP_DUMP);
}

static void test_in_use(void)
{
    struct explain_facts facts = usual();

    CHECK(explain_decide(&facts) == STEP_DUMP);
    facts.profile = false;
    CHECK(explain_decide(&facts) == STEP_RECORD);
    facts.few = true; /* nor would another look have a sample */
    CHECK(explain_decide(&facts) == STEP_PEEK);
    facts.few = false;
    facts.profile = facts.sparse = true; /* it says little of what is in use */
    CHECK(explain_decide(&facts) == STEP_PEEK);
    facts.profile = facts.sparse = false;
    facts.prof = PROF_DISABLED;
    CHECK(explain_decide(&facts) == STEP_PEEK);
    facts.unclear = true;
    CHECK(explain_decide(&facts) == STEP_STATS);
    facts.callable = false;
    CHECK(explain_decide(&facts) == STEP_PEEK);
    facts.callable = true;
    facts.counts = false;
    CHECK(explain_decide(&facts) == STEP_PEEK);
    facts.objects = false; /* before 5.0 */
    CHECK(explain_decide(&facts) == STEP_LOOK);
    facts.jemalloc = false;
    CHECK(explain_decide(&facts) == STEP_LOOK);
}

/* Every combination has a step, and no step attaches where that is not possible. */
static void test_all(void)
{
    unsigned long seen = 0;

    for (unsigned bits = 0; bits < 1u << 14; bits++)
        for (unsigned prof = 0; prof <= PROF_READY; prof++)
            for (unsigned rise = 0; rise <= RISE_FALLING; rise++) {
                const struct explain_facts facts = {.readable = bits & 1,
                                                    .callable = bits & 2,
                                                    .halted = bits & 4,
                                                    .jemalloc = bits & 8,
                                                    .profile = bits & 16,
                                                    .unclear = bits & 32,
                                                    .counts = bits & 64,
                                                    .free_pages = bits & 128 ? 0.5 : 0,
                                                    .slack = bits & 256 ? 0.5 : 0,
                                                    .objects = bits & 512,
                                                    .minor = bits & 1024,
                                                    .outside = bits & 2048 ? 0.6 : 0,
                                                    .ended = bits & 4096,
                                                    .wasteful = bits & 8192,
                                                    .prof = (enum prof_verdict)prof,
                                                    .rise = (enum rise_state)rise};
                enum explain_step step = explain_decide(&facts);
                bool calls = step == STEP_PURGE || step == STEP_STATS;
                seen |= 1ul << step;
                bool reads_core = step == STEP_DUMP || step == STEP_PEEK || step == STEP_CORE;
                bool is_possible = !calls || facts.callable;
                bool is_permitted = facts.readable || facts.ended || step == STEP_PERMIT;
                bool is_there = facts.ended ? reads_core : step != STEP_CORE;
                if (!is_possible || !is_permitted || !is_there)
                    CHECK(is_possible && is_permitted && is_there);
            }
    CHECK(seen == (1ul << STEP_COUNT) - 1);
}

/* Noise does not hide what is free; what grows goes before what is in use. */
static void test_minor_growth(void)
{
    struct explain_facts facts = usual();

    facts.rise = RISE_STEP;
    facts.minor = true;
    CHECK(explain_decide(&facts) == STEP_LEAK);
    facts.slack = 0.8;
    CHECK(explain_decide(&facts) == STEP_FRAG);
    facts.free_pages = 0.3;
    CHECK(explain_decide(&facts) == STEP_PURGE);
    facts.minor = false;
    CHECK(explain_decide(&facts) == STEP_LEAK);
}

static void test_outside(void)
{
    struct explain_facts facts = usual();

    facts.outside = EXPLAIN_OUTSIDE;
    CHECK(explain_decide(&facts) == STEP_OUTSIDE);
    facts.slack = EXPLAIN_SLACK;
    CHECK(explain_decide(&facts) == STEP_FRAG);
    facts = usual();
    facts.outside = EXPLAIN_OUTSIDE - 0.01;
    CHECK(explain_decide(&facts) == STEP_DUMP);
}

#define MIB  ((uint64_t)1 << 20)
#define NONE HEADLINES

static void test_order(void)
{
    static const struct {
        struct explain_amounts amounts;
        enum explain_headline first, second, third;
    } rows[] = {
        {{.whole = 0}, NONE, NONE, NONE},
        {{.whole = 289 * MIB,
          .parts = {[HEADLINE_SLABS] = 230 * MIB, [HEADLINE_IN_USE] = 50 * MIB}},
         HEADLINE_SLABS,
         NONE,
         NONE},
        {{.whole = 1000 * MIB,
          .parts = {[HEADLINE_IN_USE] = 600 * MIB, [HEADLINE_SLABS] = 350 * MIB}},
         HEADLINE_IN_USE,
         HEADLINE_SLABS,
         NONE},
        /* the largest is named however small it is; others from 8 MiB on */
        {{.whole = 5 * MIB, .parts = {[HEADLINE_OUTSIDE] = 3 * MIB, [HEADLINE_IN_USE] = 2 * MIB}},
         HEADLINE_OUTSIDE,
         NONE,
         NONE},
        /* noise, and a growth that is more within ten minutes */
        {{.whole = 289 * MIB,
          .parts = {[HEADLINE_SLABS] = 230 * MIB, [HEADLINE_IN_USE] = 50 * MIB},
          .per_second = 300 << 10,
          .watched_s = 10},
         HEADLINE_SLABS,
         HEADLINE_GROWTH,
         NONE},
        {{.whole = 289 * MIB,
          .parts = {[HEADLINE_SLABS] = 230 * MIB},
          .per_second = 1 << 20,
          .watched_s = 10},
         HEADLINE_GROWTH,
         HEADLINE_SLABS,
         NONE},
        /* the same, seen for a second only */
        {{.whole = 289 * MIB,
          .parts = {[HEADLINE_SLABS] = 230 * MIB},
          .per_second = 1 << 20,
          .watched_s = 1},
         HEADLINE_SLABS,
         HEADLINE_GROWTH,
         NONE},
        {{.whole = 289 * MIB,
          .parts = {[HEADLINE_SLABS] = 230 * MIB},
          .per_second = 48 << 20,
          .watched_s = 1},
         HEADLINE_GROWTH,
         HEADLINE_SLABS,
         NONE},
        /* what is in use, or elsewhere, is no reason to say a growth later */
        {{.whole = 9000 * MIB,
          .parts = {[HEADLINE_IN_USE] = 8000 * MIB},
          .per_second = 300 << 10,
          .watched_s = 10},
         HEADLINE_GROWTH,
         HEADLINE_IN_USE,
         NONE},
        {{.whole = 9000 * MIB,
          .parts = {[HEADLINE_IN_USE] = 5000 * MIB, [HEADLINE_PAGES] = 3000 * MIB},
          .per_second = 300 << 10,
          .watched_s = 10},
         HEADLINE_IN_USE,
         HEADLINE_PAGES,
         HEADLINE_GROWTH},
        /* nothing is more urgent than a limit */
        {{.whole = 289 * MIB,
          .parts = {[HEADLINE_SLABS] = 230 * MIB},
          .per_second = 300 << 10,
          .watched_s = 10,
          .limited = true,
          .limit_ns = EXPLAIN_SOON_NS},
         HEADLINE_LIMIT,
         HEADLINE_SLABS,
         NONE},
        {{.whole = 289 * MIB,
          .parts = {[HEADLINE_SLABS] = 230 * MIB},
          .per_second = 300 << 10,
          .watched_s = 10,
          .limited = true,
          .limit_ns = EXPLAIN_SOON_NS + 1},
         HEADLINE_SLABS,
         HEADLINE_GROWTH,
         NONE},
        {{.whole = 289 * MIB, .parts = {[HEADLINE_SLABS] = 230 * MIB}, .full = EXPLAIN_FULL},
         HEADLINE_LIMIT,
         HEADLINE_SLABS,
         NONE},
        {{.whole = 289 * MIB, .parts = {[HEADLINE_SLABS] = 230 * MIB}, .full = 0.89},
         HEADLINE_SLABS,
         NONE,
         NONE},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        enum explain_headline order[HEADLINES];
        const enum explain_headline expected[] = {rows[i].first, rows[i].second, rows[i].third};
        const size_t count = explain_rank(&rows[i].amounts, order);
        bool good = true;
        for (size_t at = 0; at < 3; at++)
            good &= (at < count ? order[at] : NONE) == expected[at];
        if (!good)
            fprintf(stderr, "  row %zu\n", i);
        CHECK(good);
    }
}

/* Huge pages are in no RSS, and may be most of what the process has. */
static void test_huge_pages(void)
{
    enum explain_headline order[HEADLINES];
    struct explain_amounts amounts = {.whole = 6 << 20};

    amounts.parts[HEADLINE_IN_USE] = 4 << 20;
    amounts.parts[HEADLINE_HUGE] = 100 << 20;
    CHECK(explain_rank(&amounts, order) == 1 && order[0] == HEADLINE_HUGE);
    amounts.parts[HEADLINE_IN_USE] = 400 << 20;
    amounts.whole = 402 << 20;
    CHECK(explain_rank(&amounts, order) == 2 && order[1] == HEADLINE_HUGE);
}

/* Page cache is used memory like any other, but fills no limit. */
static void test_group_rate(void)
{
    static struct explain explain = {
        .limited = true,
        .use = {.used = 100 << 20, .limit = 200 << 20, .cached = 10 << 20},
        .cached_before = 6 << 20,
        .use_rise = {.state = RISE_GROWING, .change = 10 << 20, .per_second = 10 << 20},
        .rise = {.state = RISE_GROWING, .change = 1 << 20, .per_second = 1 << 20}};
    uint64_t ns;

    CHECK(!explain_group_caches(&explain) && explain_group_rate(&explain) == 10 << 20);
    CHECK(explain_time_left(&explain, &ns) && ns == 10ull * 1000000000);
    explain.cached_before = 4 << 20;
    CHECK(explain_group_caches(&explain) && explain_group_rate(&explain) == 0);
    CHECK(explain_time_left(&explain, &ns) && ns == 100ull * 1000000000);
}

/* The nearest limit is foretold: its own only where its memory counts against it. */
static void test_own_limit(void)
{
    static struct explain explain = {
        .no_heap = {.code = FAULT_NO_ALLOCATOR},
        .limited = true,
        .use = {.used = 100 << 20, .limit = 200 << 20},
        .resident = {.anonymous = 50 << 20, .swap = 10 << 20},
        .own_limit = {.of = OWN_LIMIT_ITEMS, .option = "-m", .bytes = 80 << 20},
        .rise = {.state = RISE_GROWING, .change = 1 << 20, .per_second = 1 << 20}};
    uint64_t ns;

    CHECK(explain_own_time_left(&explain, &ns) && ns == 20ull * 1000000000);
    CHECK(!explain_time_left(&explain, &ns));
    explain.own_limit.of = OWN_LIMIT_JAVA;
    CHECK(!explain_own_time_left(&explain, &ns) && explain_time_left(&explain, &ns));
    explain.own_limit.of = OWN_LIMIT_KEYS;
    explain.own_limit.bytes = 160 << 20; /* its cgroup is full before */
    CHECK(!explain_own_time_left(&explain, &ns) && explain_time_left(&explain, &ns));
    explain.own_limit.bytes = 55 << 20; /* what it has beside its keys is above that */
    CHECK(!explain_own_time_left(&explain, &ns) && explain_time_left(&explain, &ns));
    explain.own_limit.bytes = 80 << 20;
    explain.limited = false;
    CHECK(explain_own_time_left(&explain, &ns));
    explain.rise.state = RISE_STEP;
    CHECK(!explain_own_time_left(&explain, &ns));
}

int main(void)
{
    test_group_rate();
    test_own_limit();
    test_huge_pages();
    test_order();
    test_minor_growth();
    test_outside();
    test_rights();
    test_halted();
    test_growing();
    test_free_memory();
    test_in_use();
    test_all();
    return check_result();
}
