#include "jemalloc/version.h"

#include <stddef.h>

enum { PART_LIMIT = 100, COMMITS_LIMIT = 1000000 };

/* Parses decimal digits at *text, less than limit, and advances *text. */
static bool take_version_part(const char **text, unsigned limit, unsigned *number)
{
    const char *p = *text;

    *number = 0;
    for (; *p >= '0' && *p <= '9'; p++) {
        *number = *number * 10 + (unsigned)(*p - '0');
        if (*number >= limit)
            return false;
    }
    if (p == *text)
        return false;
    *text = p;
    return true;
}

static bool take_char(const char **text, char wanted)
{
    if (**text != wanted)
        return false;
    (*text)++;
    return true;
}

struct version version_parse(const char *text)
{
    struct version version = {0};
    unsigned major, minor, bugfix;

    if (!text || !take_version_part(&text, PART_LIMIT, &major) || !take_char(&text, '.') ||
        !take_version_part(&text, PART_LIMIT, &minor) || !take_char(&text, '.') ||
        !take_version_part(&text, PART_LIMIT, &bugfix))
        return version;
    version.number = VERSION_NUMBER(major, minor, bugfix);
    if (!take_char(&text, '-') || !take_version_part(&text, COMMITS_LIMIT, &version.commits))
        version.commits = 0;
    return version;
}

bool version_within(struct version version, unsigned first, unsigned last)
{
    return version.number != 0 && version.number >= first && (last == 0 || version.number <= last);
}
