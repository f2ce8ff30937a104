/* The rules of watch: their syntax, and when they fire. */
#include "check.h"
#include "cli/rule_text.h"

#include <string.h>

#define MIB ((uint64_t)1 << 20)
#define SEC ((uint64_t)1000000000)

static struct rules one_rule(const char *text)
{
    struct rules rules = {.count = 1, .cooldown_ns = 600 * SEC};

    CHECK(rule_parse(&rules.list[0], text) == RULE_GOOD);
    return rules;
}

static void test_texts(void)
{
    static const struct {
        const char *text;
        enum metric metric;
        double share;
        uint64_t bytes, window_ns;
    } rows[] = {
        {"rss>2G", METRIC_RSS, 0, 2048 * MIB, 0},
        {"rss>1.5GiB", METRIC_RSS, 0, 1536 * MIB, 0},
        {"rss>4096", METRIC_RSS, 0, 4096, 0},
        {"rss>64K", METRIC_RSS, 0, 65536, 0},
        {"rss>80%", METRIC_RSS, 0.8, 0, 0},
        {"rss>99.5%", METRIC_RSS, 0.995, 0, 0},
        {"cgroup>85%", METRIC_CGROUP, 0.85, 0, 0},
        {"cgroup>1T", METRIC_CGROUP, 0, 1024 * 1024 * MIB, 0},
        {"psi.some>20%/10s", METRIC_PSI_SOME, 0.2, 0, 10 * SEC},
        {"psi.some>20%", METRIC_PSI_SOME, 0.2, 0, 10 * SEC},
        {"psi.full>5%/500ms", METRIC_PSI_FULL, 0.05, 0, SEC / 2},
        {"grow>20%", METRIC_GROW, 0.2, 0, 600 * SEC},
        {"grow>20%/1m", METRIC_GROW, 0.2, 0, 60 * SEC},
        {"grow>1G/1h", METRIC_GROW, 0, 1024 * MIB, 3600 * SEC},
        {"grow>300%/30", METRIC_GROW, 3, 0, 30 * SEC},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rule rule;
        enum rule_flaw flaw = rule_parse(&rule, rows[i].text);
        if (!CHECK(flaw == RULE_GOOD)) {
            fprintf(stderr, "  %s: %d\n", rows[i].text, flaw);
            continue;
        }
        CHECK(rule.metric == rows[i].metric && rule.bytes == rows[i].bytes &&
              rule.window_ns == rows[i].window_ns);
        CHECK(rule.in_percent == (rows[i].share > 0));
        CHECK(rule.share > rows[i].share - 1e-9 && rule.share < rows[i].share + 1e-9);
        CHECK(strcmp(rule.text, rows[i].text) == 0);
    }
}

static void test_wrong_texts(void)
{
    static const char *const texts[] = {
        "",
        "rss",
        ">",
        "rss>",
        "rss>%",
        "rss>0",
        "rss>400", /* who means MiB */
        "rss>0%",
        "rss>101%",
        "rss>80%%",
        "rss>80%/10s",
        "rss>2Q",
        "rss>2GB",
        "rss>2Gi",
        "rss>-1",
        "rss>+1",
        "rss>0x10",
        "rss>1e9",
        "rss>.5G",
        "rss>1.G",
        "rss>1..5G",
        "rss>nan%",
        "rss>inf",
        "rss>99999999999999999999",
        "rss>999999999999999T",
        "rss>2G ",
        " rss>2G",
        "rss >2G",
        "rss> 2G",
        "rss>=2G",
        "RSS>2G",
        "rs>2G",
        "rsss>2G",
        "psi>20%",
        "psi.some>20",
        "psi.some>1G",
        "psi.some>20%/",
        "psi.some>20%/100ms",
        "psi.some>20%/x",
        "psi.some>120%",
        "psi.some>20%10s",
        "grow>20%/0",
        "grow>20%/25h",
        "grow>20%/10m/10m",
        "cgroup>85%85%",
        "rss>1111111111111111111111111111111111111111111111111111111111111",
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct rule rule;
        if (!CHECK(rule_parse(&rule, texts[i]) != RULE_GOOD))
            fprintf(stderr, "  %s\n", texts[i]);
    }
}

static void test_rss(void)
{
    struct rules rules = one_rule("rss>80%");
    struct measures measures = {.now_ns = SEC, .rss = 80 * MIB, .limit = 100 * MIB};

    CHECK(rules_look(&rules, &measures) == 0); /* above, not at */
    measures.rss++;
    CHECK(rules_look(&rules, &measures) == 1);
    measures.limit = 200 * MIB; /* it was raised */
    CHECK(rules_look(&rules, &measures) == 0);
    measures.limit = 0; /* unavailable */
    CHECK(rules_look(&rules, &measures) == 0);
}

