#include "run/explain/explain_next.h"
#include "base/util.h"

static bool is_growing(const struct explain_facts *facts)
{
    return facts->rise == RISE_GROWING || facts->rise == RISE_STEP;
}

static bool can_profile(const struct explain_facts *facts)
{
    return facts->jemalloc && facts->prof >= PROF_DENSE;
}

static bool is_denied(const struct explain_facts *facts)
{
    return !facts->readable;
}

static bool can_dump_halted(const struct explain_facts *facts)
{
    return facts->halted && facts->profile;
}

static bool has_counts_halted(const struct explain_facts *facts)
{
    return facts->halted && facts->jemalloc && facts->counts && facts->unclear;
}

static bool is_halted(const struct explain_facts *facts)
{
    return facts->halted;
}

static bool has_free_pages(const struct explain_facts *facts)
{
    return facts->callable && facts->free_pages >= EXPLAIN_FREE_PAGES;
}

static bool has_slack(const struct explain_facts *facts)
{
    return facts->callable && facts->slack >= EXPLAIN_SLACK;
}

static bool has_profile(const struct explain_facts *facts)
{
    return facts->profile;
}

static bool lacks_counts(const struct explain_facts *facts)
{
    return facts->jemalloc && facts->counts && facts->unclear;
}

static bool lacks_counts_callable(const struct explain_facts *facts)
{
    return lacks_counts(facts) && facts->callable;
}

static bool has_objects(const struct explain_facts *facts)
{
    return facts->objects;
}

static bool has_objects_halted(const struct explain_facts *facts)
{
    return facts->halted && facts->objects;
}

/* The first that applies. */
static const struct {
    bool (*applies)(const struct explain_facts *facts);
    enum explain_step step;
} rules[] = {
    {is_denied, STEP_PERMIT},
    {can_dump_halted, STEP_DUMP},
    {has_counts_halted, STEP_STATS_READ},
    {has_objects_halted, STEP_PEEK},
    {is_halted, STEP_AGAIN},
    {is_growing, STEP_LEAK},
    {has_free_pages, STEP_PURGE},
    {has_slack, STEP_FRAG},
    {has_profile, STEP_DUMP},
    {can_profile, STEP_RECORD},
    {lacks_counts_callable, STEP_STATS},
    {lacks_counts, STEP_STATS_READ},
    {has_objects, STEP_PEEK},
};

enum explain_step explain_decide(const struct explain_facts *facts)
{
    for (size_t i = 0; i < ARRAY_LEN(rules); i++)
        if (rules[i].applies(facts))
            return rules[i].step;
    return STEP_LOOK;
}
