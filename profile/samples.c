#include "profile/samples.h"
#include "base/list.h"
#include "profile/locations.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Leaves out the innermost calls of a stack that are of a standard library, so
 * that memory counts as that of the caller which asked for it: a row
 * "std::vector::push_back" would tell nobody where a program leaks.
 */

/*
 * Returns for each location the one that replaces it as the innermost call, which begins with
 * the program's own code; TABLE_NONE: it has none. Adds the locations that are needed: those with
 * own code below inlined calls of a library; their lines are shared. NULL: out of memory.
 */
static uint32_t *folding_make(struct locations *locations)
{
    size_t count = locations->count;
    uint32_t *begins = reallocarray(NULL, count + 1, sizeof *begins);

    for (size_t i = 0; begins && i < count; i++) {
        const struct location *location = &locations->list[i];
        const struct location_line *lines = &locations->lines[location->first];
        uint32_t foreign = 0;
        while (foreign < location->count &&
               locations->functions[lines[foreign].function].kind != CODE_OWN)
            foreign++;
        begins[i] = foreign == location->count ? TABLE_NONE : (uint32_t)i;
        if (foreign && begins[i] != TABLE_NONE) {
            begins[i] = locations_add_outer(locations, (uint32_t)i, foreign);
            if (begins[i] == TABLE_NONE) {
                free(begins);
                return NULL;
            }
        }
    }
    return begins;
}

/*
 * Folds a stack of depth locations, innermost first: returns the number of
 * locations that are left out at its start, and replaces the first one that is
 * kept. A stack without the program's own code is not folded. Adds the calls
 * that are left out, inlined ones included, to *calls.
 */
static uint32_t folding_apply(const uint32_t *begins, const struct locations *locations,
                              uint32_t *list, uint32_t depth, size_t *calls)
{
    uint32_t folded = 0;

    while (folded < depth && begins[list[folded]] == TABLE_NONE)
        folded++;
    if (folded == depth)
        return 0;
    for (uint32_t i = 0; i <= folded; i++)
        *calls += locations->list[list[i]].count;
    list[folded] = begins[list[folded]];
    *calls -= locations->list[list[folded]].count;
    return folded;
}

/* CALLS_ADDED: at most, those of a stack that stand for no code. */
enum { THREAD_NAME_SIZE = 128, TRENDS_OF_ALL_POINTS = 1000, CALLS_ADDED = 3 };

/* One of the profiles. */
struct part {
    const struct heap_profile *profile;
    struct symbols *symbols;
    uint32_t first_location; /* the first location of its addresses */
    uint32_t first_thread;   /* the location of the name of its first thread */
    enum part_kind { PART_NOW, PART_BASE, PART_BETWEEN, PART_STACKS } kind;
    size_t point; /* the number in order of time */
};

struct builder {
    struct samples *samples;
    const struct samples_options *options;
    struct filter_mark *marks;
    uint32_t *begins; /* of folding_make; NULL: nothing is folded */
    uint32_t *same; /* for each location, the one that stands for all with the same lines; NULL: no
                       comparison */
    struct table table;      /* of the samples that are compared */
    uint32_t truncated;      /* the location with that name */
    uint32_t no_stack;       /* the location with that name */
    const struct part *part; /* the part that is being added */
    const double *seconds;   /* the times of the parts, in order */
};

int64_t amount_growth(const struct amount *amount)
{
    return add_saturating(amount->now, -amount->base);
}

double amount_error(const struct amount *amount)
{
    return 2 * sqrt(amount->variance);
}

double samples_error(const struct samples *samples, const struct amount *amount)
{
    return samples->compares ? trend_error(amount->variance, samples->tests) : amount_error(amount);
}

struct amount samples_total(const struct samples *samples, enum value value)
{
    struct amount total = {0};

    for (size_t i = 0; i < samples->count; i++)
        amount_add(&total, &samples->list[i].values[value]);
    return total;
}

struct amount samples_whole(const struct samples *samples, enum value value)
{
    struct amount whole = samples_total(samples, value);

    amount_add(&whole, &samples->filtered[value]);
    return whole;
}

const char *samples_shown_name(const struct samples *samples, const struct function *function)
{
    return samples->locations.groups[function->group];
}

static void add_amount(struct amount *amount, double value, double variance, enum part_kind kind)
{
    struct amount part = {.variance = variance};

    if (kind == PART_BETWEEN)
        return;
    /* Rounds a number that is not negative. */
    *(kind == PART_BASE ? &part.base : &part.now) = value < 9.2e18 ? llrint(value) : INT64_MAX;
    amount_add(amount, &part);
}

