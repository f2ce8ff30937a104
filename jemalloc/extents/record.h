/*
 * One extent's record: extent_t up to 5.2.1, edata_t since, of 128 bytes: the bit fields
 * (e_bits), the address, the size; at 64 the bitmap of a slab, where a set bit is a free
 * object. Only the bit fields differ between releases.
 */
#pragma once

#include "jemalloc/extents/classes.h"
#include "jemalloc/extents/extents.h"
#include "jemalloc/instance.h"

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
