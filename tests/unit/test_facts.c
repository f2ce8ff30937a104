/* jemalloc's version string among a file's constants. */
#include "check.h"
#include "jemalloc/facts.h"

#include <string.h>

#define VERSION "5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c"

/* Looks into a literal with its NUL; a byte stands before the first constant. */
#define FIND(literal) find("\0" literal, sizeof("\0" literal))

static char found[128];

static int find(const char *bytes, size_t len)
{
    memset(found, 0, sizeof found);
    return facts_version(bytes, len, found, sizeof found);
}

static bool finds(int rc, const char *version)
{
    return rc == 1 && strcmp(found, version) == 0;
}

static void test_found(void)
{
    CHECK(finds(FIND(VERSION), VERSION));
    CHECK(finds(FIND("-g\0-0-g\0" VERSION "\0x"), VERSION));
    CHECK(finds(FIND("5.3.0-0-g0"), "5.3.0-0-g0"));
    CHECK(finds(FIND("0.0.0-0-g000000missing_version_try_git_fetch_tags"),
                "0.0.0-0-g000000missing_version_try_git_fetch_tags"));
    CHECK(finds(FIND("5.2.1-999-gabc\0\0"
                     "5.2.1-999-gabc"),
                "5.2.1-999-gabc"));
}

static void test_not_found(void)
{
    CHECK(FIND("") == 0);
    CHECK(FIND("-g") == 0);
    CHECK(FIND("5.3.0-0-g") == 0);
    CHECK(FIND("5.3-0-gabc") == 0);
    CHECK(FIND("5.3.0-gabc") == 0);
    CHECK(FIND("5.3.0-0-gabc more") == 0);
    CHECK(FIND("v5.3.0-0-gabc") == 0);
    CHECK(FIND("lib-5.3.0-0-gabc") == 0);
    CHECK(FIND("5.3.0-0123456789-gabc") == 0);
    CHECK(find("5.3.0-0-gabc", 13) == 0); /* what stands before it is not known */
    CHECK(find("\0"
               "5.3.0-0-gabc",
               13) == 0); /* nor how it ends */
    CHECK(found[0] == '\0');
}

/* Two that differ: which of them is jemalloc's is not to be told. */
static void test_ambiguous(void)
{
    CHECK(FIND("5.3.0-0-gabc\0"
               "5.2.1-0-gabc") == -1);
    CHECK(finds(FIND("5.3.0-0-gabc"), "5.3.0-0-gabc"));
    CHECK(facts_version("\0"
                        "5.2.1-0-gabc",
                        14, found, sizeof found) == -1);
}

static void test_too_long(void)
{
    char text[300] = "";

    memset(text + 1, 'a', sizeof text - 2);
    memcpy(text + 1, "5.3.0-0-g", 9);
    CHECK(find(text, sizeof text) == 0);
}

static void test_complete(void)
{
    struct facts facts = {.version = VERSION, .compiled_in = FACT_YES, .enabled = FACT_NO};

    CHECK(facts_complete(&facts));
    facts.enabled = FACT_YES;
    CHECK(!facts_complete(&facts));
    facts.active = facts.thread_active_init = FACT_NO;
    facts.lg_sample_known = facts.prefix_known = true;
    CHECK(facts_complete(&facts));
    facts.version[0] = '\0';
    CHECK(!facts_complete(&facts));
}

int main(void)
{
    test_found();
    test_not_found();
    test_ambiguous();
    test_too_long();
    test_complete();
    return check_result();
}
