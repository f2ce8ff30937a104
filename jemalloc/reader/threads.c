#include "jemalloc/reader/threads.h"
#include "base/list.h"
#include "base/search.h"

#include <ctype.h>
#include <string.h>

enum { THREAD_DEPTH_MAX = 64 };

/* A tdata, as read; the tree of all of them, level by level. */
struct thread_node {
    remote_addr addr;
    size_t below, above; /* the nodes with the next smaller and larger keys; SIZE_MAX: none */
    unsigned char bytes[READER_TDATA_MAX];
};

struct thread_tree {
    const struct reader_layout *layout;
    const struct reader_table *table;
    struct batch *batch;
    remote_addr root; /* the variable */
    struct thread_node *list;
    size_t count, capacity;
};

bool threads_is_tdata(const struct reader_layout *layout, const unsigned char *bytes,
                      const struct reader_table *table)
{
    struct reader_table own;

    memcpy(&own, bytes + layout->tdata_table, sizeof own);
    return own.hash == table->hash && own.compare == table->compare && own.cells &&
           own.lg_now <= READER_LG_BUCKETS_MAX && bytes[layout->tdata_expired] <= 1;
}

static bool add_thread(struct thread_tree *tree, remote_addr addr, size_t below, size_t above)
{
    remote_addr nil = tree->layout->has_nil ? tree->root + 8 : 0;

    if (addr == nil)
        return true;
    if (tree->count == TDATAS_MAX || !LIST_GROW(tree->list, tree->capacity, tree->count))
        return false;
    tree->list[tree->count++] = (struct thread_node){addr, below, above, {0}};
    return true;
}

/* True if the thread a is before b (prof_tdata_comp), or if one of them is none. */
static bool comes_before(const struct thread_tree *tree, size_t a, size_t b)
{
    uint64_t x, y;

    if (a == SIZE_MAX || b == SIZE_MAX)
        return true;
    for (size_t at = 8; at <= 16; at += 8) {
        x = reader_word(tree->list[a].bytes, at);
        y = reader_word(tree->list[b].bytes, at);
        if (x != y)
            return x < y;
    }
    return false;
}

static bool read_thread_tree(struct thread_tree *tree)
{
    const struct reader_layout *layout = tree->layout;
    remote_addr top;
    size_t at = 0;

    tree->count = 0;
    if (!memory_read(tree->batch->memory, tree->root, &top, sizeof top) ||
        !add_thread(tree, top, SIZE_MAX, SIZE_MAX))
        return false;
    for (unsigned depth = 0; at < tree->count; depth++) {
        const size_t end = tree->count;
        struct batch_item *items;
        size_t failed;

        if (depth == THREAD_DEPTH_MAX)
            return false;
        items = calloc(end - at, sizeof *items);
        if (!items)
            return false;
        for (size_t i = at; i < end; i++)
            items[i - at] =
                (struct batch_item){tree->list[i].addr, layout->tdata_size, tree->list[i].bytes};
        failed = batch_read(tree->batch, items, end - at);
        free(items);
        if (failed)
            return false;

        /* In a search tree each node is between two nodes above it: none can be reached twice. */
        for (; at < end; at++) {
            const struct thread_node node = tree->list[at];
            const remote_addr left = reader_word(node.bytes, layout->tdata_link);
            const remote_addr right = reader_word(node.bytes, layout->tdata_link + 8u);
            if (!threads_is_tdata(layout, node.bytes, tree->table) ||
                !comes_before(tree, node.below, at) || !comes_before(tree, at, node.above) ||
                !add_thread(tree, left, node.below, at) ||
                !add_thread(tree, right & ~(remote_addr)1, at, node.above))
                return false;
        }
    }
    return true;
}

/* jemalloc takes only printable names (prof_thread_name_set); other bytes are not one. */
static bool take_name(struct thread_tree *tree, const unsigned char *bytes, struct model *model,
                      struct tdata *tdata)
{
    const struct reader_layout *layout = tree->layout;
    char name[THREAD_NAME_MAX] = "";
    remote_addr at = 0;
    size_t size = 1, n = 0;

