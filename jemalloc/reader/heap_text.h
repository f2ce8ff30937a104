/* Writes a profile as prof.dump does: heap_v2 (prof.c, prof_data.c). */
#pragma once

#include "jemalloc/reader/model.h"
#include "jemalloc/sink.h"

struct heap_text {
    const struct model *model;
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

/* The counts that prof.dump prints for unbiased ones (prof_data.c, prof_do_unbias). */
void heap_text_unbias(uint64_t shifted_objects, uint64_t bytes, unsigned lg_sample,
                      uint64_t *printed_objects, uint64_t *printed_bytes);