/* Adds the counts to the values of a sample; NULL: to those of what is filtered. */
static void add_values(const struct builder *builder, struct sample *sample,
                       const struct heap_counts *counts)
{
    struct samples *samples = builder->samples;
    struct amount *values = sample ? sample->values : samples->filtered;
    const struct heap_profile *profile = builder->part->profile;
    struct heap_estimate live = heap_estimate(profile, counts->objects, counts->bytes),
                         total = heap_estimate(profile, counts->total_objects, counts->total_bytes);
    enum part_kind kind = builder->part->kind;

    add_amount(&values[VALUE_OBJECTS], live.objects, live.objects_variance, kind);
    add_amount(&values[VALUE_BYTES], live.bytes, live.bytes_variance, kind);
    /* What one process has allocated stays allocated: the later total contains the former. */
    double sign = kind == PART_BASE && samples->same_process ? -1 : 1;
    add_amount(&values[VALUE_TOTAL_OBJECTS], total.objects, sign * total.objects_variance, kind);
    add_amount(&values[VALUE_TOTAL_BYTES], total.bytes, sign * total.bytes_variance, kind);
    if (!sample)
        return;
    add_amount(&samples->sampled, (double)counts->objects, 0, kind);
    add_amount(&samples->sampled_total, (double)counts->total_objects, 0, kind);
    if (!samples->point_count)
        return;
    size_t number = (size_t)(sample - samples->list);
    struct trend_point *point =
        &samples->points[number * samples->point_count + builder->part->point];
    point->bytes += live.bytes;
    point->variance += live.bytes_variance;
    point->total_variance += total.bytes_variance;
    if (counts->objects)
        point->own_variance += live.bytes * live.bytes / (double)counts->objects;
}

static void add_call(struct samples *samples, uint32_t location)
{
    samples->calls[samples->call_count++] = location;
}

/* Adds the calls of a stack, and those that stand for no code, innermost first. */
static bool add_calls(struct builder *builder, const struct heap_line *line)
{
    struct samples *samples = builder->samples;
    const struct part *part = builder->part;
    const struct heap_stack *stack = &part->profile->stacks[line->stack];
    size_t count = (size_t)stack->depth + CALLS_ADDED;

    if (samples->call_count + count > SAMPLES_CALLS_LIMIT) {
        samples->too_many = true;
        return false;
    }
    /* Few stacks have so many calls that the list grows twice. */
    while (samples->call_capacity - samples->call_count < count)
        if (!LIST_GROW(samples->calls, samples->call_capacity, samples->call_capacity))
            return false;
    for (uint32_t i = 0; i < stack->depth; i++)
        add_call(samples, part->first_location + part->profile->frames[stack->first + i]);
    /* An unwinder that finds no frame leaves a sample without addresses. */
    if (stack->depth == 0)
        add_call(samples, builder->no_stack);
    if (heap_stack_cut(part->profile, stack)) {
        samples->cut++;
        add_call(samples, builder->truncated);
    }
    /* Thread numbers mean nothing in another run: names are compared. */
    if (line->thread != TABLE_NONE && (builder->options->thread_frames || builder->same))
        add_call(samples, part->first_thread + line->thread);
    return true;
}

/* Keeps the calls from first on that are to be shown. False: the sample is not shown. */
static bool select_calls(struct builder *builder, uint32_t first)
{
    struct samples *samples = builder->samples;
    uint32_t depth = (uint32_t)samples->call_count - first, trimmed = 0, kept = 0, *calls;
    bool focused = false, ignored = false;

    if (depth == 0) /* there may be no list yet */
        return false;
    calls = &samples->calls[first];
    if (!builder->options->keep_allocator)
        trimmed = filter_allocator_calls(builder->marks, calls, depth);
    samples->trimmed += trimmed;
    for (uint32_t i = trimmed; i < depth; i++) {
        const struct filter_mark *mark = &builder->marks[calls[i]];
        samples->matched |= mark->matches;
        ignored |= mark->ignored;
        focused |= mark->focused;
        if (!mark->hidden)
            calls[kept++] = calls[i];
    }
    if (ignored)
        return false;
    if (focused) {
        /* Leaves out the calls of libraries at the start. */
        uint32_t folded = builder->begins ? folding_apply(builder->begins, &samples->locations,
                                                          calls, kept, &samples->folded)
                                          : 0;
        for (uint32_t i = folded; i < kept; i++)
            calls[i - folded] = builder->same ? builder->same[calls[i]] : calls[i];
        kept -= folded;
    }
    samples->call_count = first + kept;
    return focused && kept > 0;
}

