/* Who makes the RSS of a process grow, as text or as JSON. */
#pragma once

#include "base/json.h"
#include "cli/output/language_hint.h"
#include "profile/views/display.h"
#include "run/grow/grow.h"

/* Stacks that are one row. */
struct grow_row {
    uint64_t hash;
    uint32_t sample; /* the largest of them */
    size_t stacks;   /* their number */
    int64_t bytes;
    double error; /* two standard deviations */
};

struct grow_rows {
    struct grow_row *list; /* the largest first */
    double *weights;       /* of each sample, bytes: what the rows are made of */
    size_t count;
    int64_t bytes; /* of all rows */
};

enum grow_rows_of {
    GROW_ROWS_BY_STACK, /* a row has the stacks with the same functions of the program itself */
    GROW_ROWS_BY_CALL,  /* those with the same innermost one */
};

/*
 * Makes the rows of a kind; GROW_KINDS: of all kinds but files. size: of new pages with jemalloc's
 * objects of that size, of no kind; 0: of all pages. False: out of memory. grow_rows_free in every
 * case.
 */
bool grow_rows_make(struct grow_rows *rows, const struct grow *grow, const struct samples *samples,
                    enum grow_kind kind, uint64_t size, enum grow_rows_of of);
void grow_rows_free(struct grow_rows *rows);

struct grow_view {
    const struct grow *grow;
    const struct grow_rows *rows; /* by stack, of all kinds */
    const struct samples *samples;
    const struct target *target;
    size_t depth; /* of a stack (display.h) */
    bool colors;
    bool verbose; /* a line for each call, and all that the answer rests on */
};

/* Prints what the change consists of. */
void grow_write_parts(const struct grow_view *view, FILE *out);
/*
 * Prints who has touched the pages of a kind, or with a size, first: at most limit rows. growth: of
 * these pages, which is less than was touched if some were returned.
 */
void grow_write_table(const struct grow_view *view, enum grow_kind kind, uint64_t size,
                      double growth, size_t limit, FILE *out);
/*
 * "; first touched by: 98 % map_more (x.c:9)", in percent of the pages, or of the growth if that is
 * more; 0: unknown. False: no stack is named.
 */
bool grow_write_touchers(const struct grow_view *view, enum grow_kind kind, uint64_t size,
                         double growth, FILE *out);
/* A language's own tool knows more of the objects in its heap than who touched a page first. */
bool grow_language_hint(const struct grow_view *view, struct language_hint *hint);
/* Adds the items of a list of stacks. */
void grow_touchers_json(const struct grow_view *view, enum grow_kind kind, uint64_t size,
                        struct json *json);
/* Returns the name of a kind in JSON: "mappings"; and in words: "memory of mmap". */
const char *grow_kind_name(enum grow_kind kind);
const char *grow_kind_words(enum grow_kind kind);

/* Adds the members about the growth, with all rows. */
void grow_json(const struct grow_view *view, struct json *json);
