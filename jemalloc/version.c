#include "jemalloc/version.h"
#include "base/cursor.h"

enum { PART_LIMIT = 100, COMMITS_LIMIT = 1000000 };

/* Takes decimal digits that make less than limit. */
static bool take_version_part(struct cursor *text, unsigned limit, unsigned *number)
{
    uint64_t value;

    if (!cursor_take_decimal(text, &value) || value >= limit)
        return false;
    *number = (unsigned)value;
    return true;
}

struct version version_parse(const char *text)
{
    struct cursor rest = cursor_of(text ? text : "", text ? strlen(text) : 0);
    struct version version = {0};
    unsigned major, minor, bugfix;

    if (!take_version_part(&rest, PART_LIMIT, &major) || !cursor_take_char(&rest, '.') ||
        !take_version_part(&rest, PART_LIMIT, &minor) || !cursor_take_char(&rest, '.') ||
        !take_version_part(&rest, PART_LIMIT, &bugfix))
        return version;
    version.number = VERSION_NUMBER(major, minor, bugfix);
    if (!cursor_take_char(&rest, '-') || !take_version_part(&rest, COMMITS_LIMIT, &version.commits))
        version.commits = 0;
    return version;
}

bool version_within(struct version version, unsigned first, unsigned last)
{
    return version.number != 0 && version.number >= first && (last == 0 || version.number <= last);
}
