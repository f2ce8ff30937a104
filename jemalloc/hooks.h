/*
 * Functions of the application that a call of jemalloc's may run: the extent
 * hooks of its arenas (jemalloc(3), arena.<i>.extent_hooks; in 4.x
 * arena.<i>.chunk_hooks). They run in the held thread, which is stopped at any
 * point of the application's own code: if they take a lock that this thread
 * has, neither the call nor the thread ever ends. A safe point says nothing
 * about locks of the application's.
 *
 * Which arenas a call touches (4.0.4 to 5.3.1):
 *
 * - purge, decay, and a write of a decay time: the arenas of its name;
 * - what records samples (prof.dump, prof.reset, thread.prof.*) is allocated
 *   and freed in the automatic arenas, those below opt.narenas, in each thread
 *   in another one (arena_ichoose): never in one of arenas.create's. 4.0 and
 *   4.1 know no such difference; in 4.x all arenas are looked at;
 * - malloc_stats_print has its buffer from arena 0 (5.3.0, buf_writer.c);
 * - reads of constants, of prof.active and of statistics allocate nothing.
 */
#pragma once

#include "jemalloc/ctl.h"

enum { HOOKS_ALL = -1, HOOKS_AUTOMATIC = -2 }; /* else the index of one arena */

/* A function of the application's that a call may run. */
struct hook {
    remote_addr function;
    char what[200]; /* "arena 3 has extent hooks of the application, 0x55... in /usr/bin/app" */
};

/* May such functions run? */
struct hooks_consent {
    bool given;
    struct hook used; /* the first one that this has let through; function 0: none */
};

/*
 * FAULT_HOOKS if one of these arenas has a hook that is not jemalloc's own (its
 * function lies outside the code in which no thread is interrupted), unless
 * consent is given. An index that no arena has stands for all, as it does for
 * jemalloc. *arenas, unless NULL: how many there are. In the hold of the call that it
 * is about: what a program changes in between is not seen.
 */
fault_code hooks_check(struct injection *injection, const struct instance *instance, int scope,
                       struct hooks_consent *consent, unsigned *arenas, struct fault *fault);

/* The same judgement of a function that is known: FAULT_HOOKS, or it is noted in consent. */
fault_code hooks_judge(const struct injection *injection, const char *owner, remote_addr function,
                       struct hooks_consent *consent, struct fault *fault);
