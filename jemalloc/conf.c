#include "jemalloc/conf.h"
#include "attach/memory.h"
#include "attach/target_paths.h"
#include "jemalloc/variable.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char suffix[] = "MALLOC_CONF";

enum { ENVIRON_LIMIT = 8 << 20, LINK_MAX = 4096, STRINGS_MAX = 4096 };

void conf_variable_name(const char *prefix, char *out, size_t size)
{
    size_t n = 0;

    for (; prefix[n] && n < size - 1; n++)
        out[n] = (char)toupper((unsigned char)prefix[n]);
    snprintf(out + n, size - n, "%s", suffix);
}

static void source_set(struct conf_source *source, const char *text, size_t len)
{
    source->known = source->set = true;
    snprintf(source->text, sizeof source->text, "%.*s", (int)(len < LINK_MAX ? len : LINK_MAX),
             text);
}

/* Takes the string NAME=... if it is that variable, or the variable of another prefix. */
static void take_variable(struct conf *conf, const char *text, size_t len)
{
    const char *equals = memchr(text, '=', len);
    size_t n = equals ? (size_t)(equals - text) : 0;
    const char *value = text + n + 1;
    bool own = n == strlen(conf->variable.name) && memcmp(text, conf->variable.name, n) == 0;
    struct conf_source *source = own ? &conf->variable : &conf->foreign;

    if (n < sizeof suffix - 1 || n >= CONF_NAME_MAX || source->set ||
        memcmp(equals - (sizeof suffix - 1), suffix, sizeof suffix - 1) != 0)
        return;
    memcpy(source->name, text, n);
    source->name[n] = '\0';
    source_set(source, value, len - n - 1);
}

bool conf_parse_environ(struct conf *conf, const char *text, size_t len)
{
    bool intact = true;

    conf->variable.known = conf->foreign.known = true;
    for (size_t at = 0; at < len;) {
        size_t n = strnlen(text + at, len - at);
        take_variable(conf, text + at, n);
        intact = intact && n > 0;
        at += n + 1;
    }
    return intact;
}

/* Reads the present environment through environ, at most STRINGS_MAX strings. */
static bool read_present(struct conf *conf, remote_addr environ_at, struct memory *memory)
{
    remote_addr list = variable_value(environ_at, memory);
    char text[LINK_MAX];

    for (unsigned i = 0; list && i < STRINGS_MAX; i++) {
        remote_addr string = variable_value(list + i * sizeof string, memory);
        ssize_t n = string ? memory_read_string(memory, string, text, sizeof text) : -1;
        if (!string)
            break;
        if (n > 0)
            take_variable(conf, text, (size_t)n);
    }
    return list != 0;
}

/* Of a core file only the memory shows it, as it was at the end. */
static void read_recorded(struct conf *conf, const struct instance *instance,
                          const struct modules *modules, const struct target *target,
                          struct memory *memory)
{
    conf->variable.known = conf->foreign.known =
        read_present(conf, variable_find_environ(instance, modules, target, memory), memory);
}

static void read_variable(struct conf *conf, const struct instance *instance,
                          const struct modules *modules, const struct target *target,
                          struct memory *memory)
{
    AUTO_FREE char *text = NULL;
    ssize_t n = environ_read(target, memory, &text, ENVIRON_LIMIT);

    if (n < 0 || conf_parse_environ(conf, text, (size_t)n) || conf->variable.set)
        return;
    conf->overwritten = true;
    (void)read_present(conf, variable_find_environ(instance, modules, target, memory), memory);
    conf->variable.known = conf->variable.set; /* nginx drops variables: absent now says nothing */
    conf->foreign.known = conf->foreign.set;
}

static void read_conf_link(struct conf_source *link, const struct target *target)
{
    char text[LINK_MAX];
    ssize_t n = target_readlink(target, "/etc", link->name + sizeof "/etc/" - 1, text, sizeof text);

    /* jemalloc ignores a file that is not a link. */
    link->known = n >= 0 || n == -ENOENT || n == -EINVAL || n == -ENOTDIR;
    if (n >= 0)
        source_set(link, text, (size_t)n);
}

static void read_symbol(struct conf_source *symbol, const struct instance *instance,
                        const struct modules *modules, const struct target *target,
                        struct memory *memory)
{
    remote_addr at = variable_find(instance, "malloc_conf", modules, target, memory), value = 0;
    char text[LINK_MAX];

    if (!at || !memory_read(memory, at, &value, sizeof value))
        return;
    symbol->known = true;
    if (!value)
        return;
    symbol->known = memory_read_string(memory, value, text, sizeof text) >= 0;
    if (symbol->known)
        source_set(symbol, text, strlen(text));
}

void conf_read(struct conf *conf, const struct instance *instance, const struct modules *modules,
               const struct target *target, struct memory *memory)
{
    memset(conf, 0, sizeof *conf);
    snprintf(conf->symbol.name, sizeof conf->symbol.name, "%smalloc_conf", instance->prefix);
    if (!target->record) /* the link may have been another one then */
        snprintf(conf->link.name, sizeof conf->link.name, "/etc/%smalloc.conf", instance->prefix);
    conf_variable_name(instance->prefix, conf->variable.name, sizeof conf->variable.name);
    read_symbol(&conf->symbol, instance, modules, target, memory);
    if (target->record) {
        read_recorded(conf, instance, modules, target, memory);
        return;
    }
    read_conf_link(&conf->link, target);
    read_variable(conf, instance, modules, target, memory);
}
