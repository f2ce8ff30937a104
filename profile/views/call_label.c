#include "profile/views/call_label.h"
#include "base/text.h"
#include "base/util.h"
#include "profile/names/short_name.h"
#include "profile/stack_text.h"

#include <string.h>

enum { LOCATION_SIZE = 192, COLUMNS_LEAST = 12 };

/* Copies a text with '?' for what must not be printed. Returns its number of characters. */
static size_t copy_clean(char *out, size_t size, const char *text)
{
    size_t columns = 0, len = 0;
    bool shown;

    for (size_t n; *text; text += n, columns++) {
        n = text_unit(text, &shown);
        if (len + n >= size)
            break;
        if (shown)
            memcpy(out + len, text, n);
        else
            out[len] = '?';
        len += shown ? n : 1;
    }
    out[len] = '\0';
    return columns;
}

/* Formats " (file.c:12)"; "" if the file is unknown. Returns the number of columns. */
static size_t location_text(const struct function *function, unsigned line, char *out)
{
    char file[LOCATION_SIZE - 24];
    size_t columns;

    out[0] = '\0';
    if (!*function->file)
        return 0;
    columns = copy_clean(file, sizeof file, text_base_name(function->file));
    if (!line)
        return columns + (size_t)snprintf(out, LOCATION_SIZE, " (%s)", file) - strlen(file);
    return columns + (size_t)snprintf(out, LOCATION_SIZE, " (%s:%u)", file, line) - strlen(file);
}

size_t call_label(const struct samples *samples, const struct function *function, unsigned line,
                  bool with_line, size_t columns, char *out)
{
    char name[CALL_LABEL_SIZE - LOCATION_SIZE - 2], location[LOCATION_SIZE] = "";
    size_t width = copy_clean(name, sizeof name, samples_shown_name(samples, function)),
           behind = with_line ? location_text(function, line, location) : 0, room;
    const char *text = name;
    bool shown;

    if (columns && columns < width + behind && columns >= COLUMNS_LEAST) {
        if (behind + COLUMNS_LEAST > columns) {
            location[0] = '\0';
            behind = 0;
        }
        room = columns - behind;
        if (width > room) {
            for (size_t left = width - room + 2; left > 0 && *text; left--)
                text += text_unit(text, &shown);
            snprintf(out, CALL_LABEL_SIZE, "..%s%s", text, location);
            return columns;
        }
    }
    snprintf(out, CALL_LABEL_SIZE, "%s%s", name, location);
    return width + behind;
}

enum { NAME_BYTES = 256, PLACE_CALLS = 2 };
_Static_assert(PLACE_CALLS *(NAME_BYTES + 128) <= PLACE_TEXT_SIZE, "all calls fit");

static bool is_among(const struct stack_call *calls, size_t count, const struct function *function)
{
    for (size_t i = 0; i < count; i++)
        if (calls[i].function->group == function->group)
            return true;
    return false;
}

/* Returns the number of the call that has called number `at`, behind a recursion. */
static size_t caller_of(const struct stack_call *calls, size_t count, size_t at)
{
    size_t last = at, caller;

    for (size_t i = at + 1; i < count; i++)
        if (calls[i].function->group == calls[at].function->group)
            last = i;
    caller = stack_named_call(calls, count, last + 1);
    while (last > at && caller < count && is_among(calls, last, calls[caller].function))
        caller = stack_named_call(calls, count, caller + 1);
    return caller;
}

uint32_t stack_lines(const struct samples *samples, const struct sample *sample, size_t depth,
                     FILE *out)
{
    char label[CALL_LABEL_SIZE];
    struct stack_text text;

    stack_text_choose(samples, sample, depth, &text);
    for (size_t i = 0; i < text.count; i++) {
        call_label(samples, text.calls[i].function, text.calls[i].line, true, 0, label);
        fprintf(out, "%s%*s%s", i ? "\n" : "", CALL_INDENT, "", label);
    }
    if (text.left_out)
        fprintf(out, ", %u more", text.left_out);
    return text.left_out;
}