static bool same_stack(const void *ctx, uint32_t place, const void *key)
{
    const struct samples *samples = ctx;
    const struct sample *have = &samples->list[place], *want = key;

    return have->depth == want->depth &&
           memcmp(&samples->calls[have->first], &samples->calls[want->first],
                  have->depth * sizeof *samples->calls) == 0;
}

/* Returns the sample with these calls: a new one or, in a comparison, an existing one. */
static struct sample *find_sample(struct builder *builder, const struct sample *fresh)
{
    struct samples *samples = builder->samples;
    uint32_t place = (uint32_t)samples->count;

    if (!LIST_GROW(samples->list, samples->capacity, samples->count))
        return NULL;
    if (builder->same) {
        uint64_t hash = table_hash_bytes(&builder->table, &samples->calls[fresh->first],
                                         fresh->depth * sizeof *samples->calls);
        place = table_put(&builder->table, hash, same_stack, samples, fresh, place);
    }
    if (place == TABLE_NONE)
        return NULL;
    if (place < samples->count) {
        samples->call_count = fresh->first;
    } else {
        /* Adds the points of the new sample, with the times of all of them. */
        size_t count = samples->point_count, first = samples->count * count;
        for (size_t i = 0; i < count; i++) {
            if (!LIST_GROW(samples->points, samples->point_capacity, first + i))
                return NULL; /* the table already has it: only samples_free may follow */
            samples->points[first + i] = (struct trend_point){.seconds = builder->seconds[i]};
        }
        samples->list[samples->count++] = *fresh;
    }
    return &samples->list[place];
}

/* number: of the sample to which the line belongs; TABLE_NONE: it is filtered. */
static bool add_heap_line(struct builder *builder, const struct heap_line *line, uint32_t *number)
{
    struct samples *samples = builder->samples;
    struct sample fresh = {
        .first = (uint32_t)samples->call_count, .stack = line->stack, .thread = TABLE_NONE};
    struct sample *sample;

    *number = TABLE_NONE;
    if (!add_calls(builder, line))
        return false;
    if (!select_calls(builder, fresh.first)) {
        samples->call_count = fresh.first;
        if (builder->part->kind != PART_STACKS)
            add_values(builder, NULL, &line->counts);
        samples->filtered_count += builder->part->kind == PART_NOW;
        return true;
    }
    fresh.depth = (uint32_t)samples->call_count - fresh.first;
    if (!builder->same)
        fresh.thread = line->thread;
    if (line->counts.objects)
        fresh.size = line->counts.bytes / line->counts.objects;
    sample = find_sample(builder, &fresh);
    if (!sample)
        return false;
    *number = (uint32_t)(sample - samples->list);
    if (builder->part->kind != PART_STACKS)
        add_values(builder, sample, &line->counts);
    return true;
}

/* Adds the locations of a profile, and one for each of its threads, in its order. */
static bool add_locations(struct locations *locations, struct part *part)
{
    char name[THREAD_NAME_SIZE];

    part->first_location = (uint32_t)locations->count;
    if (!locations_add(locations, part->profile, part->symbols))
        return false;
    part->first_thread = (uint32_t)locations->count;
    for (size_t i = 0; i < part->profile->thread_count; i++) {
        const struct heap_thread *thread = &part->profile->threads[i];
        if (thread->name)
            snprintf(name, sizeof name, "[thread %s]", thread->name);
        else
            snprintf(name, sizeof name, "[thread %llu]", (unsigned long long)thread->uid);
        if (locations_pseudo(locations, name) == TABLE_NONE)
            return false;
    }
    return true;
}

/* Adds the threads for the labels of samples; without the brackets. */
static bool add_threads(struct samples *samples, const struct heap_profile *profile)
{
    samples->threads = calloc(profile->thread_count + 1, sizeof *samples->threads);
    if (!samples->threads)
        return false;
    for (size_t i = 0; i < profile->thread_count; i++) {
        const char *name = profile->threads[i].name ? profile->threads[i].name : "";
        samples->threads[i] = (struct sample_thread){
            profile->threads[i].uid, arena_string(&samples->locations.strings, name, strlen(name))};
        if (!samples->threads[i].name)
            return false;
    }
    samples->thread_count = profile->thread_count;
    return true;
}

static bool same_lines(const void *ctx, uint32_t place, const void *key)
{
    const struct locations *locations = ctx;
    const struct location *have = &locations->list[place], *want = key;

    for (uint32_t i = 0; have->count == want->count && i < have->count; i++) {
        const struct location_line *x = &locations->lines[have->first + i],
                                   *y = &locations->lines[want->first + i];
        if (x->function != y->function || x->line != y->line)
            return false;
    }
    return have->count == want->count;
}

