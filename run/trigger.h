/*
 * What makes the next profile of a recording due, besides time: bytes that the
 * process has allocated, or a new peak of its RSS. Both are polled without a call:
 * the bytes from the counters of its threads (jemalloc/tsd/tsd.h), the RSS from /proc.
 *
 * A thread takes its counter with it: what it allocates between the last look and its
 * end is not counted.
 */
#pragma once

#include "run/attachment.h"

struct trigger_request {
    uint64_t bytes;   /* due each time that so many more were allocated; 0: never */
    unsigned percent; /* due when the RSS is so much above its last peak; 0: never */
};

struct trigger {
    struct trigger_request request;
    struct attachment *attachment;
    struct fact_variables variables;
    struct trigger_thread *threads; /* ascending by tid */
    size_t thread_count;
    uint64_t allocated;       /* bytes since trigger_open */
    uint64_t allocated_taken; /* the same, at the last profile */
    uint64_t rss, peak;       /* bytes; peak: at the start, and then at the last profile */
    uint64_t rest_until;      /* CLOCK_MONOTONIC ns: the next look at the threads */
    bool due;
};

enum { TRIGGER_LOOK_NS = 100000000 }; /* between two looks; longer if one takes long */

static inline bool trigger_is_set(const struct trigger_request *request)
{
    return request->bytes || request->percent;
}

/*
 * Takes the present values as the start. FAULT_NO_COUNTS: request.bytes is set, and the
 * counters cannot be read. trigger_close also after a failure.
 */
fault_code trigger_open(struct trigger *trigger, struct attachment *attachment,
                        const struct trigger_request *request, struct fault *fault);
void trigger_close(struct trigger *trigger);

/* Looks at the present values; true (and trigger->due) if a profile is due. */
bool trigger_look(struct trigger *trigger);
/* Looks at once, however long the last look has taken. */
void trigger_refresh(struct trigger *trigger);
/* A profile was taken: what comes next is compared with the present values. */
void trigger_rearm(struct trigger *trigger);
