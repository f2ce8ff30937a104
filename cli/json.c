#include "cli/json.h"

#include <inttypes.h>
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

static void write_text(FILE *out, const char *text)
{
    const unsigned char *p = (const unsigned char *)text;

    fputc('"', out);
    while (*p) {
        size_t n = utf8_len(p);
        if (n == 0)
            fputs("\\ufffd", out);
        else if (*p == '"' || *p == '\\')
            fprintf(out, "\\%c", *p);
        else if (*p < 0x20 || *p == 0x7f)
            fprintf(out, "\\u%04x", *p);
        else
            fwrite(p, 1, n, out);
        p += n ? n : 1;
    }
    fputc('"', out);
}

static void write_name(struct json *json, const char *name)
{
    if (json->any)
        fputs(", ", json->out);
    json->any = true;
    write_text(json->out, name);
    fputs(": ", json->out);
}

void json_begin(struct json *json, FILE *out)
{
    json->out = out;
    json->any = false;
    fputc('{', out);
}

void json_text(struct json *json, const char *name, const char *text)
{
    write_name(json, name);
    write_text(json->out, text);
}

void json_number(struct json *json, const char *name, uint64_t value)
{
    write_name(json, name);
    fprintf(json->out, "%" PRIu64, value);
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

void json_signed(struct json *json, const char *name, int64_t value)
{
    write_name(json, name);
    fprintf(json->out, "%" PRId64, value);
}

void json_open(struct json *json, const char *name)
{
    write_name(json, name);
    fputc('{', json->out);
    json->any = false;
}

void json_close(struct json *json)
{
    fputc('}', json->out);
    json->any = true;
}

void json_text_or_null(struct json *json, const char *name, const char *text)
{
    if (text && *text)
        json_text(json, name, text);
    else
        json_null(json, name);
}

void json_list_begin(struct json *json, const char *name)
{
    write_name(json, name);
    fputc('[', json->out);
    json->any = false;
}

void json_list_item(struct json *list, struct json *item)
{
    if (list->any)
        fputs(", ", list->out);
    list->any = true;
    json_begin(item, list->out);
}

void json_list_end(struct json *json)
{
    fputc(']', json->out);
    json->any = true;
}

void json_end(struct json *json)
{
    fputs("}\n", json->out);
}
