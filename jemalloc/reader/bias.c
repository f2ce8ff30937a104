#include "jemalloc/reader/bias.h"
#include "jemalloc/conf.h"

#include <string.h>

static const char option[] = "prof_unbias:";

static bool is_value(const char *text, const char *value)
{
    const size_t n = strlen(value);

    return strncmp(text, value, n) == 0 && (text[n] == ',' || text[n] == '\0');
}

enum fact bias_option(const char *options)
{
    enum fact set = FACT_UNKNOWN;

    for (const char *at = options; (at = strstr(at, option)); at += sizeof option - 1) {
        const char *value = at + sizeof option - 1;
        if (at != options && at[-1] != ',')
            continue;
        if (is_value(value, "true"))
            set = FACT_YES;
        else if (is_value(value, "false"))
            set = FACT_NO;
    }
    return set;
}

/* The prefix of a build without symbols may be unknown: then its variable seems to be foreign. */
enum fact bias_of_options(const struct reader_source *source)
{
    enum fact set = FACT_UNKNOWN;
    struct conf conf;

    conf_read(&conf, source->instance, source->modules, source->target, source->memory);
    const struct conf_source *const list[] = {&conf.symbol, &conf.link,
                                              conf.variable.set ? &conf.variable : &conf.foreign};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        enum fact here = list[i]->set ? bias_option(list[i]->text) : FACT_UNKNOWN;
        if (here != FACT_UNKNOWN)
            set = here;
    }
    return set;
}
