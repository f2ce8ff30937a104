/*
 * Activation that activates.
 *
 * On 5.2.0 and 5.2.1 a thread that allocates while prof.active is false sets
 * its count of bytes until the next sample to SSIZE_MAX (jemalloc.c, je_malloc:
 * "bytes_until_sample will be reset"), and nothing ever resets it: it does not
 * sample again, whatever prof.active becomes (jemalloc#2231). Here each thread
 * is held once, at a safe point of its own, and its count drawn anew, as
 * jemalloc would have done (prof.c, prof_sample_threshold_update).
 *
 * The count lies behind what thread.deallocatedp names (tsd.h, MALLOC_TSD), and
 * with static TLS, which jemalloc has by default (initial-exec), at the same
 * distance from each thread's pointer: so one thread is asked, and in the others
 * no call is made; a thread that never allocated stays as it is. It is written
 * only where it has such a value that nothing else can have, and nothing but
 * that word is. A build without statistics does not tell where it
 * is: there thread.prof.active, read in the thread itself, draws the count, if
 * the thread has never sampled or if prof.reset has made it start anew. That
 * drops all that was sampled, so it is done only when it is allowed.
 */
#pragma once

#include "jemalloc/hooks.h"
#include "jemalloc/prof.h"

enum { ACTIVATION_NAMED = 16 };

/* Where a thread's count lies. */
struct activation_layout {
    bool known;
    int64_t offset; /* from the thread pointer, bytes */
};

struct activation_options {
    struct activation_layout layout;
    bool may_reset;                /* prof.reset is allowed where nothing else helps */
    uint64_t lg_sample;            /* prof.lg_sample */
    struct hooks_consent *consent; /* for the threads that need a call; NULL: not given */
};

/* A thread that could not be held. */
struct activation_missed {
    pid_t tid;
    char comm[16]; /* untrusted */
    struct fault fault;
};

struct activation {
    size_t threads;  /* existing ones, without jemalloc's own */
    size_t sampling; /* of these: they sample now */
    size_t woken;    /* of these: they did not before */
    size_t unsure;   /* could not be told: if they have sampled before, they do not now */
    size_t missed;   /* were not reached */
    bool did_reset;  /* what was sampled before is gone */
    struct activation_missed first_missed[ACTIVATION_NAMED];
    unsigned calls;
    uint64_t longest_ns; /* the longest time that one was held */
};

/* Asks the held thread where its count lies; not known is no fault. */
fault_code activation_learn(struct injection *injection, const struct instance *instance,
                            struct activation_layout *layout, struct fault *fault);

/* Has this version the fault? */
bool activation_needed(const char *version);

/*
 * Visits every thread until env->deadline, or env->only_thread alone; new ones
 * sample by themselves. To be called when prof.active is true. FAULT_NONE also
 * when some were not reached; a fault of the whole process otherwise.
 */
fault_code activation_run(const struct injection_env *env, const struct instance *instance,
                          const struct activation_options *options, struct activation *activation,
                          struct fault *fault);

/*
 * A count of bytes until the next sample, geometrically distributed with mean
 * 2^lg_sample; random are 64 random bits.
 */
uint64_t activation_draw(uint64_t lg_sample, uint64_t random);
/* Is this count one that the fault has left? */
bool activation_is_asleep(int64_t bytes_until_sample);
