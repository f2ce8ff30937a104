/* What of the memory of a process is free but not returned, and which stacks keep it. */
#pragma once

#include "jemalloc/left_behind.h"
#include "profile/waste.h"
#include "run/capture.h"

struct frag {
    struct build build;
    struct bins bins;
    struct left_behind left;     /* of the class with most free space */
    bool counted;                /* bins has been read */
    struct waste_class *classes; /* of all arenas */
    size_t class_count;
    struct capture capture; /* taken: there is a profile */
    fault_code why;         /* without one: FAULT_PROF_DISABLED or FAULT_PROF_ABSENT */
    struct proc_usage process;
    enum usage_source source;
};

/* frag_free releases what frag_take or frag_parse has made, after a failure, too. */
void frag_init(struct frag *frag);
void frag_free(struct frag *frag);

/*
 * Reads the statistics by a call, and close to it the profile, in the same stop or from memory,
 * and the RSS. A process without profiling is no fault. Needs attachment_open. FAULT_STATS_ABSENT;
 * faults of capture_take and bins_read.
 */
fault_code frag_take(struct frag *frag, struct attachment *attachment, struct fault *fault);

/* Takes the statistics from a report of jemalloc in JSON: faults of bins_parse. The RSS is 0. */
fault_code frag_parse(struct frag *frag, const char *json, size_t len, struct fault *fault);
