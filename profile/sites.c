#include "profile/sites.h"
#include "base/list.h"
#include "base/text.h"
#include "profile/judged.h"
#include "profile/stack_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAMES_SIZE = 16 << 10 }; /* bytes of one site; longer ones are truncated */

/* The calls of a sample, as names with their NULs. */
struct names {
    char bytes[NAMES_SIZE];
    size_t len;
    uint32_t count;
    struct stack_call first;
};

void sites_init(struct sites *sites)
{
    memset(sites, 0, sizeof *sites);
    table_init(&sites->table);
}

void sites_free(struct sites *sites)
{
    for (size_t i = 0; i < sites->count; i++)
        free(sites->list[i].calls);
    free(sites->list);
    table_free(&sites->table);
    memset(sites, 0, sizeof *sites);
}

const char *site_next_call(const char *call)
{
    return call + strlen(call) + 1;
}

/* A recursion counts as one call: its further calls add no information. */
static bool has_name(const struct names *names, const char *name)
{
    const char *have = names->bytes;

    for (uint32_t i = 0; i < names->count; i++, have = site_next_call(have))
        if (strncmp(have, name, NAMES_SIZE / SITE_CALLS - 1) == 0)
            return true;
    return false;
}

static void take_names(struct names *names, const struct samples *samples,
                       const struct sample *sample)
{
    struct stack_text stack;
    const size_t count = stack_own_calls(samples, sample, &stack);

    names->len = 0;
    names->count = 0;
    for (size_t i = 0; names->count < SITE_CALLS && i < count; i++) {
        i = stack_named_call(stack.calls, count, i);
        const char *name = samples_shown_name(samples, stack.calls[i].function);
        size_t len = strlen(name) + 1, capacity = sizeof names->bytes / SITE_CALLS;
        if (names->count == 0)
            names->first = stack.calls[i];
        if (has_name(names, name))
            continue;
        if (len > capacity)
            len = capacity;
        memcpy(names->bytes + names->len, name, len);
        names->bytes[names->len + len - 1] = '\0';
        names->len += len;
        names->count++;
    }
}

static bool same_calls(const void *ctx, uint32_t place, const void *key)
{
    const struct sites *sites = ctx;
    const struct site *have = &sites->list[place], *want = key;

    return have->len == want->len && memcmp(have->calls, want->calls, want->len) == 0;
}

/* Returns the index of the site with these calls; `fresh` if there is none yet. */
static uint32_t put_site(struct sites *sites, const struct site *site, uint32_t fresh)
{
    uint64_t hash = table_hash_bytes(&sites->table, site->calls, site->len);

    return table_put(&sites->table, hash, same_calls, sites, site, fresh);
}

void sites_number(const struct sites *sites, const struct samples *samples, uint32_t *site_of)
{
    struct names names;

    for (size_t i = 0; i < samples->count; i++) {
        take_names(&names, samples, &samples->list[i]);
        const struct site wanted = {.calls = names.bytes, .len = names.len};
        uint64_t hash = table_hash_bytes(&sites->table, wanted.calls, wanted.len);
        uint32_t number = table_find(&sites->table, hash, same_calls, sites, &wanted);
        if (names.count && number != TABLE_NONE)
            site_of[samples->list[i].stack] = number;
    }
}

/* Returns the site with these calls, and adds it if it is new. NULL: out of memory. */
static struct site *find_site(struct sites *sites, struct names *names)
{
    const struct site wanted = {.calls = names->bytes, .len = names->len};
    struct site *site;
    uint32_t place;

    if (!LIST_GROW(sites->list, sites->capacity, sites->count) || sites->count >= TABLE_NONE)
        return NULL;
    place = put_site(sites, &wanted, (uint32_t)sites->count);
    if (place == TABLE_NONE || place < sites->count)
        return place == TABLE_NONE ? NULL : &sites->list[place];
    site = &sites->list[place];
    *site =
        (struct site){.calls = malloc(names->len), .len = names->len, .call_count = names->count};
    if (!site->calls)
        return NULL; /* the table already has it: only sites_free may follow */
    memcpy(site->calls, names->bytes, names->len);
    sites->count++;
    return site;
}

