#include "profile/views/stacks.h"

#include <string.h>

/* Counts the names of a sample, including inlined calls. */
static size_t count_names(const struct samples *samples)
{
    size_t count = 0;

    for (size_t i = 0; i < samples->call_count; i++)
        count += samples->locations.list[samples->calls[i]].count;
    return count;
}

bool stacks_next(const struct samples *samples, const struct sample *sample, struct names_walk *at,
                 const struct location **location, const struct location_line **line)
{
    const struct locations *locations = &samples->locations;

    for (; at->call < sample->depth; at->call++, at->line = 0) {
        uint32_t place = at->from_leaf ? at->call : sample->depth - 1 - at->call;
        *location = &locations->list[samples->calls[sample->first + place]];
        if (at->line < (*location)->count) {
            place = at->from_leaf ? at->line : (*location)->count - 1 - at->line;
            *line = &locations->lines[(*location)->first + place];
            at->line++;
            return true;
        }
    }
    return false;
}

static void add_named_stack(struct stacks *stacks, const struct samples *samples, uint32_t number,
                            enum value value, size_t *used)
{
    const struct locations *locations = &samples->locations;
    const struct sample *sample = &samples->list[number];
    struct named_stack stack = {.first = *used, .sample = number, .amount = sample->values[value]};

    for (uint32_t i = sample->depth; i-- > 0;) {
        const struct location *location = &locations->list[samples->calls[sample->first + i]];
        for (uint32_t j = location->count; j-- > 0;) {
            const struct location_line *line = &locations->lines[location->first + j];
            stacks->names[(*used)++] = locations->functions[line->function].group;
        }
    }
    stack.depth = (uint32_t)(*used - stack.first);
    stacks->list[stacks->count++] = stack;
}

uint32_t stacks_common(const struct stacks *stacks, const struct named_stack *a,
                       const struct named_stack *b)
{
    const uint32_t *x = &stacks->names[a->first], *y = &stacks->names[b->first];
    uint32_t n = 0, least = a->depth < b->depth ? a->depth : b->depth;

    while (n < least && x[n] == y[n])
        n++;
    return n;
}

/* Returns the order of a stack's name at a depth; a stack comes before its continuations. */
static uint64_t name_order(const struct stacks *stacks, const struct named_stack *stack,
                           uint32_t depth)
{
    return depth < stack->depth ? (uint64_t)stacks->names[stack->first + depth] + 1 : 0;
}

static void swap_stacks(struct named_stack *a, struct named_stack *b)
{
    struct named_stack kept = *a;
    *a = *b;
    *b = kept;
}

struct stack_range {
    size_t begin, end;
    uint32_t depth; /* the names before this depth are equal */
};

/* Returns the name by which a range is split. */
static uint64_t choose_middle(const struct stacks *stacks, const struct stack_range *range)
{
    uint64_t chance = table_hash_number(&stacks->chance, range->begin ^ range->end << 32);
    size_t place = range->begin + chance % (range->end - range->begin);

    return name_order(stacks, &stacks->list[place], range->depth);
}

/* Splits a range by the name at its depth: smaller, equal, larger. Returns that name's order. */
static uint64_t split_stacks(struct stacks *stacks, const struct stack_range *range,
                             struct stack_range parts[3])
{
    size_t less = range->begin, more = range->end;
    uint64_t middle = choose_middle(stacks, range);

    for (size_t i = less; i < more;) {
        uint64_t order = name_order(stacks, &stacks->list[i], range->depth);
        if (order < middle)
            swap_stacks(&stacks->list[less++], &stacks->list[i++]);
        else if (order > middle)
            swap_stacks(&stacks->list[i], &stacks->list[--more]);
        else
            i++;
    }
    parts[0] = (struct stack_range){range->begin, less, range->depth};
    parts[1] = (struct stack_range){less, more, range->depth + 1};
    parts[2] = (struct stack_range){more, range->end, range->depth};
    return middle;
}

static int by_sample(const void *a, const void *b)
{
    const struct named_stack *x = a, *y = b;
    return x->sample < y->sample ? -1 : x->sample > y->sample;
}

/*
 * Sorts by one name at a time: stacks have long beginnings in common, which a
 * comparison of whole stacks would read again and again. Goes on with the
 * largest part, so that the recursion is at most log2(count) deep.
 */
static void sort_stacks(struct stacks *stacks, struct stack_range range)
{
    while (range.end - range.begin > 1) {
        struct stack_range parts[3];
        uint64_t middle = split_stacks(stacks, &range, parts);
        int largest = 0;
        if (middle == 0) { /* they end here: equal stacks */
            qsort(&stacks->list[parts[1].begin], parts[1].end - parts[1].begin,
                  sizeof *stacks->list, by_sample);
            parts[1].end = parts[1].begin;
        }
        for (int i = 1; i < 3; i++)
            if (parts[i].end - parts[i].begin > parts[largest].end - parts[largest].begin)
                largest = i;
        for (int i = 0; i < 3; i++)
            if (i != largest)
                sort_stacks(stacks, parts[i]);
        range = parts[largest];
    }
}

static bool same_names(const struct stacks *stacks, const struct named_stack *a,
                       const struct named_stack *b)
{
    return a->depth == b->depth && stacks_common(stacks, a, b) == a->depth;
}

static void join_equal(struct stacks *stacks)
{
    size_t kept = 0;

    for (size_t i = 0; i < stacks->count; i++) {
        struct named_stack *stack = &stacks->list[i];
        if (kept && same_names(stacks, &stacks->list[kept - 1], stack))
            amount_add(&stacks->list[kept - 1].amount, &stack->amount);
        else
            stacks->list[kept++] = *stack;
    }
    stacks->count = kept;
}

bool stacks_make_each(struct stacks *stacks, const struct samples *samples, enum value value)
{
    size_t used = 0;

    memset(stacks, 0, sizeof *stacks);
    table_init(&stacks->chance);
    stacks->names = reallocarray(NULL, count_names(samples) + 1, sizeof *stacks->names);
    stacks->list = reallocarray(NULL, samples->count + 1, sizeof *stacks->list);
    if (!stacks->names || !stacks->list) {
        stacks_free(stacks);
        return false;
    }
    for (size_t i = 0; i < samples->count; i++)
        add_named_stack(stacks, samples, (uint32_t)i, value, &used);
    sort_stacks(stacks, (struct stack_range){0, stacks->count, 0});
    return true;
}

bool stacks_make(struct stacks *stacks, const struct samples *samples, enum value value)
{
    bool good = stacks_make_each(stacks, samples, value);

    if (good)
        join_equal(stacks);
    return good;
}

static void reverse_names(uint32_t *names, uint32_t count)
{
    for (uint32_t i = 0; i < count / 2; i++) {
        uint32_t kept = names[i];
        names[i] = names[count - 1 - i];
        names[count - 1 - i] = kept;
    }
}

void stacks_invert(struct stacks *stacks)
{
    for (size_t i = 0; i < stacks->count; i++)
        reverse_names(&stacks->names[stacks->list[i].first], stacks->list[i].depth);
    sort_stacks(stacks, (struct stack_range){0, stacks->count, 0});
}

void stacks_free(struct stacks *stacks)
{
    free(stacks->names);
    free(stacks->list);
    memset(stacks, 0, sizeof *stacks);
}
