#include "cli/verdict.h"

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

bool verdict_next(const struct prof_state *state, const struct conf *conf, int pid, char *out,
                  size_t size)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_:,./-";
    const char *name = conf->variable.name, *text = conf->variable.text;
    /* A shell takes the present value literally, and it was read in full. */
    const bool keeps = conf->variable.set && *text && text[strspn(text, plain)] == '\0' &&
                       strlen(text) < CONF_TEXT_MAX - 1;

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
        /* Later options override earlier ones, so the present value comes first. */
        snprintf(out, size,
                 "start it with %s=%s%sprof:true,prof_active:false; no jemalloc can enable "
                 "profiling later",
                 name, keeps ? text : "", keeps ? "," : "");
        return false;
    case PROF_DENSE:
    case PROF_SPARSE:
        snprintf(out, size, "jeattach mallctl %d prof.reset=%d%s", pid, PROF_LG_DEFAULT,
                 prof_is_active(state) ? "   (drops all samples taken so far)" : "");
        break;
    case PROF_INACTIVE:
        snprintf(out, size, "jeattach on %d", pid);
        break;
    case PROF_OLD_THREADS:
        snprintf(out, size, "jeattach on --repair %d", pid);
        break;
    case PROF_READY:
        snprintf(out, size, "jeattach dump %d", pid);
        break;
    case PROF_UNKNOWN:
        out[0] = '\0';
        break;
    }
    return true;
}
