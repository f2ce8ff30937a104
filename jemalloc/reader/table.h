/* Reads a hash table of stacks (ckh.h): the addresses of all gctx. */
#pragma once

#include "attach/memory.h"
#include "jemalloc/reader/layout.h"

/* Addresses, ascending, each once. */
struct addresses {
    remote_addr *list;
    size_t count, capacity;
};

void addresses_free(struct addresses *addresses);
/* Appends the addresses of `more` that are not in `addresses` to `out`. False: out of memory. */
bool addresses_minus(const struct addresses *more, const struct addresses *addresses,
                     struct addresses *out);
/* Adds all addresses of `more`. False: out of memory. */
bool addresses_merge(struct addresses *addresses, const struct addresses *more);
bool addresses_have(const struct addresses *addresses, remote_addr addr);

/* Reads the table object at addr; false if it is unreadable or no such table. */
bool table_open(struct reader_table *table, struct memory *memory, remote_addr addr);
/* True if these bytes may be a table: counts and addresses are possible ones. */
bool table_is_possible(const struct reader_table *table);

/* What was in a table when it was read last. Zeros: it has not been read. */
struct table_contents {
    struct addresses addresses; /* of the gctx */
    struct addresses cells;     /* the same in the order of the cells, if it may change */
    bool is_read;               /* cells are valid */
};

/*
 * Replaces the contents with those of the table at addr. Reads until two reads
 * agree, unless is_still: jemalloc moves cells from place to place. One of the two
 * may be that of the call before. *odd becomes the number of stacks that are not
 * among them: cells whose key is not the bt of a gctx, or the difference to the
 * number that the table counts. False: unreadable, or out of memory.
 */
bool table_read(struct memory *memory, const struct reader_layout *layout, remote_addr addr,
                bool is_still, struct table_contents *contents, size_t *odd);
void table_forget(struct table_contents *contents);
