/*
 * Calls prof.dump and intercepts its system calls: they show which file it
 * writes, or, when the profile is streamed, no file is ever opened.
 */
#pragma once

#include "jemalloc/hooks.h"
#include "jemalloc/prof.h"
#include "jemalloc/sink.h"

enum { DUMP_PATH_MAX = 4200 };

/*
 * prof.active gets this value after prof.dump, in the same list of calls: whatever
 * comes of the dump, and also if the tool dies in it. (Without executable memory
 * calls are made one at a time, and such a death leaves prof.active as it was.)
 */
struct dump_after {
    bool wanted, active;
};

struct dump_request {
    const char *path;              /* in the target; NULL: the name that jemalloc chooses */
    bool replace;                  /* the path may be an existing file */
    struct hooks_consent *consent; /* NULL: not given */
    struct sink *stream;           /* not NULL: no file is created in the target; path is ignored */
    struct dump_after after;
};

struct dump_result {
    char target_path[DUMP_PATH_MAX]; /* the kernel's name of the open file; "" when streamed */
    pid_t seen_by;  /* the only thread that finds the file under that path; 0: all threads do */
    uint64_t bytes; /* written by jemalloc, counted at its system calls */
};

/*
 * Refuses (FAULT_DUMP_UNSAFE) a file that could kill or block the target when it
 * is written: above RLIMIT_FSIZE the kernel kills it with SIGXFSZ, and the open
 * of a FIFO waits for a reader while jemalloc's locks are taken. FAULT_DUMP_EXISTS: the path is a
 * regular file, and request->replace is false. Stops nothing.
 */
fault_code dump_check(const struct target *target, const struct dump_request *request,
                      struct fault *fault);

/*
 * Makes the stopped thread call prof.dump.
 *
 * FAULT_PROF_*: this process cannot profile. FAULT_DUMP_OPEN: the open failed;
 * fault.what is the path, fault.err the errno. FAULT_DUMP_WRITE: a write failed;
 * likewise, with err 0 if it was cut short. FAULT_TOO_LARGE: the profile does
 * not fit into the sink. FAULT_CTL_REFUSED: mallctl failed although its system
 * calls succeeded. FAULT_DUMP_NAMELESS: opt.prof_prefix is empty, and no path
 * was given. FAULT_DUMP_HOOK: the application's hook for finished dumps
 * (experimental.hooks.prof_dump) would look for a file that streaming never
 * creates; fault.what is its address. FAULT_HOOKS: that hook, or extent hooks of
 * the application, would run in the call, and request->consent is not given.
 */
fault_code dump_run(struct injection *injection, const struct instance *instance,
                    const struct dump_request *request, struct dump_result *result,
                    struct fault *fault);

/*
 * Checks while a thread is stopped whether a later streamed dump would be
 * refused because of the application's hooks (FAULT_DUMP_HOOK, FAULT_HOOKS):
 * record should learn that before it samples, not at its end.
 */
fault_code dump_streamable(struct injection *injection, const struct instance *instance,
                           const struct prof_state *state, struct hooks_consent *consent,
                           struct fault *fault);

/*
 * Adds the section MAPPED_LIBRARIES to a streamed profile in which it is missing
 * or empty. jemalloc opens /proc/self/maps itself; if the
 * process is at its limit of file descriptors it cannot, and since 5.3.0 it then
 * silently omits the section. Call it when the thread has been resumed.
 *
 * With memory, behind the maps are the build-ids of the files with code, of which memory tells.
 */
fault_code dump_complete(const struct target *target, struct memory *memory, struct sink *sink,
                         struct fault *fault);
