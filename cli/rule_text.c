#include "cli/rule_text.h"
#include "base/units.h"

#include <stdio.h>

const char *rule_flaw_text(enum rule_flaw flaw)
{
    static const char *const texts[] = {
        [RULE_GOOD] = "",
        [RULE_NO_SIGN] = "it contains no > (the shell interprets an unquoted one: --when 'rss>2G')",
        [RULE_TOO_LONG] = "it is too long",
        [RULE_NO_METRIC] = "must start with rss, cgroup, psi.some, psi.full or grow",
        [RULE_NO_VALUE] = "> must be followed by a size (512M, 2G) or a percentage (80%)",
        [RULE_SHARE_RANGE] = "the percentage is out of range",
        [RULE_SHARE_ONLY] = "pressure needs a percentage of time: psi.some>20%/10s",
        [RULE_SIZE_RANGE] = "the size is out of range; without a unit it is of bytes: 512M, 2G",
        [RULE_WINDOW_ONLY] = "only a window may follow the value: /10s",
        [RULE_NO_WINDOW] = "nothing may follow the value",
        [RULE_WINDOW_RANGE] = "the window must be a duration from 500ms to 24h: /10s, /10m",
    };

    return texts[flaw];
}

const char *rule_describe(const struct rules *rules, size_t i, char *out, size_t size)
{
    const struct rule *rule = &rules->list[i];
    const struct rule_state *state = &rules->states[i];
    char value[UNITS_TEXT], threshold[UNITS_TEXT];

    if (rule_is_pressure(rule)) {
        snprintf(out, size, "%s stalled %.1f %% of the last window", rule->text,
                 state->value * 100);
        return out;
    }
    snprintf(out, size, "%s (%s, above %s)", rule->text, units_bytes(state->value, value),
             units_bytes(state->threshold, threshold));
    return out;
}
