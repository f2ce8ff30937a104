/*
 * Finds the two variables that lead to everything: bt2gctx, the table of stacks,
 * and tdatas, the tree of threads. By their names, or by their look: a table is
 * the only object in the module's data with two different functions in it behind
 * possible counts, and its cells prove the rest.
 */
#pragma once

#include "jemalloc/reader/batch.h"
#include "jemalloc/reader/reader.h"

/* Sets reader->stacks and reader->layout. */
fault_code roots_find_stacks(struct reader *reader, struct batch *batch, struct fault *fault);
/* Sets reader->threads; 0: there are none, or out of memory. */
void roots_find_threads(struct reader *reader, struct batch *batch);
