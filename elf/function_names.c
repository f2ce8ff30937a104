#include "elf/function_names.h"
#include "elf/debugfile.h"
#include "elf/minidebug.h"
#include "elf/sections.h"

#include <string.h>

bool function_names_open(struct function_names *symbols, const struct module *module,
                         const struct target *target, struct memory *memory)
{
    *symbols =
        (struct function_names){.module = module, .target = target, .memory = memory, .file = -1};
    if (!image_open(&symbols->image, memory, module->start))
        return false;
    symbols->file = module_open(module, target, memory);
    return true;
}

void function_names_close(struct function_names *symbols)
{
    util_close(&symbols->file);
}

struct dynamic_search {
    const struct name_query *names; /* NULL: all */
    symbol_visitor visit;
    void *ctx;
};

static bool filter_dynamic(void *ctx, const char *name, const struct symbol *symbol)
{
    const struct dynamic_search *search = ctx;

    if (symbol->type != STT_FUNC)
        return true;
    if (search->names && !name_matches(search->names, name, strlen(name)))
        return !search->names->others || search->visit(search->ctx, NULL, symbol);
    return search->visit(search->ctx, name, symbol);
}

static bool visit_dynsym(const struct function_names *symbols, const struct name_query *names,
                         symbol_visitor visit, void *ctx)
{
    struct dynamic_search search = {names, visit, ctx};

    if (!symbols->image.symtab)
        return false;
    image_symbols_ending(&symbols->image, "", filter_dynamic, &search);
    return true;
}

static int open_debugfile(const struct function_names *symbols)
{
    struct build_id id;
    struct debugfile found;
    struct debugfile_query query = {
        .target = symbols->target,
        .path = symbols->module->path,
        .fd = symbols->file,
        .id = image_build_id(&symbols->image, &id) ? &id : NULL,
    };
    int rc = debugfile_open(&query, &found);

    return rc ? rc : found.fd;
}

bool function_names_visit(const struct function_names *symbols, enum symbol_place place,
                          const struct name_query *names, symbol_visitor visit, void *ctx)
{
    AUTO_CLOSE int fd = -1;

    if (place == SYMBOLS_DYNSYM)
        return visit_dynsym(symbols, names, visit, ctx);
    if (place == SYMBOLS_SYMTAB)
        return symbols->file >= 0 &&
               symtab_visit(symbols->file, symbols->image.bias, names, visit, ctx);
    fd = place == SYMBOLS_MINIDEBUG ? minidebug_open(symbols->file) : open_debugfile(symbols);
    return fd >= 0 && symtab_visit(fd, image_file_bias(&symbols->image, fd), names, visit, ctx);
}

/* A visit of two places that has ended in the first must not continue in the second. */
struct long_visit {
    symbol_visitor visit;
    void *ctx;
    bool ended;
};

static bool visit_on(void *ctx, const char *name, const struct symbol *symbol)
{
    struct long_visit *both = ctx;

    both->ended = both->ended || !both->visit(both->ctx, name, symbol);
    return !both->ended;
}

bool function_names_visit_file(const struct function_names *symbols, const struct name_query *names,
                               symbol_visitor visit, void *ctx, enum symbol_place *place)
{
    struct long_visit both = {visit, ctx, false};

    for (*place = SYMBOLS_SYMTAB; *place < SYMBOLS_PLACES; ++*place) {
        if (!function_names_visit(symbols, *place, names, visit_on, &both))
            continue;
        if (*place == SYMBOLS_MINIDEBUG)
            visit_dynsym(symbols, names, visit_on, &both);
        return true;
    }
    return false;
}
