#include "base/units.h"
#include "base/cursor.h"
#include "base/util.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- formatting ---- */

/* Bytes; larger sizes would not fit into UNITS_TEXT. */
static const double LARGEST = 1e30;

/* Returns the length. */
static int format_number(double value, char out[UNITS_TEXT])
{
    double size = fabs(value);
    int decimals = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
    int len = snprintf(out, UNITS_TEXT, "%.*f", decimals, value);

    if (decimals == 0)
        return len;
    while (out[len - 1] == '0')
        len--;
    if (out[len - 1] == '.')
        len--;
    out[len] = '\0';
    return len;
}

const char *units_bytes(double bytes, char out[UNITS_TEXT])
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = round(fmax(-LARGEST, fmin(bytes, LARGEST))) + 0.0; /* no "-0" */
    size_t unit = 0;
    int len;

    while (fabs(value) >= 1023.5 && unit + 1 < ARRAY_LEN(names)) {
        value /= 1024;
        unit++;
    }
    len = format_number(value, out);
    snprintf(out + len, UNITS_TEXT - (size_t)len, " %s", names[unit]);
    return out;
}

const char *units_change(double bytes, char out[UNITS_TEXT])
{
    char text[UNITS_TEXT];

    units_bytes(bytes, text);
    snprintf(out, UNITS_TEXT, "%s%.*s", round(bytes) > 0 ? "+" : "", UNITS_TEXT - 2, text);
    return out;
}

const char *units_rate(double bytes_per_second, char out[UNITS_TEXT])
{
    char text[UNITS_TEXT];

    units_change(bytes_per_second, text);
    snprintf(out, UNITS_TEXT, "%.*s/s", UNITS_TEXT - 3, text);
    return out;
}

const char *units_shorten(char *text)
{
    char *to = text;

    for (const char *from = text; *from; from++)
        if (!strchr(" iB", *from))
            *to++ = *from;
    *to = '\0';
    return text;
}

const char *units_duration(uint64_t ns, char out[UNITS_TEXT])
{
    static const struct {
        uint64_t seconds;
        const char *name;
    } units[] = {{1, "s"}, {60, "min"}, {3600, "h"}, {86400, "d"}};
    double ms = (double)ns / 1e6, seconds = ms / 1000;
    uint64_t smaller = 0, rounded = 0;
    size_t unit = 1;

    if (ns > 0 && ms < 0.005)
        return strcpy(out, "< 0.01 ms");
    if (ms < 59950) {
        bool small = ms < 999.5;
        strcpy(out + format_number(small ? ms : seconds, out), small ? " ms" : " s");
        return out;
    }

    /* Two adjacent units, in whole numbers; the second is omitted if it is 0. */
    for (;; unit++) {
        smaller = units[unit - 1].seconds;
        rounded = (uint64_t)(seconds / (double)smaller + 0.5) * smaller;
        if (unit + 1 == ARRAY_LEN(units) || rounded < units[unit + 1].seconds)
            break;
    }
    int len = snprintf(out, UNITS_TEXT, "%llu %s",
                       (unsigned long long)(rounded / units[unit].seconds), units[unit].name);
    rounded %= units[unit].seconds;
    if (rounded)
        snprintf(out + len, UNITS_TEXT - (size_t)len, " %llu %s",
                 (unsigned long long)(rounded / smaller), units[unit - 1].name);
    return out;
}

/* ---- parsing ---- */

bool units_parse_digits(const char *text, uint64_t limit, uint64_t *value, const char **rest)
{
    struct cursor cursor = cursor_of(text, strlen(text));

    if (!cursor_take_decimal(&cursor, value) || *value > limit)
        return false;
    *rest = cursor.at;
    return true;
}

/* strtod(3) accepts more: 0x10, 1e9, inf. */
bool units_parse_decimal(const char *text, double *value, const char **rest)
{
    static const char digits[] = "0123456789";
    size_t len = strspn(text, digits);
    char *end;

    if (len == 0)
        return false;
    if (text[len] == '.') {
        size_t more = strspn(text + len + 1, digits);
        if (more == 0)
            return false;
        len += 1 + more;
    }
    *value = strtod(text, &end);
    *rest = end;
    return end == text + len && isfinite(*value);
}

bool units_parse_bytes(const char *text, uint64_t *bytes, const char **rest)
{
    static const char letters[] = "KMGT";
    double value;
    const char *after;
    unsigned shift = 0;

    if (!units_parse_digits(text, UINT64_MAX, bytes, &after) ||
        !units_parse_decimal(text, &value, rest))
        return false;
    bool whole = after == *rest;
    const char *letter = **rest ? strchr(letters, **rest) : NULL;
    if (letter) {
        shift = 10 * (unsigned)(letter - letters + 1);
        ++*rest;
        if (strncmp(*rest, "iB", 2) == 0)
            *rest += 2;
    }
    if (*bytes > UINT64_MAX >> shift)
        return false;
    *bytes <<= shift;
    if (!whole) /* a double is exact enough for the fraction */
        *bytes += (uint64_t)ldexp(value - floor(value), (int)shift);
    return true;
}

bool units_parse_duration(const char *text, uint64_t *ns)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"", 1}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
    const char *rest;
    double value;

    if (!units_parse_decimal(text, &value, &rest))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        double seconds = value * units[i].seconds;
        if (strcmp(rest, units[i].name) != 0)
            continue;
        *ns = seconds <= 24 * 3600 ? (uint64_t)(seconds * 1e9) : 0;
        return *ns > 0;
    }
    return false;
}
