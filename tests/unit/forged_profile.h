/*
 * A heap profile as jemalloc has it in memory, made by hand: the table of stacks, the tree of
 * threads, the counts between them. Offsets are those that gcc gives the structures of jemalloc's
 * headers (prof.h, prof_structs.h, ckh.h, rb.h); the program's own table of layouts is not used.
 */
#pragma once

#include "base/util.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct forged_layout {
    const char *version;
    bool nil;         /* a leaf is a node in the root object, not NULL */
    bool discrim;     /* tctx.thr_discrim */
    bool unbiased;    /* cnts of 8 words */
    bool inline_name; /* tdata.thread_name[16] */
    unsigned gctx_tctxs, gctx_bt;
    unsigned tctx_cnts, tctx_gctx, tctx_uid, tctx_link, tctx_state, tctx_size;
    unsigned tdata_name, tdata_expired, tdata_link, tdata_table, tdata_size;
};

/* Each layout, with a version that has it. */
static const struct forged_layout forged_layouts[] = {
    {"4.0.0-0-g0", true, false, false, false, 16, 192, 16, 48, 56, 64, 84, 120, 24, 33, 40, 64,
     1192},
    {"4.0.4-0-g0", true, true, false, false, 16, 200, 24, 56, 64, 72, 92, 128, 24, 33, 40, 64,
     1192},
    {"5.0.1-0-g0", false, true, false, false, 16, 72, 24, 56, 64, 72, 92, 128, 24, 33, 40, 64,
     1192},
    {"5.2.1-0-g0", false, true, false, false, 16, 72, 24, 56, 64, 72, 92, 128, 24, 33, 40, 64,
     1184},
    {"5.2.1-160-g0", false, true, false, false, 16, 72, 32, 64, 72, 80, 100, 136, 24, 33, 40, 64,
     1176},
    {"5.3.0-0-g0", false, true, true, false, 16, 104, 32, 96, 104, 112, 132, 200, 24, 33, 40, 64,
     1208},
    {"5.3.0-57-g0", false, true, true, true, 16, 104, 32, 96, 104, 112, 132, 200, 104, 25, 32, 56,
     200},
    {"5.3.1-0-g0", false, true, true, true, 16, 104, 32, 96, 104, 112, 132, 200, 96, 118, 24, 48,
     192},
};

enum { FORGED_MAX = 64, FORGED_TABLE = 48, FORGED_CELLS = 4 };

/* prof_tctx_state_t */
enum { FORGED_INITIALIZING, FORGED_NOMINAL, FORGED_DUMPING, FORGED_PURGATORY };

/* The counts of one thread for one stack. */
struct forged_count {
    size_t stack, thread;
    uint64_t objects, bytes;
    uint64_t objects_unbiased, bytes_unbiased; /* objects shifted left by 3 */
    uint64_t all_objects, all_bytes, all_objects_unbiased, all_bytes_unbiased;
    uint64_t uid;
    uint32_t state;
    remote_addr at;
};

struct forged {
    const struct forged_layout *layout;
    unsigned char *bytes; /* the memory */
    remote_addr base;     /* its address in the process */
    size_t size, used;
    remote_addr hash, compare;                   /* functions of the tables */
    remote_addr table, tree;                     /* the two variables, in the memory */
    remote_addr opt_prof, lg_sample, opt_unbias; /* more of them: true, 19, true */
    struct {
        remote_addr at;
        uint64_t uid, discrim;
    } threads[FORGED_MAX];
    struct {
        remote_addr at;
    } stacks[FORGED_MAX];
    struct forged_count counts[FORGED_MAX];
    size_t thread_count, stack_count, count_count;
};

/* Returns the bytes at an address of the process. */
static inline unsigned char *forged_at(const struct forged *forged, remote_addr at)
{
    return forged->bytes + (at - forged->base);
}

static inline void forged_put(struct forged *forged, remote_addr at, uint64_t value)
{
    memcpy(forged_at(forged, at), &value, sizeof value);
}

static inline void forged_put32(struct forged *forged, remote_addr at, uint32_t value)
{
    memcpy(forged_at(forged, at), &value, sizeof value);
}

static inline uint64_t forged_get(const struct forged *forged, remote_addr at)
{
    uint64_t value;

    memcpy(&value, forged_at(forged, at), sizeof value);
    return value;
}

