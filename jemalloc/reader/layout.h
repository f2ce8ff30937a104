/*
 * Where the fields of jemalloc's profile lie, by release. Its three structures
 * (prof.h, prof_structs.h), as pointers of 8 bytes give them:
 *
 *   gctx   one stack: its program counters, and a tree of tctx
 *   tctx   what one thread has sampled with that stack: its counts
 *   tdata  one thread: its name, and a table of its tctx
 *
 * All gctx are in the hash table bt2gctx (ckh.h), all tdata in the tree tdatas.
 */
#pragma once

#include "jemalloc/instance.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { READER_OBJECT_MAX = 224, READER_TCTX_MAX = 136, READER_TDATA_MAX = 128 };
enum { READER_NAME_INLINE = 16 };

/* A tree (rb.h) has left and right links; bit 0 of the right one is the colour. */
struct reader_layout {
    unsigned first, commits; /* the first with it: VERSION_NUMBER of a release, commits after it */
    bool has_nil;            /* no link is NULL: it leads to a node within the root object */
    bool has_discrim;        /* thr_discrim in tctx */
    bool has_unbiased;       /* 8 counts: each is followed by its unbiased form; else 4 */
    bool has_inline_name;    /* tdata.name is the text; else a pointer to it */
    uint16_t gctx_tctxs;     /* root of the tree of tctx */
    uint16_t gctx_bt;        /* pointer to the program counters; then their number */
    uint16_t gctx_vec;       /* the program counters */
    uint16_t tctx_thr_discrim;
    uint16_t tctx_cnts, tctx_gctx, tctx_uid, tctx_link, tctx_state, tctx_size;
    uint16_t tdata_name, tdata_expired, tdata_link, tdata_table, tdata_size;
};

/* All layouts, the newest first. Releases and the commits between them, up to May 2026. */
extern const struct reader_layout reader_layouts[];
extern const size_t reader_layout_count;

/* Returns the layout of a version; NULL: none is known. */
const struct reader_layout *reader_layout_of(struct version version);

/* Returns sizeof(prof_tctx_t): behind the state, counts again (dump_cnts). */
static inline size_t reader_tctx_bytes(const struct reader_layout *layout)
{
    return layout->tctx_size + 8u * (layout->has_unbiased ? 8 : 4);
}

/* A hash table, struct ckh_t (ckh.h): the same in all releases. */
struct reader_table {
    uint64_t prng_state, count;
    uint32_t lg_min, lg_now; /* logarithm of its number of buckets */
    uint64_t hash, compare;  /* functions */
    uint64_t cells;
};

enum { READER_BUCKET_CELLS = 4, READER_LG_BUCKETS_MAX = 20 };

/* A cell of it. */
struct reader_cell {
    uint64_t key, data; /* key: 0 if the cell is empty */
};

/* Returns the word at an offset in the bytes of an object. */
static inline uint64_t reader_word(const unsigned char *bytes, size_t offset)
{
    uint64_t value;

    memcpy(&value, bytes + offset, sizeof value);
    return value;
}
