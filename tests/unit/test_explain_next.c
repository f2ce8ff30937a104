/* The one step that explain suggests, for every combination of facts. */
#include "check.h"
#include "run/explain/explain_next.h"

/* A process with jemalloc that can do everything, and needs nothing. */
static struct explain_facts usual(void)
{
    return (struct explain_facts){.readable = true,
                                  .callable = true,
                                  .jemalloc = true,
                                  .counts = true,
                                  .objects = true,
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
    facts.unclear = true;
    CHECK(explain_decide(&facts) == STEP_STATS_READ);
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
    facts.callable = false;
    CHECK(explain_decide(&facts) == STEP_DUMP);
}

static void test_in_use(void)
{
    struct explain_facts facts = usual();

    CHECK(explain_decide(&facts) == STEP_DUMP);
    facts.profile = false;
    CHECK(explain_decide(&facts) == STEP_RECORD);
    facts.prof = PROF_DISABLED;
    CHECK(explain_decide(&facts) == STEP_PEEK);
    facts.unclear = true;
    CHECK(explain_decide(&facts) == STEP_STATS);
    facts.callable = false;
    CHECK(explain_decide(&facts) == STEP_STATS_READ);
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

    for (unsigned bits = 0; bits < 1u << 10; bits++)
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
                                                    .prof = (enum prof_verdict)prof,
                                                    .rise = (enum rise_state)rise};
                enum explain_step step = explain_decide(&facts);
                bool calls = step == STEP_PURGE || step == STEP_FRAG || step == STEP_STATS;
                seen |= 1ul << step;
                bool is_possible = !calls || facts.callable;
                bool is_permitted = facts.readable || step == STEP_PERMIT;
                if (!is_possible || !is_permitted)
                    CHECK(is_possible && is_permitted);
            }
    CHECK(seen == (1ul << STEP_COUNT) - 1);
}

int main(void)
{
    test_rights();
    test_halted();
    test_growing();
    test_free_memory();
    test_in_use();
    test_all();
    return check_result();
}
