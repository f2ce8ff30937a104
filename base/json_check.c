#include "base/json_check.h"

#include <stdint.h>
#include <string.h>

struct reader {
    const char *at, *end;
};

static bool value(struct reader *reader, unsigned depth);

static void blanks(struct reader *reader)
{
    while (reader->at < reader->end && memchr(" \t\n\r", *reader->at, 4))
        reader->at++;
}

static bool take(struct reader *reader, char ch)
{
    if (reader->at == reader->end || *reader->at != ch)
        return false;
    reader->at++;
    return true;
}

static bool word(struct reader *reader, const char *text)
{
    size_t n = strlen(text);

    if ((size_t)(reader->end - reader->at) < n || memcmp(reader->at, text, n) != 0)
        return false;
    reader->at += n;
    return true;
}

static bool digits(struct reader *reader)
{
    const char *first = reader->at;

    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9')
        reader->at++;
    return reader->at != first;
}

static bool number(struct reader *reader)
{
    (void)take(reader, '-');
    if (!take(reader, '0') && !digits(reader))
        return false;
    if (take(reader, '.') && !digits(reader))
        return false;
    if (!take(reader, 'e') && !take(reader, 'E'))
        return true;
    if (!take(reader, '+'))
        (void)take(reader, '-');
    return digits(reader);
}

static bool escape(struct reader *reader)
{
    if (reader->at == reader->end || !memchr("\"\\/bfnrtu", *reader->at, 9))
        return false;
    if (*reader->at++ != 'u')
        return true;
    for (int i = 0; i < 4; i++, reader->at++)
        if (reader->at == reader->end || !memchr("0123456789abcdefABCDEF", *reader->at, 22))
            return false;
    return true;
}

static bool string(struct reader *reader)
{
    if (!take(reader, '"'))
        return false;
    while (reader->at < reader->end && *reader->at != '"') {
        uint8_t ch = (uint8_t)*reader->at++;
        if (ch < 0x20 || (ch == '\\' && !escape(reader)))
            return false;
    }
    return take(reader, '"');
}

static bool member(struct reader *reader, unsigned depth)
{
    blanks(reader);
    if (!string(reader))
        return false;
    blanks(reader);
    return take(reader, ':') && value(reader, depth);
}

/* Reads what follows the opening bracket, up to the closing one. */
static bool list(struct reader *reader, char end, unsigned depth,
                 bool (*item)(struct reader *, unsigned))
{
    blanks(reader);
    if (take(reader, end))
        return true;
    do {
        if (!item(reader, depth))
            return false;
        blanks(reader);
    } while (take(reader, ','));
    return take(reader, end);
}

static bool value(struct reader *reader, unsigned depth)
{
    bool good;

    blanks(reader);
    if (depth == JSON_DEPTH_MAX || reader->at == reader->end)
        return false;
    if (take(reader, '{'))
        good = list(reader, '}', depth + 1, member);
    else if (take(reader, '['))
        good = list(reader, ']', depth + 1, value);
    else if (*reader->at == '"')
        good = string(reader);
    else
        good =
            word(reader, "true") || word(reader, "false") || word(reader, "null") || number(reader);
    blanks(reader);
    return good;
}

bool json_valid(const char *text, size_t len)
{
    struct reader reader = {text, text + len};

    return value(&reader, 0) && reader.at == reader.end;
}
