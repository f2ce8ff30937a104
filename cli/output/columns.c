#include "cli/output/columns.h"
#include "base/text.h"

#include <locale.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

enum { PRINTF_MAX = 512 };

struct character {
    uint32_t code; /* the code point to show */
    size_t len;    /* bytes in the text */
    size_t columns;
};

/*
 * Returns the width of a code point according to the C library's Unicode table,
 * whatever the operator's locale is. -1: not printable.
 */
static int width_of(uint32_t code)
{
    static locale_t unicode;
    locale_t former;
    int width;

    if (code < 0x80)
        return code >= 0x20 && code < 0x7f ? 1 : -1;
    if (!unicode)
        unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (!unicode)
        return code < 0xa0 ? -1 : 1;
    former = uselocale(unicode);
    width = wcwidth((wchar_t)code);
    uselocale(former);
    return width;
}

static struct character next_character(const char *text)
{
    struct character next = {'?', 1, 1};
    bool shown;
    int width;

    next.len = text_unit(text, &shown);
    width = shown ? width_of(text_code_point(text, next.len)) : -1;
    if (width < 0)
        return next;
    next.code = text_code_point(text, next.len);
    next.columns = (size_t)width;
    return next;
}

size_t columns_of(const char *text)
{
    size_t columns = 0;

    while (*text) {
        struct character next = next_character(text);
        columns += next.columns;
        text += next.len;
    }
    return columns;
}

void line_init(struct line *line, char *text, size_t size, size_t limit)
{
    *line = (struct line){.text = text, .size = size, .limit = limit};
    text[0] = '\0';
}

size_t line_space(const struct line *line)
{
    return line->limit - line->columns;
}

/* Appends one character. False: it does not fit, in columns or in bytes. */
static bool put_character(struct line *line, const char *text, const struct character *character)
{
    size_t len = character->code == '?' ? 1 : character->len;

    if (line->columns + character->columns > line->limit || line->len + len >= line->size)
        return false;
    if (character->columns) {
        memcpy(line->text + line->len, character->code == '?' ? "?" : text, len);
        line->len += len;
        line->columns += character->columns;
    }
    line->text[line->len] = '\0';
    return true;
}

/* Replaces at most the last two columns with two dots. */
static void mark_cut(struct line *line, const struct line *start)
{
    static const struct character dot = {'.', 1, 1};

    while (line->columns > start->columns &&
           (line->columns + 2 > line->limit || line->len + 2 >= line->size)) {
        size_t len = line->len - 1;
        while (len > start->len && ((unsigned char)line->text[len] & 0xc0) == 0x80)
            len--;
        line->columns -= next_character(line->text + len).columns;
        line->text[line->len = len] = '\0';
    }
    for (int i = 0; i < 2; i++)
        put_character(line, ".", &dot);
}

bool line_add(struct line *line, const char *text)
{
    const struct line start = *line;

    while (*text) {
        struct character next = next_character(text);
        if (!put_character(line, text, &next)) {
            mark_cut(line, &start);
            return false;
        }
        text += next.len;
    }
    return true;
}

void line_add_end(struct line *line, const char *text)
{
    size_t columns = columns_of(text);

    if (columns > line_space(line)) {
        while (*text && columns + 2 > line_space(line)) {
            struct character next = next_character(text);
            columns -= next.columns;
            text += next.len;
        }
        line_add(line, "..");
    }
    line_add(line, text);
}

void line_printf(struct line *line, const char *fmt, ...)
{
    char text[PRINTF_MAX];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    line_add(line, text);
}

void line_fill(struct line *line, size_t column)
{
    static const struct character space = {' ', 1, 1};

    while (line->columns < column && put_character(line, " ", &space))
        continue;
}
