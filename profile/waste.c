#include "profile/waste.h"
#include "base/list.h"
#include "base/table.h"
#include "profile/stack_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

uint64_t waste_bytes(const struct waste_class *class)
{
    uint64_t fit, bytes;

    if (__builtin_mul_overflow(class->slabs, class->per_slab, &fit))
        fit = UINT64_MAX;
    if (fit <= class->objects)
        return 0;
    if (__builtin_mul_overflow(fit - class->objects, class->size, &bytes))
        bytes = UINT64_MAX;
    return amount_above(bytes, class->absent);
}

double waste_full_part(const struct waste_class *class)
{
    double full;

    if (class->nonfull >= class->slabs || !class->objects)
        return 0;
    full = (double)(class->slabs - class->nonfull) * (double)class->per_slab;
    return fmin(full / (double)class->objects, 1);
}

double waste_expected(const struct waste_class *class, double objects, uint64_t period)
{
    return objects * expm1((double)class->size / (period ? (double)period : 1));
}

/* ---- the class of a stack ---- */

struct sharing {
    struct waste *waste;
    const struct samples *samples; /* NULL: no profile */
    size_t *order;                 /* of the classes, by size */
    size_t ordered;
    struct table table;  /* of rows, by class and calls */
    struct table stacks; /* of samples, by calls */
    uint32_t *first;     /* the sample of each */
    size_t stack_count, stack_capacity;
    size_t capacity;
};

static int compare_classes(const void *a, const void *b, void *ctx)
{
    const struct waste_class *classes = ctx;
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;

    if (classes[x].size != classes[y].size)
        return classes[x].size < classes[y].size ? -1 : 1;
    return x < y ? -1 : x > y;
}

static bool order_classes(struct sharing *sharing)
{
    const struct waste *waste = sharing->waste;

    sharing->order = reallocarray(NULL, waste->class_count + 1, sizeof *sharing->order);
    for (size_t i = 0; sharing->order && i < waste->class_count; i++)
        if (waste->classes[i].size)
            sharing->order[sharing->ordered++] = i;
    if (sharing->order)
        qsort_r(sharing->order, sharing->ordered, sizeof *sharing->order, compare_classes,
                (void *)waste->classes);
    return sharing->order;
}

static uint64_t size_at(const struct sharing *sharing, size_t place)
{
    return sharing->waste->classes[sharing->order[place]].size;
}

/* The numbers of a profile are rounded, so that a mean is only near its class. */
static bool is_near(uint64_t mean, uint64_t size)
{
    enum { TOLERANCE = 200 };
    uint64_t off = mean > size ? mean - size : size - mean;

    return off <= size / TOLERANCE + 1;
}

