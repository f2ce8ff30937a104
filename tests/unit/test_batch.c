/* Many objects read with few calls, from a source that knows each byte by its address. */
#include "check.h"
#include "jemalloc/reader/batch.h"

#include <stdlib.h>
#include <string.h>

enum { SCRATCH = 256 << 10, LONG = 512 << 10, SHORT = 264, BASE = 1 << 24, COUNT = 3 };

static size_t reads, longest;

static unsigned char byte_at(remote_addr addr)
{
    return (unsigned char)(addr * 31 >> 3);
}

static bool read_source(void *ctx, remote_addr addr, void *buf, size_t len)
{
    unsigned char *out = buf;

    (void)ctx;
    reads++;
    longest = len > longest ? len : longest;
    for (size_t i = 0; i < len; i++)
        out[i] = byte_at(addr + i);
    return true;
}

static bool is_right(const struct batch_item *item)
{
    const unsigned char *bytes = item->into;
    size_t i = 0;

    while (i < item->len && bytes[i] == byte_at(item->addr + i))
        i++;
    return i == item->len;
}

/* Reads the objects at these offsets; each has its own memory, as the sanitizer sees. */
static void read_at(const remote_addr offsets[COUNT], const size_t lens[COUNT])
{
    const struct memory_source source = {.read = read_source};
    struct batch_item items[COUNT];
    struct memory memory;
    struct batch batch;

    memory_open_source(&memory, &source);
    reads = longest = 0;
    for (size_t i = 0; i < COUNT; i++)
        items[i] = (struct batch_item){BASE + offsets[i], lens[i], malloc(lens[i])};
    if (CHECK(batch_open(&batch, &memory)))
        CHECK(batch_read(&batch, items, COUNT) == 0);
    for (size_t i = 0; i < COUNT; i++) {
        CHECK(is_right(&items[i]));
        free(items[i].into);
    }
    batch_close(&batch);
    memory_close(&memory);
}

int main(void)
{
    read_at((const remote_addr[]){64, 0, 1000}, (const size_t[]){SHORT, SHORT, SHORT});
    CHECK(reads == 1);
    /* A target may say that objects overlap, and that one is larger than what is read at once. */
    read_at((const remote_addr[]){0, 4096, 8192}, (const size_t[]){LONG, SHORT, SHORT});
    read_at((const remote_addr[]){0, 4096, 8192}, (const size_t[]){SHORT, LONG, SHORT});
    read_at((const remote_addr[]){0, 8, SCRATCH - 1}, (const size_t[]){SCRATCH, SCRATCH, SHORT});
    CHECK(longest == SCRATCH);
    return check_result();
}
