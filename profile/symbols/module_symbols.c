#include "profile/symbols/module_symbols.h"
#include "profile/names/code_kind.h"
#include "profile/symbols/demangle.h"

#include <string.h>

enum { LINES_MAX = 256 }; /* inlined calls at one address */

/*
 * Loads the tables, the better ones first: functions that the debug file names
 * are only in .dynsym of the stripped file.
 */
static void load_index(struct module_symbols *module, struct arena *arena)
{
    struct object *const objects[] = {module->files.module, module->files.mini,
                                      module->files.debug};
    bool good = true;

    for (size_t i = 0; i < ARRAY_LEN(objects); i++)
        if (objects[i])
            good = good && symbol_index_add(&module->index, objects[i], arena);
    if (!good || !symbol_index_finish(&module->index))
        symbol_index_free(&module->index);
}

static int open_split_file(void *ctx, const char *dir, const char *name, unsigned attempt)
{
    const struct module_symbols *module = ctx;

    return module_files_open_split(module->path, module->options, dir, name, attempt);
}

static void load_debug(struct module_symbols *module, struct arena *arena)
{
    struct object *const objects[] = {module->files.module, module->files.debug};

    for (size_t i = 0; i < ARRAY_LEN(objects) && !module->debug; i++)
        if (debug_info_present(objects[i]))
            module->debug = debug_info_open(objects[i], module->files.supplement,
                                            &module->split_files, arena, &module->lack);
}

void module_symbols_open(struct module_symbols *module, const struct symbol_mapping *mapping,
                         const struct symbols_options *options)
{
    if (module->opened)
        return;
    module->opened = true;
    module->options = options;
    module->split_files = (struct debug_files){open_split_file, module, options->left};
    module->lack = module_files_open(&module->files, mapping, options, &module->err);
    if (module->lack)
        return;
    module->no_inlines = options->no_inlines || (!options->system_lines &&
                                                 code_kind_of_module(mapping->path) == CODE_SYSTEM);
}

/* Reads the tables when the first address needs them: many modules have none in a profile. */
static void module_symbols_load(struct module_symbols *module, struct arena *arena)
{
    if (module->loaded)
        return;
    module->loaded = true;
    load_index(module, arena);
    module->lack = module->index.count ? SYMBOLS_LACK_LINES : SYMBOLS_LACK_TABLE;
    if (!module->no_inlines)
        load_debug(module, arena);
}

void module_symbols_free(struct module_symbols *module)
{
    if (module->debug)
        module->missing = *debug_info_missing(module->debug);
    debug_info_free(module->debug);
    symbol_index_free(&module->index);
    module_files_close(&module->files);
    module->debug = NULL;
    memset(&module->files, 0, sizeof module->files);
}

static const char unnamed[] = "(unnamed)";

/*
 * Names the outermost function from the symbol tables if the debug information
 * does not have it or its name. A line without a function does not count.
 */
static size_t name_outermost(struct module_symbols *module, uint64_t address, struct arena *arena,
                             struct symbol_line *lines, size_t count)
{
    struct symbol_line *last = count ? &lines[count - 1] : &lines[0];
    const struct index_symbol *symbol = NULL;

    if (!count || !last->function)
        symbol = symbol_index_find(&module->index, address);
    if (!count)
        memset(last, 0, sizeof *last);
    if (symbol) {
        last->linkage = symbol->name;
        last->function = demangle(arena, symbol->name);
    }
    if (count <= 1)
        return last->function ? 1 : 0;
    for (size_t i = 0; i < count; i++)
        if (!lines[i].function)
            lines[i].function = lines[i].linkage = unnamed;
    return count;
}

size_t module_symbols_lines(struct module_symbols *module, uint64_t offset, struct arena *arena,
                            const struct symbol_line **lines)
{
    struct symbol_line found[LINES_MAX], *copy;
    size_t count = 0;
    uint64_t address;

    if (!module->files.module)
        return 0;
    module_symbols_load(module, arena);
    if (!object_code_address(module->files.module, offset, &address))
        return 0;
    if (module->debug)
        count = debug_info_lines(module->debug, address, found, LINES_MAX);
    count = name_outermost(module, address, arena, found, count);
    copy = count ? arena_alloc(arena, count * sizeof *copy) : NULL;
    if (!copy)
        return 0;
    memcpy(copy, found, count * sizeof *copy);
    *lines = copy;
    return count;
}
