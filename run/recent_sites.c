#include "run/recent_sites.h"
#include "base/list.h"
#include "base/sort.h"
#include "profile/stack_text.h"

#include <string.h>

struct site_builder {
    struct recent_sites *sites;
    const struct recent *recent;
    const struct samples *samples;
    struct table table; /* of the sites */
};

/* ---- the site of a stack ---- */

/* A recursion counts as one call. */
static void add_site_call(struct recent_site *site, uint32_t group)
{
    if (site->call_count < SITE_CALLS &&
        (!site->call_count || site->calls[site->call_count - 1] != group))
        site->calls[site->call_count++] = group;
}

static void take_site_calls(struct recent_site *site, const struct samples *samples,
                            const struct sample *sample)
{
    struct stack_walk walk = {0};
    const struct stack_call *call;
    uint32_t own;

    stack_count_calls(samples, sample, &own);
    while ((call = stack_walk_next(&walk, samples, sample)))
        if (!own || call->function->kind == CODE_OWN)
            add_site_call(site, call->function->group);
}

static bool same_site_calls(const void *ctx, uint32_t place, const void *key)
{
    const struct recent_sites *sites = ctx;
    const struct recent_site *have = &sites->list[place], *want = key;

    return memcmp(have->calls, want->calls, sizeof have->calls) == 0;
}

/* Returns the site of a sample, a new one if needed. TABLE_NONE: out of memory. */
static uint32_t find_recent_site(struct site_builder *builder, uint32_t sample)
{
    struct recent_sites *sites = builder->sites;
    struct recent_site fresh = {.call_count = 0};
    uint32_t place;
    uint64_t hash;

    memset(fresh.calls, 0xff, sizeof fresh.calls); /* compared as a whole */
    take_site_calls(&fresh, builder->samples, &builder->samples->list[sample]);
    hash = table_hash_bytes(&builder->table, fresh.calls, sizeof fresh.calls);
    if (!LIST_GROW(sites->list, sites->capacity, sites->count))
        return TABLE_NONE;
    place =
        table_put(&builder->table, hash, same_site_calls, sites, &fresh, (uint32_t)sites->count);
    if (place == sites->count)
        sites->list[sites->count++] = fresh;
    return place;
}

/* ---- the records of a site ---- */

static void count_record(struct recent_sites *sites, struct recent_site *site,
                         const struct recent_record *record)
{
    site->count++;
    site->alive += !record->released;
    site->lived += !recent_lacks_lifetime(record);
    site->size += record->size;
    site->usable += record->usable;
    sites->shown++;
    sites->alive += !record->released;
}

static bool assign_records(struct site_builder *builder)
{
    struct recent_sites *sites = builder->sites;
    const struct recent_list *list = &builder->recent->list;

    for (size_t i = 0; i < list->count; i++) {
        uint32_t stack = list->records[i].allocation.stack;
        uint32_t sample = stack == TABLE_NONE ? TABLE_NONE : sites->samples[stack];

        sites->of[i] = TABLE_NONE;
        if (sample == TABLE_NONE)
            continue;
        sites->of[i] = find_recent_site(builder, sample);
        if (sites->of[i] == TABLE_NONE)
            return false;
        count_record(sites, &sites->list[sites->of[i]], &list->records[i]);
    }
    return true;
}

