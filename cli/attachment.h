/* Everything that a verb needs of one target, opened in the order that stops nothing first. */
#pragma once

#include "cli/message.h"
#include "cli/options.h"
#include "inject/call.h"
#include "jemalloc/instance.h"

struct attachment {
    const struct options *options;
    struct procfs proc;
    struct target target;
    struct gate gate;
    struct memory memory;
    struct modules modules;
    struct instance instance;
    struct plan plan;
    struct deadline deadline;
    struct injection injection;
    bool begun;
    struct subject subject;
    char variable[PREFIX_MAX + 16]; /* MALLOC_CONF, _RJEM_MALLOC_CONF */
};

/* Looks without stopping: identity, modules, jemalloc, what is to be avoided. */
enum fault_code attachment_open(struct attachment *attachment, const struct options *options,
                                pid_t pid, const char *verb, struct fault *fault);
/* Checks the forged frame on a child of the tool, then holds one thread of the target. */
enum fault_code attachment_hold(struct attachment *attachment, struct fault *fault);
/* Lets it go. */
enum fault_code attachment_release(struct attachment *attachment, struct fault *fault);
void attachment_close(struct attachment *attachment);

/* "jeattach: redis-server[4242] thread 4243 held 0.9 ms, 1 call, back in epoll_wait" */
void attachment_closing_line(const struct attachment *attachment);
/* --dry-run: what would be called, where and in which thread. */
enum fault_code attachment_describe(struct attachment *attachment, const char *const *calls,
                                    size_t count, struct fault *fault);
