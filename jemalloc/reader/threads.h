/* Reads the tree of tdata: all threads that have sampled, ended ones included. */
#pragma once

#include "jemalloc/reader/batch.h"
#include "jemalloc/reader/layout.h"
#include "jemalloc/reader/model.h"

enum { TDATAS_MAX = 1 << 20, THREAD_NAME_MAX = 1024, THREAD_READS_MAX = 8 };

/*
 * Reads the threads into model.tdatas, ascending. root is the address of the
 * variable that points to the tree, hash that of the function which all their
 * tables use. Reads again until two reads agree, unless is_still. False: a node
 * is no tdata, the tree does not end, or out of memory.
 */
bool threads_read(struct batch *batch, const struct reader_layout *layout, remote_addr root,
                  const struct reader_table *table, bool is_still, struct model *model);

/* Returns the index in model.tdatas of the one at addr; SIZE_MAX: none. order: see threads_order.
 */
size_t threads_at(const struct model *model, const size_t *order, remote_addr addr);
/* Returns the indexes of model.tdatas by ascending address; NULL: out of memory. */
size_t *threads_order(const struct model *model);

/* True if the object at these bytes is a tdata: its table uses the functions of `table`. */
bool threads_is_tdata(const struct reader_layout *layout, const unsigned char *bytes,
                      const struct reader_table *table);
