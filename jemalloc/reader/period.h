/* Finds the sampling period in the counts themselves. */
#pragma once

#include "jemalloc/reader/model.h"

/*
 * Unbiased counts depend on the size of the objects and on the period (prof_data.c,
 * prof_unbias_map_init), so they prove it. False: there are too few, or they do not
 * agree. *lg_sample: a sample every 2^n bytes on average.
 */
bool period_find(const struct model *model, unsigned *lg_sample);

/* True if the counts are unbiased ones (opt.prof_unbias), or there are none. */
bool period_is_unbiased(const struct model *model);
