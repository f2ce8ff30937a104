/* Ownership, time and addresses, for every layer. */
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* An address in the target. Never a pointer, as it is not valid in the tool. */
typedef uint64_t remote_addr;

/* Closes a file descriptor, unless it is negative, and sets it to -1. */
static inline void util_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static inline void util_free(void *where)
{
    free(*(void **)where);
}

#define AUTO_CLOSE __attribute__((cleanup(util_close)))
#define AUTO_FREE  __attribute__((cleanup(util_free)))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static inline int steal_fd(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

static inline void *steal_ptr_impl(void *where)
{
    void *taken = *(void **)where;
    *(void **)where = NULL;
    return taken;
}
#define steal_ptr(p) ((__typeof__(*(p)))steal_ptr_impl(p))

/* Returns a - b, or 0 if b is larger. */
static inline uint64_t amount_above(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* Returns the time of a clock in nanoseconds. */
static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t clock_now(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}
