#include "jemalloc/variable.h"
#include "elf/symtab.h"

#include <stdio.h>
#include <string.h>

struct search {
    const char *name;
    remote_addr address;
};

static bool visit_variable(void *ctx, const char *name, const struct symbol *symbol)
{
    struct search *search = ctx;

    if (strcmp(name, search->name) == 0)
        search->address = symbol->address;
    return !search->address;
}

static bool is_main_program(const struct image *image)
{
    for (size_t i = 0; i < image->phdr_count; i++)
        if (image->phdrs[i].p_type == PT_INTERP)
            return true;
    return image->header.e_type == ET_EXEC;
}

static remote_addr find_dynamic(const char *name, const struct module *module, bool main_only,
                                struct memory *memory)
{
    struct symbol symbol;
    struct image image;

    if (module->inode == 0 || !image_open(&image, memory, module->start) ||
        (main_only && !is_main_program(&image)) || !image_symbol(&image, name, &symbol) ||
        symbol.type != STT_OBJECT)
        return 0;
    return symbol.address;
}

remote_addr variable_find(const struct instance *instance, const char *name,
                          const struct modules *modules, const struct target *target,
                          struct memory *memory)
{
    char whole[PREFIX_MAX + 64];
    struct search search = {whole, 0};

    snprintf(whole, sizeof whole, "%s%s", instance->prefix, name);
    for (size_t i = 0; i < modules->count && !search.address; i++)
        search.address = find_dynamic(whole, &modules->list[i], true, memory);
    if (!search.address)
        search.address = find_dynamic(whole, &instance->module, false, memory);
    if (!search.address) {
        AUTO_CLOSE int fd = module_open(&instance->module, target, memory);
        if (fd >= 0)
            symtab_visit_objects(fd, instance->bias, whole, visit_variable, &search);
    }
    return search.address;
}

remote_addr variable_value(remote_addr address, struct memory *memory)
{
    remote_addr value = 0;

    if (!address || !memory_read(memory, address, &value, sizeof value))
        return 0;
    return value;
}
