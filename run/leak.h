/* Two profiles of one process and sampling between them, to show what has grown. */
#pragma once

#include "jemalloc/size_classes.h"
#include "jemalloc/stats.h"
#include "run/between.h"
#include "run/sampling.h"

struct leak_request {
    uint64_t duration_ns;
    uint64_t settle_ns; /* without sampling, before the second profile; 0: none */
    bool reset;         /* calls prof.reset first, so that the first profile is empty */
    bool by_thread;     /* the points between keep the counts of threads */
    bool impatient;     /* once prof.active is restored, a signal ends the process at once */
};

/* A profile, and what jemalloc counted in the same stop, if there was one. */
struct leak_end {
    struct capture capture;
    struct stats_gauges gauges;
    struct size_class_counts classes;
    double sampled_objects[SIZE_CLASSES]; /* which up to 5.3.0 are in no class */
    bool counted;                         /* gauges; not without config.stats, nor without a call */
    uint64_t rss;                         /* bytes; 0: unknown */
    double sampled;                       /* bytes that the profile represents */
    double overhead; /* bytes of gauges.allocated that exist because of the sampling */
    uint64_t at_ns;  /* CLOCK_MONOTONIC */
};

/* What prof.reset has dropped, as estimated from the samples. */
struct leak_dropped {
    bool known; /* it was called */
    uint64_t bytes, stacks;
};

struct leak {
    struct sampling sampling;
    struct leak_dropped dropped;
    struct leak_end before, after;
    struct between between; /* while it sampled */
    struct fault ended; /* code: the process ended before; `after` is the newest that was read */
};

void leak_init(struct leak *leak);
void leak_free(struct leak *leak);

/*
 * Samples for a while with a profile at each end, and some between. sampling_settle in each case.
 * If the process ends meanwhile and one of them was read, succeeds with leak->ended.
 */
fault_code leak_run(struct leak *leak, struct attachment *attachment,
                    const struct leak_request *request, struct fault *fault);
/* Computes sampled and overhead of both ends, before leak_write releases the texts. */
fault_code leak_estimate(struct leak *leak, struct fault *fault);
/* Writes the difference, as present(). May release the texts. */
fault_code leak_write(struct leak *leak, struct attachment *attachment,
                      struct presentation *presentation, struct output *output,
                      struct fault *fault);

/* Bytes that the program itself has allocated at the end. */
double leak_covered_whole(const struct leak *leak);
/* The part of them that the samples represent, in percent. */
double leak_covered_percent(const struct leak *leak);
/*
 * By how many bytes all objects have grown that have the size of these, as jemalloc
 * counts them exactly. False: it is not known, or no small size class has nearly
 * that size, as with a mean of several. *size: that of the class.
 */
bool leak_class_growth(const struct leak *leak, uint64_t object_bytes, uint64_t *size,
                       double *growth);
/* How long it sampled. */
double leak_seconds(const struct leak *leak);
