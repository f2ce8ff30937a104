/*
 * The stacks that allocated sampled objects: from prof_tctx_t to prof_gctx_t to its program
 * counters (reader/layout.h). All of it may be freed, or be another object, while it is read:
 * nothing counts that does not close.
 */
#pragma once

#include "base/table.h"
#include "jemalloc/extents/heap_pages.h"
#include "jemalloc/extents/live.h"
#include "jemalloc/reader/nodes.h"

enum origin_state {
    ORIGIN_UNREAD, /* memory could not be read */
    ORIGIN_FALSE,  /* it is none: its last object was freed */
    ORIGIN_PROVEN,
};

/* One tctx. */
struct origin {
    remote_addr tctx, tdata, gctx;
    uint64_t objects; /* of it that are not freed, by its own count */
    enum origin_state state;
    uint32_t stack; /* index in stacks; TABLE_NONE: unknown */
    uint32_t depth; /* of its gctx */
    bool is_first;  /* of those with its gctx */
};

struct origins {
    const struct reader_layout *layout;
    const struct heap_pages *heap;
    struct batch *batch;
    struct nodes nodes;
    struct model model; /* of one batch */
    struct live_stacks stacks;
    struct table by_words;
    struct origins_page {
        remote_addr addr;
        bool has;
    } page; /* the last one whose contents were asked for */
};

/* The limits of what a hostile process can make the tool keep. */
enum { ORIGIN_STACKS_MAX = 1 << 17, ORIGIN_WORDS_MAX = 1 << 22 };

/* False: out of memory. heap and batch must outlive it. origins_close releases both ends. */
bool origins_open(struct origins *origins, const struct reader_layout *layout,
                  const struct heap_pages *heap, struct batch *batch);
void origins_close(struct origins *origins);

/*
 * Reads count of them, of which tctx is set, ascending and each once; stops when late
 * (pages_is_late), and the rest is ORIGIN_UNREAD. False: out of memory.
 */
bool origins_read(struct origins *origins, struct origin *list, size_t count);
