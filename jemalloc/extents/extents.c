#include "jemalloc/extents/extents.h"
#include "base/table.h"
#include "jemalloc/extents/find.h"
#include "jemalloc/faults.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static const char stage[] = "read the extents";

enum { RECORDS = 2048, BACK_PAGES = 1 << 18, BACK_PIECE = 512, UNSETTLED_PER_EXTENT = 1 };

#define LIMIT (UINT64_C(16) << 30)

struct extents {
    struct reader_source source;
    struct heap_pages heap;
    struct version version;
    struct classes classes;
    struct found_tree found;
    struct batch batch;
    remote_addr leaf, leaf_start, leaf_end; /* the entry of leaf_start, in a node up to leaf_end */
    struct pending {
        remote_addr page;
        struct leaf leaf;
        unsigned char bytes[RECORD_BYTES];
    } pending[RECORDS];
    struct batch_item items[RECORDS];
};

static fault_code refuse_extents(struct fault *fault, enum unreadable_reason reason,
                                 const char *what, const char *where)
{
    fault_set(fault, FAULT_UNREADABLE, 0, stage, "%s%s%s", what, *where ? " " : "", where);
    fault_set_reason(fault, (int)reason);
    return FAULT_UNREADABLE;
}

static fault_code check_time(const struct extents *extents, struct fault *fault)
{
    const struct reader reader = {.source = extents->source};

    return reader_check_time(&reader, fault);
}

/* ---- opening ---- */

static fault_code find_tree(struct extents *extents, struct fault *fault)
{
    const char *module = module_name(&extents->source.instance->module);

    extents->found.rules.classes = &extents->classes;
    switch (tree_find(&extents->found, &extents->heap, &extents->batch, extents->version)) {
    case FIND_PROVEN:
        return FAULT_NONE;
    case FIND_OUT_OF_MEMORY:
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, stage, "the extents");
    case FIND_REFUTED:
        return refuse_extents(fault, UNREADABLE_PROOF, "its extents have no known layout in",
                              module);
    default:
        return refuse_extents(fault, UNREADABLE_TABLE, "its tree of extents was not found in",
                              module);
    }
}

static fault_code open_extents(struct extents *extents, struct fault *fault)
{
    const struct reader_source *source = &extents->source;
    struct fact_variables variables;
    fault_code rc;

    facts_locate(&variables, source->instance, source->modules, source->target, source->memory);
    extents->version = version_parse(variables.version);
    if (extents->version.number && extents->version.number < VERSION_NUMBER(5, 0, 0))
        return refuse_extents(fault, UNREADABLE_VERSION,
                              "jemalloc before 5.0 has no extents: this is", variables.version);
    if (!batch_open(&extents->batch, source->memory))
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, stage, "the extents");
    if (classes_find(&extents->classes, &extents->heap))
        rc = find_tree(extents, fault);
    else
        rc = refuse_extents(fault, UNREADABLE_TABLE,
                            "its table of size classes (for pages of 4 KiB) was not found in",
                            module_name(&source->instance->module));
    return rc == FAULT_NONE || check_time(extents, NULL) == FAULT_NONE ? rc
                                                                       : check_time(extents, fault);
}

fault_code extents_open(struct extents **extents, const struct reader_source *source,
                        struct fault *fault)
{
    struct extents *opened;
    fault_code rc;

    *extents = NULL;
    if (memory_is_pinned(source->memory))
        return refuse_extents(fault, UNREADABLE_PINNED,
                              "without CAP_DAC_OVERRIDE /proc/PID/mem is closed, and "
                              "process_vm_readv makes a process grow that has forked",
                              "");
    opened = calloc(1, sizeof *opened);
    if (!opened)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, stage, "the extents");
    opened->source = *source;
    pages_open(&opened->heap, &opened->source);
    rc = open_extents(opened, fault);
    if (rc == FAULT_NONE)
        *extents = opened;
    else
        extents_close(opened);
    return rc;
}

void extents_close(struct extents *extents)
{
    if (!extents)
        return;
    pages_close(&extents->heap);
    batch_close(&extents->batch);
    free(extents);
}

