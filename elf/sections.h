/*
 * The sections of an ELF file: their headers, which linkers and strip keep in addition to the
 * segments, and the names that a linker keeps and strip removes (.symtab, .strtab).
 *
 * Read with pread(2) in blocks, never mapped: if a file is truncated while it is read, a mapping
 * would kill the tool with SIGBUS. A file of gigabytes needs no more memory than a small one.
 * Everything is untrusted: a table may be anywhere and name anything.
 */
#pragma once

#include "elf/image.h"

enum { SECTIONS_MAX = 1 << 20, SECTION_NAMES_READ = 1 << 10 };

struct sections {
    int fd; /* borrowed */
    uint64_t file_size;
    uint64_t offset,
        count;        /* of the table: its position; the number of headers that are in the file */
    Elf64_Shdr names; /* .shstrtab; sh_size 0: none */
    char first_names[SECTION_NAMES_READ]; /* the start of .shstrtab: in most files all of it */
};

/*
 * False if fd is not a 64-bit little-endian ELF file or has no section headers.
 * Counts and indices of more than 16 bits are in section 0 (ELF, "extended
 * numbering").
 */
bool sections_open(struct sections *sections, int fd);

/* True if the section is within the file at its present size. SHT_NOBITS is never in the file. */
bool section_in_file(const struct sections *sections, const Elf64_Shdr *section);

/* Reads the section at an index; false if there is none. */
bool section_at(const struct sections *sections, uint64_t index, Elf64_Shdr *out);

/* Find the first section of a type, and of a name; false if there is none. */
bool section_of_type(const struct sections *sections, uint32_t type, Elf64_Shdr *out);
bool section_named(const struct sections *sections, const char *name, Elf64_Shdr *out);

/*
 * ---- string tables ----
 *
 * Reads the names of a string table (.strtab) of any size in constant memory:
 * with a window that only moves forward, because linkers write the names in the
 * order of the symbols, and a small buffer for names elsewhere (shared tails).
 */

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

/* ---- symbol tables ---- */

enum { SYMTAB_SYMBOLS_MAX = 32 << 20 }; /* a larger table is refused */

/*
 * Visits the defined function symbols whose names match the query (NULL: all),
 * until visit returns false. bias is added to each st_value. With a query,
 * searches .strtab first and reads .symtab only if a name is found, because
 * reading the names of a million symbols one by one would be random access.
 * False if the file has no .symtab, or one that could not be read to its end.
 */
bool symtab_visit(int fd, uint64_t bias, const struct name_query *names, symbol_visitor visit,
                  void *ctx);

/* Does the same for the defined functions and data; symbol->type is the type. */
bool symtab_visit_all(int fd, uint64_t bias, const struct name_query *names, symbol_visitor visit,
                      void *ctx);

/* Visits the defined functions and data of .dynsym, which strip keeps. */
bool symtab_visit_dynamic(int fd, uint64_t bias, symbol_visitor visit, void *ctx);