/* Returns the place of the first class that is not smaller than the mean. */
static size_t find_class(const struct sharing *sharing, uint64_t mean)
{
    size_t low = 0, high = sharing->ordered;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (size_at(sharing, middle) < mean)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Which part of a stack's objects has the size of which class. */
struct split {
    size_t count; /* 0: they are larger than all classes */
    size_t places[2];
    double parts[2];
};

static struct split split_stack(const struct sharing *sharing, uint64_t mean)
{
    const size_t above = find_class(sharing, mean);
    double low, high, part;

    if (above > 0 && is_near(mean, size_at(sharing, above - 1)))
        return (struct split){1, {above - 1}, {1}};
    if (above == sharing->ordered)
        return (struct split){.count = 0};
    if (above == 0 || is_near(mean, size_at(sharing, above)))
        return (struct split){1, {above}, {1}};
    low = (double)size_at(sharing, above - 1);
    high = (double)size_at(sharing, above);
    part = ((double)mean - low) / (high - low);
    return (struct split){2, {above - 1, above}, {1 - part, part}};
}

/* ---- the rows of the stacks ---- */

static bool same_row(const void *ctx, uint32_t index, const void *key)
{
    const struct sharing *sharing = ctx;
    const struct waste_row *have = &sharing->waste->rows[index], *want = key;

    return have->class == want->class && have->stack == want->stack;
}

/* Two addresses of a line are one call. */
static bool same_stack_of(const void *ctx, uint32_t index, const void *key)
{
    const struct sharing *sharing = ctx;
    const struct samples *samples = sharing->samples;
    const struct sample *x = &samples->list[sharing->first[index]],
                        *y = &samples->list[*(const uint32_t *)key];
    struct stack_walk walk = {0}, other = {0};
    const struct stack_call *a, *b;

    do {
        a = stack_walk_next(&walk, samples, x);
        b = stack_walk_next(&other, samples, y);
    } while (a && b && a->function == b->function && a->line == b->line);
    return !a && !b;
}

/* Returns the number of its stack; TABLE_NONE: out of memory. */
static uint32_t number_calls(struct sharing *sharing, uint32_t sample)
{
    struct stack_walk walk = {0};
    const struct stack_call *call;
    uint64_t hash = 0;
    uint32_t place;

    if (!LIST_GROW(sharing->first, sharing->stack_capacity, sharing->stack_count) ||
        sharing->stack_count >= TABLE_NONE)
        return TABLE_NONE;
    while ((call = stack_walk_next(&walk, sharing->samples, &sharing->samples->list[sample])))
        hash = table_hash_number(&sharing->table, hash ^ (uintptr_t)call->function ^ call->line);
    place = table_put(&sharing->stacks, hash, same_stack_of, sharing, &sample,
                      (uint32_t)sharing->stack_count);
    if (place == sharing->stack_count)
        sharing->first[sharing->stack_count++] = sample;
    return place;
}

static bool add_row(struct sharing *sharing, const struct waste_row *row)
{
    struct waste *waste = sharing->waste;
    struct waste_row *have;
    uint32_t place;

    if (!LIST_GROW(waste->rows, sharing->capacity, waste->count) || waste->count >= TABLE_NONE)
        return false;
    place = table_put(&sharing->table,
                      table_hash_number(&sharing->table, (uint64_t)row->stack << 32 | row->class),
                      same_row, sharing, row, (uint32_t)waste->count);
    if (place == TABLE_NONE)
        return false;
    have = &waste->rows[place];
    if (place == waste->count) {
        waste->rows[waste->count++] = *row;
        return true;
    }
    have->objects += row->objects;
    have->variance += row->variance;
    have->mixed |= row->mixed;
    return true;
}

static bool add_stack(struct sharing *sharing, uint32_t number)
{
    const struct sample *sample = &sharing->samples->list[number];
    const struct amount *objects = &sample->values[VALUE_OBJECTS];
    const struct split split = split_stack(sharing, sample->size);
    const double period = sharing->samples->period ? (double)sharing->samples->period : 1;
    uint32_t stack;

    if (objects->now <= 0)
        return true;
    stack = number_calls(sharing, number);
    if (stack == TABLE_NONE)
        return false;
    if (!split.count)
        sharing->waste->unsharable += (double)objects->now;
    for (size_t i = 0; i < split.count; i++) {
        /* The part of the objects of a size that is not sampled: each byte is with 1 / period. */
        double part = split.parts[i] * exp(-(double)size_at(sharing, split.places[i]) / period);
        const struct waste_row row = {.sample = number,
                                      .stack = stack,
                                      .class = sharing->order[split.places[i]],
                                      .objects = (double)objects->now * part,
                                      .variance = objects->variance * part * part,
                                      .mixed = split.count > 1};
        if (!add_row(sharing, &row))
            return false;
    }
    return true;
}

static bool add_stacks(struct sharing *sharing)
{
    struct waste *waste = sharing->waste;

    for (size_t i = 0; sharing->samples && i < sharing->samples->count; i++)
        if (!add_stack(sharing, (uint32_t)i))
            return false;
    for (size_t i = 0; sharing->samples && i < waste->class_count; i++) {
        const struct waste_class *class = &waste->classes[i];
        const uint64_t own = class->own < class->objects ? class->own : class->objects;
        if (!own)
            continue;
        if (!LIST_GROW(waste->rows, sharing->capacity, waste->count))
            return false;
        waste->rows[waste->count++] = (struct waste_row){.sample = TABLE_NONE,
                                                         .stack = TABLE_NONE,
                                                         .own = true,
                                                         .class = i,
                                                         .objects = (double)own};
    }
    return true;
}

/* ---- their shares ---- */

/* All rows of one class. */
struct sums {
    double objects, variance; /* of the stacks */
    double whole;             /* that the free space is shared among */
    double rest;              /* of it: of no stack */
};

static double share_variance(const struct waste_row *row, const struct sums *sums)
{
    double share = row->objects / sums->whole, others = sums->variance - row->variance;

    if (sums->rest > 0) /* jemalloc itself counts the whole */
        return row->variance / (sums->whole * sums->whole);
    return ((1 - share) * (1 - share) * row->variance + share * share * fmax(others, 0)) /
           (sums->whole * sums->whole);
}

/* Bytes of a whole up to a part of it. */
static uint64_t bytes_up_to(uint64_t bytes, double part)
{
    double up_to = (double)bytes * part;

    return part >= 1 || up_to >= (double)bytes ? bytes : (uint64_t)fmax(up_to, 0);
}

/* What has been shared out of each class so far, so that no byte is lost by rounding. */
struct given {
    double objects;
    uint64_t bytes;
};

/* The objects that are not in full slabs may all be of this row, or all of others. */
static void bound_share(struct waste_row *row, const struct waste_class *class,
                        const struct sums *sums)
{
    const double bytes = (double)waste_bytes(class), full = waste_full_part(class) * sums->whole,
                 keeping = sums->whole - full,
                 error = bytes > 0 ? row->error / bytes * sums->whole : 0;

    row->least = 0;
    row->most = bytes;
    if (keeping <= 0)
        return;
    row->least = bytes * fmin(fmax(row->objects - error - full, 0) / keeping, 1);
    row->most = bytes * fmin((row->objects + error) / keeping, 1);
}

static uint64_t add_bytes(uint64_t sum, uint64_t bytes)
{
    return __builtin_add_overflow(sum, bytes, &sum) ? UINT64_MAX : sum;
}

static void add_rest(struct waste *waste, size_t class, uint64_t bytes, const struct sums *sums)
{
    const struct waste_class *of = &waste->classes[class];
    struct waste_row *row = &waste->rows[waste->count++];

    *row = (struct waste_row){
        .sample = TABLE_NONE,
        .stack = TABLE_NONE,
        .class = class,
        .objects = sums->objects > 0 ? sums->rest : (double)of->objects,
        .bytes = bytes,
        .error = sums->objects > 0
                     ? fmin(2 * sqrt(sums->variance) / sums->whole, 1) * (double)waste_bytes(of)
                     : 0,
        .least = (double)bytes,
        .most = (double)bytes,
    };
    if (sums->objects > 0)
        bound_share(row, of, sums);
    waste->unknown = add_bytes(waste->unknown, bytes);
}

/* What the rows of one class need, one for each class. */
struct shares {
    struct sums sums;
    struct given given;
    struct waste_row *last; /* of a stack */
};

static void share_to_stacks(struct waste *waste, struct shares *shares)
{
    for (size_t i = 0; i < waste->count; i++) {
        struct sums *sums = &shares[waste->rows[i].class].sums;
        sums->objects += waste->rows[i].objects;
        sums->variance += waste->rows[i].variance;
    }
    for (size_t i = 0; i < waste->class_count; i++) {
        struct sums *sums = &shares[i].sums;
        sums->rest = (double)waste->classes[i].objects - sums->objects;
        if (sums->rest <= 2 * sqrt(sums->variance))
            sums->rest = 0;
        if (sums->objects <= 0)
            sums->rest = 1; /* not 0: the free space of a class without objects has a row, too */
        sums->whole = sums->objects + sums->rest;
    }
    for (size_t i = 0; i < waste->count; i++) {
        struct waste_row *row = &waste->rows[i];
        struct shares *share = &shares[row->class];
        const uint64_t bytes = waste_bytes(&waste->classes[row->class]);
        share->given.objects += row->objects;
        const uint64_t up_to = bytes_up_to(bytes, share->given.objects / share->sums.whole);
        row->bytes = up_to > share->given.bytes ? up_to - share->given.bytes : 0;
        share->given.bytes += row->bytes;
        row->error = fmin(2 * sqrt(share_variance(row, &share->sums)), 1) * (double)bytes;
        bound_share(row, &waste->classes[row->class], &share->sums);
        share->last = row;
        if (row->own)
            waste->own = add_bytes(waste->own, row->bytes);
    }
}

static bool share_classes(struct sharing *sharing)
{
    struct waste *waste = sharing->waste;
    AUTO_FREE struct shares *shares = calloc(waste->class_count + 1, sizeof *shares);
    struct waste_row *rows =
        reallocarray(waste->rows, waste->count + waste->class_count + 1, sizeof *rows);

    if (rows)
        waste->rows = rows; /* with room for one more in each class: they no longer move */
    if (!shares || !rows)
        return false;
    share_to_stacks(waste, shares);
    for (size_t i = 0; i < waste->class_count; i++) {
        const uint64_t bytes = waste_bytes(&waste->classes[i]),
                       left = bytes - shares[i].given.bytes;
        waste->bytes = add_bytes(waste->bytes, bytes);
        if (shares[i].sums.rest > 0)
            add_rest(waste, i, left, &shares[i].sums);
        else
            shares[i].last->bytes += left; /* of rounding */
    }
    return true;
}

/* ---- all of it ---- */

static int compare_rows(const void *a, const void *b)
{
    const struct waste_row *x = a, *y = b;

    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    if (x->class != y->class)
        return x->class < y->class ? -1 : 1;
    return x->sample < y->sample ? -1 : x->sample > y->sample;
}

bool waste_make(struct waste *waste, const struct waste_class *classes, size_t class_count,
                const struct samples *samples)
{
    struct sharing sharing = {.waste = waste, .samples = samples};
    bool good;

    memset(waste, 0, sizeof *waste);
    waste->classes = classes;
    waste->class_count = class_count;
    waste->has_profile = samples != NULL;
    table_init(&sharing.table);
    table_init(&sharing.stacks);
    good = order_classes(&sharing) && add_stacks(&sharing) && share_classes(&sharing);
    if (good) {
        if (waste->count)
            qsort(waste->rows, waste->count, sizeof *waste->rows, compare_rows);
        while (waste->count && !waste->rows[waste->count - 1].bytes)
            waste->count--;
    }
    table_free(&sharing.table);
    table_free(&sharing.stacks);
    free(sharing.first);
    free(sharing.order);
    return good;
}

void waste_free(struct waste *waste)
{
    free(waste->rows);
    memset(waste, 0, sizeof *waste);
}
