#include "jemalloc/reader/stacks.h"
#include "base/interruptions.h"
#include "base/list.h"
#include "base/search.h"
#include "jemalloc/faults.h"
#include "jemalloc/reader/nodes.h"

#include <string.h>

static const char stage[] = "read the profile";

#ifndef READER_CELLS
#define READER_CELLS (1u << 14) /* cells that are read at once */
#endif

enum { TABLE_READS_MAX = 8, LG_SMALL = 14 };

/* ---- lists of addresses ---- */

static void addresses_free(struct addresses *addresses)
{
    free(addresses->list);
    memset(addresses, 0, sizeof *addresses);
}

static bool add_address(struct addresses *addresses, remote_addr addr)
{
    if (!LIST_GROW(addresses->list, addresses->capacity, addresses->count))
        return false;
    addresses->list[addresses->count++] = addr;
    return true;
}

/* Appends the addresses of `more` that are not in `addresses` to `out`. False: out of memory. */
static bool addresses_minus(const struct addresses *more, const struct addresses *addresses,
                            struct addresses *out)
{
    size_t at = 0;

    for (size_t i = 0; i < more->count; i++) {
        while (at < addresses->count && addresses->list[at] < more->list[i])
            at++;
        if (at < addresses->count && addresses->list[at] == more->list[i])
            continue;
        if (!add_address(out, more->list[i]))
            return false;
    }
    return true;
}

/* Adds all addresses of `more`. False: out of memory. */
static bool addresses_merge(struct addresses *addresses, const struct addresses *more)
{
    uint64_t *scratch;
    size_t kept = 0;

    for (size_t i = 0; i < more->count; i++)
        if (!add_address(addresses, more->list[i]))
            return false;
    scratch = reallocarray(NULL, addresses->count + 1, sizeof *scratch);
    if (!scratch)
        return false;
    sort_words(addresses->list, scratch, addresses->count);
    free(scratch);
    for (size_t i = 1; i < addresses->count; i++)
        if (addresses->list[i] != addresses->list[kept])
            addresses->list[++kept] = addresses->list[i];
    addresses->count = addresses->count ? kept + 1 : 0;
    return true;
}

/* ---- the table ---- */

/*
 * A table shrinks when a quarter of its cells would do (ckh_remove), but for a
 * small one. So what it occupies is bounded by what is in it.
 */
bool table_is_possible(const struct reader_table *table)
{
    const uint64_t cells = (uint64_t)READER_BUCKET_CELLS << (table->lg_now & 63);

    return (table->lg_now <= LG_SMALL || table->count >= cells / 16) &&
           table->lg_min <= table->lg_now && table->lg_now <= READER_LG_BUCKETS_MAX &&
           table->count <= cells && table->hash && table->compare &&
           table->hash != table->compare && table->cells &&
           table->cells % (READER_BUCKET_CELLS * sizeof(struct reader_cell)) == 0;
}

bool table_open(struct reader_table *table, struct memory *memory, remote_addr addr)
{
    return memory_read(memory, addr, table, sizeof *table) && table_is_possible(table);
}

struct cells {
    struct memory *memory;
    const struct reader_layout *layout;
    struct addresses addresses; /* in their order */
    size_t odd;
    uint64_t least, most; /* what the table counted before and after the last read */
    struct reader_cell *buf;
};

/* Reads the cells of the table that is there now; false also if it was replaced meanwhile. */
static bool read_cells(struct cells *cells, remote_addr addr)
{
    struct reader_table table, after;
    size_t all;

    if (!table_open(&table, cells->memory, addr))
        return false;

    all = (size_t)READER_BUCKET_CELLS << table.lg_now;
    cells->addresses.count = cells->odd = 0;
    for (size_t at = 0; at < all; at += READER_CELLS) {
        size_t n = all - at < READER_CELLS ? all - at : READER_CELLS;
        if (!memory_read(cells->memory, table.cells + at * sizeof *cells->buf, cells->buf,
                         n * sizeof *cells->buf))
            return false;
        for (const struct reader_cell *cell = cells->buf; cell < cells->buf + n; cell++) {
            if (!cell->key)
                continue;
            if (cell->key - cell->data != cells->layout->gctx_bt)
                cells->odd++;
            else if (!add_address(&cells->addresses, cell->data))
                return false;
        }
    }

    if (!table_open(&after, cells->memory, addr) || after.cells != table.cells)
        return false;
    cells->least = table.count < after.count ? table.count : after.count;
    cells->most = table.count > after.count ? table.count : after.count;
    return true;
}

/*
 * Each read may miss a cell that is moved; all of them together hardly. Two agree if
 * each address is in the same cell.
 */
