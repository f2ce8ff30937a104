#include "profile/names/short_name.h"
#include "base/util.h"
#include "profile/names/name_parts.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum {
    NESTED_TYPES_MAX = 8,
    HASH_DIGITS = 16,
    SHORTENED_MAX = 8 << 10, /* bytes: a search through longer ones would take too long */
};

struct shortener {
    struct name_part from; /* what is left */
    char *out;
    size_t len, size;
    unsigned nested; /* depth of types of Rust's impl */
    bool params;     /* the last thing was a list of parameters */
    bool has_params; /* there was one */
    bool had_spaces; /* a return type or the like was dropped */
    bool over;       /* the rest is not part of the name: " const", " [clone .cold]" */
};

static void append_text(struct shortener *to, const char *text, size_t len)
{
    for (size_t i = 0; i < len && to->len + 1 < to->size; i++)
        to->out[to->len++] = text[i];
}

static void copy_until(struct shortener *from, const char *end)
{
    append_text(from, from->from.at, (size_t)(end - from->from.at));
    from->from.at = end;
    from->params = false;
}

static bool ends_with(const struct shortener *from, const char *text)
{
    size_t len = strlen(text);
    return from->len >= len && memcmp(from->out + from->len - len, text, len) == 0;
}

static bool is_inside_word(const struct shortener *from)
{
    char last = from->len ? from->out[from->len - 1] : ' ';
    return isalnum((unsigned char)last) || last == '_';
}

/* ---- operators ---- */

static const char *skip_qualifiers(struct name_part part)
{
    static const char *const words[] = {" const", " volatile", " &&", " &", " noexcept"};

    for (size_t i = 0; i < ARRAY_LEN(words);) {
        bool found = name_begins(part, words[i]);
        part.at += found ? strlen(words[i]) : 0;
        i = found ? 0 : i + 1;
    }
    return part.at;
}

/*
 * Returns the parameters of a conversion operator, whose type may have brackets
 * of its own: the first that no further ones follow. NULL: there are none.
 */
static const char *find_conversion_params(struct name_part part)
{
    while ((part.at = name_search(part, "("))) {
        const char *params = part.at, *behind = name_skip_bracket(part);
        if (!behind)
            return NULL;
        part.at = behind;
        part.at = skip_qualifiers(part);
        if (part.at == part.end || name_begins(part, "::") || name_begins(part, " ["))
            return params;
        part.at = behind;
    }
    return NULL;
}

static void shorten_part(struct shortener *from);

/* "operator std::vector<int>": the type without the arguments of its template. */
static bool take_conversion(struct shortener *from)
{
    const char *params = find_conversion_params(from->from);
    struct name_part type = {from->from.at, params ? params : from->from.end};

    while (type.at < type.end) {
        const char *behind = *type.at == '<' ? name_skip_bracket(type) : NULL;
        if (!behind)
            append_text(from, type.at, 1);
        type.at = behind ? behind : type.at + 1;
    }
    from->from.at = type.end;
    from->params = false;
    return true;
}

/* The brackets of "operator<<", "operator()", "operator new[]" are part of the name. */
static bool take_operator(struct shortener *from)
{
    const char *behind = name_skip_operator(from->from);

    if (*from->from.at != 'o' || is_inside_word(from))
        return false;
    if (!behind)
        return name_begins(from->from, "operator ") && take_conversion(from);
    copy_until(from, behind);
    if (name_begins(from->from, " <")) /* operator<< <int> */
        from->from.at++;
    return true;
}

/* ---- brackets ---- */

/* Appends the name of a type or a trait without its own brackets. */
static void take_path(struct shortener *from, struct name_part part)
{
    struct shortener inner = {.from = part,
                              .out = from->out + from->len,
                              .size = from->size - from->len,
                              .nested = from->nested + 1};

    if (name_search(part, "::") && from->nested < NESTED_TYPES_MAX) {
        shorten_part(&inner);
        from->len += inner.len;
    } else { /* "T", "[u8]", "(A, B)" */
        const char *end = *part.at == '(' || *part.at == '[' ? part.end : name_search(part, "<");
        append_text(from, part.at, (size_t)((end ? end : part.end) - part.at));
    }
}

