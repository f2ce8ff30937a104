/* jemalloc's version string among a file's constants. */
#include "check.h"
#include "jemalloc/facts.h"
#include "own.h"

#include <string.h>

#define VERSION "5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c"

/* Searches a literal with its NUL; one byte precedes the first constant. */
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
    CHECK(find("5.3.0-0-gabc", 13) == 0); /* the byte before it is unknown */
    CHECK(find("\0"
               "5.3.0-0-gabc",
               13) == 0); /* as is the byte behind it */
    CHECK(found[0] == '\0');
}

/* Two that differ: neither is known to be jemalloc's. */
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

/* jemalloc's sample, as a process of no profiling and one of it has them. */
static struct {
    unsigned char opt_prof, active, thread_init;
    uint64_t lg_sample;
    char prefix[4097];
} sample = {1, 1, 0, 10, "jeprof"};

static void place(struct fact_variables *variables, enum fact_variable which, const void *at,
                  uint64_t size)
{
    variables->at[which].address = (remote_addr)(uintptr_t)at;
    variables->at[which].size = size;
}

static void test_nothing_known(struct own *own)
{
    const struct fact_variables variables = {.version = VERSION};
    struct prof_state state;

    facts_read(&variables, &own->memory, &state);
    CHECK(strcmp(state.build.text, VERSION) == 0);
    CHECK(!state.build.opt_prof && !state.prof_active && !state.lg_sample_known &&
          !state.prefix_known);
}

static void test_read(struct own *own)
{
    struct fact_variables variables = {.version = VERSION};
    struct prof_state state;

    place(&variables, VARIABLE_OPT_PROF, &sample.opt_prof, 1);
    place(&variables, VARIABLE_PROF_ACTIVE, &sample.active, 1);
    place(&variables, VARIABLE_THREAD_INIT, &sample.thread_init, 1);
    place(&variables, VARIABLE_LG_SAMPLE, &sample.lg_sample, 8);
    place(&variables, VARIABLE_PREFIX, sample.prefix, sizeof sample.prefix);
    facts_read(&variables, &own->memory, &state);
    CHECK(state.lg_sample_known && state.prefix_known && state.build.config_prof == FACT_YES &&
          state.build.opt_prof == FACT_YES);
    CHECK(state.prof_active == FACT_YES && state.thread_active_init == FACT_NO);
    CHECK(state.lg_sample == 10 && strcmp(state.prefix, "jeprof") == 0);

    sample.opt_prof = 0; /* prof.active has no meaning without it */
    facts_read(&variables, &own->memory, &state);
    CHECK(state.build.opt_prof == FACT_NO && state.build.config_prof == FACT_YES &&
          state.prof_active == FACT_NO);
    variables.at[VARIABLE_PREFIX].size = 1;
    facts_read(&variables, &own->memory, &state);
    CHECK(state.build.config_prof == FACT_NO);

    sample.opt_prof = 7; /* no bool has that value: it is another variable */
    sample.lg_sample = 64;
    variables.at[VARIABLE_PROF_ACTIVE].address = 8; /* nothing is mapped there */
    facts_read(&variables, &own->memory, &state);
    CHECK(!state.build.opt_prof && !state.prof_active && !state.lg_sample_known);
}

int main(void)
{
    struct own own;

    if (CHECK(own_open(&own))) {
        test_nothing_known(&own);
        test_read(&own);
        own_close(&own);
    }
    test_found();
    test_not_found();
    test_ambiguous();
    test_too_long();
    return check_result();
}
