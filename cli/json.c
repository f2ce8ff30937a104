#include "cli/json.h"
#include "profile/text.h"

#include <inttypes.h>

static void write_name(struct json *json, const char *name)
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
    write_name(json, name);
    text_write_json(json->out, text);
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

void json_end(struct json *json)
{
    fputs("}\n", json->out);
}
