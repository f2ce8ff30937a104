/*
 * Measures a process and its cgroups for the rules of `watch`, repeatedly: from
 * files that stay open, and by pressure triggers of the kernel.
 */
#pragma once

#include "attach/target.h"
#include "host/limits.h"
#include "run/rules.h"

#include <signal.h>

struct meter {
    const struct target *target;
    struct rules *rules;
    int statm_fd;
    uint64_t page; /* bytes */
    struct limits limits;
    uint64_t looked_at, read_at;   /* the cgroups, and their limits; CLOCK_MONOTONIC ns */
    struct pressure_file pressure; /* fd -1: no rule needs it */
    int alarms[RULES_MAX];         /* pressure triggers; -1: refused, or not needed */
    unsigned raised;               /* bit i: alarm i was raised since the last meter_read */
};

enum meter_end {
    METER_TIME,        /* ns have passed, or an alarm was raised */
    METER_ENDED,       /* the target has ended */
    METER_INTERRUPTED, /* the flag is set */
};

/*
 * Opens the files that the rules need; the target must outlive the meter.
 * FAULT_UNSUPPORTED: this kernel does not measure pressure. If the kernel
 * refuses a trigger, rule_state.watched_by_kernel is false and the rule is
 * evaluated from measures.
 */
fault_code meter_open(struct meter *meter, struct rules *rules, const struct target *target,
                      struct fault *fault);
void meter_close(struct meter *meter);

/* Measures all that the rules need. False: the process has ended, or has no memory left. */
bool meter_read(struct meter *meter, struct measures *measures);

/* Waits for ns, an alarm, the end of the target or a signal (interrupt.h). */
enum meter_end meter_wait(struct meter *meter, uint64_t ns,
                          const volatile sig_atomic_t *interrupted);
