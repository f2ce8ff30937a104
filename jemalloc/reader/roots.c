#include "jemalloc/reader/roots.h"
#include "base/list.h"
#include "jemalloc/extents/heap_pages.h"
#include "jemalloc/faults.h"
#include "jemalloc/reader/nodes.h"
#include "jemalloc/reader/stacks.h"
#include "jemalloc/reader/threads.h"

#include <string.h>

enum {
    SAMPLE = 64, /* stacks that prove a layout */
    CANDIDATES_MAX = 1 << 20,
    PROOF_READS_MAX = 16, /* of one stack that changes */
};

/* How sure it is that a table at an address has a layout. */
enum table_proof {
    TABLE_REFUTED,
    TABLE_EMPTY, /* nothing contradicts, as there are no stacks */
    TABLE_PROVEN
};

static bool is_late(const struct reader *reader)
{
    return reader_check_time(reader, NULL) != FAULT_NONE;
}

static bool is_code(const struct reader *reader, remote_addr addr)
{
    const struct vma *vma = modules_vma_at(reader->source.modules, addr);
    return vma && vma->prot & MAP_EXEC;
}

/* ---- the proof ---- */

/* True if most program counters are in executable mappings: some library may be unmapped. */
static bool points_to_code(const struct reader *reader, const struct model *model)
{
    size_t code = 0;

    for (size_t i = 0; i < model->code_count; i++)
        code += is_code(reader, model->dictionary.words[model->codes[i]] - 1);
    return code > model->code_count / 2;
}

/* True if most counts lead to a tdata, whose own table uses the functions of this one. */
static bool leads_to_threads(const struct reader *reader, const struct reader_layout *layout,
                             const struct reader_table *table, const struct model *model)
{
    unsigned char bytes[READER_TDATA_MAX];
    size_t good = 0, count = model->tctx_count < SAMPLE ? model->tctx_count : SAMPLE;

    for (size_t i = 0; i < count; i++)
        good +=
            memory_read(reader->source.memory, model->tctxs[i].tdata, bytes, layout->tdata_size) &&
            threads_is_tdata(layout, bytes, table);
    return good >= count - count / 4;
}

/* Tries one stack by itself, which is quick. False: out of memory. */
static bool take_one(struct nodes *nodes, remote_addr addr, struct model *model, bool *is_proven)
{
    struct model now = {0};
    bool good = true;

    for (unsigned i = 0; good && i < PROOF_READS_MAX && !*is_proven; i++) {
        model_clear(&now);
        good = nodes_read(nodes, &addr, 1, &now);
        *is_proven = good && now.gctxs[0].is_proven;
    }
    if (*is_proven)
        good = model_take_gctx(model, &now, &now.gctxs[0]);
    model_free(&now);
    return good;
}

/*
 * Reads stacks into the model, those that are proven. Busy threads change some
 * during the read of all: these are tried again. Stops when a quarter are not proven.
 */
static bool take_proven(struct nodes *nodes, const remote_addr *addrs, size_t count,
                        struct model *model)
{
    struct model now = {0};
    bool good = nodes_read(nodes, addrs, count, &now);
    size_t refuted = 0;

    for (size_t i = 0; good && i < count && refuted <= count / 4; i++) {
        bool is_proven = now.gctxs[i].is_proven;
        if (is_proven)
            good = model_take_gctx(model, &now, &now.gctxs[i]);
        else
            good = take_one(nodes, addrs[i], model, &is_proven);
        refuted += !is_proven;
    }
    model_free(&now);
    return good && refuted <= count / 4;
}

static enum table_proof prove_table(const struct reader *reader, const struct reader_layout *layout,
                                    struct batch *batch, remote_addr addr)
{
    struct table_contents contents = {0};
    const struct addresses *all = &contents.addresses;
    enum table_proof proof = TABLE_REFUTED;
    struct reader_table table;
    struct model model = {0};
    struct nodes nodes = {0};
    size_t odd, n;

    if (!table_open(&table, reader->source.memory, addr) || !is_code(reader, table.hash) ||
        !is_code(reader, table.compare))
        return TABLE_REFUTED;
    if (table_read(reader->source.memory, layout, addr, true, &contents, &odd) &&
        odd <= all->count / 8) {
        n = all->count < SAMPLE ? all->count : SAMPLE;
        for (size_t i = 0; i < n; i++)
            all->list[i] = all->list[i * (all->count / n)];
        if (n == 0)
            proof = TABLE_EMPTY;
        else if (nodes_open(&nodes, layout, batch) && take_proven(&nodes, all->list, n, &model) &&
                 points_to_code(reader, &model) && leads_to_threads(reader, layout, &table, &model))
            proof = TABLE_PROVEN;
    }
    nodes_close(&nodes);
    model_free(&model);
    table_forget(&contents);
    return proof;
}

/*
 * The layout of the version comes first. Others are tried as well, because a
 * version can be unknown, or of a build between two releases.
 */
static enum table_proof prove_any(const struct reader *reader, struct batch *batch,
                                  remote_addr addr, const struct reader_layout **layout)
{
    const struct reader_layout *known = reader_layout_of(version_parse(reader->variables.version));
    enum table_proof best = known ? prove_table(reader, known, batch, addr) : TABLE_REFUTED;

    *layout = known;
    for (size_t i = 0; i < reader_layout_count && best == TABLE_REFUTED && !is_late(reader); i++) {
        *layout = &reader_layouts[i];
        if (prove_table(reader, *layout, batch, addr) == TABLE_PROVEN)
            best = TABLE_PROVEN;
    }
    return best;
}

/* ---- the search ---- */

