#include "profile/names/name_parts.h"
#include "base/util.h"

#include <ctype.h>
#include <string.h>

/* ODD_MAX: more brackets without a partner than any name has. */
enum { NESTED_MAX = 512, ODD_MAX = 16 };

/* The brackets that are open. */
struct nesting {
    char open[NESTED_MAX];
    size_t depth;
    size_t odd; /* the '<' so far that were not brackets */
};

bool name_begins(struct name_part part, const char *text)
{
    size_t len = strlen(text);
    return (size_t)(part.end - part.at) >= len && memcmp(part.at, text, len) == 0;
}

static bool is_name_char(char ch)
{
    return isalnum((unsigned char)ch) || ch == '_';
}

const char *name_skip_operator(struct name_part part)
{
    /* A longer one before those that it begins with. */
    static const char *const symbols[] = {
        "<=>", "->*", "<<=", ">>=", "()", "[]", "->", "<<", ">>", "<=", ">=", "==", "!=",
        "&&",  "||",  "++",  "--",  "+=", "-=", "*=", "/=", "%=", "^=", "&=", "|=", "<",
        ">",   "=",   "+",   "-",   "*",  "/",  "%",  "^",  "&",  "|",  "~",  "!",  ",",
    };
    static const char *const words[] = {" new[]", " delete[]", " new", " delete", " co_await"};

    if (!name_begins(part, "operator"))
        return NULL;
    part.at += strlen("operator");
    if (name_begins(part, "\"\"")) { /* operator"" _km */
        for (part.at += 2; part.at < part.end && (*part.at == ' ' || is_name_char(*part.at));)
            part.at++;
        return part.at;
    }
    for (size_t i = 0; i < ARRAY_LEN(symbols); i++)
        if (name_begins(part, symbols[i]))
            return part.at + strlen(symbols[i]);
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        const char *behind = part.at + strlen(words[i]);
        if (name_begins(part, words[i]) && (behind == part.end || !is_name_char(*behind)))
            return behind;
    }
    return NULL;
}

/* A '<' that is still open inside of other brackets was "less than". */
static bool close_bracket(struct nesting *nesting, char ch)
{
    while (nesting->depth && nesting->open[nesting->depth - 1] != ch) {
        if (nesting->open[nesting->depth - 1] != '<')
            return false;
        nesting->depth--;
        nesting->odd++;
    }
    if (nesting->depth == 0)
        return false;
    nesting->depth--;
    return true;
}

/* Takes one character into account. False: brackets do not match. */
static bool follow_brackets(struct nesting *nesting, char ch, char before)
{
    bool in_angles = nesting->depth && nesting->open[nesting->depth - 1] == '<';

    switch (ch) {
    case '(':
    case '[':
    case '{':
    case '<':
        if (nesting->depth == NESTED_MAX)
            return false;
        nesting->open[nesting->depth++] = ch;
        return true;
    case ')':
        return close_bracket(nesting, '(');
    case ']':
        return close_bracket(nesting, '[');
    case '}':
        return close_bracket(nesting, '{');
    case '>': /* "->", or "greater than" */
        if (in_angles && before != '-')
            nesting->depth--;
        return true;
    default:
        return true;
    }
}

/* Returns the position after an operator or a character such as '<' in quotes; NULL: neither. */
static const char *skip_no_bracket(struct name_part part, char before)
{
    if (*part.at == 'o' && !is_name_char(before))
        return name_skip_operator(part);
    if (*part.at == '\'' && part.end - part.at > 2 && part.at[2] == '\'')
        return part.at + 3;
    return NULL;
}

/* True if one of the characters would be a bracket elsewhere. */
static bool has_bracket(const char *at, const char *end)
{
    while (at < end)
        if (strchr("<([{", *at++))
            return true;
    return false;
}

const char *name_skip_bracket(struct name_part part)
{
    struct nesting nesting = {.depth = 0};
    char before = ' ';

    while (part.at < part.end) {
        const char *behind = skip_no_bracket(part, before);
        if (behind) {
            before = behind[-1];
            part.at = behind;
            continue;
        }
        if (!follow_brackets(&nesting, *part.at, before))
            return NULL;
        before = *part.at++;
        if (nesting.depth == 0)
            return part.at;
    }
    return NULL;
}

bool name_is_tangled(struct name_part part)
{
    struct nesting nesting = {.depth = 0};
    char before = ' ';

    while (part.at < part.end && nesting.odd <= ODD_MAX) {
        const char *behind = skip_no_bracket(part, before);
        if (behind) {
            nesting.odd += has_bracket(part.at, behind);
            before = behind[-1];
            part.at = behind;
            continue;
        }
        if (!follow_brackets(&nesting, *part.at, before))
            nesting.odd += nesting.depth + 1; /* no bracket that is open can be skipped */
        before = *part.at++;
    }
    return nesting.odd + nesting.depth > ODD_MAX;
}

const char *name_search(struct name_part part, const char *text)
{
    while (part.at < part.end) {
        const char *behind = strchr("<([{", *part.at) ? name_skip_bracket(part) : NULL;
        if (name_begins(part, text))
            return part.at;
        part.at = behind ? behind : part.at + 1;
    }
    return NULL;
}

/* Splits at " as " or " for ", which is outside of brackets. */
static bool split_part(struct name_part whole, const char *word, struct name_part *before,
                       struct name_part *after)
{
    const char *at = name_search(whole, word);

    if (!at)
        return false;
    *before = (struct name_part){whole.at, at};
    *after = (struct name_part){at + strlen(word), whole.end};
    return true;
}

struct name_impl name_split_impl(struct name_part part)
{
    const char *behind = name_skip_bracket(part);
    struct name_part inside = {part.at + 1, (behind ? behind : part.end) - 1};
    struct name_impl impl = {.type = inside};

    if (name_begins(inside, "impl ")) {
        inside.at += strlen("impl ");
        impl.type = inside;
        split_part(inside, " for ", &impl.trait, &impl.type);
    } else {
        split_part(inside, " as ", &impl.type, &impl.trait);
    }
    return impl;
}

/* Skips "&'a mut ", "*const ", "dyn " and the like, and bounds after " + ". */
static struct name_part plain_type(struct name_part type)
{
    static const char *const words[] = {"&", "mut ", "*const ", "*mut ", "dyn "};
    const char *bounds = name_search(type, " + ");

    for (size_t i = 0; i < ARRAY_LEN(words);) {
        const char *space =
            name_begins(type, "'") ? memchr(type.at, ' ', (size_t)(type.end - type.at)) : NULL;
        if (space) {
            type.at = space + 1;
        } else if (name_begins(type, words[i])) {
            type.at += strlen(words[i]);
        } else {
            i++;
            continue;
        }
        i = 0;
    }
    if (bounds && bounds > type.at)
        type.end = bounds;
    return type;
}

bool name_in_rust_library(struct name_part part)
{
    static const char *const crates[] = {"std::", "core::", "alloc::", "hashbrown::"};

    for (size_t i = 0; i < ARRAY_LEN(crates); i++)
        if (name_begins(part, crates[i]))
            return true;
    return false;
}

struct name_part name_of_impl(const struct name_impl *impl)
{
    struct name_part type = plain_type(impl->type);
    bool function = name_begins(type, "fn(") || name_begins(type, "for<") ||
                    name_begins(type, "extern ") || name_begins(type, "unsafe ");

    bool has_path = !function && (*type.at == '<' || name_search(type, "::"));

    if (impl->trait.at &&
        (!has_path || (name_in_rust_library(type) && !name_in_rust_library(impl->trait))))
        return impl->trait;
    return type;
}
