/*
 * The state of profiling read out of jemalloc's own variables, without a call
 * and without a stop: where .symtab still names them (jemalloc 4.0 to 5.3.1:
 * opt_prof, prof_active or prof_active_state, lg_prof_sample, behind the
 * private namespace).
 */
#pragma once

#include "jemalloc/instance.h"

struct prof_peek {
    bool enabled_known, active_known, lg_sample_known;
    bool enabled; /* opt.prof */
    bool active;  /* prof.active; means nothing when enabled is false */
    uint64_t lg_sample;
};

void prof_peek(struct prof_peek *peek, const struct instance *instance, const struct target *target,
               struct memory *memory);
