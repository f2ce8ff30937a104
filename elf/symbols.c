#include "elf/symbols.h"
#include "elf/debugfile.h"
#include "elf/minidebug.h"
#include "elf/symtab.h"

#include <string.h>

bool symbols_open(struct symbols *symbols, const struct module *module, const struct target *target,
                  struct memory *memory)
{
    *symbols = (struct symbols){.module = module, .target = target, .memory = memory, .file = -1};
    if (!image_open(&symbols->image, memory, module->start))
        return false;
    symbols->file = module_open(module, target, memory);
    return true;
}

void symbols_close(struct symbols *symbols)
{
    util_close(&symbols->file);
    symbols->file = -1;
}

struct dynamic_search {
    const char *part;
    symbol_visitor visit;
    void *ctx;
};

static bool visit_dynamic(void *ctx, const char *name, const struct symbol *symbol)
{
    const struct dynamic_search *search = ctx;

    return symbol->type != STT_FUNC || !strstr(name, search->part) ||
           search->visit(search->ctx, name, symbol);
}

static bool visit_dynsym(const struct symbols *symbols, const char *part, symbol_visitor visit,
                         void *ctx)
{
    struct dynamic_search search = {part, visit, ctx};

    if (!symbols->image.symtab)
        return false;
    image_symbols_ending(&symbols->image, "", visit_dynamic, &search);
    return true;
}

static int open_debugfile(const struct symbols *symbols)
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

static bool visit_separate(const struct symbols *symbols, enum symbol_place place, const char *part,
                           symbol_visitor visit, void *ctx)
{
    AUTO_CLOSE int fd =
        place == SYMBOLS_MINIDEBUG ? minidebug_open(symbols->file) : open_debugfile(symbols);

    return fd >= 0 && symtab_visit(fd, image_file_bias(&symbols->image, fd), part, visit, ctx);
}

bool symbols_visit(const struct symbols *symbols, enum symbol_place place, const char *part,
                   symbol_visitor visit, void *ctx)
{
    switch (place) {
    case SYMBOLS_DYNSYM:
        return visit_dynsym(symbols, part, visit, ctx);
    case SYMBOLS_SYMTAB:
        return symbols->file >= 0 &&
               symtab_visit(symbols->file, symbols->image.bias, part, visit, ctx);
    default:
        return visit_separate(symbols, place, part, visit, ctx);
    }
}

/* A visit over two places must not go on in the second when it has ended in the first. */
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

bool symbols_visit_file(const struct symbols *symbols, const char *part, symbol_visitor visit,
                        void *ctx, enum symbol_place *place)
{
    struct long_visit both = {visit, ctx, false};

    for (*place = SYMBOLS_SYMTAB; *place < SYMBOLS_PLACES; ++*place) {
        if (!symbols_visit(symbols, *place, part, visit_on, &both))
            continue;
        if (*place == SYMBOLS_MINIDEBUG)
            visit_dynsym(symbols, part, visit_on, &both);
        return true;
    }
    return false;
}