const struct heap_pages *extents_heap(const struct extents *extents)
{
    return &extents->heap;
}

struct version extents_version(const struct extents *extents)
{
    return extents->version;
}

const struct classes *extents_classes(const struct extents *extents)
{
    return &extents->classes;
}

/* ---- one page ---- */

/* Returns where the tree has the entry of a page; 0: it has none. Its nodes stay where they are. */
static remote_addr entry_of(struct extents *extents, remote_addr page)
{
    const struct tree *tree = &extents->found.tree;

    if (!extents->leaf || page < extents->leaf_start || page >= extents->leaf_end) {
        extents->leaf_start = page;
        extents->leaf = tree_entry(tree, &extents->heap, page, &extents->leaf_end);
    }
    return extents->leaf
               ? extents->leaf + (page - extents->leaf_start) / MEMORY_PAGE * tree->shape->entry
               : 0;
}

static enum record_verdict read_page(struct extents *extents, remote_addr page,
                                     struct extent *extent)
{
    const struct found_tree *found = &extents->found;
    struct memory *memory = extents->source.memory;
    unsigned char entry[TREE_ENTRY_MAX], bytes[RECORD_BYTES];
    remote_addr at = entry_of(extents, page);
    struct leaf leaf;

    if (!at || !memory_read(memory, at, entry, found->tree.shape->entry))
        return RECORD_FALSE;
    tree_take_leaf(&leaf, found->tree.shape, found->rules.layout, entry);
    if (!leaf_in_use(&leaf, &found->rules) ||
        !pages_is_heap(&extents->heap, leaf.record, RECORD_BYTES) ||
        !memory_read(memory, leaf.record, bytes, sizeof bytes))
        return RECORD_FALSE;
    return record_take(extent, &found->rules, &leaf, page, bytes);
}

/* ---- a pass ---- */

/* jemalloc maps its own data in blocks of whole huge pages (base_map, base.c). */
enum { BLOCK = 2 << 20, BLOCKS = 256 };

struct ranges {
    remote_addr blocks[BLOCKS]; /* that were passed on, by their hash */
    remote_addr leaf_end;       /* of memory whose leaf of the tree was passed on */
};

struct pass {
    struct extents *extents;
    struct extents_pass *out;
    extent_action action;
    void *ctx;
    size_t count;          /* pending */
    bool stopped;          /* by the action */
    struct ranges *ranges; /* of all extents, not only of those in use; NULL: of these */
};

/* A block of jemalloc's own data that contains addr, unless it was passed on lately. */
static void pass_on_block(struct pass *pass, remote_addr addr)
{
    const remote_addr start = addr - addr % BLOCK;
    remote_addr *last = &pass->ranges->blocks[start / BLOCK % BLOCKS];

    if (*last == start || pass->stopped)
        return;
    *last = start;
    pass->stopped = !pass->action(pass->ctx, &(struct extent){.start = start, .bytes = BLOCK});
}

static bool pass_on_range(struct pass *pass, const struct pending *pending)
{
    struct extents *extents = pass->extents;
    struct extent extent;

    if (!record_take_range(&extent, &extents->found.rules, pending->page, pending->bytes))
        return true;
    pass->stopped = !pass->action(pass->ctx, &extent);
    pass_on_block(pass, pending->leaf.record);
    if (pending->page >= pass->ranges->leaf_end) /* the first one of its leaf */
        pass_on_block(pass, tree_entry(&extents->found.tree, &extents->heap, pending->page,
                                       &pass->ranges->leaf_end));
    return !pass->stopped;
}

/* A free extent is in the tree with its first and its last page: it is passed on at the first. */
static bool pass_on_free(struct pass *pass, const struct pending *pending)
{
    const struct record_rules *rules = &pass->extents->found.rules;
    struct extent extent;

    if (!record_take_range(&extent, rules, pending->page, pending->bytes)) {
        pass->out->unsettled++;
        return true;
    }
    if (pending->page == (extent.start & ~(rules->classes->page - 1)))
        pass->stopped = !pass->action(pass->ctx, &extent);
    return !pass->stopped;
}

