/*
 * What `watch` measures of a process and its surroundings, again and again:
 * files that stay open, and the kernel's alarms for pressure.
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
    uint64_t looked_at, read_at;   /* for the groups, and for their limits */
    struct pressure_file pressure; /* fd -1: no rule needs it */
    int alarms[RULES_MAX];         /* -1: the kernel gives none, or the rule needs none */
    unsigned raised;               /* bit i: alarm i since the last meter_read */
};

enum meter_end {
    METER_TIME,        /* the time is over, or an alarm has come */
    METER_ENDED,       /* the target has ended */
    METER_INTERRUPTED, /* the flag is set */
};

/*
 * Opens what the rules need; the target must outlive the meter. FAULT_UNSUPPORTED:
 * this kernel does not measure pressure. Alarms that the kernel refuses are
 * left to be measured (rule_state.watched_by_kernel tells).
 */
fault_code meter_open(struct meter *meter, struct rules *rules, const struct target *target,
                      struct fault *fault);
void meter_close(struct meter *meter);

/* Takes all measures that the rules need. False: the process has ended, or has no memory left. */
bool meter_read(struct meter *meter, struct measures *measures);

/* Waits at most ns, or until an alarm, the end of the target or a signal (interrupt.h). */
enum meter_end meter_wait(struct meter *meter, uint64_t ns,
                          const volatile sig_atomic_t *interrupted);
