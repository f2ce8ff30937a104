/*
 * One heap profile of a target, taken into the tool's memory while one of its
 * threads is held, and written out in any form when that has been let go.
 * Nothing is created on the target's side.
 *
 * Several of one process, one after the other: attachment_open, then
 *
 *   capture_init, capture_take, [capture_write], capture_free
 *   attachment_rest, a pause, attachment_renew
 *
 * and so on.
 */
#pragma once

#include "jemalloc/dump.h"
#include "run/attachment.h"
#include "run/present.h"

struct capture {
    struct sink text;
    uint64_t bytes;   /* of the text: writing may release it */
    uint64_t time_ns; /* CLOCK_REALTIME: when it was taken */
    bool taken;
};

void capture_init(struct capture *capture);
void capture_free(struct capture *capture);

/*
 * Holds a thread once, runs first in it, unless that is NULL, and if it is well
 * makes the dump. The faults of attachment_hold, of first, and of dump_run.
 */
fault_code capture_take(struct attachment *attachment, struct capture *capture, held_action first,
                        void *ctx, struct fault *fault);

/*
 * Writes it, less base unless that is NULL, in the presentation's format, with
 * the names of the files that the target has mapped; output is then complete.
 * Afterwards the texts may be gone.
 */
fault_code capture_write(struct attachment *attachment, struct presentation *presentation,
                         struct capture *capture, struct capture *base, struct output *output,
                         struct fault *fault);