/* Visits all locations: filters, folding, and the comparison, which sees what folding adds. */
static bool prepare_selection(struct builder *builder, bool compares)
{
    const struct samples_options *options = builder->options;
    struct locations *locations = &builder->samples->locations;
    struct table table;
    uint32_t *same;

    builder->marks = filter_apply(&options->filter, locations);
    if (!builder->marks)
        return false;
    if (!options->keep_plumbing && !options->keep_allocator &&
        !(builder->begins = folding_make(locations)))
        return false;
    if (!compares)
        return true;
    /*
     * For each location the first one with the same lines: this is how stacks
     * of two runs are compared.
     */
    same = reallocarray(NULL, locations->count + 1, sizeof *same);
    table_init(&table);
    for (size_t i = 0; same && i < locations->count; i++) {
        const struct location *location = &locations->list[i];
        uint64_t hash = location->count;
        for (uint32_t j = 0; j < location->count; j++) {
            const struct location_line *line = &locations->lines[location->first + j];
            hash = table_hash_number(&table, hash ^ ((uint64_t)line->function << 32 | line->line));
        }
        same[i] = table_put(&table, hash, same_lines, locations, location, (uint32_t)i);
        if (same[i] == TABLE_NONE) {
            free(same);
            same = NULL;
        }
    }
    table_free(&table);
    builder->same = same;
    return same != NULL;
}

/* Adds all locations first: a filter and a comparison visit each of them once. */
static bool build_samples(struct builder *builder, struct part *parts, size_t count,
                          uint32_t *of_stack)
{
    struct samples *samples = builder->samples;
    struct locations *locations = &samples->locations;
    uint32_t number;
    bool good;

    builder->truncated = locations_pseudo(locations, "[truncated]");
    builder->no_stack = locations_pseudo(locations, "[no stack]");
    good = builder->truncated != TABLE_NONE && builder->no_stack != TABLE_NONE &&
           add_threads(samples, parts[0].profile);
    for (size_t i = 0; good && i < count + (of_stack != NULL); i++)
        good = add_locations(locations, &parts[i]);
    samples->first_location = parts[0].first_location;
    good = good && prepare_selection(builder, count > 1);
    for (size_t i = 0; good && i < count; i++) {
        const struct heap_profile *profile = parts[i].profile;
        bool by_thread = builder->options->by_thread && profile->thread_line_count;
        const struct heap_line *lines = by_thread ? profile->thread_lines : profile->lines;
        size_t line_count = by_thread ? profile->thread_line_count : profile->line_count;
        builder->part = &parts[i];
        for (size_t j = 0; good && j < line_count; j++)
            good = add_heap_line(builder, &lines[j], &number);
    }
    if (!of_stack)
        return good;
    /* The numbers of what is cut and left out are those of the stacks that are shown. */
    const size_t cut = samples->cut, trimmed = samples->trimmed, folded = samples->folded;
    builder->part = &parts[count];
    for (size_t i = 0; good && i < parts[count].profile->stack_count; i++) {
        const struct heap_line line = {.stack = (uint32_t)i, .thread = TABLE_NONE};
        good = add_heap_line(builder, &line, &of_stack[i]);
    }
    samples->cut = cut;
    samples->trimmed = trimmed;
    samples->folded = folded;
    return good;
}

static int by_change(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? 1 : x > y ? -1 : 0;
}

/* Returns the change of bytes from which on a trend takes all points into account, at a cost. */
static double least_change(const struct samples *samples)
{
    AUTO_FREE double *changes = reallocarray(NULL, samples->count + 1, sizeof *changes);
    double least = 0;

    for (size_t i = 0; changes && i < samples->count; i++)
        changes[i] = fabs((double)amount_growth(&samples->list[i].values[VALUE_BYTES]));
    if (changes && samples->count > TRENDS_OF_ALL_POINTS) {
        qsort(changes, samples->count, sizeof *changes, by_change);
        least = changes[TRENDS_OF_ALL_POINTS];
    }
    return changes ? least : INFINITY;
}

