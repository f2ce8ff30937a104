/*
 * Reads the names of a string table (.strtab) of any size in constant memory:
 * with a window that only moves forward, because linkers write the names in the
 * order of the symbols, and a small buffer for names elsewhere (shared tails).
 */
#pragma once

#include "elf/sections.h"

enum {
    STRTAB_BLOCK = 256 << 10,
    STRTAB_WINDOW = 16 << 20, /* for reading all names: holds the whole table of most programs */
    STRTAB_MAX = 1 << 30,     /* bytes of a table; a larger one is refused */
    STRTAB_LOOKED_AT_MAX =
        1 << 30, /* bytes of names: millions of symbols may share a name of 60 KB */
    STRTAB_SPANS_BITS = 16,
    STRTAB_SPANS_MAX =
        1 << STRTAB_SPANS_BITS, /* maximum number of names that strtab_find distinguishes */
};

struct strtab {
    int fd; /* borrowed */
    uint64_t offset, size;
    char *window, *stray; /* one allocation */
    uint64_t capacity;    /* of the window, bytes */
    uint64_t at, end;     /* range of the window in the table */
    uint64_t looked_at;   /* bytes of names read so far */
};

/*
 * window: approximate number of bytes of the table to keep in memory,
 * STRTAB_BLOCK or STRTAB_WINDOW. False: not in the file, empty, too large, out
 * of memory. Call strtab_close in either case.
 */
bool strtab_open(struct strtab *strtab, const struct sections *sections, const Elf64_Shdr *section,
                 size_t window);
void strtab_close(struct strtab *strtab);

/*
 * Returns the name at an offset, valid until the next call. The end of the
 * table also ends a name. NULL: outside the table, SYMBOL_NAME_MAX bytes or
 * longer, the file was truncated, or strtab_exhausted.
 */
const char *strtab_name(struct strtab *strtab, uint64_t at);
bool strtab_exhausted(const struct strtab *strtab);

/* The names to look for: those that match one of the patterns. */
enum name_kind { NAME_WHOLE, NAME_BEGINS, NAME_ENDS };

struct name_pattern {
    enum name_kind kind;
    const char *text;
    size_t len; /* at least 1 */
};

struct name_query {
    const struct name_pattern *patterns;
    size_t count;
    bool others; /* visit the other names too, as NULL */
};

#define NAME_IS(text)                                                                              \
    {                                                                                              \
        NAME_WHOLE, text, sizeof(text) - 1                                                         \
    }
#define NAME_BEGINS_WITH(text)                                                                     \
    {                                                                                              \
        NAME_BEGINS, text, sizeof(text) - 1                                                        \
    }
#define NAME_ENDS_WITH(text)                                                                       \
    {                                                                                              \
        NAME_ENDS, text, sizeof(text) - 1                                                          \
    }

bool name_matches(const struct name_query *query, const char *name, size_t len);

/* Offsets [first, last] of names that match. */
struct strtab_span {
    uint64_t first, last;
};

struct strtab_spans {
    struct strtab_span *list; /* owned by the caller; sorted */
    size_t count, capacity;
};

/*
 * Reads the whole table once, in blocks. False if it cannot be read or has more
 * than STRTAB_SPANS_MAX matching names.
 */
bool strtab_find(const struct strtab *strtab, const struct name_query *query,
                 struct strtab_spans *out);
/* True if the name at an offset is in one of the spans. */
bool strtab_spans_hold(const struct strtab_spans *spans, uint64_t at);
