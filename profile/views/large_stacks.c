#include "profile/views/large_stacks.h"
#include "base/list.h"
#include "profile/views/call_keys.h"
#include "profile/views/growth.h"

#include <math.h>
#include <string.h>

/* For samples with the same calls, the words that sort_pairs brings together. */
struct pair {
    uint64_t hash, sample;
};

/* Returns a hash of the functions and lines of each location. NULL: out of memory. */
static uint64_t *hash_locations(const struct locations *locations)
{
    uint64_t *hashes = reallocarray(NULL, locations->count + 1, sizeof *hashes);
    struct call_keys keys;
    struct table table;

    table_init(&table);
    if (!call_keys_make(&keys, locations, KEY_LINE)) {
        free(hashes);
        hashes = NULL;
    }
    for (size_t i = 0; hashes && i < locations->count; i++) {
        const struct location *location = &locations->list[i];
        hashes[i] = location->count;
        for (uint32_t j = 0; j < location->count; j++)
            hashes[i] = table_hash_number(&table, hashes[i] ^ keys.of_line[location->first + j]);
    }
    call_keys_free(&keys);
    table_free(&table);
    return hashes;
}

static void hash_samples(const struct samples *samples, const uint64_t *hashes, struct pair *pairs)
{
    for (size_t i = 0; i < samples->count; i++) {
        const struct sample *sample = &samples->list[i];
        const uint32_t *calls = &samples->calls[sample->first];
        uint64_t hash = sample->depth;
        for (uint32_t j = 0; j < sample->depth; j++)
            hash = (hash ^ hashes[calls[j]]) * 0x9e3779b97f4a7c15u;
        pairs[i] = (struct pair){hash ^ hash >> 32, i};
    }
}

static bool is_larger(const struct large_stack *a, const struct large_stack *b)
{
    int64_t of_a = amount_growth(&a->amount), of_b = amount_growth(&b->amount);

    return of_a != of_b ? of_a > of_b : a->sample < b->sample;
}

/* Keeps a stack if it is one of the largest. Returns the number of those kept. */
static size_t keep_large(struct large_stack *list, size_t count, size_t most,
                         const struct large_stack *stack)
{
    size_t place = count;

    while (place > 0 && is_larger(stack, &list[place - 1]))
        place--;
    if (place >= most || amount_growth(&stack->amount) <= 0)
        return count;
    count += count < most;
    memmove(&list[place + 1], &list[place], (count - 1 - place) * sizeof *list);
    list[place] = *stack;
    return count;
}

/* Goes through the samples in the order of their hashes: equal stacks follow each other. */
static size_t select_stacks(const struct samples *samples, const struct display *display,
                            const struct pair *pairs, size_t most, struct large_stack *out)
{
    struct large_stack stack = {0};
    size_t count = 0;

    for (size_t i = 0; i < samples->count; i++) {
        const struct sample *sample = &samples->list[pairs[i].sample];
        if (i == 0 || pairs[i].hash != pairs[i - 1].hash)
            stack = (struct large_stack){.sample = (uint32_t)pairs[i].sample};
        amount_add(&stack.amount, &sample->values[display->value]);
        amount_add(&stack.objects, &sample->values[display_objects(display)]);
        stack.error = samples_error(samples, &stack.amount);
        stack.within = fabs((double)amount_growth(&stack.amount)) < stack.error;
        if (i + 1 == samples->count || pairs[i + 1].hash != pairs[i].hash)
            count = keep_large(out, count, most, &stack);
    }
    return count;
}

static size_t find_large(const struct samples *samples, const struct display *display, size_t most,
                         struct large_stack *out)
{
    AUTO_FREE uint64_t *hashes = hash_locations(&samples->locations);
    AUTO_FREE struct pair *pairs = reallocarray(NULL, samples->count + 1, sizeof *pairs);
    AUTO_FREE struct pair *scratch = reallocarray(NULL, samples->count + 1, sizeof *scratch);

    if (!hashes || !pairs || !scratch)
        return SIZE_MAX;
    hash_samples(samples, hashes, pairs);
    sort_pairs(&pairs->hash, &scratch->hash, samples->count);
    return select_stacks(samples, display, pairs, most, out);
}

/* A comparison has one sample for each stack already, and knows its trend. */
static size_t find_grown(const struct samples *samples, const struct display *display, size_t most,
                         struct large_stack *out)
{
    struct growth growth;
    size_t count = 0;

    if (!growth_make(&growth, samples, 0))
        return SIZE_MAX;
    while (count < most && count < growth.count && growth.rows[count].bytes > 0) {
        const struct growth_row *row = &growth.rows[count];
        const struct sample *sample = &samples->list[row->sample];
        out[count++] =
            (struct large_stack){row->sample, sample->values[VALUE_BYTES],
                                 sample->values[display_objects(display)], row->error, row->within};
    }
    growth_free(&growth);
    return count;
}

size_t large_stacks_find(const struct samples *samples, const struct display *display, size_t most,
                         struct large_stack *out)
{
    return samples->compares && display->value == VALUE_BYTES
               ? find_grown(samples, display, most, out)
               : find_large(samples, display, most, out);
}
