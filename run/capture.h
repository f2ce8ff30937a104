/*
 * One heap profile of a target in the tool's memory, taken by access_profile (run/access.h), and
 * written in any format after that.
 */
#pragma once

#include "jemalloc/sink.h"
#include "run/attachment.h"
#include "run/present.h"

/* Limits the memory for one profile: some five million stacks. */
#define CAPTURE_LIMIT ((size_t)1 << 30)

struct capture {
    struct sink text;
    uint64_t bytes;   /* of the text, which capture_write may release */
    uint64_t time_ns; /* CLOCK_REALTIME at the dump, or at the start of the read */
    uint64_t at_ns;   /* CLOCK_MONOTONIC, of the same moment */
    size_t most;      /* bytes of it, at most */
    bool taken;
    struct output *output; /* not NULL: gets what is read from memory at once */
};

void capture_init(struct capture *capture);
void capture_free(struct capture *capture);

/*
 * Lets access_profile write a profile that it reads from memory to the output, while
 * it makes the text, which then needs little memory. capture_write completes it, and
 * must be given the same output, no base, and FORMAT_RAW. No effect on an output that
 * others can see before it is complete.
 */
void capture_write_early(struct capture *capture, struct output *output);

/*
 * Writes a profile, or the difference of two, as present(), with names from the files
 * that the target has mapped: the sources need no symbols. May release their texts.
 */
fault_code capture_write_series(struct attachment *attachment, struct presentation *presentation,
                                struct present_source *sources, size_t count, struct output *output,
                                struct fault *fault);
/* The same for one profile. */
fault_code capture_write(struct attachment *attachment, struct presentation *presentation,
                         struct capture *capture, struct output *output, struct fault *fault);
