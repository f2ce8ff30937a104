#include "run/rules.h"
#include "base/units.h"
#include "base/util.h"

#include <stdio.h>
#include <string.h>

#define SECOND_NS      ((uint64_t)1000000000)
#define LARGEST_MEMORY ((uint64_t)1000000000000000000) /* bytes */

enum { LEAST_SIZE = 1024 }; /* bytes: less is a number without its unit */

static const uint64_t FAR_PAUSE = SECOND_NS / 2, LONGEST_PAUSE = SECOND_NS / 5,
                      SHORTEST_PAUSE = SECOND_NS / 100, LONGEST_RETRY = 60 * SECOND_NS;
/* Growth below this is ignored: a tiny process grows by any percentage at once. */
static const double LEAST_GROWTH = 1 << 20;

static const struct {
    const char *name;
    enum metric metric;
    uint64_t window_ns; /* default; 0: it takes no window */
    uint64_t shortest_ns;
    double most_percent;
    bool takes_bytes;
} metrics[] = {
    {"rss", METRIC_RSS, 0, 0, 100, true},
    {"cgroup", METRIC_CGROUP, 0, 0, 100, true},
    {"psi.some", METRIC_PSI_SOME, 10 * SECOND_NS, SECOND_NS / 2, 100, false},
    {"psi.full", METRIC_PSI_FULL, 10 * SECOND_NS, SECOND_NS / 2, 100, false},
    {"grow", METRIC_GROW, 600 * SECOND_NS, SECOND_NS / 2, 100000, true},
};

static enum rule_flaw take_value(struct rule *rule, const char **text, double most,
                                 bool takes_bytes)
{
    const char *rest;
    double value;

    if (!units_parse_decimal(*text, &value, &rest))
        return RULE_NO_VALUE;
    rule->in_percent = *rest == '%';
    if (rule->in_percent) {
        *text = rest + 1;
        rule->share = value / 100;
        return value > 0 && value <= most ? RULE_GOOD : RULE_SHARE_RANGE;
    }
    if (!takes_bytes)
        return RULE_SHARE_ONLY;
    if (!units_parse_bytes(*text, &rule->bytes, text) || rule->bytes < LEAST_SIZE ||
        rule->bytes > LARGEST_MEMORY)
        return RULE_SIZE_RANGE;
    return RULE_GOOD;
}

static enum rule_flaw take_window(struct rule *rule, const char *text, uint64_t usual,
                                  uint64_t shortest)
{
    rule->window_ns = usual;
    if (!*text)
        return RULE_GOOD;
    if (*text != '/' || !usual)
        return usual ? RULE_WINDOW_ONLY : RULE_NO_WINDOW;
    if (!units_parse_duration(text + 1, &rule->window_ns) || rule->window_ns < shortest)
        return RULE_WINDOW_RANGE;
    return RULE_GOOD;
}

enum rule_flaw rule_parse(struct rule *rule, const char *text)
{
    const char *sign = strchr(text, '>'), *rest;
    enum rule_flaw flaw;
    size_t n = sign ? (size_t)(sign - text) : 0;

    memset(rule, 0, sizeof *rule);
    if (!sign)
        return RULE_NO_SIGN;
    if (strlen(text) >= sizeof rule->text)
        return RULE_TOO_LONG;
    snprintf(rule->text, sizeof rule->text, "%s", text);
    for (size_t i = 0; i < ARRAY_LEN(metrics); i++) {
        if (strlen(metrics[i].name) != n || memcmp(metrics[i].name, text, n) != 0)
            continue;
        rule->metric = metrics[i].metric;
        rest = sign + 1;
        flaw = take_value(rule, &rest, metrics[i].most_percent, metrics[i].takes_bytes);
        return flaw ? flaw : take_window(rule, rest, metrics[i].window_ns, metrics[i].shortest_ns);
    }
    return RULE_NO_METRIC;
}