/* Pages of static data without contents stay so: extents/heap_pages.h. */
static void visit_data(const struct reader *reader, size_t overlap, pages_visit visit, void *ctx)
{
    struct heap_pages heap;

    pages_open(&heap, &reader->source);
    pages_segments(&heap, true, overlap, visit, ctx);
    pages_close(&heap);
}

/* Those that look like a table, or like a pointer to a thread. */
struct candidates {
    const struct reader *reader;
    remote_addr *list;
    size_t count, capacity;
};

static void add_candidate(struct candidates *candidates, remote_addr addr)
{
    if (candidates->count < CANDIDATES_MAX &&
        LIST_GROW(candidates->list, candidates->capacity, candidates->count))
        candidates->list[candidates->count++] = addr;
}

static bool visit_possible_tables(void *ctx, remote_addr at, const unsigned char *bytes, size_t len)
{
    struct candidates *candidates = ctx;
    const struct module *module = &candidates->reader->source.instance->module;
    struct reader_table table;

    for (size_t i = 0; i + sizeof table <= len; i += 8) {
        memcpy(&table, bytes + i, sizeof table);
        if (module_has_code(module, table.hash) && module_has_code(module, table.compare) &&
            table_is_possible(&table))
            add_candidate(candidates, at + i);
    }
    return true;
}

/* Takes the one table that is proven, or the only one if all are empty. */
static enum table_proof search_table(struct reader *reader, struct batch *batch)
{
    struct candidates candidates = {.reader = reader};
    const struct reader_layout *layout;
    enum table_proof best = TABLE_REFUTED;
    size_t count = 0;

    visit_data(reader, sizeof(struct reader_table) - 8, visit_possible_tables, &candidates);
    for (size_t i = 0; i < candidates.count && !is_late(reader); i++) {
        enum table_proof proof = prove_any(reader, batch, candidates.list[i], &layout);
        if (proof == TABLE_REFUTED || proof < best)
            continue;
        count = proof > best ? 1 : count + 1;
        best = proof;
        reader->stacks = candidates.list[i];
        reader->layout = layout;
    }
    free(candidates.list);
    return count == 1 ? best : TABLE_REFUTED;
}

fault_code roots_find_stacks(struct reader *reader, struct batch *batch, struct fault *fault)
{
    remote_addr named = reader->variables.at[VARIABLE_STACKS].address;
    enum table_proof proof = TABLE_REFUTED;
    fault_code rc;

    reader->stacks = named;
    if (named)
        proof = prove_any(reader, batch, named, &reader->layout);
    if (proof == TABLE_REFUTED)
        proof = search_table(reader, batch);
    rc = reader_check_time(reader, fault);
    if (rc != FAULT_NONE)
        return rc;
    if (proof != TABLE_REFUTED)
        return FAULT_NONE;
    fault_set(fault, FAULT_UNREADABLE, 0, "read the profile",
              "its table of stacks (bt2gctx) was not found in %s",
              module_name(&reader->source.instance->module));
    fault_set_reason(fault, UNREADABLE_TABLE);
    return FAULT_UNREADABLE;
}

/* ---- the threads ---- */

static bool visit_possible_pointers(void *ctx, remote_addr at, const unsigned char *bytes,
                                    size_t len)
{
    struct candidates *candidates = ctx;
    const struct vma *vma;
    remote_addr word;

    for (size_t i = 0; i + sizeof word <= len; i += 8) {
        memcpy(&word, bytes + i, sizeof word);
        if (!word || word % 16 != 0)
            continue;
        /* Is it in memory that jemalloc may have allocated? */
        vma = modules_vma_at(candidates->reader->source.modules, word);
        if (vma && vma->prot & MAP_WRITE && vma->module < 0)
            add_candidate(candidates, at + i);
    }
    return true;
}

/* Reads the objects that the candidates point to; keeps those that point to a tdata. */
static void keep_pointers(const struct reader *reader, struct batch *batch,
                          const struct reader_table *table, struct candidates *candidates)
{
    struct thread_candidate {
        remote_addr points_to;
        unsigned char bytes[READER_TDATA_MAX];
    } *objects = calloc(candidates->count + 1, sizeof *objects);
    struct batch_item *items = calloc(candidates->count * 2 + 1, sizeof *items);
    size_t count = candidates->count, kept = 0;

    if (objects && items) {
        for (size_t i = 0; i < count; i++)
            items[i] = (struct batch_item){candidates->list[i], 8, &objects[i].points_to};
        batch_read(batch, items, count);
        for (size_t i = 0; i < count; i++)
            items[i] = (struct batch_item){objects[i].points_to, reader->layout->tdata_size,
                                           objects[i].bytes};
        batch_read(batch, items, count);
        for (size_t i = 0; i < count; i++)
            if (threads_is_tdata(reader->layout, objects[i].bytes, table))
                candidates->list[kept++] = candidates->list[i];
    }
    candidates->count = kept;
    free(objects);
    free(items);
}

void roots_find_threads(struct reader *reader, struct batch *batch)
{
    struct candidates candidates = {.reader = reader};
    struct reader_table table;
    size_t most = 0;

    reader->threads = reader->variables.at[VARIABLE_THREADS].address;
    if (reader->threads || !table_open(&table, reader->source.memory, reader->stacks))
        return;
    visit_data(reader, 0, visit_possible_pointers, &candidates);
    keep_pointers(reader, batch, &table, &candidates);
    /* Other pointers to a thread lead to a part of the tree: the root leads to most threads. */
    for (size_t i = 0; i < candidates.count && !is_late(reader); i++) {
        struct model model = {0};
        if (threads_read(batch, reader->layout, candidates.list[i], &table, reader->source.is_still,
                         &model) &&
            model.tdata_count > most) {
            most = model.tdata_count;
            reader->threads = candidates.list[i];
        }
        model_free(&model);
    }
    free(candidates.list);
}
