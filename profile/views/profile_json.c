#include "profile/views/profile_json.h"
#include "base/json.h"
#include "profile/views/growth.h"
#include "profile/views/top.h"

#include <inttypes.h>

struct context {
    const struct samples *samples;
    const struct display *display;
};

/* In a comparison, the number before is NAME_before; the growth is the difference. */
static void write_json_amount(struct json *json, const char *name, const struct amount *amount,
                              const struct samples *samples)
{
    char before[32];

    json_signed(json, name, amount->now);
    snprintf(before, sizeof before, "%s_before", name);
    if (samples->compares)
        json_signed(json, before, amount->base);
}

static void write_json_head(struct json *json, const struct context *context, const struct top *top)
{
    const struct samples *samples = context->samples;
    const struct amount whole = samples_whole(samples, context->display->value);

    JSON_MEMBERS(json, TEXT_OR_NULL("title", context->display->title),
                 TEXT_OR_NULL("doubt", display_doubt_name(context->display->doubt)),
                 TEXT_OR_NULL("doubted_file", context->display->doubted),
                 NUMBER("more_doubted_files", context->display->more_doubted),
                 TEXT("value", value_name(context->display->value)),
                 TEXT("unit", display_is_bytes(context->display) ? "bytes" : "objects"),
                 NUMBER("period", samples->period),
                 NUMBER("samples", top_sampled(samples, context->display)));
    if (samples->compares)
        json_number(json, "period_before", samples->base_period);
    write_json_amount(json, "total", &top->total, samples);
    json_rounded(json, "error", samples_error(samples, &top->total));
    write_json_amount(json, "objects", &top->objects, samples);
    if (samples->compares)
        json_text(json, "evidence", growth_evidence_name(samples->evidence));
    write_json_amount(json, "whole", &whole, samples);
    JSON_MEMBERS(json, NUMBER("stacks", samples->count),
                 NUMBER("stacks_filtered", samples->filtered_count),
                 NUMBER("stacks_cut", samples->cut),
                 NUMBER("stacks_unread", context->display->unread_stacks),
                 NUMBER("calls_folded", samples->folded));
}

static void write_json_functions(struct json *json, const struct context *context,
                                 const struct top *top)
{
    size_t shown = 0;

    json_list_begin(json, "functions");
    for (size_t i = 0; i < top->count; i++)
        if (top_shows_row(top, context->samples, context->display, &top->rows[i]) &&
            (!context->display->rows || shown++ < context->display->rows)) {
            const struct top_row *row = &top->rows[i];
            const struct samples *samples = context->samples;
            json_item_begin(json);
            json_text(json, "function", samples->locations.groups[row->group]);
            write_json_amount(json, "flat", &row->flat, samples);
            write_json_amount(json, "cum", &row->whole, samples);
            json_rounded(json, "error", samples_error(samples, &row->whole));
            write_json_amount(json, "objects", &row->objects, samples);
            json_item_end(json);
        }
    json_list_end(json);
}

static void write_json_call(struct json *json, const struct locations *locations,
                            const struct location *location, const struct location_line *line)
{
    const struct function *function = &locations->functions[line->function];
    const struct location_mapping *mapping =
        location->mapping == TABLE_NONE ? NULL : &locations->mappings[location->mapping];
    char address[24] = "";

    if (location->address)
        snprintf(address, sizeof address, "0x%" PRIx64, location->address);
    JSON_ITEM(json, TEXT("function", function->name), TEXT_OR_NULL("file", function->file),
              NUMBER("line", line->line), TEXT_OR_NULL("module", mapping ? mapping->path : NULL),
              TEXT_OR_NULL("address", address));
}

static void write_json_stack(struct json *json, const struct context *context,
                             const struct sample *sample)
{
    const struct samples *samples = context->samples;
    const struct amount *amount = &sample->values[context->display->value];

    json_item_begin(json);
    write_json_amount(json, "amount", amount, samples);
    json_rounded(json, "error", samples_error(samples, amount));
    if (samples->compares && context->display->value == VALUE_BYTES) {
        const struct trend *trend = &samples->trends[sample - samples->list];
        JSON_MEMBERS(json, ROUNDED("low", trend->low), ROUNDED("high", trend->high),
                     TEXT("verdict", trend_verdict_name(trend->verdict)));
    }
    write_json_amount(json, "objects", &sample->values[display_objects(context->display)], samples);
    if (samples->thread_count && sample->thread != TABLE_NONE)
        json_text(json, "thread", samples->threads[sample->thread].name);
    const struct locations *locations = &samples->locations;
    json_list_begin(json, "calls");
    for (uint32_t i = 0; i < sample->depth; i++) {
        const struct location *location = &locations->list[samples->calls[sample->first + i]];
        for (uint32_t j = 0; j < location->count; j++)
            write_json_call(json, locations, location, &locations->lines[location->first + j]);
    }
    json_list_end(json);
    json_item_end(json);
}

static int by_growth(const void *a, const void *b, void *data)
{
    const struct context *context = data;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const struct sample *list = context->samples->list;
    int64_t of_x = llabs(amount_growth(&list[x].values[context->display->value])),
            of_y = llabs(amount_growth(&list[y].values[context->display->value]));

    if (of_x != of_y)
        return of_x < of_y ? 1 : -1;
    return x < y ? -1 : x > y;
}

static bool write_json_stacks(struct json *json, struct context *context, const struct top *top)
{
    const struct samples *samples = context->samples;
    const struct display *display = context->display;
    AUTO_FREE uint32_t *order = calloc(samples->count + 1, sizeof *order);

    if (!order)
        return false;
    for (size_t i = 0; i < samples->count; i++)
        order[i] = (uint32_t)i;
    qsort_r(order, samples->count, sizeof *order, by_growth, context);
    json_list_begin(json, "largest_stacks");
    for (size_t i = 0; i < samples->count && (!display->rows || i < display->rows); i++) {
        const struct sample *sample = &samples->list[order[i]];
        if (top_shows(top, samples, display, &sample->values[display->value]))
            write_json_stack(json, context, sample);
    }
    json_list_end(json);
    return true;
}

bool profile_json_write(const struct samples *samples, const struct display *display, FILE *out)
{
    struct context context = {samples, display};
    struct json json;
    struct top top;
    bool good;

    if (!top_make(&top, samples, display))
        return false;
    json_begin(&json, out);
    write_json_head(&json, &context, &top);
    write_json_functions(&json, &context, &top);
    good = write_json_stacks(&json, &context, &top);
    json_end(&json);
    free(top.rows);
    return good;
}
