#include "profile/filter.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum { WRAPPER_CALLS = 8 };

/* Returns what follows a bracket expression, in which a backslash is a character. */
static const char *skip_bracket(const char *text)
{
    text += text[1] == '^' ? 2 : 1;
    text += *text == ']';
    while (*text && *text != ']') {
        bool class = *text == '[' && text[1] && strchr(":.=", text[1]);
        const char end[] = {class ? text[1] : '\0', ']', '\0'};
        const char *past = class ? strstr(text + 2, end) : NULL;
        text = past ? past + 2 : text + 1;
    }
    return text + (*text == ']');
}

static bool has_back_reference(const char *pattern)
{
    while (*pattern) {
        if (*pattern == '\\' && pattern[1] >= '1' && pattern[1] <= '9')
            return true;
        if (*pattern == '[')
            pattern = skip_bracket(pattern);
        else
            pattern += *pattern == '\\' && pattern[1] ? 2 : 1;
    }
    return false;
}

int filter_compile(regex_t *regex, const char *pattern)
{
    AUTO_FREE char *anchored = NULL;
    int rc = regcomp(regex, pattern, REG_EXTENDED | REG_NOSUB);

    if (rc)
        return rc;
    regfree(regex);
    if (has_back_reference(pattern))
        return REG_ESUBREG;
    /* With one place to begin at, the automaton reads each byte once. */
    if (asprintf(&anchored, "^.*(%s)", pattern) < 0)
        return REG_ESPACE;
    return regcomp(regex, anchored, REG_EXTENDED | REG_NOSUB);
}

bool filter_matches(const regex_t *regex, const char *text)
{
    /* Behind a newline glibc's automaton takes ^ for true, with or without REG_NEWLINE. */
    AUTO_FREE char *shown = strchr(text, '\n') ? text_copy_clean(text, "") : NULL;

    return regexec(regex, shown ? shown : text, 0, NULL, 0) == 0;
}

static bool regex_matches(const regex_t *regex, const char *text)
{
    return regex && *text && filter_matches(regex, text);
}

/* The patterns that a function, a file or a path matches, determined once for each. */
static unsigned char match_text(const struct filter *filter, const char *text)
{
    return (unsigned char)((regex_matches(filter->focus, text) ? FILTER_FOCUS : 0) |
                           (regex_matches(filter->ignore, text) ? FILTER_IGNORE : 0) |
                           (regex_matches(filter->hide, text) ? FILTER_HIDE : 0) |
                           (regex_matches(filter->show, text) ? FILTER_SHOW : 0));
}

/*
 * Strips the prefixes of jemalloc's builds (configure --with-jemalloc-prefix), then those of its
 * functions, before which may stand the program's: "duckdb_je_malloc".
 */
static const char *strip_prefix(const char *name)
{
    static const char *const prefixes[] = {"_rjem_", "jemalloc_", "__libc_"};
    const char *own = NULL;

    if (!name[strcspn(name, "(:< ")])
        for (const char *at = name; (at = strstr(at, "je_")); at++)
            if (at == name || at[-1] == '_')
                own = at + strlen("je_");
    if (own)
        return own;
    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return name + strlen(prefixes[i]);
    return name;
}

static bool is_entry(const char *name)
{
    static const char *const entries[] = {
        "malloc",        "calloc",         "realloc",        "reallocarray", "posix_memalign",
        "aligned_alloc", "memalign",       "valloc",         "pvalloc",      "mallocx",
        "rallocx",       "xallocx",        "malloc_default", "smallocx",     "do_rallocx",
        "fallback_impl", "newImpl<false>", "newImpl<true>",  "handleOOM",    "default_malloc",
        "malloc_impl",
    };

    size_t len = strcspn(name, "."); /* without ".cold", ".localalias" and the like */

    for (size_t i = 0; i < ARRAY_LEN(entries); i++)
        if (strlen(entries[i]) == len && memcmp(name, entries[i], len) == 0)
            return true;
    return strncmp(name, "operator new", strlen("operator new")) == 0 ||
           strncmp(name, "newImpl", strlen("newImpl")) == 0 ||
           strncmp(name, "void* newImpl", strlen("void* newImpl")) == 0;
}

/* With the prefix that hides them, these names belong only to jemalloc. */
static bool is_internal(const char *name)
{
    static const char *const begins[] = {"prof_backtrace", "prof_alloc_prep", "prof_tctx_create",
                                         "imalloc",        "ialloc",          "arena_malloc",
                                         "arena_palloc",   "arena_ralloc",    "iralloc",
                                         "ipalloc",        "large_malloc",    "tcache_alloc"};

    for (size_t i = 0; i < ARRAY_LEN(begins); i++)
        if (strncmp(name, begins[i], strlen(begins[i])) == 0)
            return true;
    return false;
}

/*
 * Strips what the loader (its own functions until it has found malloc), the
 * sanitizers and ld's --wrap put before the name.
 */
