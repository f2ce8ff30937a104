/*
 * The rules of `watch`, which say when a profile is taken. Pure logic: measures
 * go in, and the rules that fire come out. Times are CLOCK_MONOTONIC, so that
 * setting the wall clock has no effect.
 *
 *   rss>2G  rss>80%           resident memory; of the smallest memory limit
 *   cgroup>2G  cgroup>85%     the working set of its cgroup; of the limit
 *   psi.some>20%/10s          part of a window that some task waited for memory
 *   psi.full>5%/10s           the same for all tasks at once
 *   grow>20%/10m  grow>1G/1h  resident memory above its minimum in the window
 *
 * A rule fires when it holds. While it continues to hold, it fires again only
 * after its cooldown.
 */
#pragma once

#include "host/pressure.h"
#include "run/window.h"

enum { RULES_MAX = 8, RULE_TEXT_MAX = 48 };

enum metric { METRIC_RSS, METRIC_CGROUP, METRIC_PSI_SOME, METRIC_PSI_FULL, METRIC_GROW };

struct rule {
    char text[RULE_TEXT_MAX]; /* as the operator wrote it */
    enum metric metric;
    bool in_percent;
    double share;       /* if in_percent: 0.8 is 80% */
    uint64_t bytes;     /* otherwise */
    uint64_t window_ns; /* psi and grow; else 0 */
};

/* What was measured; an unknown number is 0. */
struct measures {
    uint64_t now_ns;
    uint64_t age_ns;        /* of the process */
    uint64_t rss;           /* bytes, like all below */
    uint64_t limit;         /* the smallest that applies to it */
    uint64_t used, used_of; /* of the cgroup that is nearest to its limit */
    uint64_t own_used;      /* of its own cgroup */
    bool has_pressure;      /* stalled was measured */
    struct pressure stalled;
    unsigned alarms; /* bit i: the kernel has raised the alarm of rule i */
};

/* The state of a rule. */
struct rule_state {
    bool watched_by_kernel; /* it has an alarm: measuring once a second is enough */
    struct window window;   /* psi: time stalled; grow: resident memory */
    uint64_t holds_until;   /* an alarm holds for a whole window */
    bool holds;
    double value, threshold; /* as last measured: bytes, or a share for psi */
    double rate;             /* change of value per second */
    uint64_t looked_at;      /* 0: never */
    uint64_t quiet_until;    /* end of the cooldown, or time of the next attempt */
    unsigned failures;       /* consecutive */
};

struct rules {
    struct rule list[RULES_MAX];
    struct rule_state states[RULES_MAX];
    size_t count;
    uint64_t cooldown_ns;
};

/* Flaws of the text of a rule. */
enum rule_flaw {
    RULE_GOOD,
    RULE_NO_SIGN,      /* no > */
    RULE_TOO_LONG,     /* RULE_TEXT_MAX */
    RULE_NO_METRIC,    /* unknown metric before the > */
    RULE_NO_VALUE,     /* no number after it */
    RULE_SHARE_RANGE,  /* a percentage that is 0 or too large */
    RULE_SHARE_ONLY,   /* a size, where only a percentage is possible */
    RULE_SIZE_RANGE,   /* a size that is less than 1 KiB or too large */
    RULE_WINDOW_ONLY,  /* the value is followed by something else than a window */
    RULE_NO_WINDOW,    /* something follows the value of a metric without a window */
    RULE_WINDOW_RANGE, /* no duration, or one that is too short or too long */
    RULE_FLAWS,
};

enum rule_flaw rule_parse(struct rule *rule, const char *text);
/* True if there is a rule of this metric. */
bool rules_need(const struct rules *rules, enum metric metric);
/* True if there is a rule about the size of the process's own cgroup. */
bool rules_need_own_use(const struct rules *rules);
/* Of psi rules: the kind of pressure, and the threshold in microseconds per window. */
enum pressure_kind rule_pressure(const struct rule *rule);
uint64_t rule_stall_us(const struct rule *rule);
bool rule_is_pressure(const struct rule *rule);

/* Forgets the former process or program. */
void rules_restart(struct rules *rules);
/* Evaluates the measures; returns the rules that fire: bit i is rule i. */
unsigned rules_look(struct rules *rules, const struct measures *measures);
/* After a profile these rules are in cooldown; after a failure they retry in 1, 2, 4, ... s. */
void rules_fired(struct rules *rules, unsigned fired, uint64_t now_ns);
/* Returns the nanoseconds until the next attempt. */
uint64_t rules_failed(struct rules *rules, unsigned fired, uint64_t now_ns);

/*
 * Returns the nanoseconds until the next measurement: 500 ms while all values
 * are below half of their thresholds, 200 ms above, down to 10 ms if a value
 * would soon reach its threshold at its present rate; 1 s for rules with alarms.
 */
uint64_t rules_pause(const struct rules *rules);
/* The share of a cgroup's limit below which no rule needs an exact use. */
double rules_exact_share(const struct rules *rules);

/* Rounds a value or threshold in bytes. */
uint64_t rule_bytes(double bytes);
