#include "cli/verdict.h"
#include "cli/message.h"
#include "jemalloc/names.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *text;
} verdicts[] = {
    [PROF_UNKNOWN] = {NULL, "not known without a call"},
    [PROF_ABSENT] = {"absent", "this jemalloc was built without profiling"},
    [PROF_DISABLED] = {"disabled", "profiling was not enabled when the process was started"},
    [PROF_DENSE] = {"dense",
                    "profiling is enabled, but samples so often that the process may become slow"},
    [PROF_SPARSE] = {"sparse",
                     "profiling is enabled, but samples so rarely that a profile shows little"},
    [PROF_INACTIVE] = {"inactive", "profiling is enabled, but not active"},
    [PROF_OLD_THREADS] = {"old_threads",
                          "profiling is active, but not in threads that start from now on"},
    [PROF_READY] = {"active", "profiling is active"},
};

const char *verdict_name(enum prof_verdict verdict)
{
    return verdicts[verdict].name;
}

const char *verdict_text(enum prof_verdict verdict)
{
    return verdicts[verdict].text;
}

/* ---- what jemalloc rejects ---- */

static const char family[] = "opt.";

static bool begins_with_family(const char *text)
{
    return strncmp(text, family, strlen(family)) == 0;
}

static void write_malformed(const struct conf_setting *setting, char *out, size_t size)
{
    if (begins_with_family(setting->text))
        snprintf(out, size, "an option is written without 'opt.'");
    else if (setting->byte == '=')
        snprintf(out, size, "a colon stands between name and value");
    else if (setting->byte == '"' || setting->byte == '\'')
        snprintf(out, size, "the quotes are part of the value that jemalloc gets");
    else if (isspace((unsigned char)setting->byte))
        snprintf(out, size, "no blank may stand in it");
    else
        snprintf(out, size, "an option has only letters, digits and '_'");
}

/* Returns the setting as it may be printed. */
static const char *clean_setting(const struct conf_setting *setting, char out[CONF_TEXT_MAX])
{
    char text[CONF_TEXT_MAX];

    snprintf(text, sizeof text, "%.*s", (int)setting->len, setting->text);
    return message_clean(text, out, CONF_TEXT_MAX);
}

const char *verdict_flaw(const struct conf_setting *setting, const struct build *build, char *out,
                         size_t size)
{
    char clean[CONF_TEXT_MAX], why[160], similar[CTL_NAME_MAX] = "";
    char version[VERSION_TEXT_MAX];

    switch (setting->flaw) {
    case CONF_ACCEPTED:
        why[0] = '\0';
        break;
    case CONF_MALFORMED:
        write_malformed(setting, why, sizeof why);
        break;
    case CONF_WITHOUT_VALUE:
        snprintf(why, sizeof why, "a colon and a value are missing");
        break;
    case CONF_NO_OPTION:
        snprintf(why, sizeof why, "jemalloc has no such option");
        conf_suggest(setting, build->version, similar, sizeof similar);
        break;
    case CONF_NOT_HERE:
        snprintf(why, sizeof why, "jemalloc %.*s has no such option",
                 (int)strcspn(build->text, "-"),
                 message_clean(build->text, version, sizeof version));
        break;
    case CONF_NOT_BOOLEAN:
        snprintf(why, sizeof why, "its value can be true or false");
        break;
    case CONF_NOT_NUMBER:
        snprintf(why, sizeof why, "its value is no number");
        break;
    }
    snprintf(out, size, "'%s': %s%s%s%s%s", clean_setting(setting, clean), why,
             *similar ? "; did you mean " : "", similar, *similar ? "?" : "",
             conf_stops(setting) && setting->text[setting->len] ? "; it reads no further" : "");
    return out;
}

void verdict_flaws(const struct conf_source *source, const struct build *build,
                   void (*visit)(void *ctx, const struct conf_setting *setting), void *ctx)
{
    const bool cut = strlen(source->text) == CONF_TEXT_MAX - 1;
    const char *text = source->set ? source->text : "";
    struct conf_setting setting;

    while (conf_next(&text, build->version, &setting))
        if (setting.flaw != CONF_ACCEPTED && !(cut && !setting.text[setting.len]))
            visit(ctx, &setting);
}

