/* Reads gctx and the tctx below them, and proves them by their pointers. */
#pragma once

#include "jemalloc/reader/batch.h"
#include "jemalloc/reader/layout.h"
#include "jemalloc/reader/model.h"

enum {
    NODES_MAX = 1024,       /* gctx in one batch */
    NODE_DEPTH_MAX = 64,    /* levels of a tree; a balanced one of 2^31 nodes has at most 62 */
    NODE_TCTX_MAX = 65536,  /* tctx below one gctx; all of a batch: LINKS_MAX */
    NODE_WORDS_MAX = 65536, /* program counters of one stack */
};

struct nodes {
    const struct reader_layout *layout;
    struct batch *batch;
    struct node_heads *heads; /* the bytes read of a batch */
    struct node_links *links; /* the tctx to be read next, and the bytes of those read */
    size_t link_capacity;
};

/* False: out of memory. */
bool nodes_open(struct nodes *nodes, const struct reader_layout *layout, struct batch *batch);
void nodes_close(struct nodes *nodes);

/*
 * Reads count gctx, at most NODES_MAX, into an empty model: model.gctxs[i] is the
 * one at addrs[i]. It is proven if its bt points to the words behind it and all
 * its tctx point back to it. False: out of memory.
 */
bool nodes_read(struct nodes *nodes, const remote_addr *addrs, size_t count, struct model *model);

/* Does the same without the tctx: it is proven if its bt points to the words behind it. */
bool nodes_read_words(struct nodes *nodes, const remote_addr *addrs, size_t count,
                      struct model *model);
