/*
 * The sources of jemalloc's options at start that can be read without a call.
 * Later sources override earlier ones: the string given to configure, the
 * variable <prefix>malloc_conf, the link /etc/<prefix>malloc.conf, the
 * environment variable (jemalloc(3), TUNING; jemalloc.c, malloc_conf_init). And
 * public variables under its prefix: malloc_conf, malloc_message.
 */
#pragma once

#include "jemalloc/conf_text.h"

enum { CONF_TEXT_MAX = 1024, CONF_NAME_MAX = PREFIX_MAX + 32 };

struct conf_source {
    char name[CONF_NAME_MAX]; /* "MALLOC_CONF", "/etc/malloc.conf", "malloc_conf" */
    bool known;               /* it could be read */
    bool set;
    char text[CONF_TEXT_MAX]; /* untrusted; may be truncated */
};

struct conf {
    struct conf_source built_in; /* by conf_read_built_in only */
    struct conf_source symbol, link, variable;
    /*
     * The program has overwritten the environment that it was started with by
     * its title (redis, nginx, PostgreSQL). variable and foreign are then from
     * its present environment, which jemalloc did not read; what is absent there is unknown.
     */
    bool overwritten;
    /* The variable of another prefix, if it is set: this build does not read it. */
    struct conf_source foreign;
};

/* Writes the name of the environment variable: PREFIX in capitals, MALLOC_CONF (INSTALL.md). */
void conf_variable_name(const char *prefix, char *out, size_t size);

/* Reads all sources, without stopping anything. Never fails. */
void conf_read(struct conf *conf, const struct instance *instance, const struct modules *modules,
               const struct target *target, struct memory *memory);

/*
 * Reads the string given to configure (--with-malloc-conf), config.malloc_conf, since 4.1. Takes
 * time in proportion to the size of the file.
 */
void conf_read_built_in(struct conf *conf, const struct instance *instance,
                        const struct target *target, struct memory *memory);

enum { CONF_SOURCES = 4 };

/* Lists the sources that jemalloc reads, the one that has the last word first. */
void conf_sources(const struct conf *conf, const struct conf_source *out[CONF_SOURCES]);

/*
 * Returns the value that an option was started with as far as the sources that were read show it,
 * the last one accepted; NULL: none sets it.
 */
const char *conf_started(const struct conf *conf, const char *name, size_t *len);

/*
 * Parses an environment in the form of /proc/PID/environ (strings, each ended by
 * a NUL). Fills conf->variable, whose name the caller has set, and
 * conf->foreign. The first of several definitions counts, as for getenv(3).
 * False if it has been overwritten: it contains empty strings.
 */
bool conf_parse_environ(struct conf *conf, const char *text, size_t len);

/*
 * Returns the address of the pointer variable <prefix>name; 0 if it is not found.
 * A definition in the program overrides the library's. So the dynamic symbols of
 * the main program are searched first, then those of the instance's module, then
 * that module's .symtab.
 */
remote_addr variable_find(const struct instance *instance, const char *name,
                          const struct modules *modules, const struct target *target,
                          struct memory *memory);

/* Returns the value of the pointer variable at address; 0 if address is 0 or unreadable. */
remote_addr variable_value(remote_addr address, struct memory *memory);
