/* The list of recent allocations as a heap profile in jemalloc's format, for its names and views.
 */
#pragma once

#include "jemalloc/recent_list.h"
#include "jemalloc/sink.h"

/*
 * Appends the profile, without its mappings: stack number i of the profile is that of the
 * list, also if it only released. In use are the objects that are alive, accumulated all
 * of them. Numbers are as 5.3.0 writes them: so that undoing the sampling for the sum of a
 * stack gives the sum of what each sample stands for (prof_data.c, prof_do_unbias).
 * FAULT_TOO_LARGE, FAULT_INTERNAL.
 */
fault_code recent_profile_make(const struct recent_list *list, struct sink *sink,
                               struct fault *fault);
