#include "profile/module_symbols.h"
#include "profile/demangle.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static int open_below_root(const struct symbols_options *options, const char *path)
{
    AUTO_CLOSE int root = open(options->root ? options->root : "/", O_PATH | O_CLOEXEC);
    int fd;

    while (*path == '/')
        path++;
    if (root < 0)
        return -errno;
    fd = openat(root, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    return fd < 0 ? -errno : fd;
}

static int open_file(const struct symbols_options *options, const struct symbol_mapping *mapping)
{
    if (options->open)
        return options->open(options->ctx, mapping);
    if (!mapping->path || mapping->path[0] != '/')
        return -ENOENT;
    return open_below_root(options, mapping->path);
}

static bool same_build_id(const struct build_id *a, const struct build_id *b)
{
    return a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

static enum symbols_lack open_object(struct module_symbols *module,
                                     const struct symbol_mapping *mapping,
                                     const struct symbols_options *options)
{
    AUTO_CLOSE int fd = open_file(options, mapping);

    if (fd < 0) {
        module->err = -fd;
        return fd == -ESTALE ? SYMBOLS_LACK_BUILD_ID : SYMBOLS_LACK_FILE;
    }
    if (!file_build_id(fd, &module->build_id))
        module->build_id.len = 0;
    if (mapping->build_id && !same_build_id(mapping->build_id, &module->build_id))
        return SYMBOLS_LACK_BUILD_ID;
    module->file = object_open(steal_fd(&fd));
    return module->file ? SYMBOLS_LACK_NOTHING : SYMBOLS_LACK_ELF;
}

void module_symbols_open(struct module_symbols *module, const struct symbol_mapping *mapping,
                         const struct symbols_options *options, struct arena *arena)
{
    if (module->opened)
        return;
    module->opened = true;
    module->lack = open_object(module, mapping, options);
    if (!module->file)
        return;
    if (!symbol_index_add(&module->index, module->file, arena) ||
        !symbol_index_finish(&module->index))
        symbol_index_free(&module->index);
    module->lack = module->index.count ? SYMBOLS_LACK_LINES : SYMBOLS_LACK_TABLE;
}

void module_symbols_free(struct module_symbols *module)
{
    symbol_index_free(&module->index);
    object_free(module->file);
}

size_t module_symbols_lines(struct module_symbols *module, uint64_t offset, struct arena *arena,
                            const struct symbol_line **lines)
{
    const struct index_symbol *symbol;
    struct symbol_line *line;
    uint64_t address;

    if (!module->file || !object_code_address(module->file, offset, &address))
        return 0;
    symbol = symbol_index_find(&module->index, address);
    line = symbol ? arena_alloc(arena, sizeof *line) : NULL;
    if (!line)
        return 0;
    line->linkage = symbol->name;
    line->function = demangle(arena, symbol->name);
    *lines = line;
    return line->function ? 1 : 0;
}
