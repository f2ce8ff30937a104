#include "elf/scope.h"

#include <link.h>

enum { OBJECTS_MAX = 4096, DYNAMIC_MAX = 256 };

/* Returns the program's DT_DEBUG, where the dynamic linker stores its struct r_debug; 0: none. */
static remote_addr debug_address(const struct image *image)
{
    for (size_t i = 0; i < image->phdr_count; i++) {
        const Elf64_Phdr *ph = &image->phdrs[i];
        remote_addr at = ph->p_vaddr + image->bias;
        if (ph->p_type != PT_DYNAMIC)
            continue;
        for (size_t k = 0; k < DYNAMIC_MAX && k < ph->p_memsz / sizeof(Elf64_Dyn); k++) {
            Elf64_Dyn dyn;
            if (!memory_read_cached(image->memory, at + k * sizeof dyn, &dyn, sizeof dyn) ||
                dyn.d_tag == DT_NULL)
                break;
            if (dyn.d_tag == DT_DEBUG)
                return dyn.d_un.d_ptr;
        }
    }
    return 0;
}

/* Returns the first struct link_map of the list; 0: no program with a list is mapped. */
static remote_addr first_object(const struct modules *modules, struct memory *memory)
{
    for (size_t i = 0; i < modules->count; i++) {
        const struct module *module = &modules->list[i];
        struct r_debug debug;
        struct image image;
        remote_addr at;
        if (module->inode == 0 || module->exec_start == module->exec_end ||
            !image_open(&image, memory, module->start))
            continue;
        at = debug_address(&image);
        if (at && memory_read(memory, at, &debug, sizeof debug))
            return (remote_addr)(uintptr_t)debug.r_map;
    }
    return 0;
}

static bool module_defines(const struct module *module, struct memory *memory, const char *function)
{
    struct symbol symbol;
    struct image image;

    return image_open(&image, memory, module->start) && image_symbol(&image, function, &symbol) &&
           symbol.address >= module->exec_start && symbol.address < module->exec_end;
}

const struct module *scope_find(const struct modules *modules, struct memory *memory,
                                const char *function)
{
    remote_addr at = first_object(modules, memory);
    struct link_map object;

    for (unsigned i = 0; at && i < OBJECTS_MAX; i++) {
        const struct module *module;
        if (!memory_read(memory, at, &object, sizeof object))
            return NULL;
        module = modules_at(modules, (remote_addr)(uintptr_t)object.l_ld);
        if (module && module->inode && module_defines(module, memory, function))
            return module;
        at = (remote_addr)(uintptr_t)object.l_next;
    }
    return NULL;
}