static void test_cgroup(void)
{
    struct rules rules = one_rule("cgroup>85%"), own = one_rule("cgroup>10M");
    struct measures measures = {.now_ns = SEC, .used = 85 * MIB, .used_of = 100 * MIB};

    CHECK(rules_need(&rules, METRIC_CGROUP) && !rules_need(&rules, METRIC_RSS));
    CHECK(!rules_need_own_use(&rules) && rules_need_own_use(&own));
    CHECK(rules_exact_share(&rules) < 0.8501 && rules_exact_share(&own) == 1);
    CHECK(rules_look(&rules, &measures) == 0 && rules_look(&own, &measures) == 0);
    measures.used++;
    measures.own_used = 10 * MIB + 1;
    CHECK(rules_look(&rules, &measures) == 1 && rules_look(&own, &measures) == 1);
}

static void test_cooldown(void)
{
    struct rules rules = one_rule("rss>1M");
    struct measures measures = {.now_ns = SEC, .rss = 2 * MIB};

    CHECK(rules_look(&rules, &measures) == 1);
    CHECK(rules_look(&rules, &measures) == 1); /* until somebody has acted on it */
    rules_fired(&rules, 1, measures.now_ns);
    measures.now_ns += 600 * SEC - 1;
    CHECK(rules_look(&rules, &measures) == 0);
    measures.now_ns++;
    CHECK(rules_look(&rules, &measures) == 1);
    rules_fired(&rules, 1, measures.now_ns);
    rules_restart(&rules); /* another process */
    CHECK(rules_look(&rules, &measures) == 1);
}

static void test_own_cooldowns(void)
{
    struct rules rules = {.count = 2, .cooldown_ns = 600 * SEC};
    struct measures measures = {.now_ns = SEC, .rss = 2 * MIB};

    CHECK(!rule_parse(&rules.list[0], "rss>1M") && !rule_parse(&rules.list[1], "rss>3M"));
    CHECK(rules_look(&rules, &measures) == 1);
    rules_fired(&rules, 1, measures.now_ns);
    measures.rss = 4 * MIB;
    CHECK(rules_look(&rules, &measures) == 2); /* the first is inactive, the second never fired */
    rules_fired(&rules, 2, measures.now_ns);
    CHECK(rules_look(&rules, &measures) == 0);
    measures.now_ns += 600 * SEC;
    CHECK(rules_look(&rules, &measures) == 3);
}

static void test_tries(void)
{
    struct rules rules = one_rule("rss>1M");
    struct measures measures = {.now_ns = SEC, .rss = 2 * MIB};
    static const uint64_t seconds[] = {1, 2, 4, 8, 16, 32, 60, 60};

    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
        CHECK(rules_look(&rules, &measures) == 1);
        CHECK(rules_failed(&rules, 1, measures.now_ns) == seconds[i] * SEC);
        measures.now_ns += seconds[i] * SEC - 1;
        CHECK(rules_look(&rules, &measures) == 0);
        measures.now_ns++;
    }
    rules_fired(&rules, 1, measures.now_ns);
    measures.now_ns += 600 * SEC;
    CHECK(rules_look(&rules, &measures) == 1);
    CHECK(rules_failed(&rules, 1, measures.now_ns) == SEC); /* it was below in between */
}

static void test_growth(void)
{
    struct rules rules = one_rule("grow>20%/10m");
    struct measures measures = {.now_ns = SEC, .age_ns = 3600 * SEC, .rss = 100 * MIB};

    CHECK(rules_look(&rules, &measures) == 0);
    for (int i = 0; i < 60; i++) { /* 10 % in 10 minutes: never enough */
        measures.now_ns += 60 * SEC;
        measures.rss += measures.rss / 100;
        CHECK(rules_look(&rules, &measures) == 0);
    }
    measures.rss += measures.rss / 8; /* with that of the last ten minutes it is */
    CHECK(rules_look(&rules, &measures) == 1);
    rules_fired(&rules, 1, measures.now_ns);
    measures.now_ns += 601 * SEC;
    CHECK(rules_look(&rules, &measures) == 0); /* reported growth is no longer growth */
    measures.now_ns += SEC;
    measures.rss += measures.rss / 4;
    CHECK(rules_look(&rules, &measures) == 1);
}

