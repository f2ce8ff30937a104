/* jemalloc's version string. */
#include "check.h"
#include "jemalloc/instance.h"

#include <stddef.h>

static bool parses(const char *text, unsigned number, unsigned commits)
{
    struct version version = version_parse(text);

    return version.number == number && version.commits == commits;
}

static void test_parse(void)
{
    CHECK(parses("5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c", 50300, 0));
    CHECK(parses("5.2.1-0-gea6b3e973b477b8061e0076bb257dbd7f3faa756", 50201, 0));
    CHECK(parses("4.0.4-12-g91010a9e2ebfc84b1ac1ed7fdde3bfed4f65f180", 40004, 12));
    CHECK(parses("5.3.0-0-g0", 50300, 0));
    CHECK(parses("5.3.1", 50301, 0));
    CHECK(parses("5.3.0_custom", 50300, 0));
    CHECK(parses("5.3.0-custom", 50300, 0));
    CHECK(parses("99.99.99-999999-g0", 999999, 999999));
}

static void test_unknown(void)
{
    CHECK(parses("0.0.0-0-g000000missing_version_try_git_fetch_tags", 0, 0));
    CHECK(parses(NULL, 0, 0) && parses("", 0, 0) && parses("5", 0, 0) && parses("5.3", 0, 0));
    CHECK(parses("5.3.", 0, 0) && parses("v5.3.0", 0, 0) && parses(" 5.3.0", 0, 0));
    CHECK(parses("5.-3.0", 0, 0) && parses("5.3.100", 0, 0));
    CHECK(parses("4294967301.3.0", 0, 0)); /* 5 in 32 bits */
    CHECK(parses("5.3.0-1000000-g0", 50300, 0));
}

static void test_within(void)
{
    struct version old = version_parse("4.5.0-0-g0"), ten = {VERSION_NUMBER(5, 10, 0), 0};
    struct version unknown = {0};

    CHECK(version_within(old, 40500, 40500) && version_within(old, 40000, 0));
    CHECK(!version_within(old, 40501, 0) && !version_within(old, 40000, 40499));
    CHECK(version_within(ten, VERSION_NUMBER(5, 3, 1), 0)); /* by number, not alphabetically */
    CHECK(!version_within(unknown, 0, 0) && !version_within(unknown, 40000, 50301));
}

int main(void)
{
    test_parse();
    test_unknown();
    test_within();
    return check_result();
}
