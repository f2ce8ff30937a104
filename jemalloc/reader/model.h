/* A profile as it was read: threads, stacks, and each thread's counts for a stack. */
#pragma once

#include "base/table.h"
#include "base/util.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Numbers program counters: the stacks of a profile have few different ones, and
 * as numbers they take half of the memory and are ordered faster.
 */
struct dictionary {
    uint64_t *words; /* by number */
    size_t count, capacity;
    struct table table;
    struct dictionary_recent *recent; /* those numbered last, by a hash */
};

enum { DICTIONARY_WORD_BYTES = 64 }; /* of memory for each word, at most */

/* The counts of prof_cnt_t. Unbiased objects are shifted left by 3 (prof_data.c). */
enum {
    COUNT_OBJECTS,
    COUNT_OBJECTS_UNBIASED,
    COUNT_BYTES,
    COUNT_BYTES_UNBIASED,
    COUNT_ALL_OBJECTS, /* freed ones included: only with opt.prof_accum */
    COUNT_ALL_OBJECTS_UNBIASED,
    COUNT_ALL_BYTES,
    COUNT_ALL_BYTES_UNBIASED,
    COUNTS
};

struct counts {
    uint64_t at[COUNTS];
};

/* prof_tctx_state_t */
enum tctx_state { TCTX_INITIALIZING, TCTX_NOMINAL, TCTX_DUMPING, TCTX_PURGATORY, TCTX_STATES };

/* Without padding: two of them are compared as bytes. */
struct tctx {
    uint64_t thr_uid, thr_discrim, uid;
    remote_addr tdata;
    struct counts counts;
    uint64_t is_initializing;
};

struct gctx {
    remote_addr address;
    size_t first_word; /* in model.words, or in model.codes: its program counters */
    size_t first_tctx; /* in model.tctxs: ascending by thread, as prof.dump writes them */
    uint32_t words, tctxs;
    bool is_proven; /* all pointers close; else the other members mean nothing */
};

struct tdata {
    remote_addr address;
    uint64_t thr_uid, thr_discrim;
    uint64_t stacks; /* number of tctx in its table */
    uint64_t found;  /* number of tctx that were found to point to it */
    size_t name;     /* in model.names; "" if it has none */
    bool is_expired; /* by prof.reset: not part of the profile any more */
    struct counts sum;
};

/*
 * What is read at once has the program counters themselves; a profile, which
 * model_take_gctx makes of it, has their codes. All lists belong to the model;
 * model_free releases them.
 */
struct model {
    struct tdata *tdatas; /* ascending by thr_uid and thr_discrim */
    size_t tdata_count, tdata_capacity;
    struct gctx *gctxs;
    size_t gctx_count, gctx_capacity;
    struct tctx *tctxs;
    size_t tctx_count, tctx_capacity;
    uint64_t *words;
    size_t word_count, word_capacity;
    uint32_t *codes;
    size_t code_count, code_capacity;
    struct dictionary dictionary;
    char *names;
    size_t name_count, name_capacity;
};

void model_free(struct model *model);
/* Empties the lists, and keeps their memory. */
void model_clear(struct model *model);

/* Make space for count more. False: out of memory. */
bool model_reserve_words(struct model *model, size_t count);
bool model_reserve_gctxs(struct model *model, size_t count);
bool model_reserve_tctxs(struct model *model, size_t count);
/* Appends a text; returns its index, or SIZE_MAX if out of memory. */
size_t model_add_name(struct model *model, const char *name, size_t len);
/* Appends one gctx of those read at once to a profile. False: out of memory. */
bool model_take_gctx(struct model *model, const struct model *from, const struct gctx *gctx);
/*
 * Numbers the words in the order that memcmp(3) gives them, and changes the model's
 * codes accordingly. Must be the last that is done with the dictionary: only
 * words is valid afterwards. False: out of memory.
 */
bool model_order_words(struct model *model);

void counts_add(struct counts *sum, const struct counts *counts);
