#include "jemalloc/reader/batch.h"

#include <string.h>

/*
 * A gap of less than a page lies in pages that the items before and after it touch
 * as well, so that it cannot be the cause of a failure.
 */
enum { GAP_MAX = MEMORY_PAGE - 1, PIECES_MAX = 1024, PIECE_MAX = 256 << 10 };

#ifndef READER_SCRATCH
#define READER_SCRATCH (4u << 20) /* bytes that are read at once */
#endif

bool batch_open(struct batch *batch, struct memory *memory)
{
    batch->memory = memory;
    batch->pieces = malloc(PIECES_MAX * sizeof *batch->pieces);
    batch->scratch = malloc(READER_SCRATCH);
    return batch->pieces && batch->scratch;
}

void batch_close(struct batch *batch)
{
    free(batch->pieces);
    free(batch->scratch);
    memset(batch, 0, sizeof *batch);
}

static int compare_items(const void *a, const void *b)
{
    const struct batch_item *x = a, *y = b;
    return (x->addr > y->addr) - (x->addr < y->addr);
}

static bool items_sorted(const struct batch_item *items, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (items[i].addr < items[i - 1].addr)
            return false;
    return true;
}

/* Returns how many items from the first on can be read as one piece. */
static size_t join_items(const struct batch_item *items, size_t count, size_t space, size_t *len)
{
    const remote_addr start = items[0].addr;
    remote_addr end = start + items[0].len;
    size_t n = 1;

    if (space > PIECE_MAX)
        space = PIECE_MAX;
    while (n < count && items[n].addr - start < space && items[n].addr <= end + GAP_MAX &&
           items[n].addr - start + items[n].len <= space) {
        if (items[n].addr + items[n].len > end)
            end = items[n].addr + items[n].len;
        n++;
    }
    *len = end - start;
    return n;
}

/* Copies the items out of their piece, or reads each by itself if the piece has a hole. */
static size_t spread_items(struct batch *batch, const struct memory_piece *piece,
                           const struct batch_item *items, size_t count)
{
    size_t failed = 0;

    for (size_t i = 0; i < count; i++) {
        const struct batch_item *item = &items[i];
        if (piece->read) {
            memcpy(item->into, (unsigned char *)piece->into + (item->addr - piece->addr),
                   item->len);
        } else if (count == 1 || !memory_read(batch->memory, item->addr, item->into, item->len)) {
            memset(item->into, 0, item->len);
            failed++;
        }
    }
    return failed;
}

/* Reads items until the scratch buffer is full; sets *taken. */
static size_t read_some(struct batch *batch, const struct batch_item *items, size_t count,
                        size_t *taken)
{
    size_t used = 0, n = 0, at = 0, failed = 0, joined[PIECES_MAX];

    while (at < count && n < PIECES_MAX && items[at].len <= READER_SCRATCH - used) {
        struct memory_piece *piece = &batch->pieces[n];
        joined[n] = join_items(items + at, count - at, READER_SCRATCH - used, &piece->len);
        piece->addr = items[at].addr;
        piece->into = batch->scratch + used;
        piece->read = false;
        used += piece->len;
        at += joined[n++];
    }
    memory_read_pieces(batch->memory, batch->pieces, n);
    at = 0;
    for (size_t i = 0; i < n; at += joined[i++])
        failed += spread_items(batch, &batch->pieces[i], items + at, joined[i]);
    *taken = at;
    return failed;
}

size_t batch_read(struct batch *batch, struct batch_item *items, size_t count)
{
    size_t failed = 0, taken;

    if (!items_sorted(items, count))
        qsort(items, count, sizeof *items, compare_items);
    for (size_t at = 0; at < count; at += taken) {
        failed += read_some(batch, items + at, count - at, &taken);
        if (!taken) /* larger than the scratch buffer: not an object */
            return failed + count - at;
    }
    return failed;
}
