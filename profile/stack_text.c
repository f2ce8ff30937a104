#include "profile/stack_text.h"

static void take_call(struct stack_text *out, size_t limit, const struct stack_call *call)
{
    if (out->count < limit && out->count < STACK_TEXT_MAX)
        out->calls[out->count++] = *call;
    else
        out->left_out++;
}

void stack_text_choose(const struct samples *samples, const struct sample *sample, size_t limit,
                       struct stack_text *out)
{
    const struct locations *locations = &samples->locations;
    struct stack_call call = {0};

    out->count = 0;
    out->left_out = 0;
    for (uint32_t i = 0; i < sample->depth; i++) {
        const struct location *location = &locations->list[samples->calls[sample->first + i]];
        for (uint32_t j = 0; j < location->count; j++) {
            const struct location_line *line = &locations->lines[location->first + j];
            call.function = &locations->functions[line->function];
            call.line = line->line;
            take_call(out, limit, &call);
            call.place++;
        }
    }
}
