#include "profile/short_name.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct shortener {
    const char *at, *end;
    char *out;
    size_t len, size;
    bool over; /* what follows is none of the name: " const", " [clone .cold]" */
};

static void put(struct shortener *to, const char *text, size_t len)
{
    for (size_t i = 0; i < len && to->len + 1 < to->size; i++)
        to->out[to->len++] = text[i];
}

static bool begins(const struct shortener *from, const char *text)
{
    size_t len = strlen(text);
    return (size_t)(from->end - from->at) >= len && memcmp(from->at, text, len) == 0;
}

static bool is_word(char ch)
{
    return isalnum((unsigned char)ch) || ch == '_';
}

/* Behind the bracket that closes the one at `at`; NULL: there is none. "->" closes nothing. */
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

/* "operator<<", "operator()", "operator new[]": its brackets are no brackets. */
static bool take_operator(struct shortener *from)
{
    static const char word[] = "operator";
    const char *p = from->at + sizeof word - 1;

    if (!begins(from, word) || (from->len && is_word(from->out[from->len - 1])) ||
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
    put(from, from->at, (size_t)(p - from->at));
    from->at = p;
    return true;
}

/* What stands after the parameters: qualifiers, and what compilers add. */
static bool is_behind_name(const struct shortener *from)
{
    return begins(from, " const") || begins(from, " volatile") || begins(from, " &") ||
           begins(from, " [");
}

static bool take_bracket(struct shortener *from)
{
    static const char anonymous[] = "(anonymous namespace)";
    const char *behind;

    if (begins(from, anonymous)) {
        put(from, "(anon)", 6);
        from->at += sizeof anonymous - 1;
        return true;
    }
    behind = skip_brackets(from->at, from->end);
    if (!behind)
        return false;
    if (*from->at == '(' && from->len && from->out[from->len - 1] == '.') /* Go: pkg.(*T).m */
        put(from, from->at, (size_t)(behind - from->at));
    from->at = behind;
    return true;
}

/* Rust's "<Type as Trait>::method", and "<Type>::method": the type stays. */
static bool take_type(struct shortener *from)
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
    put(from, inner.at,
        (size_t)(strcspn(inner.at, "<(") < (size_t)(inner.end - inner.at)
                     ? strcspn(inner.at, "<(")
                     : (size_t)(inner.end - inner.at)));
    from->at = behind;
    return true;
}

static bool take(struct shortener *from)
{
    if (take_type(from) || take_operator(from))
        return true;
    if (*from->at == '<' || *from->at == '(')
        return take_bracket(from);
    if (begins(from, " <") && from->len) { /* operator<< <int> */
        from->at++;
        return true;
    }
    if (*from->at == ' ') {
        from->over = is_behind_name(from);
        from->len = from->over ? from->len : 0; /* a return type */
        from->at++;
        return true;
    }
    put(from, from->at++, 1);
    return true;
}

const char *short_name(const char *name, char *out, size_t size)
{
    struct shortener from = {.at = name, .end = name + strlen(name), .out = out, .size = size};
    bool good = true;

    while (good && from.at < from.end && !from.over)
        good = take(&from);
    out[from.len] = '\0';
    if (!good || from.len == 0)
        snprintf(out, size, "%s", name);
    return out;
}
