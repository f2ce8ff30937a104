#include "profile/views/call_label.h"
#include "base/text.h"
#include "profile/names/short_name.h"
#include "profile/stack_text.h"

#include <stdio.h>
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

const char *place_text(const struct samples *samples, const struct sample *sample,
                       char out[PLACE_TEXT_SIZE])
{
    char name[NAME_BYTES];
    struct stack_text stack;
    int len = 0;

    stack_text_choose(samples, sample, 0, &stack);
    if (!stack.count)
        strcpy(out, "a stack without calls");
    for (size_t i = 0; i < stack.count && i < PLACE_CALLS; i++) {
        const struct stack_call *call = &stack.calls[i];
        short_name(call->function->name, name, sizeof name);
        len += snprintf(out + len, (size_t)(PLACE_TEXT_SIZE - len), "%s%s", i ? " <- " : "", name);
        if (call->function->file && *call->function->file && call->line)
            len += snprintf(out + len, (size_t)(PLACE_TEXT_SIZE - len), " (%.100s:%u)",
                            text_base_name(call->function->file), call->line);
    }
    return out;
}