/* Sorts the lifetimes, and by site those of equal order: one sort for all sites. */
static bool set_medians(const struct site_builder *builder)
{
    struct recent_sites *sites = builder->sites;
    const struct recent_list *list = &builder->recent->list;
    AUTO_FREE uint64_t *pairs = reallocarray(NULL, 2 * list->count + 1, sizeof *pairs);
    AUTO_FREE uint64_t *scratch = reallocarray(NULL, 2 * list->count + 1, sizeof *scratch);
    AUTO_FREE size_t *seen = calloc(sites->count + 1, sizeof *seen);
    size_t count = 0;

    if (!pairs || !scratch || !seen)
        return false;
    for (size_t i = 0; i < list->count; i++) {
        if (sites->of[i] == TABLE_NONE || recent_lacks_lifetime(&list->records[i]))
            continue;
        pairs[2 * count] = recent_lifetime(&list->records[i]);
        pairs[2 * count++ + 1] = sites->of[i];
    }
    sort_pairs(pairs, scratch, count);
    for (size_t i = 0; i < count; i++) {
        struct recent_site *site = &sites->list[pairs[2 * i + 1]];
        if (seen[pairs[2 * i + 1]]++ == (site->lived - 1) / 2)
            site->median_ns = pairs[2 * i];
    }
    return true;
}

/* ---- all sites ---- */

struct site_order {
    struct recent_site *list;
    const char **groups;
};

static int compare_recent_sites(const void *a, const void *b, void *ctx)
{
    const struct site_order *order = ctx;
    const struct recent_site *x = &order->list[*(const uint32_t *)a],
                             *y = &order->list[*(const uint32_t *)b];

    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    for (uint32_t i = 0; i < x->call_count && i < y->call_count; i++)
        if (x->calls[i] != y->calls[i])
            return strcmp(order->groups[x->calls[i]], order->groups[y->calls[i]]);
    return (x->call_count > y->call_count) - (x->call_count < y->call_count);
}

static bool order_sites(const struct site_builder *builder)
{
    struct recent_sites *sites = builder->sites;
    struct site_order order = {sites->list, builder->samples->locations.groups};
    AUTO_FREE uint32_t *sorted = reallocarray(NULL, sites->count + 1, sizeof *sorted);
    AUTO_FREE uint32_t *place = reallocarray(NULL, sites->count + 1, sizeof *place);
    struct recent_site *list = reallocarray(NULL, sites->count + 1, sizeof *list);

    for (size_t i = 0; sorted && i < sites->count; i++)
        sorted[i] = (uint32_t)i;
    if (!sorted || !place || !list) {
        free(list);
        return false;
    }
    qsort_r(sorted, sites->count, sizeof *sorted, compare_recent_sites, &order);
    for (size_t i = 0; i < sites->count; i++) {
        list[i] = sites->list[sorted[i]];
        place[sorted[i]] = (uint32_t)i;
    }
    for (size_t i = 0; i < builder->recent->list.count; i++)
        if (sites->of[i] != TABLE_NONE)
            sites->of[i] = place[sites->of[i]];
    free(sites->list);
    sites->list = list;
    return true;
}

/* With --by-thread a stack has several samples, with the same calls. */
static void map_stacks(const struct site_builder *builder)
{
    const struct samples *samples = builder->samples;
    uint32_t *of = builder->sites->samples;

    for (size_t i = 0; i < builder->recent->list.stack_count; i++)
        of[i] = TABLE_NONE;
    for (size_t i = 0; i < samples->count; i++)
        if (samples->list[i].stack < builder->recent->list.stack_count)
            of[samples->list[i].stack] = (uint32_t)i;
}

bool recent_sites_make(struct recent_sites *sites, const struct recent *recent,
                       const struct samples *samples)
{
    struct site_builder builder = {.sites = sites, .recent = recent, .samples = samples};
    bool good;

    memset(sites, 0, sizeof *sites);
    table_init(&builder.table);
    sites->samples = reallocarray(NULL, recent->list.stack_count + 1, sizeof *sites->samples);
    sites->of = reallocarray(NULL, recent->list.count + 1, sizeof *sites->of);
    good = sites->samples && sites->of;
    if (good)
        map_stacks(&builder);
    good = good && assign_records(&builder) && set_medians(&builder) && order_sites(&builder);
    table_free(&builder.table);
    return good;
}

void recent_sites_free(struct recent_sites *sites)
{
    free(sites->list);
    free(sites->samples);
    free(sites->of);
    memset(sites, 0, sizeof *sites);
}
