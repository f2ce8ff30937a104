/*
 * jemalloc's records of its extents, and the way to them from the pages of its memory.
 *
 * The record: extent_t up to 5.2.1, edata_t since, of 128 bytes: the bit fields
 * (e_bits), the address, the size; at 64 the bitmap of a slab, where a set bit is a free
 * object, or what is known of a sampled object. Only the bit fields differ between releases.
 *
 * The radix tree from page to extent (rtree.h): an array of pointers in jemalloc's static
 * data, below it, where addresses have more than 48 bits, arrays of pointers again, and leaves
 * with an entry for each page. Built for 48 bits of address, an entry is one word; for 57,
 * which configure takes from the CPU of the build, two. No code reads beyond what a mapping
 * of the process asks for, so that forged arrays cost no time.
 */
#pragma once

#include "jemalloc/extents/classes.h"
#include "jemalloc/extents/extents.h"
#include "jemalloc/instance.h"

/* ---- the record ---- */

enum { RECORD_BYTES = 128 };

struct record_layout {
    unsigned first, commits; /* the first with it: VERSION_NUMBER of a release, commits after it */
    unsigned state_shift, state_bits, class_shift;
    unsigned leaf_state_shift; /* in the tree; 0: it has none there */
    bool by_pages;             /* a large object is as large as its pages, not as its class */
};

/* All layouts, the newest first. */
extern const struct record_layout record_layouts[];
extern const size_t record_layout_count;

/* Returns the layout of that version; NULL: unknown. */
const struct record_layout *record_layout_of(struct version version);

/* What the tree says of a page; record 0: nothing. */
struct leaf {
    remote_addr record;
    unsigned class, state;
    bool slab;
};

struct record_rules {
    const struct record_layout *layout;
    const struct classes *classes;
    uint64_t padding; /* bytes at the end of a large extent: a page, or 0 */
};

/* True if the page belongs to an extent in use. */
bool leaf_in_use(const struct leaf *leaf, const struct record_rules *rules);

enum record_verdict {
    RECORD_FALSE, /* it contradicts the tree or itself: it changed meanwhile, or it is none */
    RECORD_FREE,  /* the extent is free: up to 5.2.1 the tree keeps what it was used for */
    RECORD_INNER, /* the page is not the first one of its extent */
    RECORD_TRUE,
};

/* Takes arena, state, start and bytes only, which a free extent has, too. False: it is none. */
bool record_take_range(struct extent *extent, const struct record_rules *rules, remote_addr page,
                       const unsigned char bytes[RECORD_BYTES]);

/* Takes the record that the tree has for a page. */
enum record_verdict record_take(struct extent *extent, const struct record_rules *rules,
                                const struct leaf *leaf, remote_addr page,
                                const unsigned char bytes[RECORD_BYTES]);

/* ---- sampled objects ---- */

/*
 * What the record says of a sampled object: when it was allocated, the size that was
 * asked for, and its prof_tctx_t (e_prof_info in edata.h; e_prof_tctx in extent_structs.h up to
 * 5.2.1). They are in the place of a slab's bitmap.
 */
struct sampled_layout {
    unsigned first, commits; /* the first with it: VERSION_NUMBER of a release, commits after it */
    int8_t birth, asked, tctx; /* index in extent.words; -1: there is none */
};

/* Returns the layout of that version; NULL: unknown. */
const struct sampled_layout *sampled_layout_of(struct version version);

struct sampled {
    remote_addr tctx;
    uint64_t birth;   /* ns, of the clock that jemalloc uses; 0: unknown */
    bool is_stale;    /* surely freed, and kept by a thread for its next allocation */
    bool is_doubtful; /* may be freed, and kept by a thread: only its tctx can tell */
};

/*
 * Takes the sampled object of an extent; false if it is not sampled. A thread's cache keeps
 * sampled objects that were freed as they are (arena_dalloc_promoted), small ones as objects of
 * the smallest large class.
 */
bool sampled_take(struct sampled *sampled, const struct sampled_layout *layout,
                  const struct classes *classes, const struct extent *extent);

/* ---- the tree ---- */

struct tree_shape {
    unsigned levels, bits; /* of the address, at each level */
    unsigned entry;        /* bytes of an entry of a leaf */
};

struct tree {
    const struct tree_shape *shape;
    remote_addr root;
};

enum { TREE_SHAPES = 2, TREE_ENTRY_MAX = 16 };
extern const struct tree_shape tree_shapes[TREE_SHAPES];

/* Returns the index of an address in the nodes of a level; those of the root are level 0. */
uint64_t tree_index(const struct tree_shape *shape, remote_addr addr, unsigned level);

/*
 * Returns the address of the entry for the page of addr; 0: there is none. Sets *end to where
 * the leaf's memory, or the memory that has no leaf, ends.
 */
remote_addr tree_entry(const struct tree *tree, const struct heap_pages *heap, remote_addr addr,
                       remote_addr *end);

/* Takes an entry's bytes. */
void tree_take_leaf(struct leaf *leaf, const struct tree_shape *shape,
                    const struct record_layout *layout, const unsigned char *bytes);

/* A walk over the entries of the tree, of memory that the process has mapped. */
struct walk {
    const struct heap_pages *heap;
    const struct tree *tree;
    const struct record_rules *rules;
    bool unused; /* visits extents that are not in use, too: pages that are inaccessible, too */
    /* Called for the first entry seen of each extent in use; false: end. NULL: only count. */
    bool (*visit)(void *ctx, remote_addr page, const struct leaf *leaf);
    void *ctx;
    uint64_t seed, below; /* take the pages of the tree whose hash is less; UINT64_MAX: all */
    size_t pages;         /* out: pages of the tree that have contents */
    size_t read;          /* out: of these, taken */
    remote_addr last;     /* record of the entry before; 0: none */
};

/* False: ended by a visit, or late. */
bool walk_range(struct walk *walk, remote_addr start, remote_addr end);
/* All memory of the process that may be of the heap. */
bool walk_heap(struct walk *walk);
