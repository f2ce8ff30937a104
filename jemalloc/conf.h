/*
 * Where a jemalloc took its options from at start, as far as it can be seen
 * without a call. Later ones override earlier ones: the string that it was
 * built with, the variable <prefix>malloc_conf, the link /etc/<prefix>malloc.conf,
 * the environment variable (jemalloc(3), TUNING; jemalloc.c, malloc_conf_init).
 */
#pragma once

#include "jemalloc/instance.h"

enum { CONF_TEXT_MAX = 1024, CONF_NAME_MAX = PREFIX_MAX + 32 };

struct conf_source {
    char name[CONF_NAME_MAX]; /* "MALLOC_CONF", "/etc/malloc.conf", "malloc_conf" */
    bool known;               /* it could be looked at */
    bool set;
    char text[CONF_TEXT_MAX]; /* untrusted; cut off at that length */
};

struct conf {
    struct conf_source symbol, link, variable;
    /*
     * The environment that it was started with is no longer there: the program
     * has written its title over it (redis, nginx, PostgreSQL). variable and
     * foreign are then from the environment as it is now, which jemalloc did
     * not read.
     */
    bool overwritten;
    /* Set too, but this build does not read it: the same variable under another prefix. */
    struct conf_source foreign;
};

/* The name of the environment variable: the prefix in capitals, then MALLOC_CONF (INSTALL.md). */
void conf_variable_name(const char *prefix, char *out, size_t size);

/* Looks; never fails. Nothing is stopped. */
void conf_read(struct conf *conf, const struct instance *instance, const struct modules *modules,
               const struct target *target, struct memory *memory);

/*
 * Of an environment as /proc/PID/environ has it (strings, each ended by a NUL):
 * fills conf->variable, whose name is set, and conf->foreign. The first of
 * several counts, as for getenv(3). False if it is none any more: there are
 * empty strings in it.
 */
bool conf_parse_environ(struct conf *conf, const char *text, size_t len);