/* Returns true if the pass goes on. */
static bool pass_on(struct pass *pass, const struct pending *pending)
{
    struct extents *extents = pass->extents;
    struct extent extent;
    enum record_verdict verdict;

    if (pass->ranges)
        return pass_on_range(pass, pending);
    if (!leaf_in_use(&pending->leaf, &extents->found.rules))
        return pass_on_free(pass, pending);
    verdict =
        record_take(&extent, &extents->found.rules, &pending->leaf, pending->page, pending->bytes);

    if (verdict == RECORD_FALSE)
        verdict = read_page(extents, pending->page, &extent);
    pass->out->unsettled += verdict == RECORD_FALSE;
    if (verdict == RECORD_FREE && pass->out->free_too)
        return pass_on_free(pass, pending);
    if (verdict != RECORD_TRUE)
        return true;
    pass->out->extents++;
    pass->stopped = !pass->action(pass->ctx, &extent);
    return !pass->stopped;
}

static bool pass_on_all(struct pass *pass)
{
    struct extents *extents = pass->extents;
    size_t count = pass->count, n = 0;

    for (size_t i = 0; i < count; i++) {
        struct pending *pending = &extents->pending[i];
        memset(pending->bytes, 0, sizeof pending->bytes);
        if (pages_is_heap(&extents->heap, pending->leaf.record, RECORD_BYTES))
            extents->items[n++] =
                (struct batch_item){pending->leaf.record, RECORD_BYTES, pending->bytes};
    }
    batch_read(&extents->batch, extents->items, n);
    pass->count = 0;
    for (size_t i = 0; i < count; i++)
        if (!pass_on(pass, &extents->pending[i]))
            return false;
    return true;
}

static bool add_pending(void *ctx, remote_addr page, const struct leaf *leaf)
{
    struct pass *pass = ctx;
    struct pending *pending = &pass->extents->pending[pass->count++];

    pending->page = page;
    pending->leaf = *leaf;
    return pass->count < RECORDS || pass_on_all(pass);
}

/* More than the limit is read in random parts: pages of the tree, by the hash of their address. */
static void limit_walk(struct walk *walk, uint64_t limit)
{
    const uint64_t span = MEMORY_PAGE / walk->tree->shape->entry * (uint64_t)MEMORY_PAGE;
    struct walk count = *walk;
    double share;

    count.visit = NULL;
    walk_heap(&count);
    share = (double)(limit ? limit : LIMIT) / ((double)span * (double)(count.pages + !count.pages));
    walk->below = share < 1 ? (uint64_t)ldexp(share, 64) : UINT64_MAX;
    walk->seed = table_mix(clock_now());
}

static fault_code end_pass(const struct pass *pass, struct fault *fault)
{
    fault_code rc = pass->stopped ? FAULT_NONE : check_time(pass->extents, fault);
    const struct reader_source *source = &pass->extents->source;

    if (rc == FAULT_NONE && !memory_is_same(source->memory, source->instance->mallctl))
        return fault_set(fault, FAULT_EXECED, 0, stage, "%d", source->target->pid);
    if (rc == FAULT_NONE && pass->out->unsettled > pass->out->extents)
        return refuse_extents(fault, UNREADABLE_CHANGING,
                              "most of its extents changed while they were read", "");
    return rc;
}

fault_code extents_each(struct extents *extents, extent_action action, void *ctx,
                        struct extents_pass *out, struct fault *fault)
{
    struct pass pass = {.extents = extents, .out = out, .action = action, .ctx = ctx};
    struct walk walk = {.heap = &extents->heap,
                        .tree = &extents->found.tree,
                        .rules = &extents->found.rules,
                        .visit = add_pending,
                        .ctx = &pass};
    const uint64_t start = clock_now();

