#include "jemalloc/reader/batch.h"

#include <string.h>

/*
 * A gap of less than a page lies in pages that the items before and after it touch
 * as well, so that it cannot be the cause of a failure.
 */
enum { GAP_MAX = MEMORY_PAGE - 1 };

#ifndef READER_SCRATCH
#define READER_SCRATCH (256u << 10) /* bytes that are read as one piece */
#endif

bool batch_open(struct batch *batch, struct memory *memory)
{
    batch->memory = memory;
    batch->scratch = malloc(READER_SCRATCH);
    return batch->scratch != NULL;
}

void batch_close(struct batch *batch)
{
    free(batch->scratch);
    memset(batch, 0, sizeof *batch);
}

static int compare_items(const void *a, const void *b)
{
    const struct batch_item *x = a, *y = b;
    return (x->addr > y->addr) - (x->addr < y->addr);
}

/* Returns how many items from the first on can be read as one piece. */
static size_t join_items(const struct batch_item *items, size_t count, size_t *len)
{
    const remote_addr start = items[0].addr;
    remote_addr end = start + items[0].len;
    size_t n = 1;

    while (n < count && items[0].len <= READER_SCRATCH && items[n].addr <= end + GAP_MAX &&
           items[n].addr - start < READER_SCRATCH &&
           items[n].addr - start + items[n].len <= READER_SCRATCH) {
        if (items[n].addr + items[n].len > end)
            end = items[n].addr + items[n].len;
        n++;
    }
    *len = end - start;
    return n;
}

size_t batch_read(struct batch *batch, struct batch_item *items, size_t count)
{
    bool sorted = true;
    size_t failed = 0, len;

    for (size_t i = 1; i < count && sorted; i++)
        sorted = items[i].addr >= items[i - 1].addr;
    if (!sorted)
        qsort(items, count, sizeof *items, compare_items);

    /* Copies the items out of their piece, or reads each by itself if the piece has a hole. */
    for (size_t at = 0, n; at < count; at += n) {
        const remote_addr start = items[at].addr;
        bool whole;

        n = join_items(items + at, count - at, &len);
        whole = n > 1 && memory_read(batch->memory, start, batch->scratch, len);
        for (struct batch_item *item = items + at; item < items + at + n; item++) {
            if (whole) {
                memcpy(item->into, batch->scratch + (item->addr - start), item->len);
            } else if (!memory_read(batch->memory, item->addr, item->into, item->len)) {
                memset(item->into, 0, item->len);
                failed++;
            }
        }
    }
    return failed;
}
