/* The records that the kernel writes for an event of perf/event_open.h. */
#pragma once

#include "perf/user_state.h"

#include <stdbool.h>
#include <sys/types.h>

enum { CHAIN_MAX = 256 };

/* A sample (PERF_RECORD_SAMPLE). */
struct sample_record {
    pid_t pid, tid;
    uint64_t time_ns;
    remote_addr addr;
    uint64_t event;          /* the number of the event (event_id) */
    struct user_state state; /* points into the record and to chain */
    uint64_t chain[CHAIN_MAX];
};

/*
 * Parses the bytes behind the header; registers as in the event. False: the record is not
 * one, and *out is undefined. A stack or a chain that is longer than the record is cut.
 */
bool record_sample(struct sample_record *out, const unsigned char *bytes, size_t len,
                   uint64_t registers);

/* Returns the process in which a PERF_RECORD_FORK tells of a new thread; 0: of a new process. */
pid_t record_new_thread(const unsigned char *bytes, size_t len);
/* Returns the number of lost records that a PERF_RECORD_LOST tells of. */
uint64_t record_lost(const unsigned char *bytes, size_t len);
