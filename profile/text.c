#include "profile/text.h"

#include <string.h>

/* Length of the valid UTF-8 sequence at p, 0 if there is none (RFC 3629). */
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

/* Controls of ASCII, and of Latin-1 as UTF-8 has them (ECMA-48's C1). */
static int is_control(const unsigned char *p)
{
    return *p < 0x20 || *p == 0x7f || (p[0] == 0xc2 && p[1] < 0xa0);
}

void text_write_clean(FILE *out, const char *text, const char *also)
{
    const unsigned char *p = (const unsigned char *)text;

    for (size_t n; *p; p += n ? n : 1) {
        n = utf8_len(p);
        if (n == 0 || is_control(p) || (n == 1 && strchr(also, *p)))
            putc_unlocked('?', out);
        else
            fwrite_unlocked(p, 1, n, out);
    }
}

void text_write_json(FILE *out, const char *text)
{
    const unsigned char *p = (const unsigned char *)text;

    fputc('"', out);
    for (size_t n; *p; p += n ? n : 1) {
        n = utf8_len(p);
        if (n == 0)
            fputs("\\ufffd", out);
        else if (*p == '"' || *p == '\\')
            fprintf(out, "\\%c", *p);
        else if (*p < 0x20 || *p == 0x7f || strchr("<>&", *p))
            fprintf(out, "\\u%04x", *p);
        else
            fwrite(p, 1, n, out);
    }
    fputc('"', out);
}
