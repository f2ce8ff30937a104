/*
 * One heap profile of a target, read from its memory (run/readout.h) or copied
 * into the tool's memory while one thread is stopped, and written in any format
 * after that. Nothing is created on the target's side.
 *
 * For several profiles of one process: readout_open, then repeatedly
 *
 *   capture_init, capture_take, [capture_write], capture_free
 *   attachment_rest, a pause, attachment_renew
 */
#pragma once

#include "jemalloc/dump.h"
#include "run/attachment.h"
#include "run/present.h"
#include "run/readout.h"

struct capture {
    struct sink text;
    uint64_t bytes;   /* of the text, which capture_write may release */
    uint64_t time_ns; /* CLOCK_REALTIME at the dump, or at the start of the read */
    bool taken;
    struct output *output; /* not NULL: gets what is read from memory at once */
};

/* What is done around a profile. Each of them may be absent. */
struct capture_steps {
    held_action first, last;        /* before and after the profile: in one stop, or readout_act */
    void *ctx;                      /* of both */
    const struct dump_after *after; /* with a call, as `first` leaves it: in its list */
};

void capture_init(struct capture *capture);
void capture_free(struct capture *capture);

/*
 * Lets capture_take write a profile that it reads from memory to the output, while
 * it makes the text, which then needs little memory. capture_write completes it, and
 * must be given the same output, no base, and FORMAT_RAW. No effect on an output that
 * others can see before it is complete.
 */
void capture_write_early(struct capture *capture, struct output *output);

/*
 * Runs the first step, if that succeeds takes the profile, and if that succeeds
 * runs the last step: all in one stop of a thread, or, with attachment->reads, from
 * memory. If it turns out to be unreadable, by a call instead, where that is allowed.
 * steps may be NULL. A failure of the last step is not reported: the profile is taken.
 * Faults: those of attachment_hold, of readout_take, of the first step and of dump_run.
 */
fault_code capture_take(struct attachment *attachment, struct capture *capture,
                        const struct capture_steps *steps, struct fault *fault);

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