static bool add_to_sites(struct sites *sites, const struct samples *samples)
{
    struct names names;

    for (size_t i = 0; i < samples->count; i++) {
        const struct sample *sample = &samples->list[i];
        const struct amount *bytes = &sample->values[VALUE_BYTES];
        struct site *site;
        take_names(&names, samples, sample);
        if (names.count == 0)
            continue;
        site = find_site(sites, &names);
        if (!site)
            return false;
        struct amount sum = {.now = site->now.bytes, .variance = site->now.variance};
        struct amount objects = {.now = site->objects};
        amount_add(&sum, bytes);
        amount_add(&objects, &sample->values[VALUE_OBJECTS]);
        if (!site->placed || bytes->now > site->largest) {
            const char *file = text_base_name(names.first.function->file);
            if (!*file)
                site->place[0] = '\0';
            else if (names.first.line)
                snprintf(site->place, sizeof site->place, "%s:%u", file, names.first.line);
            else
                snprintf(site->place, sizeof site->place, "%s", file);
        }
        site->placed = true;
        site->largest = bytes->now > site->largest ? bytes->now : site->largest;
        site->now = (struct site_size){sum.now, sum.variance,
                                       site->now.total_variance +
                                           sample->values[VALUE_TOTAL_BYTES].variance};
        site->objects = objects.now;
    }
    return true;
}

/* Removes the sites that hold nothing any more; rebuilds the table, which cannot remove a key. */
static bool forget_empty(struct sites *sites)
{
    size_t kept = 0;

    for (size_t i = 0; i < sites->count; i++) {
        const struct site *site = &sites->list[i];
        bool holds = site->now.bytes || site->first.bytes;
        for (size_t j = 0; j < SITES_HISTORY; j++)
            holds |= site->past[j].bytes != 0;
        if (holds)
            sites->list[kept++] = *site;
        else
            free(site->calls);
    }
    if (kept == sites->count)
        return true;
    sites->count = kept;
    table_free(&sites->table);
    table_init(&sites->table);
    for (size_t i = 0; i < kept; i++)
        if (put_site(sites, &sites->list[i], (uint32_t)i) == TABLE_NONE)
            return false;
    return true;
}

/* Return the slots of the newest and of the oldest profile. */
static size_t newest_slot(const struct sites *sites)
{
    return (sites->rounds + SITES_HISTORY - 1) % SITES_HISTORY;
}

static size_t oldest_slot(const struct sites *sites)
{
    return sites->rounds <= SITES_HISTORY ? 0 : sites->rounds % SITES_HISTORY;
}

uint64_t sites_window(const struct sites *sites)
{
    return sites->rounds ? sites->times[newest_slot(sites)] - sites->times[oldest_slot(sites)] : 0;
}

uint64_t sites_time(const struct sites *sites)
{
    return sites->rounds ? sites->times[newest_slot(sites)] - sites->first_time : 0;
}

static int64_t growth_since(const struct site *site, const struct site_size *then)
{
    const struct amount amount = {.now = site->now.bytes, .base = then->bytes};

    return amount_growth(&amount);
}

static int64_t growth_in_window(const struct sites *sites, const struct site *site)
{
    if (sites->evidence == EVIDENCE_COUNTS)
        return llrint(site->judged.bytes);
    return growth_since(site, &site->past[oldest_slot(sites)]);
}

int64_t site_growth_in_all(const struct site *site)
{
    return growth_since(site, &site->first);
}

/* Returns how many points there are: those of the window, the oldest first. */
static size_t make_points(const struct sites *sites, const struct site *site,
                          struct trend_point points[SITES_HISTORY])
{
    size_t count = sites->rounds < SITES_HISTORY ? sites->rounds : SITES_HISTORY,
           slot = oldest_slot(sites);
    const uint64_t start = sites->times[slot];

    for (size_t i = 0; i < count; i++, slot = (slot + 1) % SITES_HISTORY) {
        const struct site_size *size = &site->past[slot];
        points[i] = (struct trend_point){.seconds = (double)(sites->times[slot] - start) / 1e9,
                                         .bytes = (double)size->bytes,
                                         .variance = size->variance,
                                         .total_variance = size->total_variance};
    }
    return count;
}