    if (layout->has_inline_name) {
        size = READER_NAME_INLINE;
        memcpy(name, bytes + layout->tdata_name, size);
    } else {
        at = reader_word(bytes, layout->tdata_name);
    }
    if (at) {
        size = sizeof name;
        if (memory_read_string(tree->batch->memory, at, name, size) < 0)
            name[0] = '\0';
    }
    while (n < size && (isgraph((unsigned char)name[n]) || isblank((unsigned char)name[n])))
        n++;
    if (n == size || name[n])
        n = 0;
    tdata->name = model_add_name(model, name, n);
    return tdata->name != SIZE_MAX;
}

/* The order of prof_tdata_comp. */
static int compare_tdatas(const void *a, const void *b)
{
    const struct tdata *x = a, *y = b;

    if (x->thr_uid != y->thr_uid)
        return x->thr_uid < y->thr_uid ? -1 : 1;
    return (x->thr_discrim > y->thr_discrim) - (x->thr_discrim < y->thr_discrim);
}

static bool take_tdatas(struct thread_tree *tree, struct model *model)
{
    const struct reader_layout *layout = tree->layout;

    for (size_t i = 0; i < tree->count; i++) {
        const struct thread_node *node = &tree->list[i];
        struct tdata tdata = {
            .address = node->addr,
            .thr_uid = reader_word(node->bytes, 8),
            .thr_discrim = reader_word(node->bytes, 16),
            .stacks = reader_word(node->bytes, layout->tdata_table + 8u),
            .is_expired = node->bytes[layout->tdata_expired],
        };
        if (!LIST_GROW(model->tdatas, model->tdata_capacity, model->tdata_count) ||
            !take_name(tree, node->bytes, model, &tdata))
            return false;
        model->tdatas[model->tdata_count++] = tdata;
    }
    if (model->tdata_count)
        qsort(model->tdatas, model->tdata_count, sizeof *model->tdatas, compare_tdatas);
    return true;
}

/* True if both are the same nodes, with the same links. */
static bool same_tree(const struct thread_tree *tree, const struct thread_tree *before)
{
    const size_t link = tree->layout->tdata_link;

    if (tree->count != before->count)
        return false;
    for (size_t i = 0; i < tree->count; i++)
        if (tree->list[i].addr != before->list[i].addr ||
            memcmp(tree->list[i].bytes + link, before->list[i].bytes + link, 16) != 0)
            return false;
    return true;
}

bool threads_read(struct batch *batch, const struct reader_layout *layout, remote_addr root,
                  const struct reader_table *table, bool is_still, struct model *model)
{
    struct thread_tree tree = {.layout = layout, .table = table, .batch = batch, .root = root};
    struct thread_tree before = tree;
    bool done = read_thread_tree(&tree), same = is_still;

    /* A thread that begins or ends may move others in the tree. */
    for (unsigned i = 1; i < THREAD_READS_MAX && !same; i++) {
        const struct thread_tree last = tree;
        const bool was_read = done;
        tree = before;
        before = last;
        done = read_thread_tree(&tree);
        same = done && was_read && same_tree(&tree, &before);
    }
    free(before.list);
    done = done && take_tdatas(&tree, model);
    free(tree.list);
    return done;
}

static int compare_addresses(const void *a, const void *b, void *ctx)
{
    const struct tdata *list = ctx;
    remote_addr x = list[*(const size_t *)a].address, y = list[*(const size_t *)b].address;

    return (x > y) - (x < y);
}

size_t *threads_order(const struct model *model)
{
    size_t *order = calloc(model->tdata_count + 1, sizeof *order);

    for (size_t i = 0; order && i < model->tdata_count; i++)
        order[i] = i;
    if (order)
        qsort_r(order, model->tdata_count, sizeof *order, compare_addresses, model->tdatas);
    return order;
}

size_t threads_at(const struct model *model, const size_t *order, remote_addr addr)
{
    const struct tdata *list = model->tdatas;
    size_t at = SEARCH_FIRST(i, model->tdata_count, list[order[i]].address >= addr);

    return at < model->tdata_count && list[order[at]].address == addr ? order[at] : SIZE_MAX;
}
