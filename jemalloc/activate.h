/*
 * Switches prof.active, and makes every thread sample after it has been set to true.
 *
 * On 5.2.0 and 5.2.1 (commits 5.1.0-89 to 5.2.1-20) a thread that allocates while
 * prof.active is false sets its count of bytes until the next sample to SSIZE_MAX
 * (jemalloc.c, je_malloc: "bytes_until_sample will be reset"), and nothing ever
 * resets it: the thread does not sample again, even if prof.active becomes true
 * (jemalloc#2231). So each such thread is stopped once, at a safe point, and its
 * count is drawn again, as jemalloc should have done (prof.c,
 * prof_sample_threshold_update).
 *
 * Which threads these are is read from memory (tsd/tsd.h), whatever the version says.
 * Where memory does not show it, the version decides, and one thread is asked by a
 * call: the count is the word after the one that thread.deallocatedp names (tsd.h,
 * MALLOC_TSD). With static TLS, jemalloc's default (initial-exec), it is at the same
 * distance from the thread pointer in every thread, so in the others the word is
 * written without a call. It is written only if it has a value that only this defect
 * leaves. A thread that never allocated is not changed.
 *
 * A build without statistics does not say where the count is. There, reading
 * thread.prof.active in the thread itself draws the count, if the thread has
 * never sampled, or if prof.reset has expired its data. prof.reset drops all
 * samples, so it is called only if that is allowed.
 *
 * A thread that was born while prof.thread_active_init was false does not sample
 * either, in any version: thread.prof.active is false in it. That is a byte of the
 * thread's own data (prof_tdata_t, active), which only the thread itself writes, and
 * reads when it samples. So it is written while the thread is stopped at a safe point;
 * where memory does not show it, the thread makes the call.
 */
#pragma once

#include "jemalloc/hooks.h"
#include "jemalloc/tsd/tsd.h"

/* ---- the byte of prof.active ---- */

/*
 * Switches prof.active by the one byte that it is in the memory of the process:
 * no call, no stop, no lock.
 *
 * prof.active, written by mallctl, stores one bool under a mutex (prof.c,
 * prof_active_set), and malloc's path reads that bool without the mutex
 * (prof_inlines.h, prof_active_get_unlocked). So a write of the byte is all that
 * the call does. It is written only if its address is proven by the code of
 * jemalloc itself (stripped/stripped.h), symbols do not contradict, its value is 0
 * or 1, and opt.prof is true. jemalloc 5.2.0 and 5.2.1 need more than that to
 * sample again (above).
 */
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

/* ---- the threads ---- */

enum { ACTIVATION_NAMED = 16 };

/* Where the count of a thread is. */
struct activation_layout {
    bool known;
    int64_t offset;   /* from the thread pointer, bytes */
    int64_t counters; /* the same of thread.allocated */
};

struct activation_options {
    struct activation_layout layout;
    const struct tsd_threads *seen;  /* read since prof.active is true */
    const struct tsd_source *source; /* what they were read with */
    bool may_sleep;   /* threads of which nothing is known may have the defect of 5.2 */
    bool switches_on; /* threads in which thread.prof.active is false */
    bool no_calls;
    bool may_reset;                /* prof.reset may be called where nothing else helps */
    uint64_t lg_sample;            /* prof.lg_sample */
    struct hooks_consent *consent; /* for the threads that need a call; NULL: not given */
};

/* A thread that could not be stopped. */
struct activation_missed {
    pid_t tid;
    char comm[16]; /* untrusted */
    struct fault fault;
};

struct activation {
    size_t threads;                /* that exist, without background threads of jemalloc */
    size_t counts[THREAD_OFF + 1]; /* of these: by what they do now */
    size_t woken;                  /* did not sample before, because of the defect */
    size_t switched_on;            /* did not sample before: thread.prof.active was false */
    size_t unsure;  /* unknown; if they have sampled before, they do not sample now */
    size_t visited; /* were stopped */
    size_t missed;  /* should have been */
    bool did_reset; /* earlier samples are gone */
    struct activation_missed first_missed[ACTIVATION_NAMED];
    unsigned calls;
    uint64_t longest_ns; /* the longest time that a thread was stopped */
};

/* Asks the stopped thread where its count is. No fault if that stays unknown. */
fault_code activation_learn(struct injection *injection, const struct instance *instance,
                            struct activation_layout *layout, struct fault *fault);

/* True if this version has the defect. */
bool activation_needed(const char *version);
/* True if it has, or may have: it names no release. */
bool activation_possible(const char *version);
/* True if a thread has to be visited so that it samples. */
bool activation_wanted(const struct activation_options *options);

/*
 * Visits every thread that does not sample, or of which that is unknown, or only
 * env->only_thread, until env->deadline. New threads sample without it. Call it when
 * prof.active is true, and prof.thread_active_init if switches_on. Returns FAULT_NONE
 * even if some threads were missed; other faults concern the whole process.
 */
fault_code activation_run(const struct injection_env *env, const struct instance *instance,
                          const struct activation_options *options, struct activation *activation,
                          struct fault *fault);

/*
 * Returns a count of bytes until the next sample, geometrically distributed
 * with mean 2^lg_sample, from 64 random bits.
 */
uint64_t activation_draw(uint64_t lg_sample, uint64_t random);
/* True if only the defect can have left this count. */
bool activation_is_asleep(int64_t bytes_until_sample);
