/*
 * A wait, without a stop, until a running thread is outside of forbidden code.
 *
 * A thread that is nearly always in such code, as one that loads libraries in a loop, would have
 * to be stopped thousands of times until a stop finds it elsewhere. Samples of its instruction
 * pointer cost it less than stops and see only the moments in user mode; and it is where the
 * sample saw it when the stop comes (host/ip_samples.h). Internal to inject/.
 */
#pragma once

#include "host/ip_samples.h"
#include "inject/call.h"

/* All zero: not begun. */
struct outside {
    struct ip_samples samples;
    pid_t tid;    /* the thread that is sampled; 0: none */
    bool refused; /* the kernel, or a seccomp filter of the tool's own, permits no samples */
};

/*
 * Waits until the thread is outside of forbidden code, while the allowance of stops lasts, which
 * is charged for the samples. False: it has not been seen there. True: a stop is worth while;
 * also if that cannot be known, as the thread does not run or may not be sampled.
 */
bool outside_await(struct outside *outside, const struct injection *injection, pid_t tid);

/* After a stop in vain: no samples are taken until the next wait. */
void outside_rest(const struct outside *outside);
void outside_end(struct outside *outside);