/* Takes len bytes of the memory, aligned to a cache line; 0: there are not so many left. */
static inline remote_addr forged_take(struct forged *forged, size_t len)
{
    const remote_addr at = forged->base + forged->used;

    if (len > forged->size - forged->used)
        return 0;
    forged->used = (forged->used + len + 63) & ~(size_t)63;
    return at;
}

/* Starts a profile in size zeroed bytes, whose first ones become the two variables. */
static inline void forged_begin(struct forged *forged, const struct forged_layout *layout,
                                void *bytes, size_t size, remote_addr base, remote_addr code)
{
    memset(forged, 0, sizeof *forged);
    memset(bytes, 0, size);
    forged->layout = layout;
    forged->bytes = bytes;
    forged->size = size;
    forged->base = base;
    forged->hash = code;
    forged->compare = code + 16;
    forged->table = forged_take(forged, FORGED_TABLE);
    forged->tree = forged_take(forged, 8 + layout->tdata_size);
    forged->opt_prof = forged_take(forged, 8);
    forged->opt_unbias = forged_take(forged, 8);
    forged->lg_sample = forged_take(forged, 8);
    *forged_at(forged, forged->opt_prof) = *forged_at(forged, forged->opt_unbias) = 1;
    forged_put(forged, forged->lg_sample, 19);
}

/* Adds a thread, in ascending order. name NULL: it has none. */
static inline size_t forged_thread(struct forged *forged, uint64_t uid, uint64_t discrim,
                                   const char *name, bool expired)
{
    const struct forged_layout *layout = forged->layout;
    const remote_addr at = forged_take(forged, layout->tdata_size);
    const size_t nth = forged->thread_count++;

    forged_put(forged, at, forged->base); /* the lock */
    forged_put(forged, at + 8, uid);
    forged_put(forged, at + 16, discrim);
    forged_at(forged, at + layout->tdata_expired)[0] = expired;
    if (name && layout->inline_name) {
        strncpy((char *)forged_at(forged, at + layout->tdata_name), name, 15);
    } else if (name) {
        const remote_addr text = forged_take(forged, strlen(name) + 1);
        memcpy(forged_at(forged, text), name, strlen(name) + 1);
        forged_put(forged, at + layout->tdata_name, text);
    }
    forged->threads[nth].at = at;
    forged->threads[nth].uid = uid;
    forged->threads[nth].discrim = discrim;
    return nth;
}

/* Adds a stack. */
static inline size_t forged_stack(struct forged *forged, const uint64_t *words, uint32_t count)
{
    const unsigned bt = forged->layout->gctx_bt;
    const remote_addr at = forged_take(forged, bt + 16 + 8 * (size_t)count);

    forged_put(forged, at, forged->base); /* the lock */
    forged_put(forged, at + bt, at + bt + 16);
    forged_put32(forged, at + bt + 8, count);
    memcpy(forged_at(forged, at + bt + 16), words, 8 * (size_t)count);
    forged->stacks[forged->stack_count].at = at;
    return forged->stack_count++;
}

static inline void forged_put_counts(struct forged *forged, remote_addr at,
                                     const struct forged_count *count)
{
    const uint64_t wide[] = {count->objects,     count->objects_unbiased,
                             count->bytes,       count->bytes_unbiased,
                             count->all_objects, count->all_objects_unbiased,
                             count->all_bytes,   count->all_bytes_unbiased};
    const size_t step = forged->layout->unbiased ? 1 : 2;

    for (size_t i = 0; i < 8 / step; i++)
        forged_put(forged, at + 8 * i, wide[i * step]);
}

/* Adds counts, of one stack in ascending order of threads. */
static inline remote_addr forged_count(struct forged *forged, const struct forged_count *count)
{
    const struct forged_layout *layout = forged->layout;
    const remote_addr at = forged_take(forged, layout->tctx_size);

    forged_put(forged, at, forged->threads[count->thread].at);
    forged_put(forged, at + 8, forged->threads[count->thread].uid);
    if (layout->discrim)
        forged_put(forged, at + 16, forged->threads[count->thread].discrim);
    forged_put_counts(forged, at + layout->tctx_cnts, count);
    forged_put(forged, at + layout->tctx_gctx, forged->stacks[count->stack].at);
    forged_put(forged, at + layout->tctx_uid, count->uid);
    forged_put32(forged, at + layout->tctx_state, count->state);
    forged->counts[forged->count_count] = *count;
    forged->counts[forged->count_count++].at = at;
    return at;
}