    *out =
        (struct extents_pass){.limit = out->limit, .parts = out->parts, .free_too = out->free_too};
    walk.unused = out->free_too;
    if (out->parts && out->parts->below) {
        walk.seed = out->parts->seed;
        walk.below = out->parts->below;
    } else {
        limit_walk(&walk, out->limit);
        if (out->parts)
            *out->parts = (struct extents_parts){walk.seed, walk.below};
    }
    if (walk_heap(&walk))
        pass_on_all(&pass);
    out->share =
        walk.below == UINT64_MAX || !walk.pages ? 1 : (double)walk.read / (double)walk.pages;
    out->ns = clock_now() - start;
    return end_pass(&pass, fault);
}

uint64_t extents_estimate(const struct extents_pass *pass, uint64_t read)
{
    const double share = pass->share;

    return share > 0 && share < 1 ? (uint64_t)((double)read / share + 0.5) : read;
}

/* ---- the same again ---- */

void extents_renew(struct extents *extents, struct extent *list, size_t count)
{
    for (size_t at = 0, n; at < count; at += n) {
        n = count - at < RECORDS ? count - at : RECORDS;
        for (size_t i = 0; i < n; i++)
            extents->items[i] =
                (struct batch_item){list[at + i].record, RECORD_BYTES, extents->pending[i].bytes};
        batch_read(&extents->batch, extents->items, n);
        for (size_t i = 0; i < n; i++) {
            struct extent *extent = &list[at + i], now;
            const struct leaf leaf = {
                .record = extent->record, .class = extent->class, .slab = extent->slab};
            const remote_addr page = extent->start - extent->start % MEMORY_PAGE;
            enum record_verdict verdict =
                record_take(&now, &extents->found.rules, &leaf, page, extents->pending[i].bytes);
            if (verdict == RECORD_TRUE && now.start == extent->start)
                *extent = now;
            else
                extent->objects = 0;
        }
    }
}

fault_code extents_each_range(struct extents *extents, uint64_t limit, extent_action action,
                              void *ctx, struct fault *fault)
{
    struct extents_pass out = {.limit = limit};
    struct ranges ranges = {.leaf_end = 0};
    struct pass pass = {
        .extents = extents, .out = &out, .action = action, .ctx = ctx, .ranges = &ranges};
    struct walk walk = {.heap = &extents->heap,
                        .tree = &extents->found.tree,
                        .rules = &extents->found.rules,
                        .unused = true,
                        .visit = add_pending,
                        .ctx = &pass};

    limit_walk(&walk, limit);
    if (walk.below != UINT64_MAX)
        return fault_set(fault, FAULT_TOO_LARGE, 0, stage, "%d", (int)extents->source.target->pid);
    if (walk_heap(&walk))
        pass_on_all(&pass);
    return end_pass(&pass, fault);
}

/* ---- one address ---- */

/* Only the first and the last page of a large extent lead to it: goes back to the last that does.
 */
static bool find_before(struct extents *extents, remote_addr page, struct extent *extent)
{
    const struct tree *tree = &extents->found.tree;
    unsigned char bytes[BACK_PIECE * TREE_ENTRY_MAX];

    for (size_t gone = 0; gone < BACK_PAGES && page >= MEMORY_PAGE;) {
        remote_addr at = entry_of(extents, page);
        size_t n = page / MEMORY_PAGE % (UINT64_C(1) << tree->shape->bits) + 1;
        if (n > BACK_PIECE)
            n = BACK_PIECE;
        if (!at)
            return false;
        pages_read(&extents->heap, at - (n - 1) * tree->shape->entry, bytes,
                   n * tree->shape->entry);
        for (size_t i = 0; i < n; i++) {
            struct leaf leaf;
            tree_take_leaf(&leaf, tree->shape, extents->found.rules.layout,
                           bytes + (n - 1 - i) * tree->shape->entry);
            if (leaf.record)
                return read_page(extents, page - i * MEMORY_PAGE, extent) >= RECORD_INNER;
        }
        gone += n;
        page -= n * MEMORY_PAGE;
    }
    return false;
}

bool extents_at(struct extents *extents, remote_addr addr, struct extent *extent)
{
    const remote_addr mask = MEMORY_PAGE - 1;

    return find_before(extents, addr & ~mask, extent) && addr >= (extent->start & ~mask) &&
           addr - (extent->start & ~mask) < extent->bytes;
}
