#include "profile/views/stacks.h"
#include "base/text.h"

#include <string.h>

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

/* Splits a range by the name at its depth: smaller, equal, larger. Returns that name's order. */
static uint64_t split_stacks(struct stacks *stacks, const struct stack_range *range,
                             struct stack_range parts[3])
{
    size_t less = range->begin, more = range->end;
    /* Splits the range by the name of any of its stacks. */
    uint64_t chance = table_hash_number(&stacks->chance, range->begin ^ range->end << 32);
    size_t place = range->begin + chance % (range->end - range->begin);
    uint64_t middle = name_order(stacks, &stacks->list[place], range->depth);

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

bool stacks_make_each(struct stacks *stacks, const struct samples *samples, enum value value)
{
    size_t names = 0, used = 0;

    memset(stacks, 0, sizeof *stacks);
    table_init(&stacks->chance);
    for (size_t i = 0; i < samples->call_count; i++) /* with inlined calls */
        names += samples->locations.list[samples->calls[i]].count;
    stacks->names = reallocarray(NULL, names + 1, sizeof *stacks->names);
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
    size_t kept = 0;

    if (!stacks_make_each(stacks, samples, value))
        return false;
    for (size_t i = 0; i < stacks->count; i++) {
        const struct named_stack *stack = &stacks->list[i];
        struct named_stack *last = kept ? &stacks->list[kept - 1] : NULL;
        if (last && last->depth == stack->depth &&
            stacks_common(stacks, last, stack) == stack->depth)
            amount_add(&last->amount, &stack->amount);
        else
            stacks->list[kept++] = *stack;
    }
    stacks->count = kept;
    return true;
}

void stacks_invert(struct stacks *stacks)
{
    for (size_t i = 0; i < stacks->count; i++) {
        uint32_t *names = &stacks->names[stacks->list[i].first], depth = stacks->list[i].depth;
        for (uint32_t j = 0; j < depth / 2; j++) {
            uint32_t kept = names[j];
            names[j] = names[depth - 1 - j];
            names[depth - 1 - j] = kept;
        }
    }
    sort_stacks(stacks, (struct stack_range){0, stacks->count, 0});
}

void stacks_free(struct stacks *stacks)
{
    free(stacks->names);
    free(stacks->list);
    memset(stacks, 0, sizeof *stacks);
}

bool folded_write(const struct samples *samples, const struct display *display, FILE *out)
{
    const struct locations *locations = &samples->locations;
    struct stacks stacks;
    char **clean = calloc(locations->group_count + 1, sizeof *clean);
    bool good;

    /* Prepares the names for writing: few names make up many stacks. */
    for (size_t i = 0; clean && i < locations->group_count; i++)
        clean[i] = text_copy_clean(locations->groups[i], ";");
    good = clean && stacks_make(&stacks, samples, display->value);
    for (size_t i = 0; good && i < stacks.count && !ferror_unlocked(out); i++) {
        const struct named_stack *stack = &stacks.list[i];
        if (stack->amount.now == (samples->compares ? stack->amount.base : 0))
            continue;
        for (uint32_t j = 0; j < stack->depth; j++) {
            const char *name = clean[stacks.names[stack->first + j]];
            if (j)
                putc_unlocked(';', out);
            fputs_unlocked(name ? name : "?", out);
        }
        if (samples->compares)
            fprintf(out, " %lld", (long long)stack->amount.base);
        fprintf(out, " %lld\n", (long long)stack->amount.now);
    }
    if (good)
        stacks_free(&stacks);
    for (size_t i = 0; clean && i < locations->group_count; i++)
        free(clean[i]);
    free(clean);
    return good;
}
