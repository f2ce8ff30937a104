#include "jemalloc/reader/nodes.h"
#include "base/list.h"

#include <string.h>

enum {
    WORDS_FIRST = 32,    /* program counters that are read together with the gctx */
    LINKS_MAX = 1 << 19, /* tctx in one batch */
    WORDS_MAX = 1 << 21, /* program counters in one batch */
};

struct node_heads {
    struct batch_item items[NODES_MAX];
    struct {
        unsigned words; /* program counters that bytes has room for and were read */
        unsigned char bytes[READER_OBJECT_MAX + WORDS_FIRST * 8];
    } at[NODES_MAX];
};

/*
 * One tctx that some gctx or tctx points to. In a search tree its key is between
 * those of two nodes above it: so no node can be reached twice.
 */
struct node_links {
    size_t gctx; /* index in the model */
    remote_addr addr;
    size_t below, above; /* the links with the next smaller and larger keys; SIZE_MAX: none */
    unsigned char bytes[READER_TCTX_MAX];
};

bool nodes_open(struct nodes *nodes, const struct reader_layout *layout, struct batch *batch)
{
    memset(nodes, 0, sizeof *nodes);
    nodes->layout = layout;
    nodes->batch = batch;
    nodes->heads = malloc(sizeof *nodes->heads);
    return nodes->heads != NULL;
}

void nodes_close(struct nodes *nodes)
{
    free(nodes->heads);
    free(nodes->links);
    memset(nodes, 0, sizeof *nodes);
}

static uint32_t half_at(const unsigned char *bytes, size_t offset)
{
    uint32_t value;

    memcpy(&value, bytes + offset, sizeof value);
    return value;
}

/* ---- the gctx and their program counters ---- */

/* The head and some words; where these lie behind the end of the mapping, only the head. */
static void read_gctx_heads(struct nodes *nodes, const remote_addr *addrs, size_t count)
{
    struct node_heads *heads = nodes->heads;
    const size_t head = nodes->layout->gctx_vec;
    size_t again = 0;

    for (size_t i = 0; i < count; i++) {
        heads->items[i] = (struct batch_item){addrs[i], head + WORDS_FIRST * 8, heads->at[i].bytes};
        heads->at[i].words = WORDS_FIRST;
    }
    if (!batch_read(nodes->batch, heads->items, count))
        return;
    for (size_t i = 0; i < count; i++) {
        if (reader_word(heads->at[i].bytes, nodes->layout->gctx_bt))
            continue;
        heads->items[again++] = (struct batch_item){addrs[i], head, heads->at[i].bytes};
        heads->at[i].words = 0;
    }
    batch_read(nodes->batch, heads->items, again);
}

bool nodes_read_words(struct nodes *nodes, const remote_addr *addrs, size_t count,
                      struct model *model)
{
    const struct reader_layout *layout = nodes->layout;
    struct node_heads *heads = nodes->heads;
    size_t n = 0;

    read_gctx_heads(nodes, addrs, count);
    /*
     * bt.vec points to the words behind the gctx itself (prof_gctx_create). There are none
     * if the unwinder has found no frame.
     */
    for (size_t i = 0; i < count; i++) {
        const unsigned char *head = heads->at[i].bytes;
        const uint32_t words = half_at(head, layout->gctx_bt + 8u);
        struct gctx gctx = {.address = addrs[i], .first_word = model->word_count};

        gctx.is_proven = reader_word(head, layout->gctx_bt) == addrs[i] + layout->gctx_vec &&
                         words <= NODE_WORDS_MAX && words <= WORDS_MAX - model->word_count;
        gctx.words = gctx.is_proven ? words : 0;
        if (!model_reserve_words(model, gctx.words) || !model_reserve_gctxs(model, 1))
            return false;
        if (gctx.words && gctx.words <= heads->at[i].words)
            memcpy(model->words + gctx.first_word, head + layout->gctx_vec, gctx.words * 8);
        model->word_count += gctx.words;
        model->gctxs[model->gctx_count++] = gctx;
    }

    /* Those that are not with their head. No program counter is 0; what could not be read is. */
    for (size_t i = 0; i < model->gctx_count; i++) {
        const struct gctx *gctx = &model->gctxs[i];
        if (gctx->words > heads->at[i].words)
            heads->items[n++] = (struct batch_item){
                gctx->address + layout->gctx_vec, gctx->words * 8, model->words + gctx->first_word};
    }
    batch_read(nodes->batch, heads->items, n);
    for (size_t i = 0; i < model->gctx_count; i++)
        if (model->gctxs[i].words && !model->words[model->gctxs[i].first_word])
            model->gctxs[i].is_proven = false;
    return true;
}

/* ---- the trees of tctx, level by level ---- */

static bool add_link(struct nodes *nodes, size_t *count, const struct node_links *link)
{
    if (!LIST_GROW(nodes->links, nodes->link_capacity, *count))
        return false;
    nodes->links[(*count)++] = *link;
    return true;
}

/* True if a link leads to a node. */
static bool leads_on(const struct reader_layout *layout, remote_addr gctx, remote_addr link)
{
    return layout->has_nil ? link != gctx + layout->gctx_tctxs + 8u : link != 0;
}

/* As prof_tctx_comp. */
static int compare_keys(const struct reader_layout *layout, const unsigned char *a,
                        const unsigned char *b)
{
    const size_t at[] = {8, layout->has_discrim ? layout->tctx_thr_discrim : 8u, layout->tctx_uid};

    for (size_t i = 0; i < ARRAY_LEN(at); i++) {
        uint64_t x = reader_word(a, at[i]), y = reader_word(b, at[i]);
        if (x != y)
            return x < y ? -1 : 1;
    }
    return 0;
}

