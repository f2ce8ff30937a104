/* A rule of watch, and its evaluation at any measurement. */
#include "cli/rule_text.h"
#include "fuzz.h"

#include <string.h>

static void look_at_it(struct rules *rules)
{
    static const uint64_t sizes[] = {0, 1, 4096, 1 << 30, (uint64_t)1 << 62, UINT64_MAX};
    struct measures measures = {.now_ns = 1, .age_ns = UINT64_MAX, .has_pressure = true};
    char text[128];

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        measures.now_ns += 1000000007;
        measures.rss = measures.limit = measures.own_used = sizes[i];
        measures.used = measures.used_of = sizes[sizeof sizes / sizeof *sizes - 1 - i];
        measures.stalled.stalled_us[PRESSURE_SOME] = measures.stalled.stalled_us[PRESSURE_FULL] =
            sizes[i];
        expect(rules_look(rules, &measures) <= 1);
        expect(rules_pause(rules) > 0 && rules_pause(rules) <= 1000000000);
        expect(rules_exact_share(rules) > 0 && rules_exact_share(rules) <= 1);
        expect(strlen(rule_describe(rules, 0, text, sizeof text)) < sizeof text);
    }
    expect(rules_failed(rules, 1, measures.now_ns) > 0);
    rules_fired(rules, 1, measures.now_ns);
    expect(rules_look(rules, &measures) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rules rules = {.count = 1, .cooldown_ns = 1000000000};
    struct rule *rule = &rules.list[0];
    char *text = malloc(size + 1);

    expect(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    enum rule_flaw flaw = rule_parse(rule, text);
    if (flaw == RULE_GOOD) {
        expect(strcmp(rule->text, text) == 0);
        expect(rule->in_percent ? rule->share > 0 && rule->bytes == 0
                                : rule->bytes > 0 && rule->share == 0);
        expect(rule_is_pressure(rule) || rule->metric == METRIC_GROW
                   ? rule->window_ns >= 500000000 && rule->window_ns <= 24ull * 3600 * 1000000000
                   : rule->window_ns == 0);
        look_at_it(&rules);
    } else {
        expect(flaw < RULE_FLAWS && *rule_flaw_text(flaw));
    }
    free(text);
    return 0;
}