static const char *strip_wrapper(const char *name)
{
    static const char *const prefixes[] = {"__rtld_",
                                           "__minimal_",
                                           "__wrap_",
                                           "__interceptor_trampoline_",
                                           "___interceptor_trampoline_",
                                           "__interceptor_",
                                           "___interceptor_"};

    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return name + strlen(prefixes[i]);
    return name;
}

static bool is_entry_name(const char *name)
{
    return is_entry(strip_prefix(name)) || is_entry(strip_wrapper(name));
}

static bool is_allocator_name(const char *name)
{
    return is_entry_name(name) || is_internal(strip_prefix(name));
}

bool filter_is_allocator_module(const struct location_mapping *mapping)
{
    const char *slash = strrchr(mapping->path, '/');
    return slash && strstr(slash, "jemalloc") != NULL;
}

static bool is_allocator(const struct locations *locations, const struct location *location)
{
    if (location->mapping != TABLE_NONE &&
        filter_is_allocator_module(&locations->mappings[location->mapping]))
        return true;
    for (uint32_t i = 0; i < location->count; i++) {
        const struct location_line *line = &locations->lines[location->first + i];
        if (!is_allocator_name(locations->functions[line->function].name))
            return false;
    }
    return true;
}

static struct filter_mark mark_locations(const struct filter *filter, struct locations *locations,
                                         struct location *location, const unsigned char *functions,
                                         const unsigned char *mappings)
{
    unsigned char of_mapping = location->mapping == TABLE_NONE ? 0 : mappings[location->mapping],
                  found = of_mapping;
    struct location_line *lines = &locations->lines[location->first];
    uint32_t kept = 0;
    struct filter_mark result;

    for (uint32_t i = 0; i < location->count; i++)
        found |= functions[lines[i].function];
    result.matches = found;
    result.ignored = filter->ignore && (found & FILTER_IGNORE);
    result.focused = !result.ignored && (!filter->focus || (found & FILTER_FOCUS));
    result.certain = is_allocator(locations, location);
    /* True if other code calls this function to allocate; the outermost line is the function. */
    result.entry = location->count &&
                   is_entry_name(locations->functions[lines[location->count - 1].function].name);
    result.mapping = location->mapping;
    result.allocator = result.certain || !location->named;
    /* Removes the hidden lines. A mapping's file counts for all lines of its locations. */
    for (uint32_t i = 0; i < location->count; i++) {
        unsigned char of_line = functions[lines[i].function];
        bool hidden = filter->hide && ((of_line | of_mapping) & FILTER_HIDE);
        bool shown = !filter->show || ((of_line | of_mapping) & FILTER_SHOW);
        if (!hidden && shown)
            lines[kept++] = lines[i];
    }
    location->count = kept;
    result.hidden = location->count == 0;
    return result;
}

struct filter_mark *filter_apply(const struct filter *filter, struct locations *locations)
{
    AUTO_FREE unsigned char *functions = calloc(locations->function_count + 1, 1);
    AUTO_FREE unsigned char *mappings = calloc(locations->mapping_count + 1, 1);
    struct filter_mark *marks = calloc(locations->count + 1, sizeof *marks);

    if (!functions || !mappings || !marks) {
        free(marks);
        return NULL;
    }
    for (size_t i = 0; i < locations->function_count; i++)
        functions[i] = match_text(filter, locations->functions[i].name) |
                       match_text(filter, locations->functions[i].file);
    for (size_t i = 0; i < locations->mapping_count; i++)
        mappings[i] = match_text(filter, locations->mappings[i].path);
    for (size_t i = 0; i < locations->count; i++)
        marks[i] = mark_locations(filter, locations, &locations->list[i], functions, mappings);
    return marks;
}

/*
 * A library that wraps malloc has functions of its own between the allocator and
 * its malloc. Returns the number of calls from `first` up to such a malloc; 0: there
 * is none.
 */
static uint32_t wrapper_calls(const struct filter_mark *marks, const uint32_t *list, uint32_t first,
                              uint32_t depth)
{
    uint32_t mapping = marks[list[first]].mapping;

    if (mapping == TABLE_NONE)
        return 0;
    for (uint32_t i = first; i + 1 < depth && i < first + WRAPPER_CALLS; i++) {
        const struct filter_mark *mark = &marks[list[i]];
        if (mark->mapping != mapping)
            break;
        if (mark->entry)
            return i + 1 - first;
    }
    return 0;
}

/*
 * Includes calls without a name, but only if the allocator's name follows them:
 * in a stripped program its inner functions have no name.
 */
uint32_t filter_allocator_calls(const struct filter_mark *marks, const uint32_t *list,
                                uint32_t depth)
{
    uint32_t trimmed = 0, i = 0, more;

    while (i + 1 < depth) {
        if (marks[list[i]].certain)
            trimmed = ++i;
        else if ((more = wrapper_calls(marks, list, i, depth)) > 0)
            trimmed = i += more;
        else if (marks[list[i]].allocator)
            i++;
        else
            break;
    }
    return trimmed;
}