/* True if the path written so far belongs to the program itself. */
static bool is_in_own_crate(const struct shortener *from)
{
    return from->len && !name_in_rust_library((struct name_part){from->out, from->out + from->len});
}

/*
 * "<Type as Trait>" and "path::<impl Trait for Type>" become the type or the
 * trait; the path is kept if both are of the standard library.
 */
static bool take_impl(struct shortener *from, const char *behind)
{
    struct name_impl impl = name_split_impl((struct name_part){from->from.at, behind});
    struct name_part part = name_of_impl(&impl), last = part;
    const char *colons;

    if (name_in_rust_library(part) && is_in_own_crate(from)) {
        while ((colons = name_search(last, "::")))
            last.at = colons + 2;
        part = last;
    } else {
        from->len = 0;
    }
    take_path(from, part);
    from->from.at = behind;
    from->params = false;
    return true;
}

static bool take_angles(struct shortener *from)
{
    const char *behind = name_skip_bracket(from->from);

    if (!behind)
        return false;
    if (name_begins(from->from, "<lambda")) {
        append_text(from, "{lambda}", 8);
        from->params = false;
    } else if (from->len == 0 || name_begins(from->from, "<impl ")) {
        return take_impl(from, behind);
    } else if (ends_with(from, "::")) { /* Rust: f::<T> */
        from->len -= 2;
    }
    from->from.at = behind;
    return true;
}

/* "int (*app::get(char))(float)": a function that returns a pointer to a function. */
static bool enter_declarator(struct shortener *from, const char *behind)
{
    struct name_part inside = {from->from.at + 1, behind - 1};
    const char *member = name_search(inside, "::*");

    if (from->len || !from->had_spaces || behind == from->from.end ||
        (*behind != '(' && *behind != '[') || !name_search(inside, "("))
        return false;
    if (member)
        inside.at = member + 2;
    if (*inside.at != '*' && *inside.at != '&')
        return false;
    inside.at += strspn(inside.at, "*& ");
    from->from = inside;
    return true;
}

/* Go: "pkg.(*T[int]).m" has the types of generics dropped as elsewhere. */
static bool take_receiver(struct shortener *from, const char *behind)
{
    const char *types = memchr(from->from.at, '[', (size_t)(behind - from->from.at));

    copy_until(from, types ? types : behind);
    if (types)
        append_text(from, "[...])", 6);
    from->from.at = behind;
    return true;
}

static bool take_parens(struct shortener *from)
{
    static const char anonymous[] = "(anonymous namespace)";
    const char *behind = name_skip_bracket(from->from);

    if (!behind)
        return false;
    if (name_begins(from->from, anonymous)) {
        append_text(from, "(anon)", 6);
        from->from.at = behind;
        from->params = false;
        return true;
    }
    if (ends_with(from, "."))
        return take_receiver(from, behind);
    if (enter_declarator(from, behind))
        return true;
    from->from.at = behind;
    from->params = from->has_params = true;
    return true;
}

/* Tags of the ABI are dropped; the types of Go's generics are "...". */
static bool take_square(struct shortener *from)
{
    const char *behind = name_skip_bracket(from->from);

    if (!behind)
        return false;
    if (!name_begins(from->from, "[abi:"))
        append_text(from, "[...]", 5);
    from->from.at = behind;
    return true;
}

/* "{lambda(int)#1}" becomes "{lambda#1}"; "{{closure}}" stays; "{{vtable.shim}}" is dropped. */
static bool take_braces(struct shortener *from)
{
    const char *behind = name_skip_bracket(from->from);
    struct name_part inside = {from->from.at, behind};

    if (!behind)
        return false;
    bool dropped = name_begins(inside, "{{vtable") || name_begins(inside, "{shim:");
    while (!dropped && inside.at < inside.end) {
        const char *skipped = *inside.at == '(' ? name_skip_bracket(inside) : NULL;
        if (!skipped)
            append_text(from, inside.at, 1);
        inside.at = skipped ? skipped : inside.at + 1;
    }
    from->from.at = behind;
    from->params = false;
    return true;
}

