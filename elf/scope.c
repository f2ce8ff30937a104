#include "elf/scope.h"

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

/* ---- the order of loading ---- */

struct needed_names {
    char list[NEEDED_MAX][NAME_BYTES];
    size_t count;
};

/* One object of the list, compared with what the program needs. */
struct loaded {
    const struct module *module; /* NULL: none, or [vdso] */
    size_t needed;               /* index among the needed names; NEEDED_MAX: not among them */
};

static const char *last_component(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

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
        snprintf(needed->list[needed->count++], NAME_BYTES, "%.255s", last_component(text));
    }
    return needed->count > 0;
}

static struct loaded describe_object(const struct link_map *object,
                                     const struct needed_names *needed,
                                     const struct modules *modules, struct memory *memory)
{
    struct loaded loaded = {modules_at(modules, (remote_addr)(uintptr_t)object->l_ld), NEEDED_MAX};
    char path[4096];

    if (memory_read_string(memory, (remote_addr)(uintptr_t)object->l_name, path, sizeof path) < 0)
        return loaded;
    for (size_t i = 0; i < needed->count && loaded.needed == NEEDED_MAX; i++)
        if (strncmp(needed->list[i], last_component(path), NAME_BYTES - 1) == 0)
            loaded.needed = i;
    return loaded;
}

/* What the walk has seen: of this module, and of the program's needs around it. */
struct order {
    const struct module *module;
    bool met, needed_before;
    size_t own; /* struct loaded.needed of the module */
    enum scope_cause cause;
};

static void note_object(struct order *order, const struct loaded *loaded)
{
    if (loaded->module == order->module) {
        order->met = true;
        order->own = loaded->needed;
        if (order->needed_before || loaded->needed < NEEDED_MAX)
            order->cause = SCOPE_NEEDED;
    } else if (loaded->needed < NEEDED_MAX) {
        order->needed_before = true;
        if (order->met && loaded->needed < order->own)
            order->cause = SCOPE_PRELOADED;
    }
}

enum scope_cause scope_cause_of(const struct modules *modules, struct memory *memory,
                                const struct module *module)
{
    struct order order = {.module = module};
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
        const struct loaded loaded = describe_object(&object, &needed, modules, memory);
        note_object(&order, &loaded);
    }
    return order.cause;
}
