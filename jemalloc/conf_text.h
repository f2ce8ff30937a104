/*
 * What jemalloc makes of a string of options, NAME:VALUE,NAME:VALUE...: as malloc_conf_next and
 * malloc_conf_init read it, in jemalloc.c and conf.c of 4.0 to 5.3.1. It ignores a setting that it
 * rejects, with a line on stderr, and all that follows where no name can be read; with
 * abort_conf:true, since 5.0, it aborts.
 */
#pragma once

#include "jemalloc/instance.h"

#include <stddef.h>

enum conf_flaw {
    CONF_ACCEPTED,
    CONF_MALFORMED,     /* byte is in no name: nothing from here on is read */
    CONF_WITHOUT_VALUE, /* no colon: nothing from here on is read */
    CONF_NO_OPTION,     /* no version has this option */
    CONF_NOT_HERE,      /* others have it, this version does not */
    CONF_NOT_BOOLEAN,
    CONF_NOT_NUMBER,
};

struct conf_setting {
    const char *text; /* of the name, in the string; up to the next comma */
    size_t len;
    size_t name_len, value_len; /* the value is at the end; 0: there is none */
    enum conf_flaw flaw;
    char byte; /* of CONF_MALFORMED */
};

/* True if jemalloc reads nothing behind it. */
static inline bool conf_stops(const struct conf_setting *setting)
{
    return setting->flaw == CONF_MALFORMED || setting->flaw == CONF_WITHOUT_VALUE;
}

/*
 * Takes the first setting of *text, and moves *text to what jemalloc reads next. False: the end.
 * version.number 0: one that any version accepts is accepted.
 */
bool conf_next(const char **text, struct version version, struct conf_setting *setting);

/* True if so many bytes of a string of options are this word. */
bool conf_is_word(const char *text, size_t len, const char *word);

/* Returns the value that the string sets an option to, the last one accepted; NULL: none. */
const char *conf_value(const char *text, const char *name, size_t *len);

/* "prof_active" for the setting "prof_actve:true" or "opt.prof_active:true"; "": none is similar.
 */
const char *conf_suggest(const struct conf_setting *setting, struct version version, char *out,
                         size_t size);
