#include "run/explain/explain_next.h"
#include "base/util.h"

/* ---- the order of the facts ---- */

static const double NOTABLE_SHARE = 0.2; /* of the whole */
static const uint64_t NOTABLE_BYTES = 8 << 20;

static bool is_waste(enum explain_headline fact)
{
    return fact >= HEADLINE_SLABS && fact < HEADLINE_OTHER && fact != HEADLINE_IN_USE;
}

static bool is_fact_notable(const struct explain_amounts *amounts, enum explain_headline fact)
{
    return amounts->parts[fact] >= NOTABLE_BYTES &&
           (double)amounts->parts[fact] >= NOTABLE_SHARE * (double)amounts->whole;
}

/* The parts, the largest first: it, and the notable ones. */
static size_t rank_parts(const struct explain_amounts *amounts,
                         enum explain_headline order[HEADLINES])
{
    size_t count = 0, notable = 0;

    for (enum explain_headline fact = HEADLINE_SLABS; fact < HEADLINES; fact++) {
        size_t at = count;
        if (!amounts->parts[fact])
            continue;
        for (; at > 0 && amounts->parts[order[at - 1]] < amounts->parts[fact]; at--)
            order[at] = order[at - 1];
        order[at] = fact;
        count++;
    }
    while (notable < count && (notable == 0 || is_fact_notable(amounts, order[notable])))
        notable++;
    return notable;
}

/* The bytes that it will add, as far as a growth that was seen for so long can be relied on. */
static double expected_growth(const struct explain_amounts *amounts)
{
    const double seconds = EXPLAIN_GROWTH_TIMES * amounts->watched_s;

    return amounts->per_second * (seconds < EXPLAIN_GROWTH_S ? seconds : EXPLAIN_GROWTH_S);
}

/* Its place among so many parts: behind the last waste that is larger. */
static size_t growth_place(const struct explain_amounts *amounts,
                           const enum explain_headline *order, size_t count)
{
    size_t place = 0;

    for (size_t i = 0; i < count; i++)
        if (is_waste(order[i]) && is_fact_notable(amounts, order[i]) &&
            (double)amounts->parts[order[i]] > expected_growth(amounts))
            place = i + 1;
    return place;
}

size_t explain_rank(const struct explain_amounts *amounts, enum explain_headline order[HEADLINES])
{
    const bool urgent =
        amounts->full >= EXPLAIN_FULL ||
        (amounts->per_second > 0 && amounts->limited && amounts->limit_ns <= EXPLAIN_SOON_NS);
    size_t count = rank_parts(amounts, order), place;

    if (!urgent && !(amounts->per_second > 0))
        return count;
    place = urgent ? 0 : growth_place(amounts, order, count);
    for (size_t at = count; at > place; at--)
        order[at] = order[at - 1];
    order[place] = urgent ? HEADLINE_LIMIT : HEADLINE_GROWTH;
    return count + 1;
}

/* ---- the next step ---- */

static bool is_growing(const struct explain_facts *facts)
{
    return facts->rise == RISE_GROWING || facts->rise == RISE_STEP;
}

static bool is_growing_most(const struct explain_facts *facts)
{
    return is_growing(facts) && !facts->minor;
}

static bool can_profile(const struct explain_facts *facts)
{
    return facts->jemalloc && facts->prof >= PROF_DENSE && !facts->few && !facts->profile;
}

static bool is_denied(const struct explain_facts *facts)
{
    return !facts->readable;
}

static bool can_dump_halted(const struct explain_facts *facts)
{
    return facts->halted && facts->profile;
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
    return facts->objects && facts->wasteful && facts->slack >= EXPLAIN_SLACK;
}

static bool is_mostly_outside(const struct explain_facts *facts)
{
    return facts->jemalloc && facts->outside >= EXPLAIN_OUTSIDE;
}

static bool has_profile(const struct explain_facts *facts)
{
    return facts->profile && !facts->sparse;
}

/* Memory has been read: only a call can tell more. */
static bool lacks_counts(const struct explain_facts *facts)
{
    return facts->jemalloc && facts->counts && facts->unclear && facts->callable;
}

static bool has_objects(const struct explain_facts *facts)
{
    return facts->objects;
}

static bool has_objects_halted(const struct explain_facts *facts)
{
    return facts->halted && facts->objects;
}

static bool has_ended_profile(const struct explain_facts *facts)
{
    return facts->ended && facts->profile;
}

static bool has_ended_objects(const struct explain_facts *facts)
{
    return facts->ended && facts->objects;
}

static bool has_no_more(const struct explain_facts *facts)
{
    return facts->ended;
}

/* The first that applies. */
static const struct {
    bool (*applies)(const struct explain_facts *facts);
    enum explain_step step;
} rules[] = {
    {has_ended_profile, STEP_DUMP}, {has_ended_objects, STEP_PEEK},
    {has_no_more, STEP_CORE},       {is_denied, STEP_PERMIT},
    {can_dump_halted, STEP_DUMP},   {has_objects_halted, STEP_PEEK},
    {is_halted, STEP_AGAIN},        {is_growing_most, STEP_LEAK},
    {has_free_pages, STEP_PURGE},   {has_slack, STEP_FRAG},
    {is_growing, STEP_LEAK},        {is_mostly_outside, STEP_OUTSIDE},
    {has_profile, STEP_DUMP},       {can_profile, STEP_RECORD},
    {lacks_counts, STEP_STATS},     {has_objects, STEP_PEEK},
};

enum explain_step explain_decide(const struct explain_facts *facts)
{
    for (size_t i = 0; i < ARRAY_LEN(rules); i++)
        if (rules[i].applies(facts))
            return rules[i].step;
    return STEP_LOOK;
}