/* True if a word prof stands in it, or the name is similar to it: it was to enable profiling. */
static bool means_prof(const struct conf_setting *setting, const struct build *build)
{
    const size_t len = conf_stops(setting) ? strlen(setting->text) : setting->len;
    char similar[CTL_NAME_MAX];

    for (const char *at = setting->text; (at = strstr(at, "prof")); at++)
        if (at < setting->text + len && !isalnum((unsigned char)at[strlen("prof")]) &&
            at[strlen("prof")] != '_' && (at == setting->text || !isalnum((unsigned char)at[-1])) &&
            (at == setting->text || at[-1] != '_'))
            return true;
    return strcmp(conf_suggest(setting, build->version, similar, sizeof similar), "prof") == 0;
}

struct search {
    const struct build *build;
    const struct conf_source *source;
    char *out;
    size_t size;
};

static void visit_flaw(void *ctx, const struct conf_setting *setting)
{
    const struct search *search = ctx;
    char clean[CONF_TEXT_MAX], name[CONF_NAME_MAX];

    if (*search->out || !means_prof(setting, search->build))
        return;
    snprintf(search->out, search->size, "jemalloc rejected '%s' in %s",
             clean_setting(setting, clean), message_clean(search->source->name, name, sizeof name));
}

const char *verdict_why(const struct build *build, const struct conf *conf, char *out, size_t size)
{
    const struct conf_source *sources[CONF_SOURCES];
    char name[CONF_NAME_MAX];
    size_t len;

    out[0] = '\0';
    /* What was set in vain for it to be read comes before what others have built in. */
    if (conf->foreign.set && !conf->variable.set && conf_value(conf->foreign.text, "prof", &len))
        snprintf(out, size, "it reads %s, not %s", conf->variable.name,
                 message_clean(conf->foreign.name, name, sizeof name));
    conf_sources(conf, sources);
    for (size_t i = 0; i < CONF_SOURCES && !*out; i++) {
        struct search search = {build, sources[i], out, size};
        verdict_flaws(sources[i], build, visit_flaw, &search);
    }
    return out;
}

/* ---- the next step ---- */

/* The settings in force, and profiling; a name or value on which a shell would act is left out. */
static void propose(const struct build *build, const struct conf_source *variable,
                    char out[2 * CONF_TEXT_MAX])
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_:./-";
    const bool whole = strlen(variable->text) < CONF_TEXT_MAX - 1;
    const char *text = variable->set && whole ? variable->text : "";
    struct conf_setting setting;
    size_t used = 0;

    while (conf_next(&text, build->version, &setting)) {
        const bool replaced = conf_is_word(setting.text, setting.name_len, "prof") ||
                              conf_is_word(setting.text, setting.name_len, "prof_active");
        if (setting.flaw != CONF_ACCEPTED || replaced || strspn(setting.text, plain) < setting.len)
            continue;
        used += (size_t)snprintf(out + used, 2 * CONF_TEXT_MAX - used, "%.*s,", (int)setting.len,
                                 setting.text);
    }
    snprintf(out + used, 2 * CONF_TEXT_MAX - used, "prof:true,prof_active:false");
}

bool verdict_next(const struct prof_state *state, const struct conf *conf, int pid, char *out,
                  size_t size)
{
    const char *name = conf->variable.name;
    char settings[2 * CONF_TEXT_MAX];

    switch (prof_judge(state)) {
    case PROF_ABSENT:
        /* A prefix means that the program calls this jemalloc by name: LD_PRELOAD replaces malloc
         * only. */
        snprintf(out, size,
                 "start it with a jemalloc built with --enable-prof (%s); a running process "
                 "cannot change its jemalloc",
                 strcmp(name, "MALLOC_CONF") != 0
                     ? "another build of the program; Rust: the feature 'profiling' of its jemalloc"
                     : "LD_PRELOAD, or another build");
        return false;
    case PROF_DISABLED:
        propose(&state->build, &conf->variable, settings);
        snprintf(out, size, "start it with %s=%s; no jemalloc can enable profiling later", name,
                 settings);
        return false;
    case PROF_DENSE:
    case PROF_SPARSE:
        snprintf(out, size, "jeattach mallctl %d prof.reset=%d%s", pid, PROF_LG_DEFAULT,
                 prof_is_active(state) ? "  # drops all samples taken so far" : "");
        break;
    case PROF_INACTIVE:
        snprintf(out, size, "jeattach on %d", pid);
        break;
    case PROF_OLD_THREADS:
        snprintf(out, size, "jeattach on --repair %d", pid);
        break;
    case PROF_READY:
        snprintf(out, size, "jeattach dump %d -f text", pid);
        break;
    case PROF_UNKNOWN:
        out[0] = '\0';
        break;
    }
    return true;
}
