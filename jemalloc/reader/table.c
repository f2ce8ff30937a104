#include "jemalloc/reader/table.h"
#include "base/list.h"
#include "base/search.h"

#include <string.h>

#ifndef READER_CELLS
#define READER_CELLS (1u << 14) /* cells that are read at once */
#endif

enum { TABLE_READS_MAX = 8, LG_SMALL = 14 };

void addresses_free(struct addresses *addresses)
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

/* In ascending order, each once. False: out of memory. */
static bool sort_addresses(struct addresses *addresses)
{
    uint64_t *scratch = reallocarray(NULL, addresses->count + 1, sizeof *scratch);
    size_t kept = 0;

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

bool addresses_have(const struct addresses *addresses, remote_addr addr)
{
    size_t at = SEARCH_FIRST(i, addresses->count, addresses->list[i] >= addr);
    return at < addresses->count && addresses->list[at] == addr;
}

bool addresses_minus(const struct addresses *more, const struct addresses *addresses,
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

bool addresses_merge(struct addresses *addresses, const struct addresses *more)
{
    for (size_t i = 0; i < more->count; i++)
        if (!add_address(addresses, more->list[i]))
            return false;
    return sort_addresses(addresses);
}

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
    struct addresses *addresses;
    size_t odd;
    uint64_t least, most; /* what the table counted before and after the last read */
    struct reader_cell *buf;
};

static bool take_cells(struct cells *cells, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct reader_cell *cell = &cells->buf[i];
        if (!cell->key)
            continue;
        if (cell->key - cell->data != cells->layout->gctx_bt)
            cells->odd++;
        else if (!add_address(cells->addresses, cell->data))
            return false;
    }
    return true;
}

static bool read_cells(struct cells *cells, const struct reader_table *table)
{
    const size_t all = (size_t)READER_BUCKET_CELLS << table->lg_now;

    cells->addresses->count = cells->odd = 0;
    for (size_t at = 0; at < all; at += READER_CELLS) {
        size_t n = all - at < READER_CELLS ? all - at : READER_CELLS;
        if (!memory_read(cells->memory, table->cells + at * sizeof *cells->buf, cells->buf,
                         n * sizeof *cells->buf) ||
            !take_cells(cells, n))
            return false;
    }
    return true;
}

static bool same_addresses(const struct addresses *a, const struct addresses *b)
{
    return a->count == b->count &&
           (!a->count || memcmp(a->list, b->list, a->count * sizeof *a->list) == 0);
}

static void exchange_addresses(struct addresses *a, struct addresses *b)
{
    const struct addresses kept = *a;

    *a = *b;
    *b = kept;
}

/* Reads the cells of the table that is there now; false also if it was replaced meanwhile. */
static bool read_now(struct cells *cells, remote_addr addr)
{
    struct reader_table table, after;

    if (!table_open(&table, cells->memory, addr) || !read_cells(cells, &table) ||
        !table_open(&after, cells->memory, addr) || after.cells != table.cells)
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
    struct addresses *now = cells->addresses;
    bool read = false, changed = false, same = false, good = true;

    for (unsigned i = 0; i < TABLE_READS_MAX && good && !same; i++) {
        if (!read_now(cells, addr))
            continue;
        same = contents->is_read && same_addresses(now, &contents->cells);
        if (!same && !changed)
            contents->addresses.count = 0;
        changed |= !same;
        good = same || addresses_merge(&contents->addresses, now);
        exchange_addresses(now, &contents->cells);
        read = contents->is_read = true;
    }
    return good && read;
}

static bool read_table_once(struct cells *cells, remote_addr addr, struct table_contents *contents)
{
    contents->addresses.count = 0;
    return read_now(cells, addr) && addresses_merge(&contents->addresses, cells->addresses);
}

/* Stacks that the table counts and has not. While it changes, freed ones are no error. */
static size_t count_odd(const struct cells *cells, size_t found, bool is_still)
{
    uint64_t difference = 0;

    if (found < cells->least)
        difference = cells->least - found;
    else if (is_still && found > cells->most)
        difference = found - cells->most;
    return difference > cells->odd ? (size_t)difference : cells->odd;
}

bool table_read(struct memory *memory, const struct reader_layout *layout, remote_addr addr,
                bool is_still, struct table_contents *contents, size_t *odd)
{
    struct addresses now = {0};
    struct cells cells = {.memory = memory, .layout = layout, .addresses = &now};
    bool done;

    cells.buf = malloc(READER_CELLS * sizeof *cells.buf);
    if (!cells.buf)
        return false;
    done =
        is_still ? read_table_once(&cells, addr, contents) : read_settled(&cells, addr, contents);
    free(cells.buf);
    addresses_free(&now);
    *odd = count_odd(&cells, contents->addresses.count, is_still);
    return done;
}

void table_forget(struct table_contents *contents)
{
    addresses_free(&contents->addresses);
    addresses_free(&contents->cells);
    memset(contents, 0, sizeof *contents);
}