static bool read_settled(struct cells *cells, remote_addr addr, struct table_contents *contents)
{
    bool read = false, changed = false, same = false, good = true;

    for (unsigned i = 0; i < TABLE_READS_MAX && good && !same; i++) {
        const struct addresses *now = &cells->addresses, before = contents->cells;
        if (!read_cells(cells, addr))
            continue;
        same = contents->is_read && now->count == before.count &&
               (!now->count || memcmp(now->list, before.list, now->count * sizeof *now->list) == 0);
        if (!same && !changed)
            contents->addresses.count = 0;
        changed |= !same;
        good = same || addresses_merge(&contents->addresses, now);
        contents->cells = *now;
        cells->addresses = before;
        read = contents->is_read = true;
    }
    return good && read;
}

bool table_read(struct memory *memory, const struct reader_layout *layout, remote_addr addr,
                bool is_still, struct table_contents *contents, size_t *odd)
{
    struct cells cells = {.memory = memory, .layout = layout};
    uint64_t difference = 0;
    size_t found;
    bool done;

    cells.buf = malloc(READER_CELLS * sizeof *cells.buf);
    if (!cells.buf)
        return false;
    if (is_still) {
        contents->addresses.count = 0;
        done = read_cells(&cells, addr) && addresses_merge(&contents->addresses, &cells.addresses);
    } else {
        done = read_settled(&cells, addr, contents);
    }
    free(cells.buf);
    addresses_free(&cells.addresses);

    /* Stacks that the table counts and has not. While it changes, freed ones are no error. */
    found = contents->addresses.count;
    if (found < cells.least)
        difference = cells.least - found;
    else if (is_still && found > cells.most)
        difference = found - cells.most;
    *odd = difference > cells.odd ? (size_t)difference : cells.odd;
    return done;
}

void table_forget(struct table_contents *contents)
{
    addresses_free(&contents->addresses);
    addresses_free(&contents->cells);
    memset(contents, 0, sizeof *contents);
}

/* ---- the stacks ---- */

struct stack_reader {
    const struct reader *reader;
    const struct sink *sink;
    struct nodes nodes;
    struct model *model;        /* the result */
    struct model first, second; /* two reads of the same stacks */
    struct addresses known;     /* read, or tried */
    struct addresses failed;    /* tried, and never the same twice */
    struct fault *fault;
};

_Static_assert(sizeof(struct tctx) == 8 * (5 + COUNTS), "no padding");

/* True if both show the same stack with the same counts. */
static bool same_gctx(const struct model *a, const struct gctx *x, const struct model *b,
                      const struct gctx *y)
{
    return x->address == y->address && x->words == y->words && x->tctxs == y->tctxs &&
           memcmp(a->words + x->first_word, b->words + y->first_word,
                  x->words * sizeof *a->words) == 0 &&
           (!x->tctxs || memcmp(a->tctxs + x->first_tctx, b->tctxs + y->first_tctx,
                                x->tctxs * sizeof *a->tctxs) == 0);
}

/* Takes the settled ones of up to NODES_MAX stacks; moves the others to the front of addrs. */
static fault_code read_stacks(struct stack_reader *stacks, remote_addr *addrs, size_t *count)
{
    const bool is_still = stacks->reader->source.is_still;
    struct model *model = stacks->model, *first = &stacks->first, *second = &stacks->second;
    const size_t bytes =
        model->gctx_count * sizeof *model->gctxs + model->tctx_count * sizeof *model->tctxs +
        model->code_count * sizeof *model->codes + model->dictionary.count * DICTIONARY_WORD_BYTES;
    fault_code rc;
    size_t left = 0;

    if (bytes > stacks->sink->limit - stacks->sink->len)
        return sink_refuse(stacks->sink, stage, stacks->fault);
    rc = reader_check_time(stacks->reader, stacks->fault);
    if (rc != FAULT_NONE)
        return rc;

    model_clear(first);
    model_clear(second);
    if (!nodes_read(&stacks->nodes, addrs, *count, first) ||
        (!is_still && !nodes_read(&stacks->nodes, addrs, *count, second)))
        return reader_out_of_memory(stacks->fault);
    for (size_t i = 0; i < *count; i++) {
        const struct gctx *gctx = &first->gctxs[i];
        bool is_settled = gctx->is_proven;
        if (is_settled && !is_still)
            is_settled =
                second->gctxs[i].is_proven && same_gctx(first, gctx, second, &second->gctxs[i]);
        if (!is_settled)
            addrs[left++] = addrs[i];
        else if (!model_take_gctx(model, first, gctx))
            return reader_out_of_memory(stacks->fault);
    }
    *count = left;
    return FAULT_NONE;
}

/* One after the other: the less time between its two reads, the rarer the change. */
static fault_code read_again(struct stack_reader *stacks, remote_addr *addrs, size_t *count)
{
    const unsigned tries = stacks->reader->source.is_still ? 1 : STACK_READS_MAX;
    size_t left = 0, one;

    for (size_t i = 0; i < *count; i++) {
        remote_addr addr = addrs[i];
        one = 1;
        for (unsigned k = 0; k < tries && one; k++) {
            fault_code rc = read_stacks(stacks, &addr, &one);
            if (rc != FAULT_NONE)
                return rc;
        }
        if (one)
            addrs[left++] = addr;
    }
    *count = left;
    return FAULT_NONE;
}

