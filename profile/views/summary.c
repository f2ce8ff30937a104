#include "profile/views/summary.h"
#include "base/list.h"
#include "profile/stack_text.h"
#include "profile/views/call_keys.h"
#include "profile/views/call_label.h"
#include "profile/views/display.h"
#include "profile/views/growth.h"

#include <math.h>
#include <string.h>

/* The stacks that hold most memory, or that have grown most. */

struct large_stack {
    uint32_t sample; /* the first one with these calls */
    struct amount amount, objects;
    double error; /* of amount, or of its growth; 0: exact */
    bool within;  /* a growth that the sampling alone may have caused */
};

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

/*
 * Finds at most `most` stacks, the largest first. Samples with the same functions and lines are
 * one stack. Returns their number; SIZE_MAX: out of memory.
 */
static size_t find_large(const struct samples *samples, const struct display *display, size_t most,
                         struct large_stack *out)
{
    AUTO_FREE uint64_t *hashes = hash_locations(&samples->locations);
    AUTO_FREE struct pair *pairs = reallocarray(NULL, samples->count + 1, sizeof *pairs);
    AUTO_FREE struct pair *scratch = reallocarray(NULL, samples->count + 1, sizeof *scratch);

    if (!hashes || !pairs || !scratch)
        return SIZE_MAX;
    for (size_t i = 0; i < samples->count; i++) {
        const struct sample *sample = &samples->list[i];
        const uint32_t *calls = &samples->calls[sample->first];
        uint64_t hash = sample->depth;
        for (uint32_t j = 0; j < sample->depth; j++)
            hash = (hash ^ hashes[calls[j]]) * 0x9e3779b97f4a7c15u;
        pairs[i] = (struct pair){hash ^ hash >> 32, i};
    }
    sort_pairs(&pairs->hash, &scratch->hash, samples->count);
    return select_stacks(samples, display, pairs, most, out);
}

/* The stacks that have grown: a comparison has one sample for each already, and knows its trend. */
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

/* Three stacks, the sums above them and a heading fit in 24 lines. */
enum { STACKS_SHOWN = 3, CALLS_SHOWN = 4 };

/* Writes the calls of a stack; the first one follows the numbers, the others are below it. */
static void write_stack_calls(const struct samples *samples, const struct display *display,
                              const struct sample *sample, FILE *out)
{
    size_t indent = amount_columns_width(samples),
           room = display->width > indent ? display->width - indent : 0;
    size_t depth = display->depth;
    char label[CALL_LABEL_SIZE];
    struct stack_text text;

    if (!depth)
        depth = CALLS_SHOWN;
    stack_text_choose(samples, sample, depth < STACK_TEXT_MAX ? depth : STACK_TEXT_MAX, &text);
    for (size_t i = 0; i < text.count; i++) {
        const struct stack_call *call = &text.calls[i];
        call_label(samples, call->function, call->line, true, room, label);
        fprintf(out, "%*s", i ? (int)indent : 0, "");
        if (display->colors)
            fputs(call->function->kind == CODE_OWN ? "\033[1m" : "\033[2m", out);
        fprintf(out, "%s%s\n", label, display->colors ? "\033[0m" : "");
    }
    if (text.left_out)
        fprintf(out, "%*sand %u more call%s%s\n", (int)indent, "", text.left_out,
                text.left_out == 1 ? "" : "s",
                display->depth == DISPLAY_DEPTH_ALL ? "" : " (--depth 0 shows all)");
}

bool summary_write(const struct samples *samples, const struct display *display,
                   const struct amount *whole, FILE *out)
{
    struct large_stack stacks[STACKS_SHOWN];
    size_t count = samples->compares && display->value == VALUE_BYTES
                       ? find_grown(samples, display, STACKS_SHOWN, stacks)
                       : find_large(samples, display, STACKS_SHOWN, stacks);

    if (count == SIZE_MAX)
        return false;
    if (count)
        amount_columns_head(samples, display,
                            samples->compares ? "stacks that grew most" : "largest stacks", out);
    for (size_t i = 0; i < count; i++) {
        const struct large_stack *stack = &stacks[i];
        amount_columns_write(samples, display,
                             &(struct amount_columns){&stack->amount, &stack->objects, whole,
                                                      stack->error, stack->within},
                             out);
        write_stack_calls(samples, display, &samples->list[stack->sample], out);
    }
    if (count)
        fputc('\n', out);
    return true;
}
