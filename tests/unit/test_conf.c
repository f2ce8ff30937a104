/* Sources of jemalloc's options, and the meaning of the resulting state. */
#include "check.h"
#include "cli/verdict.h"
#include "jemalloc/conf.h"

#include <stdlib.h>
#include <string.h>

/* The environment: strings with a NUL each, in a block that ends with the last. */
static struct conf parse(const char *name, const char *environment, size_t len)
{
    struct conf conf = {0};
    char *copy = malloc(len ? len : 1);

    snprintf(conf.variable.name, sizeof conf.variable.name, "%s", name);
    if (CHECK(copy))
        conf_parse_environ(&conf, memcpy(copy, environment, len), len);
    free(copy);
    return conf;
}

#define PARSE(name, text) parse(name, text, sizeof(text) - 1)

static void test_environment(void)
{
    struct conf conf = PARSE("MALLOC_CONF", "A=1\0MALLOC_CONF=prof:true\0MALLOC_CONF=late\0B=2");

    CHECK(conf.variable.known && conf.variable.set && !conf.foreign.set);
    CHECK(strcmp(conf.variable.text, "prof:true") == 0);
    conf = PARSE("_RJEM_MALLOC_CONF", "MALLOC_CONF=prof:true");
    CHECK(conf.variable.known && !conf.variable.set && conf.foreign.set);
    CHECK(strcmp(conf.foreign.name, "MALLOC_CONF") == 0);
    conf = PARSE("MALLOC_CONF", "JE_MALLOC_CONF=a\0MALLOC_CONF=");
    CHECK(conf.variable.set && !*conf.variable.text && conf.foreign.set);
    conf = PARSE("MALLOC_CONF", "MALLOC_CONF\0XMALLOC_CONFX=1\0=MALLOC_CONF=1\0=");
    CHECK(!conf.variable.set && !conf.foreign.set);
    conf = PARSE("MALLOC_CONF", "");
    CHECK(conf.variable.known && !conf.variable.set);
}

/* True if that environment looks intact. */
static bool is_intact(const char *environment, size_t len)
{
    struct conf conf = {.variable.name = "MALLOC_CONF"};

    return conf_parse_environ(&conf, environment, len);
}

static void test_overwritten(void)
{
    static const char zeros[100], plain[] = "A=1\0B=2", title[] = "redis *:6379\0\0\0\0B=2";

    CHECK(is_intact(plain, sizeof plain) && is_intact("", 0));
    CHECK(!is_intact(zeros, sizeof zeros) && !is_intact(title, sizeof title));
}

static void test_long_values(void)
{
    size_t n = 100000;
    char *text = malloc(n);
    struct conf conf;

    if (!CHECK(text))
        return;
    memset(text, 'x', n);
    memcpy(text, "MALLOC_CONF=", 12);
    conf = parse("MALLOC_CONF", text, n);
    CHECK(conf.variable.set && strlen(conf.variable.text) == CONF_TEXT_MAX - 1);
    memset(text, 'X', n);
    memcpy(text + n - 14, "MALLOC_CONF=ab", 14); /* a name that is too long for a variable */
    conf = parse("MALLOC_CONF", text, n);
    CHECK(!conf.variable.set && !conf.foreign.set);
    free(text);
}

static void test_names(void)
{
    char name[CONF_NAME_MAX], small[8];

    conf_variable_name("", name, sizeof name);
    CHECK(strcmp(name, "MALLOC_CONF") == 0);
    conf_variable_name("_rjem_", name, sizeof name);
    CHECK(strcmp(name, "_RJEM_MALLOC_CONF") == 0);
    conf_variable_name("je_arrow_", name, sizeof name);
    CHECK(strcmp(name, "JE_ARROW_MALLOC_CONF") == 0);
    conf_variable_name("je_arrow_", small, sizeof small);
    CHECK(strcmp(small, "JE_ARRO") == 0);
}

static const struct prof_state good = {.build = {.config_prof = FACT_YES, .opt_prof = FACT_YES},
                                       .prof_active = FACT_YES,
                                       .thread_active_init = FACT_YES,
                                       .lg_sample_known = true,
                                       .lg_sample = 19};

static void test_verdicts(void)
{
    struct prof_state state = good;

    CHECK(prof_judge(&state) == PROF_READY);
    state.thread_active_init = FACT_NO;
    CHECK(prof_judge(&state) == PROF_OLD_THREADS);
    state.prof_active = FACT_NO;
    CHECK(prof_judge(&state) == PROF_INACTIVE);
    state.lg_sample = PROF_LG_SPARSE;
    CHECK(prof_judge(&state) == PROF_SPARSE);
    state.lg_sample = 0;
    CHECK(prof_judge(&state) == PROF_DENSE);
    state.build.opt_prof = FACT_NO;
    state.prof_active = FACT_YES; /* readable as up to 5.2.1 */
    CHECK(prof_judge(&state) == PROF_DISABLED);
    state.build.config_prof = FACT_NO;
    CHECK(prof_judge(&state) == PROF_ABSENT);
}

/* The next step for that state, with that value of the variable. */
static const char *next(const struct prof_state *state, const char *value)
{
    static char text[4096];
    struct conf conf = {.variable = {.name = "JE_MALLOC_CONF", .known = true}};

    conf.variable.set = value != NULL;
    snprintf(conf.variable.text, sizeof conf.variable.text, "%s", value ? value : "");
    verdict_next(state, &conf, 42, text, sizeof text);
    return text;
}

static bool starts_with(const char *text, const char *wanted)
{
    return strncmp(text, wanted, strlen(wanted)) == 0;
}

static void test_next_steps(void)
{
    struct prof_state state = good;

    CHECK(strcmp(next(&state, NULL), "jeattach dump 42") == 0);
    state.thread_active_init = FACT_NO;
    CHECK(strcmp(next(&state, NULL), "jeattach on --repair 42") == 0);
    state.prof_active = FACT_NO;
    CHECK(strcmp(next(&state, NULL), "jeattach on 42") == 0);
    state.lg_sample = 0;
    CHECK(strcmp(next(&state, NULL), "jeattach mallctl 42 prof.reset=19") == 0);
    state.prof_active = FACT_YES;
    CHECK(starts_with(next(&state, NULL), "jeattach mallctl 42 prof.reset=19   (drops"));
    state.build.opt_prof = FACT_NO;
    CHECK(starts_with(next(&state, NULL),
                      "start it with JE_MALLOC_CONF=prof:true,prof_active:false;"));
    CHECK(starts_with(next(&state, "a:b"),
                      "start it with JE_MALLOC_CONF=a:b,prof:true,prof_active:false;"));
    /* Text on which a shell would act is not offered for pasting. */
    CHECK(starts_with(next(&state, "a:b;reboot"), "start it with JE_MALLOC_CONF=prof:true,"));
    CHECK(starts_with(next(&state, "$(x)"), "start it with JE_MALLOC_CONF=prof:true,"));
    CHECK(starts_with(next(&state, "a\nb"), "start it with JE_MALLOC_CONF=prof:true,"));
    state.build.config_prof = FACT_NO;
    CHECK(strstr(next(&state, NULL), "--enable-prof"));
}

int main(void)
{
    test_environment();
    test_overwritten();
    test_long_values();
    test_names();
    test_verdicts();
    test_next_steps();
    return check_result();
}
