#include "base/text.h"

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

/* True for controls of ASCII, and for C1 of ECMA-48 in UTF-8. */
static bool is_control(const unsigned char *p)
{
    return *p < 0x20 || *p == 0x7f || (p[0] == 0xc2 && p[1] < 0xa0);
}

/* U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069: line and direction controls (UAX 9). */
static bool turns(const unsigned char *p)
{
    return p[0] == 0xe2 &&
           ((p[1] == 0x80 && (p[2] == 0x8e || p[2] == 0x8f || (p[2] >= 0xa8 && p[2] <= 0xae))) ||
            (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9));
}

size_t text_unit(const char *text, bool *shown)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t n = utf8_len(p);

    *shown = n && !is_control(p) && !(n == 3 && turns(p));
    return n ? n : 1;
}

void text_write_clean(FILE *out, const char *text, const char *also)
{
    bool shown;

    for (size_t n; *text; text += n) {
        n = text_unit(text, &shown);
        if (!shown || (n == 1 && strchr(also, *text)))
            putc_unlocked('?', out);
        else
            fwrite_unlocked(text, 1, n, out);
    }
}

/* Returns the length of plain ASCII, which is written in one piece. */
static size_t plain_len(const char *text, size_t len)
{
    size_t n = 0;

    while (n < len && ((text[n] >= 0x20 && text[n] < 0x7f) || text[n] == '\n' || text[n] == '\t'))
        n++;
    return n;
}

void text_write_lines(FILE *out, const char *text, size_t len)
{
    bool shown;

    for (size_t n; len; text += n, len -= n) {
        char unit[5] = {0};
        n = plain_len(text, len);
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

bool text_ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);

    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

const char *text_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}
