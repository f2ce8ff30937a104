#include "contents/text_form.h"
#include "base/text.h"

#include <string.h>

enum {
    SEEN_MAX = 256,
    LEAST_ENDED = 5,  /* characters before a NUL; a number of 4 bytes may look like 4 of them */
    LEAST_OPEN = 8,   /* without a NUL */
    LEAST_HEADED = 4, /* after a header that is proven */
    LONG_ENOUGH = 16, /* behind any header */
    HEX_LEAST = 16,
    BASE64_LEAST = 24,
};

/* ---- where it is ---- */

/*
 * Returns the bytes of text from `at` on; text ends with a NUL. Invisible characters of three
 * bytes are part of texts that people write, such as the joiners in an emoji; random bytes
 * rarely make one.
 */
static size_t text_run(const char *text, size_t at, size_t len)
{
    size_t n = at;
    bool shown;

    while (n < len && text[n]) {
        size_t unit = text_unit(text + n, &shown);
        if (!shown && unit < 3 && !strchr("\t\n\r", text[n]))
            break;
        n += unit;
    }
    return (n < len ? n : len) - at;
}

static bool is_text_alone(const char *text, const struct text_place *place, size_t len)
{
    bool ended = place->at + place->len < len && !text[place->at + place->len];

    return place->len >= (ended ? LEAST_ENDED : LEAST_OPEN) ||
           (place->len >= LEAST_ENDED && place->at + place->len == len);
}

static uint64_t number_at(const char *bytes, size_t size)
{
    uint64_t number = 0;

    memcpy(&number, bytes, size);
    return number;
}

/* A number of the header is the length of the text. */
static bool header_has_number(const char *text, const struct text_place *place)
{
    for (size_t size = 2; size <= 8; size *= 2)
        for (size_t i = 0; i + size <= place->at; i++)
            if ((i % size == 0 || i % size == place->at % size) &&
                number_at(text + i, size) == place->len)
                return true;
    return false;
}

/*
 * Its length in one byte proves little, so the text must end with a NUL, too: in front of the
 * text, before two bytes more, or in the upper bits of a single byte (sds.h of Redis).
 */
static bool header_has_byte(const char *text, const struct text_place *place, size_t len)
{
    const unsigned char *header = (const unsigned char *)text;

    if (place->at + place->len >= len || text[place->at + place->len])
        return false;
    return header[place->at - 1] == place->len ||
           (place->at >= 3 && header[place->at - 3] == place->len) ||
           (place->at == 1 && header[0] >> 3 == place->len);
}

/*
 * sds.h of Redis: length and capacity in a byte each, and the type, which is 1. There may be
 * more behind a NUL.
 */
static bool header_counts(const char *text, const struct text_place *place, size_t len)
{
    const unsigned char *header = (const unsigned char *)text + place->at - 3;

    if (place->at < 3 || (place->at + place->len < len && text[place->at + place->len]))
        return false;
    return header[2] == 1 && header[0] <= header[1] && place->len <= header[0];
}

static bool header_points(const char *text, const struct text_place *place, remote_addr addr)
{
    for (size_t i = 0; i + 8 <= place->at; i += 8)
        if (number_at(text + i, 8) == addr + place->at)
            return true;
    return false;
}

static bool is_text_headed(const char *text, const struct text_place *place, size_t len,
                           remote_addr addr)
{
    if (place->len < LEAST_HEADED)
        return false;
    if (header_has_number(text, place) || header_has_byte(text, place, len) ||
        header_counts(text, place, len) || header_points(text, place, addr))
        return true;
    /* A character of several bytes may be cut off at the end of what was read. */
    bool reaches_end = place->at + place->len + 3 >= len && len >= LEAST_OPEN;
    return place->len >= (reaches_end ? LONG_ENOUGH : LEAST_OPEN) &&
           place->len >= (len - place->at) / 2;
}

