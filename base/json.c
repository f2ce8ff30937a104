#include "base/json.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

static void write_text(FILE *out, const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    bool shown;

    fputc('"', out);
    for (size_t n; *p && !ferror_unlocked(out); p += n) {
        n = text_piece((const char *)p, "\"\\<>&", &shown);
        if (n == 1 && *p >= 0x80) {
            fputs("\\ufffd", out);
        } else if (*p == '"' || *p == '\\') {
            fprintf(out, "\\%c", *p);
        } else if (!shown || strchr("<>&", *p)) {
            /* As an escape, beyond U+FFFF as two surrogates (RFC 8259). */
            uint32_t code = text_code_point((const char *)p, n);
            if (code > 0xffff) {
                fprintf(out, "\\u%04x", 0xd800 + ((code - 0x10000) >> 10));
                code = 0xdc00 + (code & 0x3ff);
            }
            fprintf(out, "\\u%04x", code);
        } else {
            fwrite(p, 1, n, out);
        }
    }
    fputc('"', out);
}

/* Separates a member or an item from the one before it. */
static void write_comma(struct json *json)
{
    if (json->any)
        fputs(json->compact ? "," : ", ", json->out);
    json->any = true;
}

static void write_name(struct json *json, const char *name)
{
    write_comma(json);
    write_text(json->out, name);
    fputs(json->compact ? ":" : ": ", json->out);
}

static void open_with(struct json *json, char bracket)
{
    fputc(bracket, json->out);
    json->any = false;
}

static void close_with(struct json *json, char bracket)
{
    fputc(bracket, json->out);
    json->any = true;
}

static int64_t nearest(double value)
{
    static const double beyond = 9223372036854775808.0; /* 2^63 */

    if (value >= beyond)
        return INT64_MAX;
    return value > -beyond ? llrint(value) : INT64_MIN;
}

void json_begin(struct json *json, FILE *out)
{
    *json = (struct json){.out = out};
    open_with(json, '{');
}

void json_end(struct json *json)
{
    fputs("}\n", json->out);
}

/* ---- members ---- */

void json_text(struct json *json, const char *name, const char *text)
{
    write_name(json, name);
    write_text(json->out, text);
}

void json_text_or_null(struct json *json, const char *name, const char *text)
{
    if (text && *text)
        json_text(json, name, text);
    else
        json_null(json, name);
}

void json_number(struct json *json, const char *name, uint64_t value)
{
    write_name(json, name);
    fprintf(json->out, "%" PRIu64, value);
}

void json_number_or_null(struct json *json, const char *name, bool known, uint64_t value)
{
    if (known)
        json_number(json, name, value);
    else
        json_null(json, name);
}

void json_signed(struct json *json, const char *name, int64_t value)
{
    write_name(json, name);
    fprintf(json->out, "%" PRId64, value);
}

void json_rounded(struct json *json, const char *name, double value)
{
    json_signed(json, name, nearest(value));
}

void json_bool(struct json *json, const char *name, bool value)
{
    write_name(json, name);
    fputs(value ? "true" : "false", json->out);
}

void json_null(struct json *json, const char *name)
{
    write_name(json, name);
    fputs("null", json->out);
}

void json_raw(struct json *json, const char *name, const char *text, size_t len)
{
    write_name(json, name);
    text_write_lines(json->out, text, len);
}

void json_object_begin(struct json *json, const char *name)
{
    write_name(json, name);
    open_with(json, '{');
}

void json_object_end(struct json *json)
{
    close_with(json, '}');
}

void json_list_begin(struct json *json, const char *name)
{
    write_name(json, name);
    open_with(json, '[');
}

void json_list_end(struct json *json)
{
    close_with(json, ']');
}

/* ---- items ---- */

void json_item_begin(struct json *json)
{
    write_comma(json);
    open_with(json, '{');
}

void json_item_end(struct json *json)
{
    close_with(json, '}');
}

void json_item_text(struct json *json, const char *text)
{
    write_comma(json);
    write_text(json->out, text);
}

void json_item_signed(struct json *json, int64_t value)
{
    write_comma(json);
    fprintf(json->out, "%" PRId64, value);
}

void json_item_rounded(struct json *json, double value)
{
    json_item_signed(json, nearest(value));
}

/* ---- tables of fields ---- */

void json_members(struct json *json, const struct field *fields, size_t count)
{
    for (const struct field *field = fields; field < fields + count; field++)
        switch (field->kind) {
        case FIELD_ABSENT:
            break;
        case FIELD_NULL:
            json_null(json, field->name);
            break;
        case FIELD_NUMBER:
            json_number(json, field->name, field->number);
            break;
        case FIELD_SIGNED:
            json_signed(json, field->name, field->integer);
            break;
        case FIELD_ROUNDED:
            json_rounded(json, field->name, field->real);
            break;
        case FIELD_BOOL:
            json_bool(json, field->name, field->truth);
            break;
        case FIELD_TEXT:
            json_text(json, field->name, field->text);
            break;
        }
}

void json_object(struct json *json, const char *name, const struct field *fields, size_t count)
{
    json_object_begin(json, name);
    json_members(json, fields, count);
    json_object_end(json);
}

void json_item(struct json *json, const struct field *fields, size_t count)
{
    json_item_begin(json);
    json_members(json, fields, count);
    json_item_end(json);
}

/* ---- the check ---- */

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
