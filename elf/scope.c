#include "elf/scope.h"
#include "base/text.h"

#include <link.h>
#include <stdio.h>
#include <string.h>

enum { OBJECTS_MAX = 4096, DYNAMIC_MAX = 256, NEEDED_MAX = 256, NAME_BYTES = 256 };

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

const struct module *scope_find(const struct modules *modules, struct memory *memory,
                                const char *function)
{
    remote_addr at = first_object(modules, memory);
    struct link_map object;
    struct symbol symbol;
    struct image image;

    for (unsigned i = 0; at && i < OBJECTS_MAX; i++) {
        const struct module *module;
        if (!memory_read(memory, at, &object, sizeof object))
            return NULL;
        module = modules_at(modules, (remote_addr)(uintptr_t)object.l_ld);
        if (module && module->inode && image_open(&image, memory, module->start) &&
            image_symbol(&image, function, &symbol) && module_has_code(module, symbol.address))
            return module;
        at = (remote_addr)(uintptr_t)object.l_next;
    }
    return NULL;
}

/* ---- the order of loading ---- */

struct needed_names {
    char list[NEEDED_MAX][NAME_BYTES];
    size_t count;
};

static bool load_needed(struct needed_names *needed, const struct link_map *program,
                        const struct modules *modules, struct memory *memory)
{
    const remote_addr dynamic = (remote_addr)(uintptr_t)program->l_ld;
    const struct module *module = modules_at(modules, dynamic);
    struct image image;

    needed->count = 0;
    if (!module || !image_open(&image, memory, module->start) || !image.strtab)
        return false;
    for (size_t i = 0; i < DYNAMIC_MAX && needed->count < NEEDED_MAX; i++) {
        char text[4096];
        Elf64_Dyn dyn;
        if (!memory_read_cached(memory, dynamic + i * sizeof dyn, &dyn, sizeof dyn) ||
            dyn.d_tag == DT_NULL)
            break;
        if (dyn.d_tag != DT_NEEDED ||
            memory_read_string(memory, image.strtab + dyn.d_un.d_val, text, sizeof text) < 0)
            continue;
        snprintf(needed->list[needed->count++], NAME_BYTES, "%.255s", text_base_name(text));
    }
    return needed->count > 0;
}

/* Returns the index of the object among the needed names; NEEDED_MAX: it is not among them. */
static size_t find_needed(const struct needed_names *needed, const struct link_map *object,
                          struct memory *memory)
{
    char path[4096];

    if (memory_read_string(memory, (remote_addr)(uintptr_t)object->l_name, path, sizeof path) < 0)
        return NEEDED_MAX;
    for (size_t i = 0; i < needed->count; i++)
        if (strncmp(needed->list[i], text_base_name(path), NAME_BYTES - 1) == 0)
            return i;
    return NEEDED_MAX;
}

enum scope_cause scope_cause_of(const struct modules *modules, struct memory *memory,
                                const struct module *module)
{
    enum scope_cause cause = SCOPE_UNKNOWN;
    bool met = false, needed_before = false;
    size_t own = NEEDED_MAX; /* the index of the module, once it is met */
    remote_addr at = first_object(modules, memory);
    struct needed_names needed;
    struct link_map object;

    if (!at || !memory_read(memory, at, &object, sizeof object) ||
        !load_needed(&needed, &object, modules, memory))
        return SCOPE_UNKNOWN;
    for (unsigned i = 0; i < OBJECTS_MAX; i++) {
        at = (remote_addr)(uintptr_t)object.l_next;
        if (!at || !memory_read(memory, at, &object, sizeof object))
            break;
        const size_t index = find_needed(&needed, &object, memory);
        if (modules_at(modules, (remote_addr)(uintptr_t)object.l_ld) == module) {
            met = true;
            own = index;
            if (needed_before || index < NEEDED_MAX)
                cause = SCOPE_NEEDED;
        } else if (index < NEEDED_MAX) {
            needed_before = true;
            if (met && index < own)
                cause = SCOPE_PRELOADED;
        }
    }
    return cause;
}