bool text_find(const unsigned char *bytes, size_t len, remote_addr addr, struct text_place *place)
{
    /* Of strings with their length in front (1, 3, 5, 9, 17), of nodes and of counted objects. */
    static const unsigned char places[] = {1, 3, 4, 5, 8, 9, 12, 16, 17, 19, 20, 24, 32};
    char text[SEEN_MAX + 1];

    len = len < SEEN_MAX ? len : SEEN_MAX;
    memcpy(text, bytes, len);
    text[len] = '\0';
    *place = (struct text_place){0, text_run(text, 0, len)};
    if (is_text_alone(text, place, len)) {
        /* A length in the upper 5 bits of one byte may be a printable character. */
        const struct text_place rest = {1, place->len - 1};
        if (!(text[0] & 7) && (unsigned char)text[0] >> 3 == rest.len &&
            header_has_byte(text, &rest, len))
            *place = rest;
        return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(places) && places[i] < len; i++) {
        *place = (struct text_place){places[i], text_run(text, places[i], len)};
        if (is_text_headed(text, place, len, addr))
            return true;
    }
    return false;
}

/* ---- what it is ---- */

static const char digits[] = "0123456789";
static const char hex_digits[] = "0123456789abcdefABCDEF-";
static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
static const char base64_signs[] = "+/=_-";
static const char name_signs[] = "0123456789_-.:@#$/+";

/* True if all characters are of one of the two sets. */
static bool is_made_of(const char *text, size_t len, const char *set, const char *more)
{
    for (size_t i = 0; i < len; i++)
        if (!text[i] || (!strchr(set, text[i]) && !strchr(more, text[i])))
            return false;
    return len > 0;
}

static bool looks_like_json(const char *text, size_t len)
{
    if (len < 2 || (text[0] != '{' && text[0] != '['))
        return false;
    return strchr("\"{[]} \n\t-0123456789tfn", text[1]) != NULL && memchr(text, '"', len);
}

static bool looks_like_url(const char *text, size_t len)
{
    const char *colon = memmem(text, len, "://", 3);

    return colon && colon > text && is_made_of(text, (size_t)(colon - text), letters, "+-.");
}

static bool looks_like_path(const char *text, size_t len)
{
    return len >= 2 && text[0] == '/' && memchr(text + 1, '/', len - 1) &&
           !memchr(text, ' ', len) && !memchr(text, '\n', len);
}

/* Random letters of both cases and digits: a name rarely has as many of each. */
static bool looks_like_base64(const char *text, size_t len)
{
    size_t upper = 0, lower = 0, digit = 0;

    if (len < BASE64_LEAST)
        return false;
    for (size_t i = 0; i < len; i++) {
        upper += text[i] >= 'A' && text[i] <= 'Z';
        lower += text[i] >= 'a' && text[i] <= 'z';
        digit += text[i] >= '0' && text[i] <= '9';
        if (!text[i] || (!strchr(base64_signs, text[i]) && !strchr(letters, text[i]) &&
                         !strchr(digits, text[i])))
            return false;
    }
    return upper * 6 >= len && lower * 6 >= len && digit * 20 >= len;
}

const char *text_form(const char *text, size_t len)
{
    static const char pem[] = "-----BEGIN ";

    if (looks_like_json(text, len))
        return "JSON";
    if (len >= sizeof pem - 1 && memcmp(text, pem, sizeof pem - 1) == 0)
        return "PEM";
    if (len >= 3 && text[0] == '<' && (strchr("!?/", text[1]) || strchr(letters, text[1])))
        return "XML or HTML";
    if (looks_like_url(text, len))
        return "URL";
    if (looks_like_path(text, len))
        return "path";
    if (is_made_of(text, len, digits, "+-.,:"))
        return "digits";
    if (len >= HEX_LEAST && is_made_of(text, len, hex_digits, ""))
        return "hex";
    if (looks_like_base64(text, len))
        return "base64";
    return is_made_of(text, len, letters, name_signs) ? "name" : "words";
}
