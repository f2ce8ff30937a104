#include "jemalloc/variable.h"
#include "elf/sections.h"

#include <stdio.h>
#include <string.h>

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

static bool is_main_program(const struct image *image)
{
    return image_has_interpreter(image) || image->header.e_type == ET_EXEC;
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

static remote_addr find_in_modules(const char *name, const struct modules *modules, bool main_only,
                                   struct memory *memory)
{
    remote_addr address = 0;

    for (size_t i = 0; i < modules->count && !address; i++)
        address = find_dynamic(name, &modules->list[i], main_only, memory);
    return address;
}

remote_addr variable_find(const struct instance *instance, const char *name,
                          const struct modules *modules, const struct target *target,
                          struct memory *memory)
{
    char whole[PREFIX_MAX + 64];
    remote_addr address;

    snprintf(whole, sizeof whole, "%s%s", instance->prefix, name);
    address = find_in_modules(whole, modules, true, memory);
    if (!address)
        address = find_dynamic(whole, &instance->module, false, memory);
    return address ? address : find_in_symtab(whole, instance, target, memory);
}

/* In a program that uses it, the program's copy counts (copy relocation), for each alias. */
remote_addr variable_find_environ(const struct instance *instance, const struct modules *modules,
                                  const struct target *target, struct memory *memory)
{
    static const char *const names[] = {"environ", "__environ", "_environ"};
    remote_addr address = 0;

    for (size_t i = 0; i < ARRAY_LEN(names) && !address; i++)
        address = find_in_modules(names[i], modules, true, memory);
    for (size_t i = 0; i < ARRAY_LEN(names) && !address; i++)
        address = find_in_modules(names[i], modules, false, memory);
    for (size_t i = 0; i < ARRAY_LEN(names) && !address; i++)
        address = find_in_symtab(names[i], instance, target, memory);
    return address;
}

remote_addr variable_value(remote_addr address, struct memory *memory)
{
    remote_addr value = 0;

    if (!address || !memory_read(memory, address, &value, sizeof value))
        return 0;
    return value;
}
