#include "base/json_read.h"

static void skip_space(struct cursor *text)
{
    while (text->at < text->end && memchr(" \t\n\r", *text->at, 4))
        text->at++;
}

/* Takes a text with its quotes. */
static bool take_quoted(struct cursor *text, struct cursor *quoted)
{
    quoted->at = text->at;
    if (!cursor_take_char(text, '"'))
        return false;
    while (text->at < text->end && *text->at != '"')
        text->at += *text->at == '\\' && cursor_left(*text) > 1 ? 2 : 1;
    if (!cursor_take_char(text, '"'))
        return false;
    quoted->end = text->at;
    return true;
}

/* Takes a list or an object: brackets are counted, but for those in texts. */
static bool take_bracketed(struct cursor *text)
{
    size_t open = 0;
    struct cursor quoted;

    do {
        if (text->at >= text->end)
            return false;
        if (*text->at == '"') {
            if (!take_quoted(text, &quoted))
                return false;
            continue;
        }
        open += *text->at == '{' || *text->at == '[';
        open -= *text->at == '}' || *text->at == ']';
        text->at++;
    } while (open);
    return true;
}

static bool take_json_value(struct cursor *text, struct cursor *value)
{
    skip_space(text);
    value->at = text->at;
    if (text->at < text->end && *text->at == '"')
        return take_quoted(text, value);
    if (text->at < text->end && memchr("{[", *text->at, 2)) {
        if (!take_bracketed(text))
            return false;
    } else {
        while (text->at < text->end && !memchr(",}] \t\n\r", *text->at, 7))
            text->at++;
    }
    value->end = text->at;
    return value->at < value->end;
}

struct cursor json_root(const char *text, size_t len)
{
    struct cursor rest = cursor_of(text, len), value;

    return take_json_value(&rest, &value) ? value : (struct cursor){rest.end, rest.end};
}

/* Takes the name of a member and its colon. */
static bool take_member_name(struct cursor *text, struct cursor *key)
{
    if (!take_quoted(text, key))
        return false;
    key->at++;
    key->end--;
    skip_space(text);
    return cursor_take_char(text, ':');
}

/* Between two calls, rest begins behind a value: a comma or the closing bracket follows. */
bool json_next(struct cursor *rest, struct cursor *key, struct cursor *value)
{
    struct cursor name = {NULL, NULL};
    bool member;

    skip_space(rest);
    if (rest->at >= rest->end || !memchr("{[,", *rest->at, 3))
        return false;
    rest->at++;
    skip_space(rest);
    member = rest->end[-1] == '}';
    if (member && !take_member_name(rest, &name))
        return false;
    if (key)
        *key = name;
    return take_json_value(rest, value);
}

bool json_find(struct cursor object, const char *name, struct cursor *value)
{
    struct cursor key;

    while (json_next(&object, &key, value))
        if (key.at && cursor_is(key, name))
            return true;
    return false;
}

uint64_t json_uint64(struct cursor value)
{
    uint64_t number;

    return cursor_take_decimal(&value, &number) && value.at == value.end ? number : 0;
}

uint64_t json_find_uint64(struct cursor object, const char *name)
{
    struct cursor value;

    return json_find(object, name, &value) ? json_uint64(value) : 0;
}

void json_copy_text(struct cursor value, char *out, size_t size)
{
    *out = '\0';
    if (cursor_left(value) < 2 || *value.at != '"' || memchr(value.at, '\\', cursor_left(value)))
        return;
    value.at++;
    value.end--;
    if (!cursor_copy(value, out, size))
        *out = '\0';
}