static void test_growth_back(void)
{
    struct rules rules = one_rule("grow>50M/1m");
    struct measures measures = {.now_ns = SEC, .age_ns = 3600 * SEC, .rss = 300 * MIB};

    CHECK(rules_look(&rules, &measures) == 0);
    measures.now_ns += 10 * SEC;
    measures.rss = 100 * MIB; /* the least counts, not the first */
    CHECK(rules_look(&rules, &measures) == 0);
    measures.now_ns += 10 * SEC;
    measures.rss = 150 * MIB;
    CHECK(rules_look(&rules, &measures) == 0);
    measures.rss = 151 * MIB;
    CHECK(rules_look(&rules, &measures) == 1);
    measures.now_ns += 70 * SEC; /* the machine slept: nothing is known of that time */
    measures.rss = 400 * MIB;
    CHECK(rules_look(&rules, &measures) == 0);
}

static void test_growth_young(void)
{
    struct rules rules = one_rule("grow>20%/1m");
    struct measures measures = {.now_ns = SEC, .age_ns = 0, .rss = MIB};

    for (int i = 0; i < 60; i++) { /* it loads its data */
        CHECK(rules_look(&rules, &measures) == 0);
        measures.now_ns += SEC;
        measures.age_ns += SEC;
        measures.rss += 50 * MIB;
    }
    CHECK(rules_look(&rules, &measures) == 0); /* the first measurement of one that is old enough */
    measures.now_ns += SEC;
    measures.age_ns += SEC;
    measures.rss += measures.rss / 3;
    CHECK(rules_look(&rules, &measures) == 1);
}

static void test_growth_small(void)
{
    struct rules rules = one_rule("grow>20%/1m");
    struct measures measures = {.now_ns = SEC, .age_ns = 3600 * SEC, .rss = MIB};

    CHECK(rules_look(&rules, &measures) == 0);
    measures.now_ns += SEC;
    measures.rss = 2 * MIB; /* twice as much, and next to nothing */
    CHECK(rules_look(&rules, &measures) == 0);
    measures.rss++;
    CHECK(rules_look(&rules, &measures) == 1);
}

static void test_pressure(void)
{
    struct rules rules = one_rule("psi.some>20%/10s");
    struct measures measures = {.now_ns = SEC, .has_pressure = true};

    CHECK(rule_stall_us(&rules.list[0]) == 2000000);
    CHECK(rule_pressure(&rules.list[0]) == PRESSURE_SOME);
    measures.stalled.stalled_us[PRESSURE_SOME] = 5000000; /* long ago */
    CHECK(rules_look(&rules, &measures) == 0);
    for (int i = 0; i < 30; i++) { /* 15 % */
        measures.now_ns += SEC;
        measures.stalled.stalled_us[PRESSURE_SOME] += 150000;
        measures.stalled.stalled_us[PRESSURE_FULL] += 1000000; /* which is not requested */
        CHECK(rules_look(&rules, &measures) == 0);
    }
    measures.now_ns += SEC;
    measures.stalled.stalled_us[PRESSURE_SOME] += 900000;
    CHECK(rules_look(&rules, &measures) == 1);
    measures.has_pressure = false; /* nothing is known any more */
    measures.now_ns += SEC;
    CHECK(rules_look(&rules, &measures) == 0);
    measures.now_ns += 19 * SEC;
    measures.has_pressure = true;
    CHECK(rules_look(&rules, &measures) == 0);
}

static void stall(struct measures *measures, uint64_t later_ns, uint64_t ms)
{
    measures->now_ns += later_ns;
    measures->stalled.stalled_us[PRESSURE_FULL] += ms * 1000;
}

static void test_alarm(void)
{
    struct rules rules = one_rule("psi.full>50%/2s");
    struct measures measures = {.now_ns = SEC, .has_pressure = true};

    rules.states[0].watched_by_kernel = true;
    CHECK(rule_pressure(&rules.list[0]) == PRESSURE_FULL);
    CHECK(rules_pause(&rules) == SEC); /* nothing needs frequent measurements */
    CHECK(rules_look(&rules, &measures) == 0);
    stall(&measures, SEC, 600);
    CHECK(rules_look(&rules, &measures) == 0);
    stall(&measures, 2 * SEC, 500); /* of this window, and of the one before */
    measures.alarms = 2;            /* another rule's */
    CHECK(rules_look(&rules, &measures) == 0);
    measures.alarms = 1;
    CHECK(rules_look(&rules, &measures) == 1);
    CHECK(rules_failed(&rules, 1, measures.now_ns) == SEC);
    measures.alarms = 0;
    CHECK(rules_look(&rules, &measures) == 0);
    measures.now_ns += SEC;
    CHECK(rules_look(&rules, &measures) == 1); /* still of that window */
    rules_fired(&rules, 1, measures.now_ns);
    measures.now_ns += 600 * SEC;
    CHECK(rules_look(&rules, &measures) == 0); /* it was reported once */
    rules_restart(&rules);
    CHECK(rules.states[0].watched_by_kernel);
}

