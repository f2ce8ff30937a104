#include "cli/value.h"
#include "base/units.h"
#include "cli/message.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool parse_number(const char *text, uint64_t limit, uint64_t *value)
{
    const char *rest;

    return units_parse_digits(text, limit, value, &rest) && *rest == '\0';
}

bool value_parse(enum ctl_type type, const char *text, uint64_t *value)
{
    static const char *const words[][2] = {
        {"false", "true"}, {"off", "on"}, {"no", "yes"}, {"0", "1"}};
    const bool minus = *text == '-';
    const char *rest;

    switch (type) {
    case CTL_BOOL:
        for (size_t i = 0; i < ARRAY_LEN(words); i++)
            for (*value = 0; *value < 2; (*value)++)
                if (strcmp(text, words[i][*value]) == 0)
                    return true;
        return false;
    case CTL_UNSIGNED:
        return parse_number(text, UINT32_MAX, value);
    case CTL_UINT64:
        return parse_number(text, UINT64_MAX, value);
    case CTL_SIZE: /* no fraction: a written value must be exact */
        return !strpbrk(text, ".i") && units_parse_bytes(text, value, &rest) && *rest == '\0';
    case CTL_SSIZE:
    case CTL_INT64:
        if (!parse_number(text + minus, (uint64_t)INT64_MAX + minus, value))
            return false;
        *value = minus ? 0 - *value : *value;
        return true;
    default:
        return false;
    }
}

const char *value_wanted(enum ctl_type type)
{
    switch (type) {
    case CTL_BOOL:
        return "true or false";
    case CTL_UNSIGNED:
    case CTL_UINT64:
        return "a number";
    case CTL_SIZE:
        return "a number, or a size such as 64K, 16M, 1G";
    case CTL_SSIZE:
    case CTL_INT64:
        return "a number, which may be negative";
    default:
        return "a value of a type that cannot be written";
    }
}

const char *value_format(enum ctl_type type, uint64_t value, const char *text, char *out,
                         size_t size)
{
    switch (type) {
    case CTL_BOOL:
        snprintf(out, size, "%s", value ? "true" : "false");
        break;
    case CTL_STRING:
        if (!text) {
            snprintf(out, size, "%s", value ? "(unreadable)" : "(null)");
            break;
        }
        out[0] = '"';
        message_clean(text, out + 1, size - 2);
        strcat(out, "\"");
        break;
    case CTL_SSIZE:
    case CTL_INT64:
        snprintf(out, size, "%" PRId64, (int64_t)value);
        break;
    case CTL_FIXED:
        if (value == UINT32_MAX)
            snprintf(out, size, "-1");
        else
            snprintf(out, size, "%g", (double)value / 65536);
        break;
    case CTL_POINTER:
        snprintf(out, size, "%#" PRIx64, value);
        break;
    default:
        snprintf(out, size, "%" PRIu64, value);
        break;
    }
    return out;
}
