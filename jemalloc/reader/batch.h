/*
 * Reads many small objects with few system calls. Objects of one kind lie close
 * together, in jemalloc's slabs: neighbours are read as one piece.
 */
#pragma once

#include "attach/memory.h"

struct batch_item {
    remote_addr addr;
    size_t len; /* bytes; not 0 */
    void *into; /* all zero if it could not be read */
};

struct batch {
    struct memory *memory;
    unsigned char *scratch;
};

/* False: out of memory. */
bool batch_open(struct batch *batch, struct memory *memory);
void batch_close(struct batch *batch);

/* Reads all items, and sorts them by address. Returns the number that could not be read. */
size_t batch_read(struct batch *batch, struct batch_item *items, size_t count);
