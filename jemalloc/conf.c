#include "jemalloc/conf.h"
#include "attach/memory.h"
#include "attach/target_paths.h"
#include "elf/sections.h"
#include "jemalloc/stripped/stripped.h"

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

/* ---- variables of the process ---- */

struct symbol_search {
    const char *name;
    remote_addr address;
};

static bool visit_named_variable(void *ctx, const char *name, const struct symbol *symbol)
{
    struct symbol_search *search = ctx;

    if (symbol->type == STT_OBJECT && strcmp(name, search->name) == 0)
        search->address = symbol->address;
    return !search->address;
}

static remote_addr find_in_symtab(const char *name, const struct instance *instance,
                                  const struct target *target, struct memory *memory)
{
    const struct name_pattern pattern = {NAME_WHOLE, name, strlen(name)};
    const struct name_query query = {.patterns = &pattern, .count = 1};
    struct symbol_search search = {name, 0};
    AUTO_CLOSE int fd = module_open(&instance->module, target, memory);

    if (fd >= 0)
        symtab_visit_all(fd, instance->bias, &query, visit_named_variable, &search);
    return search.address;
}

/* Finds a dynamic symbol in modules; main_only: only in the main program. */
static remote_addr find_dynamic(const char *name, const struct module *modules, size_t count,
                                bool main_only, struct memory *memory)
{
    for (size_t i = 0; i < count; i++) {
        struct symbol symbol;
        struct image image;
        if (modules[i].inode == 0 || !image_open(&image, memory, modules[i].start))
            continue;
        if (main_only && !image_has_interpreter(&image) && image.header.e_type != ET_EXEC)
            continue;
        if (image_symbol(&image, name, &symbol) && symbol.type == STT_OBJECT && symbol.address)
            return symbol.address;
    }
    return 0;
}

remote_addr variable_find(const struct instance *instance, const char *name,
                          const struct modules *modules, const struct target *target,
                          struct memory *memory)
{
    char whole[PREFIX_MAX + 64];
    remote_addr address;

    snprintf(whole, sizeof whole, "%s%s", instance->prefix, name);
    address = find_dynamic(whole, modules->list, modules->count, true, memory);
    if (!address)
        address = find_dynamic(whole, &instance->module, 1, false, memory);
    return address ? address : find_in_symtab(whole, instance, target, memory);
}

remote_addr variable_value(remote_addr address, struct memory *memory)
{
    remote_addr value = 0;

    if (!address || !memory_read(memory, address, &value, sizeof value))
        return 0;
    return value;
}

/*
 * Returns the address of the C library's environ, in any module; 0 if it is not found. In a
 * program that uses it, the program's copy counts (copy relocation), for each alias.
 */
static remote_addr find_environ(const struct instance *instance, const struct modules *modules,
                                const struct target *target, struct memory *memory)
{
    static const char *const names[] = {"environ", "__environ", "_environ"};
    remote_addr address = 0;

    for (size_t i = 0; i < ARRAY_LEN(names) && !address; i++)
        address = find_dynamic(names[i], modules->list, modules->count, true, memory);
    for (size_t i = 0; i < ARRAY_LEN(names) && !address; i++)
        address = find_dynamic(names[i], modules->list, modules->count, false, memory);
    for (size_t i = 0; i < ARRAY_LEN(names) && !address; i++)
        address = find_in_symtab(names[i], instance, target, memory);
    return address;
}

/* ---- the sources ---- */

/* Reads the present environment through environ, at most STRINGS_MAX strings. */
static bool read_present(struct conf *conf, const struct instance *instance,
                         const struct modules *modules, const struct target *target,
                         struct memory *memory)
{
    remote_addr environ_at = find_environ(instance, modules, target, memory);
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
    struct conf_source *link = &conf->link;
    AUTO_FREE char *environment = NULL;
    char text[LINK_MAX];
    ssize_t n;

    memset(conf, 0, sizeof *conf);
    snprintf(conf->symbol.name, sizeof conf->symbol.name, "%smalloc_conf", instance->prefix);
    conf_variable_name(instance->prefix, conf->variable.name, sizeof conf->variable.name);
    read_symbol(&conf->symbol, instance, modules, target, memory);
    if (target->record) {
        /*
         * Of a core file only the memory shows the environment, as it was at the end; the link
         * may have been another one then.
         */
        conf->variable.known = conf->foreign.known =
            read_present(conf, instance, modules, target, memory);
        return;
    }

    snprintf(link->name, sizeof link->name, "/etc/%smalloc.conf", instance->prefix);
    n = target_readlink(target, "/etc", link->name + sizeof "/etc/" - 1, text, sizeof text);
    /* jemalloc ignores a file that is not a link. */
    link->known = n >= 0 || n == -ENOENT || n == -EINVAL || n == -ENOTDIR;
    if (n >= 0)
        source_set(link, text, (size_t)n);

    n = environ_read(target, memory, &environment, ENVIRON_LIMIT);
    if (n < 0 || conf_parse_environ(conf, environment, (size_t)n) || conf->variable.set)
        return;
    conf->overwritten = true;
    (void)read_present(conf, instance, modules, target, memory);
    conf->variable.known = conf->variable.set; /* nginx drops variables: absent now says nothing */
    conf->foreign.known = conf->foreign.set;
}

void conf_read_built_in(struct conf *conf, const struct instance *instance,
                        const struct target *target, struct memory *memory)
{
    struct conf_source *source = &conf->built_in;
    char text[CONF_TEXT_MAX];

    snprintf(source->name, sizeof source->name, "--with-malloc-conf");
    source->known =
        stripped_constant(instance, "config.malloc_conf", target, memory, text, sizeof text);
    if (source->known && *text)
        source_set(source, text, strlen(text));
}

void conf_sources(const struct conf *conf, const struct conf_source *out[CONF_SOURCES])
{
    out[0] = &conf->variable;
    out[1] = &conf->link;
    out[2] = &conf->symbol;
    out[3] = &conf->built_in;
}

const char *conf_started(const struct conf *conf, const char *name, size_t *len)
{
    const struct conf_source *sources[CONF_SOURCES];
    const char *value = NULL;

    conf_sources(conf, sources);
    for (size_t i = 0; !value && i < CONF_SOURCES; i++)
        value = sources[i]->set ? conf_value(sources[i]->text, name, len) : NULL;
    return value;
}
