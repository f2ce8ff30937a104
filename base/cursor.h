/*
 * A cursor over a text of known length. The text may hold any bytes, NUL
 * included, and need not end with one: nothing is read past its end.
 *
 * A function that takes something moves the cursor past it. If it returns
 * false, the cursor is where it was.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct cursor {
    const char *at, *end;
};

static inline struct cursor cursor_of(const char *text, size_t len)
{
    return (struct cursor){text, text + len};
}

static inline size_t cursor_left(struct cursor text)
{
    return (size_t)(text.end - text.at);
}

static inline bool cursor_begins(struct cursor text, const char *start)
{
    size_t len = strlen(start);

    return cursor_left(text) >= len && memcmp(text.at, start, len) == 0;
}

/* True if the text is exactly `other`. */
static inline bool cursor_is(struct cursor text, const char *other)
{
    return cursor_left(text) == strlen(other) && cursor_begins(text, other);
}

static inline bool cursor_take_text(struct cursor *text, const char *start)
{
    if (!cursor_begins(*text, start))
        return false;
    text->at += strlen(start);
    return true;
}

static inline bool cursor_take_char(struct cursor *text, char ch)
{
    if (text->at >= text->end || *text->at != ch)
        return false;
    text->at++;
    return true;
}

/* Skips spaces and tabs. */
static inline void cursor_skip_blanks(struct cursor *text)
{
    while (text->at < text->end && (*text->at == ' ' || *text->at == '\t'))
        text->at++;
}

/* Takes decimal digits. False if there are none, or the number exceeds 64 bits. */
static inline bool cursor_take_decimal(struct cursor *text, uint64_t *out)
{
    const char *p = text->at;
    uint64_t value = 0;

    for (; p < text->end && *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (unsigned)(*p - '0'), &value))
            return false;
    if (p == text->at)
        return false;
    text->at = p;
    *out = value;
    return true;
}

/* 1 + the value of each character as a hexadecimal digit of either case; 0: it is not one. */
extern const unsigned char cursor_hex_values[256];

/* Returns the value of a hexadecimal digit of either case; -1: it is not one. */
static inline int cursor_hex_digit(char ch)
{
    return cursor_hex_values[(unsigned char)ch] - 1;
}

/* Takes hexadecimal digits, without a prefix. False in the same cases. */
static inline bool cursor_take_hex(struct cursor *text, uint64_t *out)
{
    const char *p = text->at;
    uint64_t value = 0;
    unsigned digit;

    for (; p < text->end && (digit = cursor_hex_values[(unsigned char)*p]) != 0; p++) {
        if (value >> 60)
            return false;
        value = value << 4 | (digit - 1);
    }
    if (p == text->at)
        return false;
    text->at = p;
    *out = value;
    return true;
}

/*
 * Takes the part before the next separator, or all the rest if there is none;
 * the separator is skipped. False at the end of the text.
 */
bool cursor_take_part(struct cursor *text, char separator, struct cursor *part);

/* Takes the next line, without its newline. */
static inline bool cursor_take_line(struct cursor *text, struct cursor *line)
{
    return cursor_take_part(text, '\n', line);
}

/* Moves past the first occurrence of `words`; false if there is none. */
bool cursor_find(struct cursor *text, const char *words);

/* Finds the first line that begins with key and has more behind it: *value is the rest of it. */
bool cursor_find_line(struct cursor text, const char *key, struct cursor *value);

/* Finds the number in the first line "key   number ..."; false also if none follows the key. */
bool cursor_find_number(struct cursor text, const char *key, uint64_t *value);

/* True if the list, with separators between its words, has that word. */
bool cursor_has_word(struct cursor list, char separator, const char *word);

/* Copies the text and ends it with a NUL; false if it has a NUL or size is too small. */
bool cursor_copy(struct cursor text, char *out, size_t size);