const char *place_text(const struct samples *samples, const struct sample *sample,
                       char out[PLACE_TEXT_SIZE])
{
    char name[NAME_BYTES];
    struct stack_text stack;
    const size_t count = stack_own_calls(samples, sample, &stack);
    size_t at = stack_named_call(stack.calls, count, 0);
    int len = 0;

    if (!count)
        strcpy(out, "a stack without calls");
    for (size_t i = 0; at < count && i < PLACE_CALLS; i++) {
        const struct stack_call *call = &stack.calls[at];
        short_name(call->function->name, name, sizeof name);
        len += snprintf(out + len, (size_t)(PLACE_TEXT_SIZE - len), "%s%s", i ? " <- " : "", name);
        if (call->function->file && *call->function->file && call->line)
            len += snprintf(out + len, (size_t)(PLACE_TEXT_SIZE - len), " (%.100s:%u)",
                            text_base_name(call->function->file), call->line);
        at = caller_of(stack.calls, count, at);
    }
    return out;
}

void stack_line(const struct samples *samples, const struct sample *sample, size_t columns,
                FILE *out)
{
    char label[CALL_LABEL_SIZE];
    struct stack_text stack;
    const size_t count = stack_own_calls(samples, sample, &stack);
    size_t used = 0, at = count ? stack_named_call(stack.calls, count, 0) : 0;

    if (!count)
        fputs("a stack without calls", out);
    for (bool first = true; at < count; first = false) {
        const struct stack_call *call = &stack.calls[at];
        const char *before = first ? "" : " <- ";
        const size_t room = first ? columns : 0;
        size_t width = call_label(samples, call->function, call->line, first, room, label);
        if (room && width == room) /* cut: the name says more than its line */
            width = call_label(samples, call->function, call->line, false, room, label);
        used += strlen(before) + width;
        if (!first && columns && used > columns)
            break;
        fprintf(out, "%s%s", before, label);
        at = caller_of(stack.calls, count, at);
    }
}

static const double MOST =
    0.9; /* a caller is common if so much of the memory is allocated below it */

/* What is below a function. */
struct below {
    double weight;
    uint32_t counted; /* the stack that was added last, from 1: a recursion counts once */
};

/*
 * Returns the group; TABLE_NONE: the innermost call says it already, or it is the outermost. A
 * function that calls itself walks over something: whoever called it says more.
 */
static uint32_t deepest_common(const struct samples *samples, const struct sample *sample,
                               const struct below *below, double least)
{
    struct stack_text stack;
    const struct stack_call *calls = stack.calls;
    size_t count = stack_own_calls(samples, sample, &stack);

    while (count && stack_is_main(calls[count - 1].function))
        count--;
    for (size_t i = 0; i + 1 < count; i++) {
        const uint32_t group = calls[i].function->group;
        if (below[group].weight < least || !calls[i].location->named ||
            calls[i].function->kind != CODE_OWN ||
            is_among(calls + i + 1, count - i - 1, calls[i].function))
            continue;
        if (!is_among(calls, i, calls[i].function))
            return i > stack_named_call(calls, count, 0) ? group : TABLE_NONE;
    }
    return TABLE_NONE;
}

const char *common_caller_text(const struct samples *samples, const double *weights,
                               char out[COMMON_TEXT_SIZE])
{
    AUTO_FREE struct below *below = calloc(samples->locations.group_count + 1, sizeof *below);
    size_t heaviest = 0;
    double sum = 0;
    uint32_t found;

    out[0] = '\0';
    for (size_t i = 0; below && i < samples->count; i++) {
        struct stack_walk walk = {0};
        const struct stack_call *call;
        sum += weights[i];
        heaviest = weights[i] > weights[heaviest] ? i : heaviest;
        while (weights[i] > 0 && (call = stack_walk_next(&walk, samples, &samples->list[i]))) {
            struct below *of = &below[call->function->group];
            of->weight += of->counted == i + 1 ? 0 : weights[i];
            of->counted = (uint32_t)i + 1;
        }
    }
    if (!below || sum <= 0)
        return out;
    found = deepest_common(samples, &samples->list[heaviest], below, MOST * sum);
    if (found != TABLE_NONE) {
        char name[NAME_BYTES];
        short_name(samples->locations.functions[samples->locations.group_functions[found]].name,
                   name, sizeof name);
        snprintf(out, COMMON_TEXT_SIZE, "; %.0f %% below %s", 100 * below[found].weight / sum,
                 name);
    }
    return out;
}
