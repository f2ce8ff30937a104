#include "base/cursor.h"

const unsigned char cursor_hex_values[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
    ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
};

bool cursor_take_part(struct cursor *text, char separator, struct cursor *part)
{
    if (text->at >= text->end)
        return false;
    const char *found = memchr(text->at, separator, cursor_left(*text));
    *part = (struct cursor){text->at, found ? found : text->end};
    text->at = found ? found + 1 : text->end;
    return true;
}

bool cursor_find(struct cursor *text, const char *words)
{
    const char *found = memmem(text->at, cursor_left(*text), words, strlen(words));

    if (found)
        text->at = found + strlen(words);
    return found != NULL;
}

bool cursor_find_line(struct cursor text, const char *key, struct cursor *value)
{
    while (cursor_take_line(&text, value))
        if (cursor_take_text(value, key) && cursor_left(*value) > 0)
            return true;
    return false;
}

bool cursor_find_number(struct cursor text, const char *key, uint64_t *value)
{
    struct cursor line;

    if (!cursor_find_line(text, key, &line))
        return false;
    cursor_skip_blanks(&line);
    return cursor_take_decimal(&line, value);
}

bool cursor_has_word(struct cursor list, char separator, const char *word)
{
    struct cursor one;

    while (cursor_take_part(&list, separator, &one))
        if (cursor_is(one, word))
            return true;
    return false;
}

bool cursor_copy(struct cursor text, char *out, size_t size)
{
    size_t len = cursor_left(text);

    if (len >= size || memchr(text.at, '\0', len))
        return false;
    memcpy(out, text.at, len);
    out[len] = '\0';
    return true;
}
