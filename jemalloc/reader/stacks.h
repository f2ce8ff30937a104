/* Reads the hash table of stacks (ckh.h), and all stacks of a profile while the process runs on. */
#pragma once

#include "jemalloc/reader/batch.h"
#include "jemalloc/reader/model.h"
#include "jemalloc/reader/reader.h"

/* Addresses, ascending, each once. */
struct addresses {
    remote_addr *list;
    size_t count, capacity;
};

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

/*
 * Appends all stacks to the model. Each stack is read twice, and taken if nothing
 * has changed in between, so that its counts are those of one moment. Stacks
 * that differ are read again, for STACK_READS_MAX times; those that are then still
 * in the table are counted in *unsettled, and are not in the model. FAULT_TOO_LARGE:
 * the model is larger than what the sink has left.
 */
fault_code stacks_read(const struct reader *reader, struct batch *batch, const struct sink *sink,
                       struct model *model, size_t *unsettled, struct fault *fault);

enum { STACK_READS_MAX = 64, TABLE_LOOKS_MAX = 4 };

/*
 * Drops all gctx of a profile but the last of those with the same program counters:
 * a stack was freed, and came back at another address, while the profile was read.
 * False: out of memory.
 */
bool stacks_drop_repeated(struct model *model);
