/*
 * One blocking call at a time, in a thread of its own, and its result.
 */
#ifndef SAFETY_BLOCKING_H
#define SAFETY_BLOCKING_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

enum {
    ENDS_LATER = 1, /* restarted with its whole timeout: signal(7), "never restarted" */
    CUT_SHORT = 2,  /* the kernel ends it with a partial result; nothing can continue it */
    IS_ENDED = 4,   /* by another thread; for the driver only, it follows from `end` */
    LET_BE = 8,     /* it does more than wait: the tool does not stop the thread */
};

struct context {
    long ms;
    int fds[2];
    int id;
    pid_t tid;
    pid_t child;
    pthread_t thread;
    pthread_t other;
    void *area;
    bool good; /* the call's output is correct */
};

struct call {
    const char *name;
    long result;
    int error; /* errno that belongs to a result of -1 */
    unsigned int flags;
    bool (*prepare)(struct context *);
    long (*make)(struct context *);
    void (*end)(struct context *); /* by another thread after ms; NULL: ends by itself */
};

extern const struct call blocking_timed[], blocking_io[], blocking_ipc[], blocking_signals[];

/* Times from now: relative and absolute. */
struct timespec blocking_span(const struct context *context);
struct timespec blocking_until(clockid_t clock, const struct context *context);
extern volatile int blocking_handled;
/* Counts how long the calling thread has waited for a CPU, for a helper that ends the call. */
void blocking_add_wait(void);

#endif
