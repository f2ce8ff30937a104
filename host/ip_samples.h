/*
 * Samples of the instruction pointer of one thread, by its CPU time (perf_event_open(2)).
 *
 * Each sample wakes the tool. On the thread's CPU it then takes that CPU from the thread, which
 * stays at the sampled instruction until the tool sleeps. Moments in the kernel are not sampled.
 */
#pragma once

#include "base/util.h"

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

struct ip_samples {
    int fd;         /* of the event; negative: none */
    char *ring;     /* its first page, and one of records */
    size_t page;    /* bytes */
    uint64_t taken; /* position behind the last record that was read */
    uint64_t used;  /* CPU time of the thread while it was sampled, ns */
    int cpu;        /* the CPU that the tool is pinned to; -1: none */
    cpu_set_t former;
};

/*
 * One every period ns of CPU time, from the first ip_samples_switch on. Returns 0 or -errno;
 * ip_samples_close releases it.
 */
int ip_samples_open(struct ip_samples *samples, pid_t tid, uint64_t period);
void ip_samples_switch(const struct ip_samples *samples, bool on);

/*
 * Waits for the next sample, at most ms milliseconds, and moves the tool to its CPU. 1: the
 * thread was preempted at *ip, and mostly still is; 0: it was on another CPU; -EAGAIN: there was
 * none, as the thread sleeps or works in the kernel; or another -errno.
 */
int ip_samples_next(struct ip_samples *samples, int ms, uint64_t *ip);

/* Gives the tool its former CPUs back; idempotent. */
void ip_samples_close(struct ip_samples *samples);
