#include "profile/short_name.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct shortener {
    const char *at, *end;
    char *out;
    size_t len, size;
    bool over; /* the rest is not part of the name: " const", " [clone .cold]" */
};

static void append_text(struct shortener *to, const char *text, size_t len)
{
    for (size_t i = 0; i < len && to->len + 1 < to->size; i++)
        to->out[to->len++] = text[i];
}

static bool text_begins(const struct shortener *from, const char *text)
{
    size_t len = strlen(text);
    return (size_t)(from->end - from->at) >= len && memcmp(from->at, text, len) == 0;
}

static bool is_word(char ch)
{
    return isalnum((unsigned char)ch) || ch == '_';
}

/*
 * Returns the position after the bracket that closes the one at start; NULL:
 * none. "->" closes nothing.
 */
static const char *skip_brackets(const char *start, const char *end)
{
    int depth = 0;

    for (const char *at = start; at < end; at++) {
        if (*at == '(' || *at == '<' || *at == '[')
            depth++;
        else if (*at == ')' || *at == ']' || (*at == '>' && at > start && at[-1] != '-'))
            depth--;
        if (depth == 0)
            return at + 1;
    }
    return NULL;
}

/* "operator<<", "operator()", "operator new[]": their brackets are part of the name. */
static bool take_operator(struct shortener *from)
{
    static const char word[] = "operator";
    const char *p = from->at + sizeof word - 1;

    if (!text_begins(from, word) || (from->len && is_word(from->out[from->len - 1])) ||
        (p < from->end && is_word(*p)))
        return false;
    if (from->end - p >= 2 && (memcmp(p, "()", 2) == 0 || memcmp(p, "[]", 2) == 0))
        p += 2;
    else if (p < from->end && *p == ' ') /* new, delete[], or a type */
        for (p++; p < from->end && *p != '(' && *p != '<';)
            p++;
    else
        while (p < from->end && *p != '(' && *p != ' ' && !is_word(*p))
            p++;
    append_text(from, from->at, (size_t)(p - from->at));
    from->at = p;
    return true;
}

/* True for the text after the parameters: qualifiers, and compilers' additions. */
static bool is_behind_name(const struct shortener *from)
{
    return text_begins(from, " const") || text_begins(from, " volatile") ||
           text_begins(from, " &") || text_begins(from, " [");
}

static bool take_bracket(struct shortener *from)
{
    static const char anonymous[] = "(anonymous namespace)";
    const char *behind;

    if (text_begins(from, anonymous)) {
        append_text(from, "(anon)", 6);
        from->at += sizeof anonymous - 1;
        return true;
    }
    behind = skip_brackets(from->at, from->end);
    if (!behind)
        return false;
    if (*from->at == '(' && from->len && from->out[from->len - 1] == '.') /* Go: pkg.(*T).m */
        append_text(from, from->at, (size_t)(behind - from->at));
    from->at = behind;
    return true;
}

/* Rust's "<Type as Trait>::method" and "<Type>::method": keeps the type. */
static bool take_rust_type(struct shortener *from)
{
    const char *behind = *from->at == '<' ? skip_brackets(from->at, from->end) : NULL;

    if (!behind || from->len)
        return false;
    struct shortener inner = *from;
    inner.at++;
    inner.end = behind - 1;
    for (const char *p = inner.at; p < inner.end; p++) {
        const char *skipped = *p == '<' || *p == '(' ? skip_brackets(p, inner.end) : NULL;
        if (skipped)
            p = skipped - 1;
        else if (inner.end - p > 4 && memcmp(p, " as ", 4) == 0)
            inner.end = p;
    }
    append_text(from, inner.at,
                (size_t)(strcspn(inner.at, "<(") < (size_t)(inner.end - inner.at)
                             ? strcspn(inner.at, "<(")
                             : (size_t)(inner.end - inner.at)));
    from->at = behind;
    return true;
}

static bool shorten_next(struct shortener *from)
{
    if (take_rust_type(from) || take_operator(from))
        return true;
    if (*from->at == '<' || *from->at == '(')
        return take_bracket(from);
    if (text_begins(from, " <") && from->len) { /* operator<< <int> */
        from->at++;
        return true;
    }
    if (*from->at == ' ') {
        from->over = is_behind_name(from);
        from->len = from->over ? from->len : 0; /* a return type */
        from->at++;
        return true;
    }
    append_text(from, from->at++, 1);
    return true;
}

const char *short_name(const char *name, char *out, size_t size)
{
    struct shortener from = {.at = name, .end = name + strlen(name), .out = out, .size = size};
    bool good = true;

    while (good && from.at < from.end && !from.over)
        good = shorten_next(&from);
    out[from.len] = '\0';
    if (!good || from.len == 0 || *name == '[') /* "[thread x]" is not a function */
        snprintf(out, size, "%s", name);
    return out;
}
