/*
 * Profiles between the first and the last one of leak, which show how memory has
 * grown: at even distances, as long as they are cheap, and only a few at a time.
 */
#pragma once

#include "profile/heap.h"
#include "run/attachment.h"
#include "run/governor.h"

enum { BETWEEN_MAX = 16 };

struct between_point {
    struct heap_profile profile; /* without its mappings, threads and, unless wanted, their lines */
    uint64_t at_ns;              /* CLOCK_MONOTONIC */
};

struct between {
    struct between_point points[BETWEEN_MAX]; /* in order of time */
    size_t count;
    struct sink text;
    struct governor governor;
    uint64_t step_ns, next_ns; /* distance of the points; CLOCK_MONOTONIC of the next, or NEVER */
    uint64_t until_ns;         /* CLOCK_MONOTONIC: none is taken later */
    uint64_t spent_ns, budget_ns;
    unsigned failed; /* attempts, since the last point */
    bool by_thread;  /* keeps the lines of threads */
};

#define BETWEEN_NEVER UINT64_MAX

struct between_request {
    uint64_t from_ns, until_ns; /* CLOCK_MONOTONIC: of the sampling */
    bool by_thread;
};

void between_init(struct between *between);
void between_free(struct between *between);

/*
 * Plans the first point, after the first profile, whose cost is known. Reads of memory may
 * take a tenth of the time; threads may be stopped for a hundredth.
 */
void between_plan(struct between *between, const struct attachment *attachment,
                  const struct between_request *request);
/*
 * Takes a profile at between->next_ns, before which attachment_rest was called, and plans the
 * next. A failure costs only this point: the target may be stopped or traced for a while. None is
 * begun that might not end in time; Ctrl-C ends one.
 */
void between_take(struct between *between, struct attachment *attachment);
