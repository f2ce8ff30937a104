/* The modes of the victim: what its main thread does in each round. */
#ifndef VICTIM_MODES_H
#define VICTIM_MODES_H

#include "probe.h"
#include "report.h"

#include <stdbool.h>
#include <stdint.h>

struct victim {
    struct probe probe;
    struct report *report;
    const struct mode *mode;
    uint64_t asked_ns;   /* length of one blocking call */
    uint64_t spin_turns; /* turns of the empty loop that take about a millisecond */
    int fd;              /* the file descriptor of the modes that need one */
    int schedule_fd;     /* /proc/thread-self/schedstat; -1: the kernel keeps none */
};

struct call {
    long number;
    uint64_t args[6];
};

struct mode {
    const char *name;
    /* Called once at the start. False if the kernel refuses. */
    bool (*setup)(struct victim *victim);
    /* The system call of one round, with fresh arguments; NULL in modes without one. */
    void (*arm)(struct victim *victim, struct call *call);
    /* One round; modes with a system call share one. */
    void (*round)(struct victim *victim);
    int64_t expected; /* result of the system call */
    bool untimed;     /* the call returns at once */
};

const struct mode *mode_find(const char *name);
/* Names of all modes, one a line. */
void modes_print(void);

/* Counts a difference and records its text. */
void victim_fault(struct victim *victim, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

uint64_t clock_now_ns(void);
/* For how long the main thread has waited for a CPU. */
uint64_t waited_for_cpu_ns(const struct victim *victim);
void report_max(uint64_t *slot, uint64_t value);

#endif
