#include "profile/stack_text.h"

#include <string.h>

enum { NAMELESS_CALLS = 2 };

const struct stack_call *stack_walk_next(struct stack_walk *walk, const struct samples *samples,
                                         const struct sample *sample)
{
    const struct locations *locations = &samples->locations;

    for (; walk->location < sample->depth; walk->location++, walk->line = 0) {
        const struct location *location =
            &locations->list[samples->calls[sample->first + walk->location]];
        const struct location_line *line;
        if (walk->line >= location->count)
            continue;
        line = &locations->lines[location->first + walk->line++];
        walk->call.location = location;
        walk->call.function = &locations->functions[line->function];
        walk->call.line = line->line;
        walk->call.place += walk->began;
        walk->began = true;
        return &walk->call;
    }
    return NULL;
}

uint32_t stack_count_calls(const struct samples *samples, const struct sample *sample,
                           uint32_t *own)
{
    struct stack_walk walk = {0};
    const struct stack_call *call;
    uint32_t count = 0;

    *own = 0;
    while ((call = stack_walk_next(&walk, samples, sample))) {
        *own += call->function->kind == CODE_OWN;
        count++;
    }
    return count;
}

void stack_text_choose(const struct samples *samples, const struct sample *sample, size_t limit,
                       struct stack_text *out)
{
    struct stack_walk walk = {0};
    const struct stack_call *call;
    uint32_t own, total = stack_count_calls(samples, sample, &own);
    bool own_only = own && (limit == 0 || limit < total);

    if (limit == 0)
        limit = STACK_TEXT_OWN;
    if (limit > STACK_TEXT_MAX)
        limit = STACK_TEXT_MAX;
    out->count = 0;
    while (out->count < limit && (call = stack_walk_next(&walk, samples, sample)))
        if (!own_only || call->function->kind == CODE_OWN)
            out->calls[out->count++] = *call;
    out->left_out = total - (uint32_t)out->count;
}

bool stack_is_main(const struct function *function)
{
    return strcmp(function->name, "main") == 0;
}

size_t stack_own_calls(const struct samples *samples, const struct sample *sample,
                       struct stack_text *out)
{
    size_t own = 0;

    stack_text_choose(samples, sample, STACK_TEXT_MAX, out);
    for (size_t i = 0; i < out->count; i++)
        if (out->calls[i].function->kind == CODE_OWN)
            out->calls[own++] = out->calls[i];
    return own ? own : out->count;
}

size_t stack_named_call(const struct stack_call *calls, size_t count, size_t i)
{
    for (size_t at = i; at < count && at <= i + NAMELESS_CALLS; at++) {
        if (calls[at].location->mapping != calls[i].location->mapping)
            break;
        if (calls[at].location->named)
            return stack_is_main(calls[at].function) ? i : at;
    }
    return i;
}
