/*
 * The names of a string table (.strtab) of any size, in constant memory: a
 * window that only moves forward, as linkers write the names in the order of
 * the symbols, and a small buffer for names elsewhere (shared tails).
 */
#pragma once

#include "elf/sections.h"

enum {
    STRTAB_BLOCK = 256 << 10,
    STRTAB_WINDOW = 16 << 20,       /* where all names are asked for: those of most programs */
    STRTAB_MAX = 1 << 30,           /* bytes of a table; a larger one is refused */
    STRTAB_LOOKED_AT_MAX = 1 << 30, /* bytes of names: millions may share one of 60 KB */
    STRTAB_SPANS_BITS = 16,
    STRTAB_SPANS_MAX = 1 << STRTAB_SPANS_BITS, /* names that strtab_find tells apart at most */
};

struct strtab {
    int fd; /* borrowed */
    uint64_t offset, size;
    char *window, *stray; /* one allocation */
    uint64_t room;        /* bytes of the window */
    uint64_t at, end;     /* of the window, in the table */
    uint64_t looked_at;   /* bytes of names so far */
};

/*
 * window: about how many bytes of the table to hold at once, STRTAB_BLOCK or
 * STRTAB_WINDOW. False: not in the file, empty, too large, no memory;
 * strtab_close in any case.
 */
bool strtab_open(struct strtab *strtab, const struct sections *sections, const Elf64_Shdr *section,
                 size_t window);
void strtab_close(struct strtab *strtab);

/*
 * The name at an offset, good until the next call; the end of the table ends
 * it, too. NULL: outside, or of SYMBOL_NAME_MAX bytes and more, or the file
 * became shorter, or strtab_exhausted.
 */
const char *strtab_name(struct strtab *strtab, uint64_t at);
bool strtab_exhausted(const struct strtab *strtab);

/* Which names are looked for: those that agree with one of the patterns. */
enum name_kind { NAME_WHOLE, NAME_BEGINS, NAME_ENDS };

struct name_pattern {
    enum name_kind kind;
    const char *text;
    size_t len; /* 1 at least */
};

struct name_query {
    const struct name_pattern *patterns;
    size_t count;
    bool others; /* the others are visited as well, without their names (NULL) */
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

/* Offsets [first, last] are those of names that are looked for. */
struct strtab_span {
    uint64_t first, last;
};

struct strtab_spans {
    struct strtab_span *list; /* the caller's to free; in order */
    size_t count, room;
};

/*
 * Reads the whole table once, in blocks. False if it cannot be read or
 * has more than STRTAB_SPANS_MAX such names.
 */
bool strtab_find(const struct strtab *strtab, const struct name_query *query,
                 struct strtab_spans *out);
/* True if the name at an offset is one of them. */
bool strtab_spans_hold(const struct strtab_spans *spans, uint64_t at);
