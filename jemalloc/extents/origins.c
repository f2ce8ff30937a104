#include "jemalloc/extents/origins.h"
#include "base/list.h"

#include <string.h>

bool origins_open(struct origins *origins, const struct reader_layout *layout,
                  const struct heap_pages *heap, struct batch *batch)
{
    memset(origins, 0, sizeof *origins);
    origins->layout = layout;
    origins->heap = heap;
    origins->batch = batch;
    table_init(&origins->by_words);
    return nodes_open(&origins->nodes, layout, batch);
}

void origins_close(struct origins *origins)
{
    if (origins->layout)
        nodes_close(&origins->nodes);
    model_free(&origins->model);
    table_free(&origins->by_words);
    free(origins->stacks.list);
    free(origins->stacks.words);
    memset(origins, 0, sizeof *origins);
}

/* A read of a page without contents would give the process a page table entry. */
static bool page_has_contents(struct origins *origins, remote_addr addr)
{
    const remote_addr page = addr - addr % MEMORY_PAGE;

    if (page != origins->page.addr) {
        pages_contents(origins->heap, page, &origins->page.has, 1);
        origins->page.addr = page;
    }
    return origins->page.has;
}

static bool may_be_read(struct origins *origins, remote_addr addr, size_t len)
{
    return addr % 8 == 0 && pages_is_heap(origins->heap, addr, len) &&
           page_has_contents(origins, addr) && page_has_contents(origins, addr + len - 1);
}

/* ---- the tctx ---- */

static void take_origin(struct origins *origins, struct origin *origin, const unsigned char *bytes)
{
    const struct reader_layout *layout = origins->layout;
    uint32_t state;

    memcpy(&state, bytes + layout->tctx_state, sizeof state);
    origin->tdata = reader_word(bytes, 0);
    origin->gctx = reader_word(bytes, layout->tctx_gctx);
    origin->objects = reader_word(bytes, layout->tctx_cnts);
    origin->state = ORIGIN_FALSE;
    if (state < TCTX_STATES && pages_is_heap(origins->heap, origin->tdata, layout->tdata_size) &&
        may_be_read(origins, origin->gctx, layout->gctx_vec))
        origin->state = ORIGIN_PROVEN; /* if its gctx is one */
}

static void read_tctxs(struct origins *origins, struct origin *list, size_t count)
{
    static const unsigned char none[READER_TCTX_MAX];
    unsigned char bytes[256][READER_TCTX_MAX];
    struct batch_item items[256];

    for (size_t at = 0, n; at < count && !pages_is_late(origins->heap); at += n) {
        size_t wanted = 0;
        n = count - at < ARRAY_LEN(items) ? count - at : ARRAY_LEN(items);
        memset(bytes, 0, sizeof bytes);
        for (size_t i = 0; i < n; i++) {
            struct origin *origin = &list[at + i];
            if (may_be_read(origins, origin->tctx, origins->layout->tctx_size))
                items[wanted++] =
                    (struct batch_item){origin->tctx, origins->layout->tctx_size, bytes[i]};
            else
                origin->state = ORIGIN_FALSE;
        }
        batch_read(origins->batch, items, wanted);
        for (size_t i = 0; i < n; i++)
            if (memcmp(bytes[i], none, sizeof none) != 0)
                take_origin(origins, &list[at + i], bytes[i]);
    }
}

/* ---- the stacks ---- */

struct words {
    const uint64_t *list;
    uint32_t count;
};

static bool same_words(const void *ctx, uint32_t index, const void *key)
{
    const struct live_stacks *stacks = ctx;
    const struct words *words = key;
    const struct live_stack *stack = &stacks->list[index];

    return stack->depth == words->count &&
           (!words->count || memcmp(stacks->words + stack->first, words->list,
                                    words->count * sizeof(uint64_t)) == 0);
}

