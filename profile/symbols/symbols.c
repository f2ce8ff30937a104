#include "profile/symbols/symbols.h"
#include "base/list.h"
#include "base/search.h"
#include "base/table.h"
#include "profile/symbols/jit_name.h"
#include "profile/symbols/map_names.h"
#include "profile/symbols/module_symbols.h"

#include <errno.h>
#include <string.h>

struct mapping {
    struct symbol_mapping given; /* path in the arena, build_id in id */
    struct build_id id;
    size_t index; /* of the caller */
    size_t module;
};

/* A target may map any number of sparse files of any size that contain only symbols. */
#define SYMBOLS_READ_MAX (2ull << 30)

struct answer {
    uint64_t address;
    const struct symbol_line *lines;
    size_t count;
    bool generated; /* the name is of the perf map */
};

struct symbols {
    struct symbols_options options;
    struct mapping *mappings; /* sorted by address */
    size_t mapping_count;
    struct module_symbols *modules;
    size_t module_count;
    struct table table; /* of answers, by address */
    struct answer *answers;
    size_t answer_count, answer_capacity;
    struct arena arena;
    uint64_t left; /* rest of SYMBOLS_READ_MAX */
    struct map_names map_names;
    bool finished;
};

static bool copy_strings(struct symbols *symbols, const struct symbols_options *options)
{
    struct arena *arena = &symbols->arena;
    const char **dirs = arena_alloc(arena, options->debug_dir_count * sizeof *dirs);

    symbols->options = *options;
    symbols->left = SYMBOLS_READ_MAX;
    symbols->options.left = &symbols->left;
    if (options->root &&
        !(symbols->options.root = arena_string(arena, options->root, strlen(options->root))))
        return false;
    for (size_t i = 0; dirs && i < options->debug_dir_count; i++)
        if (!(dirs[i] =
                  arena_string(arena, options->debug_dirs[i], strlen(options->debug_dirs[i]))))
            return false;
    symbols->options.debug_dirs = dirs;
    return dirs != NULL;
}

static bool copy_mapping(struct symbols *symbols, const struct symbol_mapping *mapping,
                         size_t index)
{
    struct mapping *copy = &symbols->mappings[index];
    const char *path = mapping->path ? mapping->path : "";

    copy->given = *mapping;
    copy->index = index;
    if (mapping->build_id) {
        copy->id = *mapping->build_id;
        copy->id.len = copy->id.len <= BUILD_ID_MAX ? copy->id.len : BUILD_ID_MAX;
    }
    copy->given.path = arena_string(&symbols->arena, path, strlen(path));
    return copy->given.path != NULL;
}

static int compare_mappings(const void *a, const void *b)
{
    const struct mapping *x = a, *y = b;

    if (x->given.start != y->given.start)
        return x->given.start > y->given.start ? 1 : -1;
    return (x->index > y->index) - (x->index < y->index);
}

static bool same_module(const struct mapping *a, const struct mapping *b)
{
    return strcmp(a->given.path, b->given.path) == 0 && a->id.len == b->id.len &&
           memcmp(a->id.bytes, b->id.bytes, a->id.len) == 0;
}

/* Successive mappings with the same path belong to one file. */
static void find_modules(struct symbols *symbols)
{
    qsort(symbols->mappings, symbols->mapping_count, sizeof *symbols->mappings, compare_mappings);
    for (size_t i = 0; i < symbols->mapping_count; i++) {
        struct mapping *mapping = &symbols->mappings[i];
        mapping->given.build_id = mapping->id.len ? &mapping->id : NULL;
        if (i == 0 || !same_module(mapping, mapping - 1))
            symbols->modules[symbols->module_count++].path = mapping->given.path;
        mapping->module = symbols->module_count - 1;
    }
}

struct symbols *symbols_new(const struct symbol_mapping *mappings, size_t count,
                            const struct symbols_options *options)
{
    struct symbols *symbols = calloc(1, sizeof *symbols);

    if (!symbols)
        return NULL;
    table_init(&symbols->table);
    symbols->mapping_count = count;
    symbols->mappings = calloc(count + 1, sizeof *symbols->mappings);
    symbols->modules = calloc(count + 1, sizeof *symbols->modules);
    bool good = symbols->mappings && symbols->modules && copy_strings(symbols, options);
    for (size_t i = 0; good && i < count; i++)
        good = copy_mapping(symbols, &mappings[i], i);
    if (!good) {
        symbols_free(symbols);
        return NULL;
    }
    find_modules(symbols);
    return symbols;
}

void symbols_finish(struct symbols *symbols)
{
    if (!symbols->options.once)
        return;
    for (size_t i = 0; i < symbols->module_count; i++)
        module_symbols_free(&symbols->modules[i]);
    table_free(&symbols->table);
    free(symbols->answers);
    symbols->answers = NULL;
    symbols->finished = true;
}

void symbols_free(struct symbols *symbols)
{
    if (!symbols)
        return;
    for (size_t i = 0; i < symbols->module_count; i++)
        module_symbols_free(&symbols->modules[i]);
    map_names_free(&symbols->map_names);
    table_free(&symbols->table);
    arena_free(&symbols->arena);
    free(symbols->answers);
    free(symbols->mappings);
    free(symbols->modules);
    free(symbols);
}

