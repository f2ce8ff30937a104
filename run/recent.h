/* Samples one process for a while, with jemalloc's list of recent allocations switched on. */
#pragma once

#include "jemalloc/recent.h"
#include "jemalloc/recent_list.h"
#include "run/last_profile.h"

struct recent_request {
    uint64_t duration_ns;
    unsigned count; /* records that the list has at least; 1 to RECENT_MAX */
    bool impatient; /* once all is restored, a signal ends the process at once */
};

struct recent {
    struct recent_request request;
    struct sampling sampling;
    struct recent_switch list_switch;
    struct sink text;
    bool taken;
    struct recent_list list;
    struct capture capture; /* the list as a heap profile (run/recent_profile.h) */
    uint64_t now_ns;        /* of the list's clock, when it was taken */
    bool clock_shared;      /* else that is the time of its last event */
    remote_addr message_at;
    struct last_profile last; /* lists, each followed by the mappings of its time */
    struct sink *into;        /* for the next of them */
    uint64_t next_ns;         /* of the list's clock, when that was taken, and the one kept */
    uint64_t kept_ns;
    struct fault ended; /* code: the process ended before; the list is the last that was taken */
};

void recent_init(struct recent *recent, const struct recent_request *request);
void recent_free(struct recent *recent);

/*
 * Switches the list and profiling on, waits, switches profiling off again, takes the list
 * and sets it back. Parses it and makes the capture, which capture_write then writes. The
 * first signal ends only the waiting. Then job_finish_sampling or sampling_settle, which
 * also sets the list back if that has not been done. Needs attachment_open.
 *
 * While it waits, takes the list again and again, for a hundredth of the time at most: if the
 * process ends, the last of them is the result, with recent->ended.
 */
fault_code recent_run(struct recent *recent, struct attachment *attachment, struct fault *fault);

/* True for an object that was alive when the list was taken, or whose release has no time. */
static inline bool recent_lacks_lifetime(const struct recent_record *record)
{
    return !record->has_release || record->release.time_ns < record->allocation.time_ns;
}
/* Nanoseconds from the allocation to the taking of the list; 0 if it seems to be later. */
uint64_t recent_age(const struct recent *recent, const struct recent_record *record);
/* Nanoseconds from the allocation to the release; 0 if recent_lacks_lifetime. */
uint64_t recent_lifetime(const struct recent_record *record);
