#include "base/json.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>

void json_name(struct json *json, const char *name)
{
    if (json->any)
        fputs(", ", json->out);
    json->any = true;
    text_write_json(json->out, name);
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
    json_name(json, name);
    text_write_json(json->out, text);
}

void json_number(struct json *json, const char *name, uint64_t value)
{
    json_name(json, name);
    fprintf(json->out, "%" PRIu64, value);
}

void json_bool(struct json *json, const char *name, bool value)
{
    json_name(json, name);
    fputs(value ? "true" : "false", json->out);
}

void json_null(struct json *json, const char *name)
{
    json_name(json, name);
    fputs("null", json->out);
}

void json_signed(struct json *json, const char *name, int64_t value)
{
    json_name(json, name);
    fprintf(json->out, "%" PRId64, value);
}

void json_rounded(struct json *json, const char *name, double value)
{
    static const double beyond = 9223372036854775808.0; /* 2^63 */

    if (value >= beyond)
        json_signed(json, name, INT64_MAX);
    else
        json_signed(json, name, value > -beyond ? llrint(value) : INT64_MIN);
}

void json_open(struct json *json, const char *name)
{
    json_name(json, name);
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
    json_name(json, name);
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

void json_object_end(struct json *json)
{
    fputc('}', json->out);
}

void json_strings_begin(struct json *json, const char *name)
{
    json_list_begin(json, name);
}

void json_string(struct json *json, const char *text)
{
    if (json->any)
        fputs(", ", json->out);
    json->any = true;
    text_write_json(json->out, text);
}

void json_end(struct json *json)
{
    fputs("}\n", json->out);
}