bool rules_need(const struct rules *rules, enum metric metric)
{
    for (size_t i = 0; i < rules->count; i++)
        if (rules->list[i].metric == metric)
            return true;
    return false;
}

bool rules_need_own_use(const struct rules *rules)
{
    for (size_t i = 0; i < rules->count; i++)
        if (rules->list[i].metric == METRIC_CGROUP && !rules->list[i].in_percent)
            return true;
    return false;
}

bool rule_is_pressure(const struct rule *rule)
{
    return rule->metric == METRIC_PSI_SOME || rule->metric == METRIC_PSI_FULL;
}

enum pressure_kind rule_pressure(const struct rule *rule)
{
    return rule->metric == METRIC_PSI_FULL ? PRESSURE_FULL : PRESSURE_SOME;
}

uint64_t rule_stall_us(const struct rule *rule)
{
    return (uint64_t)(rule->share * (double)rule->window_ns / 1000);
}

void rules_restart(struct rules *rules)
{
    for (size_t i = 0; i < rules->count; i++) {
        bool by_kernel = rules->states[i].watched_by_kernel;
        memset(&rules->states[i], 0, sizeof rules->states[i]);
        rules->states[i].watched_by_kernel = by_kernel;
    }
}

/* ---- one rule at a moment ---- */

/* A starting process grows: one that is younger than the window is not judged. */
static void measure_growth(const struct rule *rule, struct rule_state *state,
                           const struct measures *measures)
{
    uint64_t least = measures->rss;
    double growth;

    state->threshold = 0;
    state->value = (double)measures->rss;
    if (measures->rss == 0 || measures->age_ns < rule->window_ns)
        return;
    window_add(&state->window, rule->window_ns, measures->now_ns, measures->rss);
    window_least(&state->window, rule->window_ns, measures->now_ns, &least);
    growth = rule->in_percent ? rule->share * (double)least : (double)rule->bytes;
    state->threshold = (double)least + (growth > LEAST_GROWTH ? growth : LEAST_GROWTH);
}

static uint64_t stalled_of(const struct rule *rule, const struct measures *measures)
{
    return measures->stalled.stalled_us[rule_pressure(rule)];
}

static void measure_pressure(const struct rule *rule, struct rule_state *state,
                             const struct measures *measures)
{
    uint64_t now = stalled_of(rule, measures), before = now;

    state->threshold = rule->share;
    state->value = 0;
    if (!measures->has_pressure)
        return;
    window_add(&state->window, 2 * rule->window_ns, measures->now_ns, now);
    window_oldest(&state->window, rule->window_ns, measures->now_ns, &before);
    if (now > before)
        state->value = (double)(now - before) / ((double)rule->window_ns / 1000);
}

/*
 * The first alarms of a trigger may count all stalls since boot: its first
 * window starts at 0 in older kernels, and in newer ones, without
 * CAP_SYS_RESOURCE, at a total that is not maintained (kernel/sched/psi.c,
 * psi_trigger_create; seen on 6.18). A true alarm is about this window and the
 * one before (window_update).
 */
static bool is_true_alarm(const struct rule *rule, const struct rule_state *state,
                          const struct measures *measures)
{
    uint64_t now = stalled_of(rule, measures), before = now;

    if (!measures->has_pressure)
        return false;
    window_before(&state->window, 2 * rule->window_ns, measures->now_ns, &before);
    return now > before && now - before >= rule_stall_us(rule);
}

