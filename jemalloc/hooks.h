/*
 * Detects functions of the application that a call of jemalloc may run: the
 * extent hooks of its arenas (jemalloc(3), arena.<i>.extent_hooks; in 4.x
 * arena.<i>.chunk_hooks). They run in the stopped thread, which may be anywhere
 * in the application's own code: if they take a lock that this thread already
 * has, neither the call nor the thread ever ends. A safe point says nothing
 * about the application's locks.
 *
 * The arenas that a call touches (4.0.4 to 5.3.1):
 *
 * - purge, decay, and a write of a decay time: the arenas in the name;
 * - prof.dump, prof.reset and thread.prof.*, which record samples: they allocate
 *   and free in the automatic arenas, those below opt.narenas, in a different
 *   one for each thread (arena_ichoose), never in an arena made by
 *   arenas.create. 4.0 and 4.1 make no such difference, so in 4.x all arenas are
 *   checked;
 * - malloc_stats_print: its buffer is from arena 0 (5.3.0, buf_writer.c);
 * - reads of constants, of prof.active and of statistics: none, they allocate
 *   nothing.
 */
#pragma once

#include "jemalloc/ctl.h"

enum { HOOKS_ALL = -1, HOOKS_AUTOMATIC = -2 }; /* else the index of one arena */

/* A function of the application that a call may run. */
struct hook {
    remote_addr function;
    char what[200]; /* "arena 3 has extent hooks of the application, 0x55... in /usr/bin/app" */
};

/* Whether such functions may run. */
struct hooks_consent {
    bool given;
    struct hook used; /* the first one that was allowed; function 0: none */
};

/*
 * Sets FAULT_HOOKS if one of these arenas has a hook that is not jemalloc's own
 * (its function is outside the code in which no thread is interrupted), unless
 * consent is given. An index that no arena has means all arenas, as it does for
 * jemalloc. *arenas, unless NULL, becomes the number of arenas. Call it in the
 * same stop as the call in question: a later change is not seen.
 */
fault_code hooks_check(struct injection *injection, const struct instance *instance, int scope,
                       struct hooks_consent *consent, unsigned *arenas, struct fault *fault);

/* Judges one known function: sets FAULT_HOOKS, or notes the function in consent. */
fault_code hooks_judge(const struct modules *modules, const struct plan *plan, const char *owner,
                       remote_addr function, struct hooks_consent *consent, struct fault *fault);

/*
 * Before any call: a preloaded library may wrap what jemalloc calls of the C library, and take a
 * lock there. Judges such a function as hooks_judge does.
 */
fault_code hooks_judge_interposed(const struct injection_env *env, struct hooks_consent *consent,
                                  struct fault *fault);
