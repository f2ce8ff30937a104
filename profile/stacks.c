#include "profile/stacks.h"

#include <string.h>

/* Counts the names of a sample, including inlined calls. */
static size_t count_names(const struct samples *samples)
{
    size_t count = 0;

    for (size_t i = 0; i < samples->call_count; i++)
        count += samples->locations.list[samples->calls[i]].count;
    return count;
}

static void add_named_stack(struct stacks *stacks, const struct samples *samples,
                            const struct sample *sample, enum value value, size_t *used)
{
    const struct locations *locations = &samples->locations;
    struct named_stack stack = {.first = *used, .amount = sample->values[value]};

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

/* A stack comes before its continuations. */
static int by_names(const void *a, const void *b, void *ctx)
{
    const struct stacks *stacks = ctx;
    const struct named_stack *x = a, *y = b;
    uint32_t n = stacks_common(stacks, x, y);

    if (n == x->depth || n == y->depth)
        return x->depth < y->depth ? -1 : x->depth > y->depth;
    return stacks->names[x->first + n] < stacks->names[y->first + n] ? -1 : 1;
}

static void join_equal(struct stacks *stacks)
{
    size_t kept = 0;

    for (size_t i = 0; i < stacks->count; i++) {
        struct named_stack *stack = &stacks->list[i];
        if (kept && by_names(&stacks->list[kept - 1], stack, stacks) == 0)
            amount_add(&stacks->list[kept - 1].amount, &stack->amount);
        else
            stacks->list[kept++] = *stack;
    }
    stacks->count = kept;
}

bool stacks_make(struct stacks *stacks, const struct samples *samples, enum value value)
{
    size_t used = 0;

    memset(stacks, 0, sizeof *stacks);
    stacks->names = reallocarray(NULL, count_names(samples) + 1, sizeof *stacks->names);
    stacks->list = reallocarray(NULL, samples->count + 1, sizeof *stacks->list);
    if (!stacks->names || !stacks->list) {
        stacks_free(stacks);
        return false;
    }
    for (size_t i = 0; i < samples->count; i++)
        add_named_stack(stacks, samples, &samples->list[i], value, &used);
    qsort_r(stacks->list, stacks->count, sizeof *stacks->list, by_names, stacks);
    join_equal(stacks);
    return true;
}

void stacks_free(struct stacks *stacks)
{
    free(stacks->names);
    free(stacks->list);
    memset(stacks, 0, sizeof *stacks);
}
