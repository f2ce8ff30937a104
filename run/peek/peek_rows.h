/* The rows of a sample: what it says about all objects, with the sampling error. */
#pragma once

#include "run/peek/peek.h"

/*
 * Sorts the samples by row, and makes peek->rows, totals and kinds. False: out of memory.
 * The objects of a size are a sum of kinds, whose shares have the error of a sample without
 * replacement: the variance of Agresti and Coull (1998), times (N - n) / (N - 1).
 */
bool peek_rows_make(struct peek *peek);

/*
 * Finds the commonest beginnings of `count` texts that are sorted by their bytes: each of at
 * least three bytes, and of at least a tenth of the texts. Returns their number.
 */
size_t peek_prefixes_find(const struct peek_sample *samples, size_t count,
                          struct peek_prefix prefixes[PEEK_PREFIXES]);
