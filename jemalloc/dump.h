/*
 * prof.dump, intercepted: the file it writes is seen at the open, or, streamed, is
 * never opened at all.
 */
#pragma once

#include "jemalloc/hooks.h"
#include "jemalloc/prof.h"
#include "jemalloc/sink.h"

enum { DUMP_PATH_MAX = 4200 };

struct dump_request {
    const char *path;              /* in the target; NULL: the name that jemalloc makes */
    struct hooks_consent *consent; /* NULL: not given */
    struct sink *stream; /* not NULL: nothing is created on the target's side, path is not used */
};

struct dump_result {
    char target_path[DUMP_PATH_MAX]; /* as the kernel names the open file; "" when streamed */
    pid_t seen_by;  /* the thread alone that finds the file there; 0: all of them do */
    uint64_t bytes; /* written by jemalloc, as seen at the system calls */
};

/*
 * Refuses (FAULT_DUMP_UNSAFE) a file whose writing could end or block the
 * target: beyond RLIMIT_FSIZE the kernel kills it by SIGXFSZ, and the open of
 * a FIFO waits for a reader with jemalloc's locks held. Without a stop.
 */
fault_code dump_check(const struct target *target, const struct dump_request *request,
                      struct fault *fault);

/*
 * Makes the held thread call prof.dump.
 *
 * FAULT_PROF_*: it cannot. FAULT_DUMP_OPEN: fault.what is the path, fault.err
 * the errno of the open. FAULT_DUMP_WRITE: likewise, err 0 if a write was cut
 * short. FAULT_TOO_LARGE: more than the sink takes. FAULT_CTL_REFUSED: mallctl
 * failed without a system call that did. FAULT_DUMP_NAMELESS: opt.prof_prefix
 * is empty, and no path was given. FAULT_DUMP_HOOK: streaming would deceive the
 * application's hook (experimental.hooks.prof_dump); what is its address.
 * FAULT_HOOKS: that hook, or extent hooks of the application, would run in the
 * call, and request->consent is not given.
 */
fault_code dump_run(struct injection *injection, const struct instance *instance,
                    const struct dump_request *request, struct dump_result *result,
                    struct fault *fault);

/*
 * The streamed dump alone, as fast as it can be had: for a caller who knows
 * that it can profile and has no hook, and asks for the mappings by
 * dump_complete. brief: the profile is small (struct intercept). Faults as those of
 * dump_run.
 */
fault_code dump_stream(struct injection *injection, const struct instance *instance,
                       struct sink *sink, bool brief, struct fault *fault);

/*
 * Will a later dump be refused for the application's hooks (FAULT_DUMP_HOOK,
 * FAULT_HOOKS)? In a hold, for what would else be known only at its end.
 */
fault_code dump_streamable(struct injection *injection, const struct instance *instance,
                           const struct prof_state *state, struct hooks_consent *consent,
                           struct fault *fault);

/*
 * Adds the section MAPPED_LIBRARIES to a streamed profile that lacks it, or in
 * which it is empty, as after dump_stream. jemalloc opens its maps itself; at
 * its limit of descriptors it cannot, and since 5.3.0 it then leaves the
 * section out without a word. To be called when the thread has been let go.
 */
fault_code dump_complete(const struct target *target, struct sink *sink, struct fault *fault);
