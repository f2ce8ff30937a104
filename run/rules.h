/*
 * The rules of `watch`: when a profile is to be taken. Pure logic: what was
 * measured at a moment goes in, which rules fire comes out. Times are those of
 * CLOCK_MONOTONIC, so that a wall clock that is set changes nothing.
 *
 *   rss>2G  rss>80%           resident memory; of the smallest memory limit
 *   cgroup>2G  cgroup>85%     the working set of its cgroup; of the limit
 *   psi.some>20%/10s          time that some task waited for memory, of a window
 *   psi.full>5%/10s           that all tasks did
 *   grow>20%/10m  grow>1G/1h  resident memory beyond its least in the window
 *
 * A rule fires when it holds, and not again before its cooldown is over, for
 * as long as it goes on to hold.
 */
#pragma once

#include "host/pressure.h"
#include "run/window.h"

#include <stddef.h>

enum { RULES_MAX = 8, RULE_TEXT_MAX = 48 };

enum metric { METRIC_RSS, METRIC_CGROUP, METRIC_PSI_SOME, METRIC_PSI_FULL, METRIC_GROW };

struct rule {
    char text[RULE_TEXT_MAX]; /* as it was written */
    enum metric metric;
    bool in_percent;
    double share;       /* in_percent: 0.8 is 80% */
    uint64_t bytes;     /* else */
    uint64_t window_ns; /* psi and grow; else 0 */
};

/* What was measured; a number that could not be had is 0. */
struct measures {
    uint64_t now_ns;
    uint64_t age_ns;        /* of the process */
    uint64_t rss;           /* bytes, like all below */
    uint64_t limit;         /* the smallest that applies to it */
    uint64_t used, used_of; /* of the cgroup that is nearest to its limit */
    uint64_t own_used;      /* of its own cgroup */
    bool has_pressure;      /* stalled was measured */
    struct pressure stalled;
    unsigned alarms; /* bit i: the kernel has told that rule i holds */
};

/* How a rule stands. */
struct rule_state {
    bool watched_by_kernel; /* its alarm tells at once: a look a second does besides */
    struct window window;   /* psi: time stalled; grow: resident memory */
    uint64_t holds_until;   /* an alarm is of a whole window */
    bool holds;
    double value, threshold; /* at the last look: bytes, or a share for psi */
    double rate;             /* of value, a second */
    uint64_t looked_at;      /* 0: never */
    uint64_t quiet_until;    /* cooldown, or the pause before another try */
    unsigned failures;       /* in a row */
};

struct rules {
    struct rule list[RULES_MAX];
    struct rule_state states[RULES_MAX];
    size_t count;
    uint64_t cooldown_ns;
};

/* What is wrong with the text of a rule. */
enum rule_flaw {
    RULE_GOOD,
    RULE_NO_SIGN,      /* no > */
    RULE_TOO_LONG,     /* RULE_TEXT_MAX */
    RULE_NO_METRIC,    /* nothing that can be measured is before the > */
    RULE_NO_VALUE,     /* no number after it */
    RULE_SHARE_RANGE,  /* a percentage that is 0 or too large */
    RULE_SHARE_ONLY,   /* a size, where only a percentage is possible */
    RULE_SIZE_RANGE,   /* a size that is 0 or too large */
    RULE_WINDOW_ONLY,  /* something else than a window after the value */
    RULE_NO_WINDOW,    /* something after the value of a metric without a window */
    RULE_WINDOW_RANGE, /* no duration, or one that is too short or too long */
    RULE_FLAWS,
};

enum rule_flaw rule_parse(struct rule *rule, const char *text);
/* Does a rule of this metric need the measure at all? */
bool rules_need(const struct rules *rules, enum metric metric);
/* Is there one about the size of the process's own group? */
bool rules_need_own_use(const struct rules *rules);
/* psi rules: is it about all tasks, and its threshold in microseconds of the window. */
enum pressure_kind rule_pressure(const struct rule *rule);
uint64_t rule_stall_us(const struct rule *rule);
bool rule_is_pressure(const struct rule *rule);

/* Another process, or the same in another program: nothing of the former one counts. */
void rules_restart(struct rules *rules);
/* Takes the measure and tells which rules fire: bit i is rule i. */
unsigned rules_look(struct rules *rules, const struct measures *measures);
/* What came of it: these are quiet for the cooldown, or tried again after a second, two, four... */
void rules_fired(struct rules *rules, unsigned fired, uint64_t now_ns);
/* Returns the nanoseconds until the next try. */
uint64_t rules_failed(struct rules *rules, unsigned fired, uint64_t now_ns);

/*
 * How long until the next look, nanoseconds: 500 ms while a value is below half
 * of its threshold, 200 ms above, down to 10 ms when it would reach it soon at
 * the rate that it has; a second if the kernel watches.
 */
uint64_t rules_pause(const struct rules *rules);
/* The largest share of a group's limit below which exactness does not matter to any rule. */
double rules_exact_share(const struct rules *rules);

/* A value or threshold in bytes as a whole number. */
uint64_t rule_bytes(double bytes);
