/*
 * The doors to the switch and the profile of a target: prof.active, and the heap profile. Each
 * answers from memory where that is proven, else by a call in one of its threads, as request.way
 * allows; then the caller is made (run/caller.h). Nobody else decides between the two ways. The
 * third door, to the gauges, is run/account.h.
 *
 * Between two uses of one process: attachment_rest, a pause, attachment_renew.
 */
#pragma once

#include "jemalloc/dump.h"
#include "run/attachment.h"
#include "run/present.h"

/* ---- the profile ---- */

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
 * attachment_find, and finds the profile in memory. If it cannot be proven there, reports
 * NOTE_UNREADABLE, once, and profiles are taken by calls, where request.way allows that.
 * attachment_close is needed after a failure, too.
 */
fault_code access_open(struct attachment *attachment, const struct attach_request *request,
                       struct fault *fault);
/* True if profiles are taken by calls, as asked for, or since one has failed in memory. */
bool access_calls(const struct attachment *attachment);
/* True if profiles are read from memory: request.way allows it, and none has failed there. */
bool access_reads(struct attachment *attachment);
/*
 * Appends one profile from memory to the sink, without its mappings, and counts it in
 * attachment->read. FAULT_UNREADABLE: it is not proven. FAULT_GONE, FAULT_EXECED: it ended
 * meanwhile; FAULT_TOO_LARGE: the sink is full; FAULT_INTERRUPTED: a signal came before.
 */
fault_code access_read(struct attachment *attachment, struct sink *sink, struct fault *fault);
/*
 * Takes one profile. after: what a call does behind the profile, in its list, so that it is done
 * even if the tool ends in the call; NULL: nothing, as if it is read from memory. Faults: those of
 * access_read, caller_hold and dump_run.
 */
fault_code access_profile(struct attachment *attachment, struct capture *capture,
                          const struct dump_after *after, struct fault *fault);

/* FAULT_PROF_*, without a call, if memory tells that this process cannot profile. */
fault_code access_check_profiling(struct attachment *attachment, struct fault *fault);

/* ---- the switch ---- */

/*
 * Finds the byte that prof.active is, attachment->byte, and reads what memory shows of the state
 * of profiling, also of a process that is traced, stopped or frozen. Returns NULL, or the reason
 * (static text) why prof.active has to be switched to that value by a call.
 */
const char *access_find_byte(struct attachment *attachment, bool active, struct prof_state *state);
/*
 * Reads the state of profiling: from memory where profiles are read from memory and the byte is
 * proven. FAULT_PROF_*: this process cannot profile. FAULT_HOOKS and the like: a profile by call
 * would be refused.
 */
fault_code access_state(struct attachment *attachment, struct prof_state *state,
                        struct fault *fault);

/* Reads prof.active alone: from memory where the byte is proven, whatever else memory shows. */
fault_code access_active(struct attachment *attachment, bool *active, struct fault *fault);

struct access_switched {
    struct prof_state former; /* the state before */
    bool in_memory;           /* by the byte, without a call */
};

/*
 * Sets prof.active, unless it has that value, and reads it back. Reports NOTE_CALL_NEEDED if the
 * byte is not proven. FAULT_PROF_*: this process cannot profile. FAULT_UNWRITABLE: it needs a call,
 * which request.way forbids. FAULT_GONE, FAULT_EXECED: it ended meanwhile. Threads that do not
 * sample all the same are activating_run's matter.
 */
fault_code access_switch(struct attachment *attachment, bool active,
                         struct access_switched *switched, struct fault *fault);

/* ---- the output ---- */

/* present_read with names from the files that the target has mapped. */
fault_code capture_read(struct attachment *attachment, struct presentation *presentation,
                        const struct present_source *sources, size_t count,
                        struct presented *presented, struct fault *fault);
/* Reads one profile in the same way, and writes it. May release its text. */
fault_code capture_write(struct attachment *attachment, struct presentation *presentation,
                         struct capture *capture, struct output *output, struct fault *fault);
