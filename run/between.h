/*
 * Profiles between the first and the last one of leak, which show how memory has
 * grown: at even distances, as long as they are cheap, and only a few at a time. The newest one
 * takes the place of the last one if the process ends before.
 */
#pragma once

#include "profile/heap.h"
#include "run/last_profile.h"

enum { BETWEEN_MAX = 16 };

struct between_point {
    struct heap_profile profile; /* without lines of threads, unless they are wanted */
    uint64_t at_ns;              /* CLOCK_MONOTONIC */
};

struct between {
    struct between_point points[BETWEEN_MAX]; /* in order of time */
    size_t count;
    struct last_profile last;
    uint64_t next_ns;           /* CLOCK_MONOTONIC: between_take is due; or BETWEEN_NEVER */
    uint64_t until_ns;          /* CLOCK_MONOTONIC: none is taken later */
    uint64_t step_ns, point_ns; /* distance of the points; CLOCK_MONOTONIC of the next */
    uint64_t points_until_ns;   /* CLOCK_MONOTONIC: no point is later */
    bool by_thread;             /* keeps the lines of threads */
};

#define BETWEEN_NEVER UINT64_MAX

struct between_request {
    uint64_t from_ns, until_ns; /* CLOCK_MONOTONIC: of the sampling */
    bool by_thread;
    bool no_points; /* only the newest profile is kept */
};

void between_init(struct between *between);
void between_free(struct between *between);

/*
 * Plans the first one, after the first profile of the run, whose cost is known. Reads of memory
 * may take a tenth of the time; threads may be stopped for a hundredth.
 */
void between_plan(struct between *between, const struct attachment *attachment,
                  const struct between_request *request);
/*
 * Takes a profile at between->next_ns, before which attachment_rest was called, and plans the
 * next. A failure costs only this one: the target may be stopped or traced for a while. None is
 * begun that might not end in time; Ctrl-C ends one. FAULT_GONE, FAULT_EXECED: then
 * between_use_last.
 */
fault_code between_take(struct between *between, struct attachment *attachment,
                        struct fault *fault);
/*
 * After the end of the process: gives the newest profile to the capture, as last_profile_use, with
 * its CLOCK_MONOTONIC; it is no point any more. Returns its age in ns; 0: there is none.
 */
uint64_t between_use_last(struct between *between, struct capture *capture, uint64_t *at_ns);
