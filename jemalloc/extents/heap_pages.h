/*
 * What the records are read from: the memory of one process. Its pages without contents, in
 * memory or in swap (host/pagemap.h), are not touched: a read of an
 * anonymous page that has none maps the zero page in the process
 * (mm/memory.c, do_anonymous_page), for which its page tables may grow, and static data and the
 * tree from page to extent are mostly such pages.
 */
#pragma once

#include "host/pagemap.h"
#include "jemalloc/reader/reader.h"

struct heap_pages {
    const struct reader_source *source;
    struct pagemap map; /* fd below 0: unknown, then every page counts as one with contents */
};

/* Never fails: a core file has no pagemap, and some kernels have none. source must outlive it. */
void pages_open(struct heap_pages *heap, const struct reader_source *source);
void pages_close(struct heap_pages *heap);

/*
 * Sets has[i] for each of count pieces of 4096 bytes from start on. Returns how many have
 * contents.
 */
size_t pages_contents(const struct heap_pages *heap, remote_addr start, bool *has, size_t count);

/* True if all of [addr, addr + len) is in one writable mapping of no ELF file. */
bool pages_is_heap(const struct heap_pages *heap, remote_addr addr, uint64_t len);

/* Reads a range; pages without contents, or that cannot be read, are zero. */
void pages_read(const struct heap_pages *heap, remote_addr addr, unsigned char *buf, size_t len);

/* True if the deadline has passed, or the operator stops. */
bool pages_is_late(const struct heap_pages *heap);

/*
 * Visits the segments of jemalloc's module, those that it may write (bss included) or the
 * others, in pieces; the last overlap bytes of a piece are seen again in the next one. Pieces
 * without contents are left out. Stops when visit returns false.
 */
typedef bool (*pages_visit)(void *ctx, remote_addr at, const unsigned char *bytes, size_t len);
void pages_segments(const struct heap_pages *heap, bool writable, size_t overlap, pages_visit visit,
                    void *ctx);
/* Sets the ends of the segments that it may write. False: unknown. */
bool pages_data_range(const struct heap_pages *heap, struct memory_range *range);
