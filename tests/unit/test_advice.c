/* What is advised against free memory, from facts. */
#include "check.h"
#include "cli/output/advice.h"

#include <string.h>

static bool says(const struct advice_facts *facts, const char *words)
{
    struct advice advice;

    advice_make(&advice, facts);
    for (size_t i = 0; i < advice.count; i++)
        if (strstr(advice.lines[i], words))
            return true;
    return false;
}

/* Purging returns no slab, and redis moves objects only with a jemalloc of its own. */
static void test_slabs(void)
{
    struct advice_facts facts = {.most = ADVICE_SLABS, .pid = 7, .slabs = 100 << 20, .arenas = 1};

    facts.largest = facts.slabs;
    facts.program = "server";
    CHECK(says(&facts, "a restart; jeattach purge does not"));
    CHECK(!says(&facts, "activedefrag") && !says(&facts, "fewer arenas"));
    CHECK(says(&facts, "jeattach peek 7") && !says(&facts, "jeattach on"));
    facts.can_sample = true;
    CHECK(says(&facts, "jeattach on 7") && !says(&facts, "peek"));
    facts.program = "redis-server";
    CHECK(says(&facts, "redis-server refuses activedefrag") && !says(&facts, "CONFIG SET"));
    facts.in_program = true;
    CHECK(says(&facts, "CONFIG SET activedefrag yes") && !says(&facts, "refuses"));
    facts.program = NULL;
    facts.has_stacks = true;
    CHECK(!says(&facts, "next:"));
    facts.keeper = "keep (a.c:3)";
    CHECK(says(&facts, "for the objects of keep (a.c:3)"));
}

static void test_arenas(void)
{
    struct advice_facts facts = {
        .most = ADVICE_SLABS, .slabs = 100 << 20, .arenas = 8, .largest = 20 << 20};

    CHECK(says(&facts, "fewer arenas") && says(&facts, "spread over 8"));
    facts.largest = 90 << 20;
    CHECK(!says(&facts, "fewer arenas"));
}

static void test_others(void)
{
    struct advice_facts facts = {.most = ADVICE_PAGES};

    CHECK(says(&facts, "jeattach purge PID") && says(&facts, "background_thread:true"));
    facts.most = ADVICE_PADDING;
    CHECK(says(&facts, "cache_oblivious:false") && !says(&facts, "purge"));
    facts.most = ADVICE_PINNED;
    CHECK(says(&facts, "extent hooks") && !says(&facts, "purge"));
    facts.most = ADVICE_NONE;
    CHECK(!says(&facts, ""));
}

int main(void)
{
    test_slabs();
    test_arenas();
    test_others();
    return check_result();
}
