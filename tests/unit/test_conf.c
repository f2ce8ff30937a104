/* Sources of jemalloc's options, and the meaning of the resulting state. */
#include "check.h"
#include "cli/verdict.h"
#include "jemalloc/conf.h"
#include "jemalloc/names.h"

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

    CHECK(strcmp(next(&state, NULL), "jeattach dump 42 -f text") == 0);
    state.thread_active_init = FACT_NO;
    CHECK(strcmp(next(&state, NULL), "jeattach on --repair 42") == 0);
    state.prof_active = FACT_NO;
    CHECK(strcmp(next(&state, NULL), "jeattach on 42") == 0);
    state.lg_sample = 0;
    CHECK(strcmp(next(&state, NULL), "jeattach mallctl 42 prof.reset=19") == 0);
    state.prof_active = FACT_YES;
    CHECK(starts_with(next(&state, NULL), "jeattach mallctl 42 prof.reset=19  # drops"));
    state.build.opt_prof = FACT_NO;
    CHECK(starts_with(next(&state, NULL),
                      "start it with JE_MALLOC_CONF=prof:true,prof_active:false;"));
    CHECK(starts_with(next(&state, "narenas:2"),
                      "start it with JE_MALLOC_CONF=narenas:2,prof:true,prof_active:false;"));
    /* Text on which a shell would act is not offered for pasting. */
    CHECK(starts_with(next(&state, "log:b;reboot,narenas:2"),
                      "start it with JE_MALLOC_CONF=narenas:2,prof:true,"));
    CHECK(starts_with(next(&state, "$(x)"), "start it with JE_MALLOC_CONF=prof:true,"));
    CHECK(starts_with(next(&state, "log:a\nb"), "start it with JE_MALLOC_CONF=prof:true,"));
    state.build.config_prof = FACT_NO;
    CHECK(strstr(next(&state, NULL), "--enable-prof"));
}

static const struct version any = {0}, v521 = {VERSION_NUMBER(5, 2, 1), 0},
                            v45 = {VERSION_NUMBER(4, 5, 0), 0};

static const struct {
    const char *text;
    const struct version *version;
    const char *flaws; /* of each setting: A ... G as in enum conf_flaw */
} strings[] = {
    {"", &any, ""},
    {"prof:true", &v521, "A"},
    {"prof:true,prof_active:false,", &v521, "AA"},
    {"prof_prefix:", &v521, "A"}, /* as text may be empty */
    {"narenas:", &v521, "G"},
    {"narenas:8,lg_prof_sample:0x13,dirty_decay_ms:-1", &v521, "AAA"},
    {"narenas:8x,junk:free,narenas:default", &v521, "GAG"},
    {"narenas:default,lg_prof_sample:default", &any, "AG"},
    {"opt.prof:true,prof:true", &v521, "B"},
    {"prof=true", &any, "B"},
    {"prof:true, prof_active:false", &v521, "AB"},
    {"\"prof:true\"", &v521, "B"},
    {"prof:true\"", &v521, "F"},
    {"prof:1,prof:TRUE,prof:true ", &v521, "FFF"},
    {"prof:true;prof_active:false", &v521, "F"},
    {"prof", &v521, "C"},
    {"prof,prof_active:false", &v521, "C"},
    {"prof:true,prof_actve:false,prof:false", &v521, "ADA"},
    {":true,prof:true", &v521, "DA"},
    {"hpa:true,prof_log:true,prof_unbias:true", &v521, "EAE"},
    {"background_thread:true,lg_dirty_mult:3,thp:true", &v45, "EAA"},
    {"hpa:true,decay_time:3", &any, "AA"},
    {"lg_tcache_max:4,slab_sizes:1-4096:17|100-200:1", &any, "AA"},
};

static void test_settings(void)
{
    struct conf_setting setting;

    for (size_t i = 0; i < ARRAY_LEN(strings); i++) {
        const char *text = strings[i].text, *flaws = strings[i].flaws;
        for (; conf_next(&text, *strings[i].version, &setting) && *flaws; flaws++)
            if (!CHECK((char)('A' + (int)setting.flaw) == *flaws))
                fprintf(stderr, "%s at %s\n", strings[i].text, setting.text);
        CHECK(!*flaws && !*text);
    }
}

/* What is proposed is taken whole by the parser, whatever stood there before. */
static void test_proposals(void)
{
    struct prof_state state = good;
    struct conf_setting setting;
    char line[4096];

    state.build.opt_prof = FACT_NO;
    for (size_t i = 0; i < ARRAY_LEN(strings); i++) {
        size_t len, accepted = 0;
        state.build.version = *strings[i].version;
        snprintf(line, sizeof line, "%s", strchr(next(&state, strings[i].text), '=') + 1);
        *strchr(line, ';') = '\0';
        for (const char *text = line; conf_next(&text, state.build.version, &setting); accepted++)
            CHECK(setting.flaw == CONF_ACCEPTED);
        CHECK(accepted >= 2);
        const char *value = conf_value(line, "prof", &len);
        CHECK(value && len == 4 && memcmp(value, "true", len) == 0);
        value = conf_value(line, "prof_active", &len);
        CHECK(value && len == 5 && memcmp(value, "false", len) == 0);
    }
}

static void test_suggestions(void)
{
    static const struct {
        const char *text, *similar;
    } rows[] = {{"prof_actve:false", "prof_active"},
                {"opt.prof:true", "prof"},
                {"pro:true", "prof"},
                {"dirty_decay:0", "dirty_decay_ms"},
                {"x:y", ""},
                {":y", ""}};
    struct conf_setting setting;
    char out[CTL_NAME_MAX];

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *text = rows[i].text;
        CHECK(conf_next(&text, v521, &setting));
        CHECK(strcmp(conf_suggest(&setting, v521, out, sizeof out), rows[i].similar) == 0);
    }
}

/* The cause is what was to enable profiling, not any other flaw. */
static void test_causes(void)
{
    static const struct {
        const char *text, *why;
    } rows[] = {{"prof=true", "jemalloc rejected 'prof=true' in V"},
                {"narenas:x,prof:1", "jemalloc rejected 'prof:1' in V"},
                {"x=1,prof:true", "jemalloc rejected 'x=1' in V"},
                {"x=1,narenas:2", ""},
                {"narenas:x,prof_final:1", ""},
                {"prof:false", ""}};
    char why[2048];

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct conf conf = {.variable = {.name = "V", .known = true, .set = true}};
        snprintf(conf.variable.text, sizeof conf.variable.text, "%s", rows[i].text);
        verdict_why(&(struct build){.version = v521}, &conf, why, sizeof why);
        if (!CHECK(strcmp(why, rows[i].why) == 0))
            fprintf(stderr, "%s: %s\n", rows[i].text, why);
    }
}

int main(void)
{
    test_environment();
    test_overwritten();
    test_long_values();
    test_names();
    test_verdicts();
    test_next_steps();
    test_settings();
    test_proposals();
    test_suggestions();
    test_causes();
    return check_result();
}