/* The first alarm may count all stalls since boot, and the next may be its echo. */
static void test_alarm_false(void)
{
    struct rules rules = one_rule("psi.full>50%/2s");
    struct measures measures = {.now_ns = SEC, .has_pressure = true};

    rules.states[0].watched_by_kernel = true;
    stall(&measures, 0, 100000);
    measures.alarms = 1;
    CHECK(rules_look(&rules, &measures) == 0);
    for (int i = 0; i < 4; i++) {
        stall(&measures, 2 * SEC, 490);
        CHECK(rules_look(&rules, &measures) == 0);
    }
    stall(&measures, 2 * SEC, 510);
    CHECK(rules_look(&rules, &measures) == 1);
}

/* It comes at most once a window, and may be false: the sums decide as well. */
static void test_alarm_missing(void)
{
    struct rules rules = one_rule("psi.full>50%/2s");
    struct measures measures = {.now_ns = SEC, .has_pressure = true};

    rules.states[0].watched_by_kernel = true;
    CHECK(rules_look(&rules, &measures) == 0);
    stall(&measures, SEC, 900);
    CHECK(rules_look(&rules, &measures) == 0);
    stall(&measures, SEC, 200);
    CHECK(rules_look(&rules, &measures) == 1);
}

/* However often it fails, a promised attempt comes. */
static void test_alarm_owed(void)
{
    struct rules rules = one_rule("psi.full>50%/2s");
    struct measures measures = {.now_ns = SEC, .has_pressure = true};

    rules.states[0].watched_by_kernel = true;
    CHECK(rules_look(&rules, &measures) == 0);
    stall(&measures, SEC, 1000);
    measures.alarms = 1;
    for (int i = 0; i < 8; i++) {
        CHECK(rules_look(&rules, &measures) == 1);
        measures.now_ns += rules_failed(&rules, 1, measures.now_ns);
        measures.alarms = 0;
    }
}

static void test_pause(void)
{
    struct rules rules = one_rule("rss>100M");
    struct measures measures = {.now_ns = SEC, .rss = 10 * MIB};

    CHECK(rules_look(&rules, &measures) == 0 && rules_pause(&rules) == SEC / 2);
    measures.now_ns += SEC;
    measures.rss += MIB; /* 89 seconds are left */
    CHECK(rules_look(&rules, &measures) == 0 && rules_pause(&rules) == SEC / 2);
    measures.now_ns += SEC;
    measures.rss = 61 * MIB; /* less than one */
    CHECK(rules_look(&rules, &measures) == 0);
    CHECK(rules_pause(&rules) > SEC / 10 && rules_pause(&rules) < SEC / 5);
    measures.now_ns += SEC / 2;
    measures.rss = 100 * MIB;
    CHECK(rules_look(&rules, &measures) == 0 && rules_pause(&rules) == SEC / 100);
    for (int i = 0; i < 40; i++) { /* it has stopped growing */
        measures.now_ns += SEC;
        CHECK(rules_look(&rules, &measures) == 0);
    }
    measures.rss -= MIB;
    measures.now_ns += SEC;
    CHECK(rules_look(&rules, &measures) == 0 && rules_pause(&rules) == SEC / 5);
}

/* A clock that stands still or goes back, as none should: nothing fires, nothing breaks. */
static void test_clock(void)
{
    static const char *const texts[] = {"rss>50M", "grow>20%/1m", "psi.some>20%/10s"};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct rules rules = one_rule(texts[i]);
        struct measures measures = {
            .now_ns = 1000 * SEC, .age_ns = 3600 * SEC, .rss = 10 * MIB, .has_pressure = true};
        CHECK(rules_look(&rules, &measures) == 0);
        CHECK(rules_look(&rules, &measures) == 0);
        measures.now_ns -= 500 * SEC;
        CHECK(rules_look(&rules, &measures) == 0);
        CHECK(rules_pause(&rules) <= SEC);
        measures.now_ns = UINT64_MAX / 2;
        CHECK(rules_look(&rules, &measures) == 0);
    }
}

static void test_description(void)
{
    struct rules rules = one_rule("rss>100M");
    struct measures measures = {.now_ns = SEC, .rss = 150 * MIB};
    char text[128];

    rules_look(&rules, &measures);
    CHECK(strcmp(rule_describe(&rules, 0, text, sizeof text),
                 "rss>100M (150 MiB, above 100 MiB)") == 0);
}

int main(void)
{
    test_texts();
    test_wrong_texts();
    test_rss();
    test_cgroup();
    test_cooldown();
    test_own_cooldowns();
    test_tries();
    test_growth();
    test_growth_back();
    test_growth_young();
    test_growth_small();
    test_pressure();
    test_alarm();
    test_alarm_false();
    test_alarm_missing();
    test_alarm_owed();
    test_pause();
    test_clock();
    test_description();
    return check_result();
}