static fault_code read_addresses(struct stack_reader *stacks, const struct addresses *fresh)
{
    for (size_t at = 0, n; at < fresh->count; at += n) {
        struct addresses failed = {fresh->list + at, 0, 0};
        size_t left, before;
        fault_code rc;

        left = n = fresh->count - at < NODES_MAX ? fresh->count - at : NODES_MAX;

        /*
         * Two reads that agree show how a stack was at the moment between them, which is
         * the same moment for all of these. While fewer and fewer are left, so are these
         * moments close to each other.
         */
        do {
            before = left;
            rc = read_stacks(stacks, failed.list, &left);
        } while (rc == FAULT_NONE && left > 1 && left <= before / 2 &&
                 !stacks->reader->source.is_still);
        if (rc == FAULT_NONE)
            rc = read_again(stacks, failed.list, &left);
        if (rc != FAULT_NONE)
            return rc;
        failed.count = left;
        if (!addresses_merge(&stacks->failed, &failed))
            return reader_out_of_memory(stacks->fault);
    }
    return FAULT_NONE;
}

/* Looks at the table until it has nothing new: while it grows it is incomplete. */
static fault_code read_all(struct stack_reader *stacks, size_t *unsettled)
{
    const struct reader *reader = stacks->reader;
    const bool is_still = reader->source.is_still;
    struct table_contents now = {0};
    const struct addresses *there = &now.addresses;
    fault_code rc = FAULT_NONE;
    size_t odd = 0;
    bool more = true;

    for (unsigned i = 0; i < TABLE_LOOKS_MAX && more && rc == FAULT_NONE; i++) {
        struct addresses fresh = {0};
        if (!table_read(reader->source.memory, reader->layout, reader->stacks, is_still, &now,
                        &odd))
            rc = reader_unreadable(stacks->fault, UNREADABLE_MISSING,
                                   "its table of stacks could not be read");
        else if (!addresses_minus(there, &stacks->known, &fresh) ||
                 !addresses_merge(&stacks->known, &fresh))
            rc = reader_out_of_memory(stacks->fault);
        else
            rc = read_addresses(stacks, &fresh);
        more = fresh.count > 0 && !is_still;
        addresses_free(&fresh);
    }

    /* Stacks that are no longer in the table have been freed, and are not missing. */
    *unsettled = odd;
    for (size_t i = 0; i < stacks->failed.count; i++) {
        remote_addr addr = stacks->failed.list[i];
        size_t at = SEARCH_FIRST(k, there->count, there->list[k] >= addr);
        *unsettled += at < there->count && there->list[at] == addr;
    }
    table_forget(&now);
    return rc;
}

fault_code stacks_read(const struct reader *reader, struct batch *batch, const struct sink *sink,
                       struct model *model, size_t *unsettled, struct fault *fault)
{
    struct stack_reader stacks = {.reader = reader, .sink = sink, .model = model, .fault = fault};
    fault_code rc = nodes_open(&stacks.nodes, reader->layout, batch) ? read_all(&stacks, unsettled)
                                                                     : reader_out_of_memory(fault);

    nodes_close(&stacks.nodes);
    model_free(&stacks.first);
    model_free(&stacks.second);
    addresses_free(&stacks.known);
    addresses_free(&stacks.failed);
    return rc;
}

bool stacks_drop_repeated(struct model *model)
{
    const size_t count = model->gctx_count;
    struct {
        uint64_t hash, index; /* of its program counters; of the gctx */
    } *list = reallocarray(NULL, 2 * count + 1, sizeof *list);
    size_t kept = 0;

    if (!list)
        return false;
    for (size_t i = 0; i < count; i++) {
        const uint32_t *codes = model->codes + model->gctxs[i].first_word;
        uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a, of words */
        for (size_t k = 0; k < model->gctxs[i].words; k++)
            hash = (hash ^ codes[k]) * UINT64_C(0x100000001b3);
        list[i].hash = hash;
        list[i].index = i;
    }
    if (count)
        sort_pairs(&list[0].hash, &list[count].hash, count);

    /* Marks the one that was read first; those of equal hash are in the order of reading. */
    for (size_t i = 1; i < count; i++) {
        struct gctx *x = &model->gctxs[list[i - 1].index], *y = &model->gctxs[list[i].index];
        if (list[i].hash == list[i - 1].hash && x->words == y->words &&
            memcmp(model->codes + x->first_word, model->codes + y->first_word,
                   x->words * sizeof *model->codes) == 0)
            x->is_proven = false;
    }
    free(list);

    for (size_t i = 0; i < count; i++)
        if (model->gctxs[i].is_proven)
            model->gctxs[kept++] = model->gctxs[i];
    model->gctx_count = kept;
    return true;
}