static bool keep_stack(struct live_stacks *stacks, const struct words *words)
{
    if (!LIST_GROW(stacks->list, stacks->capacity, stacks->count))
        return false;
    while (words->count > stacks->word_capacity - stacks->word_count)
        if (!LIST_GROW(stacks->words, stacks->word_capacity, stacks->word_capacity))
            return false;
    stacks->list[stacks->count++] = (struct live_stack){stacks->word_count, words->count};
    if (words->count)
        memcpy(stacks->words + stacks->word_count, words->list, words->count * sizeof(uint64_t));
    stacks->word_count += words->count;
    return true;
}

/* Sets *stack to the number of these words, or to TABLE_NONE if there are too many stacks. */
static bool number_stack(struct origins *origins, const struct words *words, uint32_t *stack)
{
    struct live_stacks *stacks = &origins->stacks;
    const uint64_t hash =
        table_hash_bytes(&origins->by_words, words->list, words->count * sizeof(uint64_t));
    const uint32_t fresh = (uint32_t)stacks->count;

    *stack = table_find(&origins->by_words, hash, same_words, stacks, words);
    if (*stack != TABLE_NONE || fresh >= ORIGIN_STACKS_MAX ||
        words->count > ORIGIN_WORDS_MAX - stacks->word_count)
        return true;
    *stack = fresh;
    return keep_stack(stacks, words) &&
           table_put(&origins->by_words, hash, same_words, stacks, words, fresh) == fresh;
}

static int compare_gctxs(const void *a, const void *b)
{
    const struct origin *x = *(struct origin *const *)a, *y = *(struct origin *const *)b;

    return (x->gctx > y->gctx) - (x->gctx < y->gctx);
}

/* Takes what was read of the gctx of the first of some origins for all of them that have it. */
static bool take_gctx(struct origins *origins, struct origin **order, size_t count,
                      const struct gctx *gctx)
{
    static const uint64_t none;
    const struct words words = {gctx->words ? origins->model.words + gctx->first_word : &none,
                                gctx->words};
    uint32_t stack = TABLE_NONE;

    if (gctx->is_proven && !number_stack(origins, &words, &stack))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!gctx->is_proven)
            order[i]->state = ORIGIN_FALSE;
        order[i]->stack = stack;
        order[i]->depth = gctx->words;
        order[i]->is_first &= i == 0;
    }
    return true;
}

/* Reads the next gctx, of at most a batch; sets *taken to the number of their origins. */
static bool read_gctxs(struct origins *origins, struct origin **order, size_t count, size_t *taken)
{
    remote_addr addrs[NODES_MAX];
    size_t first[NODES_MAX + 1], n = 0;

    for (*taken = 0; *taken < count && n < NODES_MAX; n++) {
        addrs[n] = order[*taken]->gctx;
        for (first[n] = *taken; *taken < count && order[*taken]->gctx == addrs[n];)
            ++*taken;
    }
    first[n] = *taken;
    model_clear(&origins->model);
    if (!nodes_read_words(&origins->nodes, addrs, n, &origins->model))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!take_gctx(origins, order + first[i], first[i + 1] - first[i],
                       &origins->model.gctxs[i]))
            return false;
    return true;
}

bool origins_read(struct origins *origins, struct origin *list, size_t count)
{
    AUTO_FREE struct origin **order = reallocarray(NULL, count + 1, sizeof(struct origin *));
    size_t n = 0;

    if (!order)
        return false;
    origins->page.addr = 1; /* none */
    read_tctxs(origins, list, count);
    /* Those that may be proven, in the order of their gctx. */
    for (size_t i = 0; i < count; i++) {
        list[i].stack = TABLE_NONE;
        list[i].is_first = true;
        if (list[i].state == ORIGIN_PROVEN)
            order[n++] = &list[i];
    }
    qsort(order, n, sizeof *order, compare_gctxs);
    for (size_t at = 0, taken; at < n && !pages_is_late(origins->heap); at += taken)
        if (!read_gctxs(origins, order + at, n - at, &taken))
            return false;
    return true;
}