static const struct mapping *mapping_at(const struct symbols *symbols, uint64_t address)
{
    size_t low =
        SEARCH_FIRST(i, symbols->mapping_count, address < symbols->mappings[i].given.start);
    return low > 0 && address < symbols->mappings[low - 1].given.end ? &symbols->mappings[low - 1]
                                                                     : NULL;
}

static struct module_symbols *module_of(struct symbols *symbols, const struct mapping *mapping)
{
    struct module_symbols *module = &symbols->modules[mapping->module];

    module_symbols_open(module, &mapping->given, &symbols->options);
    return module;
}

static void answer_find(struct symbols *symbols, struct answer *answer)
{
    const struct mapping *mapping = mapping_at(symbols, answer->address);
    struct module_symbols *module;

    if (!mapping)
        return;
    module = module_of(symbols, mapping);
    answer->count =
        module_symbols_lines(module, answer->address - mapping->given.start + mapping->given.offset,
                             &symbols->arena, &answer->lines);
    module->addresses++;
    if (answer->count && answer->lines[0].function)
        module->with_function++;
    if (answer->count && answer->lines[0].line)
        module->with_line++;
}

static bool same_answer_address(const void *ctx, uint32_t place, const void *key)
{
    const struct symbols *symbols = ctx;
    return symbols->answers[place].address == *(const uint64_t *)key;
}

size_t symbols_lines(struct symbols *symbols, uint64_t address, const struct symbol_line **lines)
{
    uint32_t fresh = (uint32_t)symbols->answer_count, place;

    *lines = NULL;
    if (symbols->finished)
        return 0;
    if (!LIST_GROW(symbols->answers, symbols->answer_capacity, symbols->answer_count))
        return 0;
    if (symbols->answer_count >= TABLE_NONE)
        return 0;
    place = table_put(&symbols->table, table_hash_number(&symbols->table, address),
                      same_answer_address, symbols, &address, fresh);
    if (place == TABLE_NONE)
        return 0;
    if (place == fresh) {
        symbols->answers[fresh] = (struct answer){.address = address};
        symbols->answer_count++;
        answer_find(symbols, &symbols->answers[fresh]);
    }
    *lines = symbols->answers[place].lines;
    return symbols->answers[place].count;
}

bool symbols_find_map(struct symbols *symbols)
{
    return map_names_open(&symbols->map_names, &symbols->options);
}

/*
 * In a sequence of profiles an address keeps its first name: its samples are older
 * than the code that may have replaced it, and another name would look like growth.
 */
static void name_answer(struct symbols *symbols, struct answer *answer, const char *name)
{
    const struct mapping *mapping = mapping_at(symbols, answer->address);
    struct symbol_line *line = arena_alloc(&symbols->arena, sizeof *line);

    name = arena_string(&symbols->arena, name, strlen(name));
    if (!line || !name)
        return;
    jit_name_line(&symbols->arena, name, line);
    if (mapping)
        symbols->modules[mapping->module].with_function++;
    if (mapping && line->line)
        symbols->modules[mapping->module].with_line++;
    *answer = (struct answer){answer->address, line, 1, true};
}

void symbols_read_map(struct symbols *symbols)
{
    struct map_names *names = &symbols->map_names;

    for (size_t i = 0; i < symbols->answer_count; i++)
        if (!symbols->answers[i].count || symbols->answers[i].generated)
            if (!map_names_want(names, symbols->answers[i].address))
                break;
    map_names_read(names);
    for (size_t i = 0; i < symbols->answer_count; i++) {
        struct answer *answer = &symbols->answers[i];
        const char *name = answer->count ? NULL : map_names_find(names, answer->address);
        if (name)
            name_answer(symbols, answer, name);
    }
}

int symbols_map_error(const struct symbols *symbols)
{
    return symbols->map_names.err;
}

bool symbols_build_id(struct symbols *symbols, size_t index, struct build_id *out)
{
    for (size_t i = 0; i < symbols->mapping_count && !symbols->options.no_build_ids; i++) {
        const struct mapping *mapping = &symbols->mappings[i];
        if (mapping->index != index)
            continue;
        *out = module_of(symbols, mapping)->files.build_id;
        return out->len > 0;
    }
    return false;
}

size_t symbols_asked(const struct symbols *symbols)
{
    return symbols->answer_count;
}

bool symbols_coverage(const struct symbols *symbols, size_t index, struct symbols_coverage *out)
{
    const struct module_symbols *module;
    const struct debug_missing *missing;

    if (index >= symbols->module_count)
        return false;
    module = &symbols->modules[index];
    *out = (struct symbols_coverage){
        .path = module->path,
        .addresses = module->addresses,
        .with_function = module->with_function,
        .with_line = module->with_line,
        .lack = module->lack,
        .err = module->err,
    };
    missing = module->debug ? debug_info_missing(module->debug) : &module->missing;
    out->split_missing = missing->count;
    out->split_path = missing->path;
    return true;
}
