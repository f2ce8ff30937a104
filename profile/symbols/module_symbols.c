#include "profile/symbols/module_symbols.h"
#include "profile/symbols/demangle.h"

#include <string.h>

enum { LINES_MAX = 256 }; /* inlined calls at one address */

static int open_file(const struct module_symbols *module, const struct file_wanted *wanted)
{
    return module->opener->open(module->opener->ctx, module->number, wanted);
}

static struct object *open_object(const struct module_symbols *module, enum channel_file_kind what)
{
    int fd = open_file(module, &(struct file_wanted){.what = what});

    return fd < 0 ? NULL : object_open(fd);
}

/*
 * Opens the supplement named by .gnu_debugaltlink: a path relative to the file
 * that refers to it or to the root, a NUL, and its build-id (dwz(1)).
 */
static struct object *open_supplement(const struct module_symbols *module,
                                      const struct object *referrer)
{
    const Elf64_Shdr *section = object_section_named(referrer, ".gnu_debugaltlink");
    const char *name = section ? object_section(referrer, section) : NULL;
    struct build_id id;
    size_t len;

    if (!name)
        return NULL;
    len = strnlen(name, section->sh_size);
    if (len == section->sh_size || section->sh_size - len - 1 > BUILD_ID_MAX)
        return NULL;
    id.len = section->sh_size - len - 1;
    memcpy(id.bytes, name + len + 1, id.len);
    int fd = open_file(module,
                       &(struct file_wanted){.what = CHANNEL_SUPPLEMENT, .name = name, .id = &id});
    return fd < 0 ? NULL : object_open(fd);
}

/*
 * Loads the tables, the better ones first: functions that the debug file names
 * are only in .dynsym of the stripped file.
 */
static void load_index(struct module_symbols *module)
{
    struct object *const objects[] = {module->module, module->mini, module->separate};
    bool good = true;

    for (size_t i = 0; i < ARRAY_LEN(objects); i++)
        if (objects[i])
            good = good && symbol_index_add(&module->index, objects[i], &module->arena);
    if (good && symbol_index_finish(&module->index))
        return;
    symbol_index_free(&module->index);
    module->no_memory = true;
}

static int open_split_file(void *ctx, const char *dir, const char *name, unsigned attempt)
{
    return open_file(ctx, &(struct file_wanted){CHANNEL_SPLIT, dir, name, NULL, attempt});
}

/* Reads the tables when the first address needs them. */
static void module_symbols_load(struct module_symbols *module)
{
    bool complete;

    if (module->loaded)
        return;
    module->loaded = true;
    module->module = open_object(module, CHANNEL_MODULE);
    if (!module->module) {
        module->lack = SYMBOLS_LACK_ELF;
        return;
    }
    complete = object_section_named(module->module, ".symtab") != NULL;
    if (!complete)
        module->mini = open_object(module, CHANNEL_MINI);
    if (!complete || !object_section_named(module->module, ".debug_info"))
        module->separate = open_object(module, CHANNEL_DEBUG);
    if (module->lines)
        module->supplement =
            open_supplement(module, module->separate ? module->separate : module->module);
    load_index(module);
    module->lack = module->index.count ? SYMBOLS_LACK_LINES : SYMBOLS_LACK_TABLE;
    if (module->lines) {
        struct object *const objects[] = {module->module, module->separate};
        module->split_files = (struct debug_files){open_split_file, module};
        for (size_t i = 0; i < ARRAY_LEN(objects) && !module->debug; i++)
            if (debug_info_present(objects[i]))
                module->debug =
                    debug_info_open(objects[i], module->supplement, &module->split_files,
                                    &module->arena, &module->lack);
    }
}

void module_symbols_free(struct module_symbols *module)
{
    debug_info_free(module->debug);
    symbol_index_free(&module->index);
    object_free(module->module);
    object_free(module->mini);
    object_free(module->separate);
    object_free(module->supplement);
    arena_free(&module->arena);
    memset(module, 0, sizeof *module);
}

bool module_symbols_lack_memory(const struct module_symbols *module)
{
    return module->no_memory || (module->debug && debug_info_lacks_memory(module->debug));
}

struct debug_missing module_symbols_missing(const struct module_symbols *module)
{
    return module->debug ? *debug_info_missing(module->debug) : (struct debug_missing){0, NULL};
}

static const char unnamed[] = "(unnamed)";

size_t module_symbols_lines(struct module_symbols *module, uint64_t offset,
                            const struct symbol_line **lines)
{
    static struct symbol_line found[LINES_MAX];
    size_t count = 0;
    uint64_t address;

    module_symbols_load(module);
    if (!module->module || !object_code_address(module->module, offset, &address))
        return 0;
    if (module->debug)
        count = debug_info_lines(module->debug, address, found, LINES_MAX);
    *lines = found;
    /*
     * Names the outermost function from the symbol tables if the debug information
     * does not have it or its name. A line without a function does not count.
     */
    struct symbol_line *last = count ? &found[count - 1] : &found[0];
    const struct index_symbol *symbol = NULL;
    if (!count || !last->function)
        symbol = symbol_index_find(&module->index, address);
    if (!count)
        memset(last, 0, sizeof *last);
    if (symbol) {
        last->linkage = symbol->name;
        last->function = module->raw ? symbol->name : demangle(&module->arena, symbol->name);
    }
    if (count <= 1)
        return last->function ? 1 : 0;
    for (size_t i = 0; i < count; i++)
        if (!found[i].function)
            found[i].function = found[i].linkage = unnamed;
    return count;
}
