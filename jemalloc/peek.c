#include "jemalloc/peek.h"
#include "elf/symtab.h"

#include <string.h>

struct search {
    const char *prefix;
    remote_addr enabled, active, lg_sample;
};

/* The private namespace is "je_", behind the prefix if that is another (configure.ac). */
static const char *behind_namespace(const char *prefix, const char *name)
{
    size_t n = strlen(prefix);

    if (n && strncmp(name, prefix, n) == 0 && strncmp(name + n, "je_", 3) == 0)
        return name + n + 3;
    return strncmp(name, "je_", 3) == 0 ? name + 3 : name;
}

static bool visit_variable(void *ctx, const char *name, const struct symbol *symbol)
{
    struct search *search = ctx;
    const char *own = behind_namespace(search->prefix, name);

    if (strcmp(own, "opt_prof") == 0)
        search->enabled = symbol->address;
    else if (strcmp(own, "prof_active_state") == 0 || strcmp(own, "prof_active") == 0)
        search->active = symbol->address;
    else if (strcmp(own, "lg_prof_sample") == 0)
        search->lg_sample = symbol->address;
    return !search->enabled || !search->active || !search->lg_sample;
}

static bool read_bool(remote_addr at, struct memory *memory, bool *value)
{
    unsigned char byte;

    if (!at || !memory_read(memory, at, &byte, 1) || byte > 1)
        return false;
    *value = byte;
    return true;
}

void prof_peek(struct prof_peek *peek, const struct instance *instance, const struct target *target,
               struct memory *memory)
{
    struct search search = {.prefix = instance->prefix};
    AUTO_CLOSE int fd = module_open(&instance->module, target, memory);

    memset(peek, 0, sizeof *peek);
    if (fd < 0)
        return;
    symtab_visit_objects(fd, instance->bias, "prof", visit_variable, &search);
    peek->enabled_known = read_bool(search.enabled, memory, &peek->enabled);
    peek->active_known = read_bool(search.active, memory, &peek->active);
    peek->lg_sample_known =
        search.lg_sample &&
        memory_read(memory, search.lg_sample, &peek->lg_sample, sizeof peek->lg_sample);
}
