/* How many threads sample, and what jemalloc knows of each, in words and JSON. */
#pragma once

#include "base/json.h"
#include "jemalloc/tsd/tsd.h"

#include <stdio.h>

enum { THREAD_COUNTS_TEXT = 256 };

/* Returns the number of threads in these counts, which are indexed by enum thread_sampling. */
size_t thread_counts_total(const size_t counts[]);

/*
 * "5 of 6 sample (2 have not allocated yet); 1 is off (thread.prof.active)". active: prof.active is
 * true. why: the reason of unknown ones, a clause; NULL: none. Returns out.
 */
const char *thread_counts_text(const size_t counts[], bool active, const char *why,
                               char out[THREAD_COUNTS_TEXT]);
/* Adds threads, threads_sampling, threads_fresh, threads_asleep, threads_off, threads_unknown. */
void thread_counts_json(const size_t counts[], struct json *json);

/* A row for each thread: the one that keeps most memory first. Unknown values are ?. */
void thread_view_print(const struct tsd_threads *threads, FILE *out);
/* Adds the same as the list "thread_list"; unknown values are null. */
void thread_view_json(const struct tsd_threads *threads, struct json *json);
/* Brings them into that order: by allocated minus deallocated bytes; unknown ones last. */
void thread_view_sort(struct tsd_threads *threads);