static void evaluate_rule(const struct rule *rule, struct rule_state *state,
                          const struct measures *measures, bool alarm)
{
    const double former = state->value;
    double rate;

    switch (rule->metric) {
    case METRIC_RSS:
        state->value = (double)measures->rss;
        state->threshold =
            rule->in_percent ? rule->share * (double)measures->limit : (double)rule->bytes;
        break;
    case METRIC_CGROUP:
        state->value = rule->in_percent ? (double)measures->used : (double)measures->own_used;
        state->threshold =
            rule->in_percent ? rule->share * (double)measures->used_of : (double)rule->bytes;
        break;
    case METRIC_GROW:
        measure_growth(rule, state, measures);
        break;
    default:
        measure_pressure(rule, state, measures);
    }
    if (state->looked_at && measures->now_ns > state->looked_at) {
        rate = (state->value - former) * 1e9 / (double)(measures->now_ns - state->looked_at);
        state->rate *= 0.7; /* decays slowly, as growth may come in bursts */
        if (rate > state->rate)
            state->rate = rate;
    }
    if (alarm && is_true_alarm(rule, state, measures))
        state->holds_until = measures->now_ns + rule->window_ns;
    state->holds = measures->now_ns < state->holds_until ||
                   (state->threshold > 0 && state->value > state->threshold);
    state->looked_at = measures->now_ns;
}

unsigned rules_look(struct rules *rules, const struct measures *measures)
{
    unsigned firing = 0;

    for (size_t i = 0; i < rules->count; i++) {
        struct rule_state *state = &rules->states[i];
        evaluate_rule(&rules->list[i], state, measures, measures->alarms >> i & 1);
        if (state->holds && measures->now_ns >= state->quiet_until)
            firing |= 1u << i;
    }
    return firing;
}

/* Growth is measured from here on, and a raised alarm is done with. */
void rules_fired(struct rules *rules, unsigned fired, uint64_t now_ns)
{
    for (size_t i = 0; i < rules->count; i++) {
        struct rule_state *state = &rules->states[i];
        if (!(fired >> i & 1))
            continue;
        state->quiet_until = now_ns + rules->cooldown_ns;
        state->failures = 0;
        state->holds_until = 0;
        if (rules->list[i].metric == METRIC_GROW)
            window_clear(&state->window);
    }
}

uint64_t rules_failed(struct rules *rules, unsigned fired, uint64_t now_ns)
{
    uint64_t longest = 0;

    for (size_t i = 0; i < rules->count; i++) {
        struct rule_state *state = &rules->states[i];
        if (!(fired >> i & 1))
            continue;
        uint64_t pause = state->failures < 6 ? SECOND_NS << state->failures : LONGEST_RETRY;
        state->failures++;
        state->quiet_until = now_ns + pause;
        if (state->holds_until && state->holds_until <= state->quiet_until)
            state->holds_until =
                state->quiet_until + 2 * LONGEST_PAUSE; /* so that it is not lost */
        longest = pause > longest ? pause : longest;
    }
    return longest;
}

/* A quarter of the time left until the threshold, as rates change. */
static uint64_t pause_of(const struct rule *rule, const struct rule_state *state)
{
    bool far = state->value < state->threshold / 2;
    uint64_t longest = far ? FAR_PAUSE : LONGEST_PAUSE;
    double left;

    if (rule->window_ns && rule->window_ns / 4 < longest)
        longest = rule->window_ns / 4;
    if (state->holds || state->threshold <= 0 || state->rate <= 0)
        return longest;
    left = (state->threshold - state->value) / state->rate / 4 * 1e9;
    if (left >= (double)longest)
        return longest;
    return left > (double)SHORTEST_PAUSE ? (uint64_t)left : SHORTEST_PAUSE;
}

uint64_t rules_pause(const struct rules *rules)
{
    uint64_t pause = SECOND_NS;

    for (size_t i = 0; i < rules->count; i++) {
        uint64_t own = pause_of(&rules->list[i], &rules->states[i]);
        if (!rules->states[i].watched_by_kernel && own < pause)
            pause = own;
    }
    return pause;
}

double rules_exact_share(const struct rules *rules)
{
    double least = 1;

    for (size_t i = 0; i < rules->count; i++)
        if (rules->list[i].metric == METRIC_CGROUP && rules->list[i].in_percent &&
            rules->list[i].share < least)
            least = rules->list[i].share;
    return least;
}

uint64_t rule_bytes(double bytes)
{
    return bytes < (double)LARGEST_MEMORY ? (uint64_t)bytes : LARGEST_MEMORY;
}