/* ---- the rest ---- */

/* What precedes a space is a return type, unless it was the parameters. */
static bool take_space(struct shortener *from)
{
    const char *behind = skip_qualifiers(from->from);

    from->over = name_begins(from->from, " [clone") || name_begins(from->from, " (.");
    if (from->over)
        return true;
    if (from->params && behind > from->from.at) {
        from->from.at = behind;
        from->over = !name_begins(from->from, "::"); /* "f() const::{lambda()#1}" */
        return true;
    }
    from->from.at++;
    from->len = 0;
    from->had_spaces = true;
    from->params = false;
    return true;
}

/* The hash at the end of Rust's legacy names, and the suffix of LLVM's thin LTO. */
static bool is_hash(struct name_part part)
{
    size_t digits = 0;

    if (name_begins(part, ".llvm."))
        return true;
    if (!name_begins(part, "::h"))
        return false;
    for (part.at += 3; part.at < part.end && isxdigit((unsigned char)*part.at); part.at++)
        digits++;
    return digits == HASH_DIGITS && (part.at == part.end || *part.at == '.');
}

static bool shorten_next(struct shortener *from)
{
    if (take_operator(from))
        return true;
    switch (*from->from.at) {
    case '<':
        return take_angles(from);
    case '(':
        return take_parens(from);
    case '[':
        return take_square(from);
    case '{':
        return take_braces(from);
    case ' ':
        return take_space(from);
    default:
        from->over = is_hash(from->from);
        if (!from->over)
            copy_until(from, from->from.at + 1);
        return true;
    }
}

/* Leaves out empty if the part is not a name as it is known here. */
static void shorten_part(struct shortener *from)
{
    bool good = true;

    while (good && from->from.at < from->from.end && !from->over)
        good = shorten_next(from);
    if (!good || (from->had_spaces && !from->has_params))
        from->len = 0;
}

/* "libz.so.1+0x1234" and "[thread x]" are not names. */
static bool is_no_name(const char *name)
{
    const char *offset = strstr(name, "+0x");

    return *name == '[' || (offset && strspn(offset + 3, "0123456789abcdef") == strlen(offset + 3));
}

/* Go: "example.com/lib/cache.(*Map).Put" becomes "cache.(*Map).Put". */
static const char *skip_directories(const char *name)
{
    size_t len = strcspn(name, "[(");
    const char *slash = memrchr(name, '/', len);

    return slash && !memchr(name, ' ', len) && !memchr(name, ':', len) && !memchr(name, ';', len) &&
                   memchr(slash, '.', len - (size_t)(slash - name))
               ? slash + 1
               : name;
}

const char *bounded_name(const char *name, char out[NAME_MAX_SHOWN + 1])
{
    static const char ellipsis[] = "\u2026";
    size_t len = strnlen(name, SHORTENED_MAX + 1), most = NAME_MAX_SHOWN + 1 - sizeof ellipsis;

    if (len <= NAME_MAX_SHOWN)
        return name;
    if (len <= SHORTENED_MAX)
        short_name(name, out, most + 1);
    else
        memcpy(out, name, most);
    len = strnlen(out, most);
    if (len < most)
        return out;
    while (len > 0 && (unsigned char)out[len - 1] >= 0x80) /* a character may be cut off */
        len--;
    memcpy(out + len, ellipsis, sizeof ellipsis);
    return out;
}

const char *short_name(const char *name, char *out, size_t size)
{
    const char *start = skip_directories(name);
    struct shortener from = {
        .from = {start, start + strlen(start)}, .out = out, .len = 0, .size = size};

    if (!is_no_name(name) && !name_is_tangled(from.from))
        shorten_part(&from);
    out[from.len] = '\0';
    if (from.len == 0)
        snprintf(out, size, "%s", name);
    return out;
}
