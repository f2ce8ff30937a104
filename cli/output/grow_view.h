/* Who makes the RSS of a process grow, as text or as JSON. */
#pragma once

#include "base/json.h"
#include "cli/output/language_hint.h"
#include "profile/views/display.h"
#include "run/grow/grow.h"

struct grow_view {
    const struct grow *grow;
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
