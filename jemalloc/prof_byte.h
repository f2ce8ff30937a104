/*
 * Switches prof.active by the one byte that it is in the memory of the process:
 * no call, no stop, no lock.
 *
 * prof.active, written by mallctl, stores one bool under a mutex (prof.c,
 * prof_active_set), and malloc's path reads that bool without the mutex
 * (prof_inlines.h, prof_active_get_unlocked). So a write of the byte is all that
 * the call does. It is written only if its address is proven by the code of
 * jemalloc itself (stripped/globals.h), symbols do not contradict, its value is 0
 * or 1, and opt.prof is true. jemalloc 5.2.0 and 5.2.1 need more than that to
 * sample again (activate.h).
 */
#pragma once

#include "jemalloc/facts.h"

struct prof_byte {
    remote_addr at;          /* 0: not found */
    remote_addr thread_init; /* prof.thread_active_init, a byte of the same kind; 0: not found */
    bool visits;             /* found, but some threads may have to be visited: the defect of 5.2 */
    bool located;            /* variables are known: all that was found with it */
    struct fact_variables variables;
};

/*
 * Finds the byte, and reads the state of profiling. Returns NULL, or the reason
 * (static text) why prof.active has to be switched to that value by a call.
 */
const char *prof_byte_find(struct prof_byte *byte, bool active, const struct instance *instance,
                           const struct modules *modules, const struct target *target,
                           struct memory *memory, struct prof_state *state);

/*
 * Writes the byte and reads it back. The process need not be stopped. FAULT_EXECED:
 * it runs another program by now, and nothing was written. FAULT_UNWRITABLE: the
 * kernel refuses, or another value was read back.
 */
fault_code prof_byte_write(const struct prof_byte *byte, bool active, struct memory *memory,
                           struct fault *fault);
