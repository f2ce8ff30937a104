#include "profile/symbols/jit_name.h"
#include "base/cursor.h"
#include "base/text.h"

#include <stdio.h>

enum { JIT_NAME_SIZE = 512 };

struct v8_name {
    struct cursor function, path;
    uint64_t line;
};

/* Takes ":20" off the end. */
static bool drop_number(struct cursor *text, uint64_t *value)
{
    const char *at = text->end;
    struct cursor digits;

    while (at > text->at && at[-1] >= '0' && at[-1] <= '9')
        at--;
    digits = (struct cursor){at, text->end};
    if (at <= text->at || at[-1] != ':' || !cursor_take_decimal(&digits, value))
        return false;
    text->end = at - 1;
    return true;
}

static bool take_v8_kind(struct cursor *text)
{
    static const char *const kinds[] = {"JS:", "LazyCompile:", "Function:", "Script:", "Eval:"};

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (cursor_take_text(text, kinds[i]))
            return true;
    return false;
}

/* Parses "JS:*handle /app/server.js:12:20"; the column may be missing. */
static bool split_v8(struct cursor text, struct v8_name *out)
{
    uint64_t number;

    if (!take_v8_kind(&text))
        return false;
    while (text.at < text.end && strchr("*~^+'", *text.at))
        text.at++;
    if (!cursor_take_part(&text, ' ', &out->function) || !drop_number(&text, &out->line))
        return false;
    out->path = text;
    if (drop_number(&out->path, &number))
        out->line = number;
    else
        out->path = text;
    return out->path.at < out->path.end && out->line <= UINT32_MAX;
}

static const char *v8_function(struct arena *arena, const struct v8_name *name, const char *path)
{
    char text[JIT_NAME_SIZE];

    if (cursor_left(name->function))
        return arena_string(arena, name->function.at, cursor_left(name->function));
    snprintf(text, sizeof text, "(anonymous %.400s:%u)", text_base_name(path),
             (unsigned)name->line);
    return arena_string(arena, text, strlen(text));
}

void jit_name_line(struct arena *arena, const char *name, struct symbol_line *line)
{
    struct v8_name parts;
    const char *path = NULL;

    *line = (struct symbol_line){.linkage = name};
    if (split_v8(cursor_of(name, strlen(name)), &parts))
        path = arena_string(arena, parts.path.at, cursor_left(parts.path));
    if (path) {
        line->function = v8_function(arena, &parts, path);
        line->file = path;
        line->line = line->start_line = (unsigned)parts.line;
    } else {
        line->function = name;
    }
    if (!line->function)
        line->function = name;
}
