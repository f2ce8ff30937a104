#include "base/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Returns the length of the valid UTF-8 sequence at p, 0 if there is none (RFC 3629). */
static size_t utf8_len(const unsigned char *p)
{
    size_t n = p[0] < 0x80 ? 1 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : 4;

    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

uint32_t text_code_point(const char *text, size_t len)
{
    static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code = (unsigned char)text[0] & masks[len];

    for (size_t i = 1; i < len; i++)
        code = code << 6 | ((unsigned char)text[i] & 0x3f);
    return code;
}

size_t text_unit(const char *text, bool *shown)
{
    /*
     * Ranges of the controls and of the characters without a glyph: Default_Ignorable_Code_Point
     * of DerivedCoreProperties.txt, which has the direction controls of UAX 9, the line
     * separators, and the anchors of interlinear annotations.
     */
    static const uint32_t unseen[][2] = {
        {0x00, 0x1f},       {0x7f, 0x9f},       {0xad, 0xad},       {0x34f, 0x34f},
        {0x61c, 0x61c},     {0x115f, 0x1160},   {0x17b4, 0x17b5},   {0x180b, 0x180f},
        {0x200b, 0x200f},   {0x2028, 0x202e},   {0x2060, 0x206f},   {0x3164, 0x3164},
        {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},   {0xfff0, 0xfffb},
        {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
    };
    size_t n = utf8_len((const unsigned char *)text), i = 0;

    *shown = n > 0;
    if (!n)
        return 1;
    const uint32_t code = text_code_point(text, n);
    while (i < sizeof unseen / sizeof *unseen && code > unseen[i][1])
        i++;
    *shown = i == sizeof unseen / sizeof *unseen || code < unseen[i][0];
    return n;
}

size_t text_piece(const char *text, const char *but, bool *shown)
{
    size_t n = 0;

    while (text[n] >= 0x20 && text[n] < 0x7f && !strchr(but, text[n]))
        n++;
    *shown = true;
    return n ? n : text_unit(text, shown);
}

void text_write_clean(FILE *out, const char *text, const char *also)
{
    bool shown;

    for (size_t n; *text && !ferror_unlocked(out); text += n) {
        n = text_piece(text, also, &shown);
        if (!shown || (n == 1 && strchr(also, *text)))
            putc_unlocked('?', out);
        else
            fwrite_unlocked(text, 1, n, out);
    }
}

char *text_copy_clean(const char *text, const char *also)
{
    char *clean = NULL;
    size_t size;
    FILE *memory = open_memstream(&clean, &size);

    if (!memory)
        return NULL;
    text_write_clean(memory, text, also);
    if (fclose(memory) == 0)
        return clean;
    free(clean);
    return NULL;
}

void text_write_lines(FILE *out, const char *text, size_t len)
{
    bool shown;

    for (size_t n; len; text += n, len -= n) {
        char unit[5] = {0};
        /* Plain ASCII is written in one piece. */
        for (n = 0; n < len; n++)
            if ((text[n] < 0x20 || text[n] >= 0x7f) && text[n] != '\n' && text[n] != '\t')
                break;
        if (n) {
            fwrite_unlocked(text, 1, n, out);
            continue;
        }
        memcpy(unit, text, len < 4 ? len : 4); /* with a NUL: the character may be cut off */
        n = text_unit(unit, &shown);
        if (shown)
            fwrite_unlocked(unit, 1, n, out);
        else
            putc_unlocked('?', out);
    }
}

void text_append(char *text, size_t size, const char *fmt, ...)
{
    const size_t len = strlen(text);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text + len, size - len, fmt, ap);
    va_end(ap);
}

bool text_ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);

    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

const char *text_variable(const char *environment, size_t len, const char *name)
{
    const size_t n = strlen(name);

    for (size_t at = 0; at < len; at += strlen(environment + at) + 1)
        if (strncmp(environment + at, name, n) == 0 && environment[at + n] == '=')
            return environment + at + n + 1;
    return NULL;
}

const char *text_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}
