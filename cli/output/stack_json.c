#include "cli/output/stack_json.h"
#include "profile/stack_text.h"

void stack_json(struct json *json, const char *name, const struct samples *samples,
                const struct sample *sample)
{
    const struct stack_call *call;
    struct stack_walk walk = {0};

    json_list_begin(json, name);
    while ((call = stack_walk_next(&walk, samples, sample))) {
        json_item_begin(json);
        json_text(json, "function", call->function->name);
        json_text_or_null(json, "file", call->function->file);
        json_number(json, "line", call->line);
        json_item_end(json);
    }
    json_list_end(json);
}