/* Adds the two nodes below one; takes back the proof of a gctx with too many. */
static bool follow_link(struct nodes *nodes, struct model *model, size_t at, size_t *count)
{
    const struct reader_layout *layout = nodes->layout;
    const struct node_links *links = nodes->links, link = links[at];
    struct gctx *gctx = &model->gctxs[link.gctx];
    struct node_links next[] = {link, link};

    next[0].addr = reader_word(link.bytes, layout->tctx_link);
    next[0].above = at;
    next[1].addr = reader_word(link.bytes, layout->tctx_link + 8u) & ~(remote_addr)1;
    next[1].below = at;
    if (reader_word(link.bytes, layout->tctx_gctx) != gctx->address ||
        half_at(link.bytes, layout->tctx_state) >= TCTX_STATES)
        gctx->is_proven = false;
    else if (link.below != SIZE_MAX &&
             compare_keys(layout, links[link.below].bytes, link.bytes) >= 0)
        gctx->is_proven = false;
    else if (link.above != SIZE_MAX &&
             compare_keys(layout, link.bytes, links[link.above].bytes) >= 0)
        gctx->is_proven = false;
    else if (++gctx->tctxs > NODE_TCTX_MAX || *count >= LINKS_MAX)
        gctx->is_proven = false;
    for (size_t k = 0; k < 2 && gctx->is_proven; k++)
        if (leads_on(layout, gctx->address, next[k].addr) && !add_link(nodes, count, &next[k]))
            return false;
    return true;
}

static bool read_trees(struct nodes *nodes, struct model *model, size_t *count)
{
    const struct reader_layout *layout = nodes->layout;
    size_t first = 0;

    for (size_t i = 0; i < model->gctx_count; i++) {
        const struct gctx *gctx = &model->gctxs[i];
        const struct node_links root = {
            .gctx = i,
            .addr = reader_word(nodes->heads->at[i].bytes, layout->gctx_tctxs),
            .below = SIZE_MAX,
            .above = SIZE_MAX,
        };
        if (gctx->is_proven && leads_on(layout, gctx->address, root.addr) &&
            !add_link(nodes, count, &root))
            return false;
    }

    for (unsigned depth = 0; first < *count && depth < NODE_DEPTH_MAX; depth++) {
        const size_t end = *count;
        struct batch_item *items = calloc(end - first, sizeof *items);
        if (!items)
            return false;
        for (size_t i = first; i < end; i++)
            items[i - first] =
                (struct batch_item){nodes->links[i].addr, layout->tctx_size, nodes->links[i].bytes};
        batch_read(nodes->batch, items, end - first);
        free(items);
        for (; first < end; first++)
            if (!follow_link(nodes, model, first, count))
                return false;
    }
    for (; first < *count; first++)
        model->gctxs[nodes->links[first].gctx].is_proven = false;
    return true;
}

/* ---- their contents ---- */

static struct tctx parse_tctx(const struct reader_layout *layout, const unsigned char *bytes)
{
    const size_t step = layout->has_unbiased ? 1 : 2;
    struct tctx tctx = {0};

    tctx.tdata = reader_word(bytes, 0);
    tctx.thr_uid = reader_word(bytes, 8);
    tctx.thr_discrim = layout->has_discrim ? reader_word(bytes, layout->tctx_thr_discrim) : 0;
    tctx.uid = reader_word(bytes, layout->tctx_uid);
    tctx.is_initializing = half_at(bytes, layout->tctx_state) == TCTX_INITIALIZING;
    for (size_t i = 0; i < COUNTS / step; i++)
        tctx.counts.at[i * step] = reader_word(bytes, layout->tctx_cnts + 8 * i);
    return tctx;
}

static int compare_tctxs(const void *a, const void *b)
{
    const struct tctx *x = a, *y = b;

    if (x->thr_uid != y->thr_uid)
        return x->thr_uid < y->thr_uid ? -1 : 1;
    if (x->thr_discrim != y->thr_discrim)
        return x->thr_discrim < y->thr_discrim ? -1 : 1;
    return (x->uid > y->uid) - (x->uid < y->uid);
}

static bool take_tctxs(struct nodes *nodes, struct model *model, size_t count)
{
    size_t at = model->tctx_count;

    for (size_t i = 0; i < model->gctx_count; i++) {
        struct gctx *gctx = &model->gctxs[i];
        gctx->first_tctx = at;
        at += gctx->tctxs;
        gctx->tctxs = 0;
    }
    if (!model_reserve_tctxs(model, at - model->tctx_count))
        return false;
    model->tctx_count = at;
    for (size_t i = 0; i < count; i++) {
        struct gctx *gctx = &model->gctxs[nodes->links[i].gctx];
        if (gctx->is_proven)
            model->tctxs[gctx->first_tctx + gctx->tctxs++] =
                parse_tctx(nodes->layout, nodes->links[i].bytes);
    }
    for (size_t i = 0; i < model->gctx_count; i++)
        if (model->gctxs[i].is_proven && model->gctxs[i].tctxs > 1)
            qsort(model->tctxs + model->gctxs[i].first_tctx, model->gctxs[i].tctxs,
                  sizeof *model->tctxs, compare_tctxs);
    return true;
}

bool nodes_read(struct nodes *nodes, const remote_addr *addrs, size_t count, struct model *model)
{
    size_t links = 0;

    if (!nodes_read_words(nodes, addrs, count, model))
        return false;
    return read_trees(nodes, model, &links) && take_tctxs(nodes, model, links);
}