/* Links nodes[0..count) as a balanced tree, red on each second level; returns its root. */
static inline remote_addr forged_link(struct forged *forged, const remote_addr *nodes, size_t count,
                                      unsigned link, remote_addr leaf, bool red)
{
    const size_t half = count / 2;

    if (!count)
        return leaf;
    forged_put(forged, nodes[half] + link, forged_link(forged, nodes, half, link, leaf, !red));
    forged_put(forged, nodes[half] + link + 8,
               forged_link(forged, nodes + half + 1, count - half - 1, link, leaf, !red) | red);
    return nodes[half];
}

static inline void forged_tree(struct forged *forged, remote_addr root, const remote_addr *nodes,
                               size_t count, unsigned link)
{
    const remote_addr nil = root + 8;

    if (forged->layout->nil) {
        forged_put(forged, nil + link, nil);
        forged_put(forged, nil + link + 8, nil);
    }
    forged_put(forged, root,
               forged_link(forged, nodes, count, link, forged->layout->nil ? nil : 0, false));
}

/* Writes a table of pairs; its cells are partly empty. */
static inline void forged_table(struct forged *forged, remote_addr at, const remote_addr *keys,
                                const remote_addr *data, size_t count)
{
    uint32_t lg = 1;

    while (((size_t)FORGED_CELLS << lg) < 2 * count)
        lg++;
    const size_t room = (size_t)FORGED_CELLS << lg;
    const remote_addr cells = forged_take(forged, 16 * room);
    forged_put(forged, at, 42);
    forged_put(forged, at + 8, count);
    forged_put32(forged, at + 16, 1);
    forged_put32(forged, at + 20, lg);
    forged_put(forged, at + 24, forged->hash);
    forged_put(forged, at + 32, forged->compare);
    forged_put(forged, at + 40, cells);
    for (size_t i = 0, slot = 0; i < count; i++, slot = (slot + 1) % room) {
        while (forged_get(forged, cells + 16 * slot)) /* each slot is taken once */
            slot = (slot + 1) % room;
        forged_put(forged, cells + 16 * slot, keys[i]);
        forged_put(forged, cells + 16 * slot + 8, data[i]);
        slot = (slot + 3) % room;
    }
}

/* The counts of one stack, or of one thread, and the keys under which tables have them. */
static inline size_t forged_select(const struct forged *forged, size_t stack, size_t thread,
                                   remote_addr *keys, remote_addr *nodes)
{
    size_t n = 0;

    for (size_t i = 0; i < forged->count_count; i++) {
        const struct forged_count *count = &forged->counts[i];
        if ((stack != SIZE_MAX && count->stack != stack) ||
            (thread != SIZE_MAX && count->thread != thread))
            continue;
        keys[n] = forged->stacks[count->stack].at + forged->layout->gctx_bt;
        nodes[n++] = count->at;
    }
    return n;
}

/* Makes the trees and the tables. Returns false if the memory was too small. */
static inline bool forged_end(struct forged *forged)
{
    const struct forged_layout *layout = forged->layout;
    remote_addr keys[FORGED_MAX], nodes[FORGED_MAX];

    for (size_t i = 0; i < forged->stack_count; i++) {
        size_t n = forged_select(forged, i, SIZE_MAX, keys, nodes);
        forged_tree(forged, forged->stacks[i].at + layout->gctx_tctxs, nodes, n, layout->tctx_link);
    }
    for (size_t i = 0; i < forged->thread_count; i++) {
        size_t n = forged_select(forged, SIZE_MAX, i, keys, nodes);
        forged_table(forged, forged->threads[i].at + layout->tdata_table, keys, nodes, n);
    }
    for (size_t i = 0; i < forged->thread_count; i++)
        nodes[i] = forged->threads[i].at;
    forged_tree(forged, forged->tree, nodes, forged->thread_count, layout->tdata_link);
    for (size_t i = 0; i < forged->stack_count; i++) {
        nodes[i] = forged->stacks[i].at;
        keys[i] = nodes[i] + layout->gctx_bt;
    }
    forged_table(forged, forged->table, keys, nodes, forged->stack_count);
    return forged->used < forged->size;
}