struct site_growth sites_growth(const struct sites *sites, const struct site *site)
{
    struct trend_point points[SITES_HISTORY];
    struct site_growth growth = {.bytes = growth_in_window(sites, site)};
    uint64_t ns = sites_window(sites);
    size_t count = make_points(sites, site, points);

    if (count < 2)
        return growth;
    growth.trend =
        sites->evidence == EVIDENCE_COUNTS ? site->judged : trend_of(points, count, sites->tests);
    if (sites->awaits_counts && growth.trend.verdict != TREND_SHRINKS)
        growth.trend.verdict = TREND_UNCLEAR;
    growth.error = (growth.trend.high - growth.trend.low) / 2;
    growth.per_second = ns ? (double)growth.bytes / ((double)ns / 1e9) : 0;
    if (sites->evidence == EVIDENCE_COUNTS)
        growth.per_second = site->judged.per_second;
    return growth;
}

void sites_judge(struct sites *sites, const struct verdict *verdict)
{
    struct trend_point points[SITES_HISTORY];

    for (size_t i = 0; i < sites->count; i++) {
        struct site *site = &sites->list[i];
        size_t count = make_points(sites, site, points);
        if (count < 2)
            return;
        site->judged = trend_of(points, count, sites->tests);
        judged_trend(&site->judged, verdict, i);
    }
    sites->evidence = EVIDENCE_COUNTS;
}

bool sites_update(struct sites *sites, const struct samples *samples, uint64_t time)
{
    size_t slot = sites->rounds % SITES_HISTORY;

    sites->evidence = EVIDENCE_SAMPLES;
    for (size_t i = 0; i < sites->count; i++) {
        sites->list[i].now = (struct site_size){0};
        sites->list[i].objects = 0;
        sites->list[i].largest = 0;
    }
    if (!add_to_sites(sites, samples))
        return false;
    for (size_t i = 0; i < sites->count; i++) {
        struct site *site = &sites->list[i];
        site->past[slot] = site->now;
        if (sites->rounds == 0)
            site->first = site->now;
    }
    sites->times[slot] = time;
    if (sites->rounds++ == 0)
        sites->first_time = time;
    sites->bytes = samples_total(samples, VALUE_BYTES);
    sites->objects = samples_total(samples, VALUE_OBJECTS);
    sites->stacks = samples->count;
    sites->period = samples->period;
    if (!forget_empty(sites))
        return false;
    struct trend_point points[SITES_HISTORY];
    struct trend_tests tests = {{0}};
    for (size_t i = 0; sites->rounds > 1 && i < sites->count; i++)
        trend_tests_add(&tests, points, make_points(sites, &sites->list[i], points));
    sites->tests = trend_tests_count(&tests);
    return true;
}

struct comparison {
    const struct sites *sites;
    enum sites_order order;
};

static int compare_sites(const void *a, const void *b, void *ctx)
{
    const struct site *x = *(const struct site *const *)a, *y = *(const struct site *const *)b;
    const struct comparison *by = ctx;

    if (by->order == SITES_BY_GROWTH) {
        int64_t x_grown = growth_in_window(by->sites, x), y_grown = growth_in_window(by->sites, y);
        if (x_grown != y_grown)
            return x_grown < y_grown ? 1 : -1;
    }
    if (x->now.bytes != y->now.bytes)
        return x->now.bytes < y->now.bytes ? 1 : -1;
    size_t len = x->len < y->len ? x->len : y->len;
    int order = memcmp(x->calls, y->calls, len);
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

const struct site **sites_sorted(const struct sites *sites, enum sites_order order)
{
    struct comparison by = {sites, order};
    const struct site **list = reallocarray(NULL, sites->count + 1, sizeof *list);

    for (size_t i = 0; list && i < sites->count; i++)
        list[i] = &sites->list[i];
    if (list)
        qsort_r(list, sites->count, sizeof *list, compare_sites, &by);
    return list;
}
