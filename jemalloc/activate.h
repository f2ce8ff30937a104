/*
 * Makes every thread sample after prof.active has been set to true.
 *
 * On 5.2.0 and 5.2.1 a thread that allocates while prof.active is false sets
 * its count of bytes until the next sample to SSIZE_MAX (jemalloc.c, je_malloc:
 * "bytes_until_sample will be reset"), and nothing ever resets it: the thread
 * does not sample again, even if prof.active becomes true (jemalloc#2231). So
 * each thread is stopped once, at a safe point, and its count is drawn again,
 * as jemalloc should have done (prof.c, prof_sample_threshold_update).
 *
 * The count is the word after the one that thread.deallocatedp names (tsd.h,
 * MALLOC_TSD). With static TLS, jemalloc's default (initial-exec), it is at the
 * same distance from the thread pointer in every thread. So only one thread is
 * asked by a call; in the others the word is written without a call. It is
 * written only if it has a value that only this defect leaves, and nothing else
 * is written. A thread that never allocated is not changed.
 *
 * A build without statistics does not say where the count is. There, reading
 * thread.prof.active in the thread itself draws the count, if the thread has
 * never sampled, or if prof.reset has expired its data. prof.reset drops all
 * samples, so it is called only if that is allowed.
 */
#pragma once

#include "jemalloc/hooks.h"

enum { ACTIVATION_NAMED = 16 };

/* Where the count of a thread is. */
struct activation_layout {
    bool known;
    int64_t offset; /* from the thread pointer, bytes */
};

struct activation_options {
    struct activation_layout layout;
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
    size_t threads;  /* that exist, without background threads of jemalloc */
    size_t sampling; /* of these: sample now */
    size_t woken;    /* of these: did not sample before */
    size_t unsure;   /* of these: unknown; if they have sampled before, they do not sample now */
    size_t missed;   /* could not be stopped */
    bool did_reset;  /* earlier samples are gone */
    struct activation_missed first_missed[ACTIVATION_NAMED];
    unsigned calls;
    uint64_t longest_ns; /* the longest time that a thread was stopped */
};

/* Asks the stopped thread where its count is. No fault if that stays unknown. */
fault_code activation_learn(struct injection *injection, const struct instance *instance,
                            struct activation_layout *layout, struct fault *fault);

/* True if this version has the defect. */
bool activation_needed(const char *version);

/*
 * Visits every thread, or only env->only_thread, until env->deadline. New
 * threads sample without it. Call it when prof.active is true. Returns
 * FAULT_NONE even if some threads were missed; other faults concern the whole
 * process.
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
