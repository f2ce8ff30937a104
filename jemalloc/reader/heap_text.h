/* Writes a profile as prof.dump does: heap_v2 (prof.c, prof_data.c). */
#pragma once

#include "jemalloc/reader/model.h"
#include "jemalloc/sink.h"

struct heap_text {
    unsigned lg_sample;
    bool is_unbiased; /* opt.prof_unbias: print unbiased counts, so scaled that jeprof shows them */
};

/*
 * Appends the text, up to the title of the mappings; *stacks becomes the number of stacks
 * in it: those of which nothing is left are omitted. The model's codes are
 * renumbered. False: out of memory, or the sink's limit.
 */
bool heap_text_write(const struct heap_text *text, struct model *model, struct sink *sink,
                     size_t *stacks);

/*
 * Unbiased counts depend on the size of the objects and on the sampling period (prof_data.c,
 * prof_unbias_map_init), so they prove it. False: there are too few, or they do not
 * agree. *lg_sample: a sample every 2^n bytes on average.
 */
bool heap_find_period(const struct model *model, unsigned *lg_sample);
/* True if the counts are unbiased ones (opt.prof_unbias), or there are none. */
bool heap_is_unbiased(const struct model *model);

/* The counts that prof.dump prints for unbiased ones (prof_data.c, prof_do_unbias). */
void heap_text_unbias(uint64_t shifted_objects, uint64_t bytes, unsigned lg_sample,
                      uint64_t *printed_objects, uint64_t *printed_bytes);
