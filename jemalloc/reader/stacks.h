/* Reads all stacks of a profile while the process runs on. */
#pragma once

#include "jemalloc/reader/batch.h"
#include "jemalloc/reader/layout.h"
#include "jemalloc/reader/model.h"

struct stacks_request {
    const struct reader_layout *layout;
    struct batch *batch;
    remote_addr table;               /* bt2gctx */
    bool is_still;                   /* nothing changes while it is read */
    size_t limit;                    /* bytes of memory for the model */
    const struct deadline *deadline; /* NULL: none */
};

enum stacks_end { STACKS_READ, STACKS_UNREADABLE, STACKS_TOO_MANY, STACKS_LATE, STACKS_NO_MEMORY };

/*
 * Appends all stacks to the model. Each stack is read twice, and taken if nothing
 * has changed in between, so that its counts are those of one moment. Stacks
 * that differ are read again, for STACK_READS_MAX times; those that are then still
 * in the table are counted in *unsettled, and are not in the model.
 */
enum stacks_end stacks_read(const struct stacks_request *request, struct model *model,
                            size_t *unsettled);

enum { STACK_READS_MAX = 64, TABLE_LOOKS_MAX = 4 };
