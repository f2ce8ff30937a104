#include "profile/views/call_label.h"
#include "base/text.h"

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

static const char *skip_characters(const char *text, size_t count)
{
    bool shown;

    while (count-- > 0 && *text)
        text += text_unit(text, &shown);
    return text;
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

    if (columns && columns < width + behind && columns >= COLUMNS_LEAST) {
        if (behind + COLUMNS_LEAST > columns) {
            location[0] = '\0';
            behind = 0;
        }
        room = columns - behind;
        if (width > room) {
            snprintf(out, CALL_LABEL_SIZE, "..%s%s", skip_characters(name, width - room + 2),
                     location);
            return columns;
        }
    }
    snprintf(out, CALL_LABEL_SIZE, "%s%s", name, location);
    return width + behind;
}
