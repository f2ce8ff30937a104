/*
 * The growth by stack as an exact heap profile, for its names and views: an object is
 * a page. In use are the pages that a stack has gained, without those of files; accumulated all
 * that it touched.
 */
#pragma once

#include "jemalloc/sink.h"
#include "run/grow/grow_sites.h"

/* The growth by a stack of the profile, in pages. */
struct grow_stack {
    double growth[GROW_KINDS];
};

struct grow_stacks {
    struct grow_stack *list; /* in the profile's order: struct sample has the number */
    size_t count;
    uint32_t *of_site; /* its number, by that of each of grow_sites */
};

/*
 * Appends the profile, with the mappings of the last look. Threads are those of the
 * process, by their thread ids. Sets stacks: grow_stacks_free. FAULT_TOO_LARGE,
 * FAULT_INTERNAL.
 */
fault_code grow_profile_make(const struct grow_sites *sites, const struct grow_pages *pages,
                             const struct target *target, struct sink *sink,
                             struct grow_stacks *stacks, struct fault *fault);
void grow_stacks_free(struct grow_stacks *stacks);
