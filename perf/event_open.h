/* One event of the kernel that counts and samples the page faults of a thread. */
#pragma once

#include "base/util.h"

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* What all events of one sampling have in common. */
struct event_form {
    bool kernel;        /* also faults in system calls */
    bool inherit;       /* the threads that a thread starts are included */
    bool threads_only;  /* of inherit: not the processes that it starts (Linux 5.13) */
    uint64_t registers; /* bit i: register i of asm/perf_regs.h */
    uint32_t stack_bytes;
    uint64_t period; /* one sample every N faults */
};

/* The parts of a sample, in the order of perf_event_open(2); perf/ring.c reads them. */
enum {
    EVENT_SAMPLE = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_ID |
                   PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER
};

/*
 * Opens the event in a thread; cpu -1: on all CPUs, which the kernel does not map with
 * inherit (perf_mmap, kernel/events/core.c). Returns a file descriptor or -errno.
 */
int event_open(const struct event_form *form, pid_t tid, int cpu);

/* Opens an event that counts nothing, for a ring of one CPU. Returns a file descriptor or -errno.
 */
int event_open_silent(int cpu);

/* Returns the number that samples of this event have; 0: unknown. */
uint64_t event_id(int fd);
/* Returns the number of faults so far, with those of inheriting threads. */
uint64_t event_count(int fd);

/*
 * Finds what this kernel can sample: sets registers, threads_only and stack_bytes. Opens
 * events in the tool itself. Returns 0, or -errno if the kernel refuses them all.
 */
int event_form_probe(struct event_form *form);