static bool find_trends(struct samples *samples)
{
    double least = least_change(samples);
    struct trend_tests tests = {{0}};

    samples->trends = reallocarray(NULL, samples->count + 1, sizeof *samples->trends);
    for (size_t i = 0; samples->trends && i < samples->count; i++)
        trend_tests_add(&tests, samples_points(samples, i), samples->point_count);
    samples->tests = trend_tests_count(&tests);
    for (size_t i = 0; samples->trends && i < samples->count; i++) {
        struct amount *values = samples->list[i].values, *bytes = &values[VALUE_BYTES];
        double change = fabs((double)amount_growth(bytes));
        const struct trend_point *points = samples_points(samples, i);
        struct trend_point ends[] = {points[0], points[samples->point_count - 1]};
        if (!samples->same_process)
            ends[0].total_variance = ends[1].total_variance = 0;
        samples->trends[i] = samples->same_process && change > least
                                 ? trend_of(points, samples->point_count, samples->tests)
                                 : trend_of(ends, ARRAY_LEN(ends), samples->tests);
        /* The variances of the other values follow that of the bytes in use. */
        if (bytes->variance > 0)
            values[VALUE_OBJECTS].variance *= samples->trends[i].variance / bytes->variance;
        bytes->variance = samples->trends[i].variance;
        for (unsigned j = VALUE_TOTAL_OBJECTS; samples->same_process && j <= VALUE_TOTAL_BYTES; j++)
            values[j].variance = fmax(0, values[j].variance);
    }
    return samples->trends != NULL;
}

bool samples_build_series(struct samples *samples, const struct samples_options *options,
                          const struct samples_part *given, size_t count,
                          const struct samples_part *stacks, uint32_t *of_stack)
{
    AUTO_FREE double *seconds = calloc(count, sizeof *seconds);
    AUTO_FREE struct part *parts = calloc(count + 1, sizeof *parts);
    struct builder builder = {.samples = samples, .options = options, .seconds = seconds};
    struct heap_profile only = {0};
    const size_t all = count;
    size_t names = 0;
    bool good = seconds && parts;

    memset(samples, 0, sizeof *samples);
    locations_init(&samples->locations);
    samples->locations.short_names = options->short_names;
    table_init(&builder.table);
    while (count > 1 && given[count - 1].adds)
        count--;
    samples->compares = count > 1;
    samples->period = given[0].profile->period;
    samples->base_period = given[samples->compares].profile->period;
    samples->point_count = samples->compares ? count : 0;
    samples->same_process = true;
    /* Numbers the parts in order of time: the base, those between, the newest. */
    for (size_t i = 0; good && i < all; i++) {
        parts[i] = (struct part){.profile = given[i].profile, .symbols = given[i].symbols};
        samples->accumulates |= given[i].profile->accumulates;
        if (i >= count)
            continue;
        parts[i].kind = i == 0 ? PART_NOW : i == 1 ? PART_BASE : PART_BETWEEN;
        parts[i].point = i == 0 ? count - 1 : i - 1;
        seconds[parts[i].point] = given[i].seconds;
        /* Profiles between the ends may come without their maps. */
        if (i == 1 || (i > 1 && given[i].profile->mapping_count))
            samples->same_process &= heap_same_process(given[0].profile, given[i].profile);
    }
    if (good && stacks) {
        only = *stacks->profile;
        only.deepest = given[0].profile->deepest; /* equal stacks are cut, or they are not */
        parts[all] = (struct part){&only, stacks->symbols, .kind = PART_STACKS};
    }
    good = good && build_samples(&builder, parts, all, stacks ? of_stack : NULL);
    /* Views that name the calls of all stacks at once need space for the inlined ones, too. */
    for (size_t i = 0; good && i < samples->call_count; i++)
        names += samples->locations.list[samples->calls[i]].count;
    if (names > SAMPLES_CALLS_LIMIT)
        samples->too_many = true;
    good = good && !samples->too_many && (count == 1 || find_trends(samples));
    free(builder.marks);
    free(builder.same);
    free(builder.begins);
    table_free(&builder.table);
    return good;
}

bool samples_build(struct samples *samples, const struct samples_options *options,
                   const struct heap_profile *profile, struct symbols *symbols,
                   const struct heap_profile *base, struct symbols *base_symbols)
{
    const struct samples_part parts[] = {{profile, symbols, 0, false},
                                         {base, base_symbols, 0, false}};

    return samples_build_series(samples, options, parts, base ? 2 : 1, NULL, NULL);
}

const struct trend_point *samples_points(const struct samples *samples, size_t number)
{
    return &samples->points[number * samples->point_count];
}

void samples_free(struct samples *samples)
{
    locations_free(&samples->locations);
    free(samples->calls);
    free(samples->list);
    free(samples->points);
    free(samples->trends);
    free(samples->threads);
    memset(samples, 0, sizeof *samples);
}
