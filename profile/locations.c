#include "profile/locations.h"
#include "base/list.h"
#include "base/text.h"
#include "profile/names/short_name.h"

#include <stdio.h>
#include <string.h>

enum { NAME_SIZE = 512 };

void locations_init(struct locations *locations)
{
    memset(locations, 0, sizeof *locations);
    table_init(&locations->function_table);
    table_init(&locations->group_table);
}

void locations_free(struct locations *locations)
{
    arena_free(&locations->strings);
    free(locations->functions);
    free(locations->lines);
    free(locations->list);
    free(locations->mappings);
    free(locations->groups);
    free(locations->group_functions);
    table_free(&locations->function_table);
    table_free(&locations->group_table);
    memset(locations, 0, sizeof *locations);
}

#define GROW(list, capacity, count) ((count) < TABLE_NONE && LIST_GROW(list, capacity, count))

static const char *keep_text(struct locations *locations, const char *text)
{
    return *text ? arena_string(&locations->strings, text, strlen(text)) : "";
}

static bool same_group(const void *ctx, uint32_t place, const void *key)
{
    const struct locations *locations = ctx;
    return strcmp(locations->groups[place], key) == 0;
}

static uint32_t find_group(struct locations *locations, const char *name)
{
    uint64_t hash = table_hash_bytes(&locations->group_table, name, strlen(name));
    uint32_t place;

    if (!GROW(locations->groups, locations->group_capacity, locations->group_count) ||
        !GROW(locations->group_functions, locations->first_capacity, locations->group_count))
        return TABLE_NONE;
    place = table_put(&locations->group_table, hash, same_group, locations, name,
                      (uint32_t)locations->group_count);
    if (place == TABLE_NONE || place != locations->group_count)
        return place;
    locations->groups[place] = keep_text(locations, name);
    locations->group_functions[place] = (uint32_t)locations->function_count;
    if (!locations->groups[place])
        return TABLE_NONE;
    locations->group_count++;
    return place;
}

static bool same_function_line(const void *ctx, uint32_t place, const void *key)
{
    const struct locations *locations = ctx;
    const struct function *have = &locations->functions[place], *want = key;

    return have->start_line == want->start_line && have->module == want->module &&
           strcmp(have->name, want->name) == 0 && strcmp(have->file, want->file) == 0 &&
           strcmp(have->linkage, want->linkage) == 0;
}

/* Returns the number of the function, shown by a name; copies its strings if it is new. */
static uint32_t find_function(struct locations *locations, struct function function,
                              const char *shown)
{
    struct table *table = &locations->function_table;
    char shortened[NAME_SIZE];
    uint64_t hash;
    uint32_t place;

    if (strcmp(function.linkage, function.name) == 0)
        function.linkage = "";
    if (!GROW(locations->functions, locations->function_capacity, locations->function_count))
        return TABLE_NONE;
    hash = table_hash_number(table, function.start_line) ^
           table_hash_bytes(table, function.name, strlen(function.name)) << 2 ^
           table_hash_bytes(table, function.file, strlen(function.file)) ^
           table_hash_bytes(table, function.linkage, strlen(function.linkage)) << 1;
    place = table_put(table, hash, same_function_line, locations, &function,
                      (uint32_t)locations->function_count);
    if (place == TABLE_NONE || place != locations->function_count)
        return place;
    if (locations->short_names)
        shown = short_name(shown, shortened, sizeof shortened);
    function.group = find_group(locations, shown);
    if (function.group == TABLE_NONE)
        return TABLE_NONE;
    /* Few functions have another name than their group. */
    shown = locations->groups[function.group];
    function.name = strcmp(shown, function.name) == 0 ? shown : keep_text(locations, function.name);
    function.linkage = keep_text(locations, function.linkage);
    function.file = keep_text(locations, function.file);
    if (!function.name || !function.linkage || !function.file)
        return TABLE_NONE;
    function.kind = code_kind(function.name);
    if (function.kind == CODE_OWN)
        function.kind = function.module;
    locations->functions[place] = function;
    locations->function_count++;
    return place;
}

static bool add_location_line(struct locations *locations, struct location *location,
                              const struct function *function, const char *shown, unsigned line)
{
    struct function wanted = *function;
    uint32_t number;

    if (location->mapping != TABLE_NONE)
        wanted.module = locations->mappings[location->mapping].kind;
    number = find_function(locations, wanted, shown);
    if (number == TABLE_NONE ||
        !GROW(locations->lines, locations->line_capacity, locations->line_count))
        return false;
    locations->lines[locations->line_count++] = (struct location_line){number, line};
    location->count++;
    return true;
}

static bool add_known(struct locations *locations, struct location *location,
                      const struct symbol_line *lines, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct function function = {.name = lines[i].function ? lines[i].function : "??",
                                    .linkage = lines[i].linkage ? lines[i].linkage : "",
                                    .file = lines[i].file ? lines[i].file : "",
                                    .start_line = lines[i].start_line};
        if (!add_location_line(locations, location, &function, function.name, lines[i].line))
            return false;
        if (location->mapping == TABLE_NONE)
            continue;
        struct location_mapping *mapping = &locations->mappings[location->mapping];
        mapping->has_functions = true;
        mapping->has_files |= *function.file != '\0';
        mapping->has_lines |= lines[i].line > 0;
        mapping->has_inlines |= location->count > 1;
    }
    location->named = true;
    return true;
}

/* Code that no file has: a compiler made it at run time. */
static bool is_made(const struct location_mapping *mapping)
{
    static const char *const begins[] = {"[anon", "/memfd:"};
    bool made = !*mapping->path;

    for (size_t i = 0; i < ARRAY_LEN(begins); i++)
        made |= strncmp(mapping->path, begins[i], strlen(begins[i])) == 0;
    return made;
}

/*
 * Adds "libz.so.1+0x1234": an offset into the file, as objdump shows it if
 * offsets are addresses. An offset into memory says nothing: all such code is shown as one.
 */
static bool add_unknown(struct locations *locations, struct location *location)
{
    const struct location_mapping *mapping;
    struct function function = {.linkage = "", .file = ""};
    char name[NAME_SIZE];
    bool made = false;

    if (location->mapping == TABLE_NONE) {
        snprintf(name, sizeof name, "0x%llx", (unsigned long long)location->address);
    } else {
        mapping = &locations->mappings[location->mapping];
        snprintf(name, sizeof name, "%.400s+%#llx", *mapping->name ? mapping->name : "[anon]",
                 (unsigned long long)(location->address - mapping->start + mapping->offset));
        made = locations->short_names && is_made(mapping);
    }
    function.name = name;
    return add_location_line(locations, location, &function, made ? "JIT code (no name)" : name, 0);
}

static uint32_t find_mapping(const struct locations *locations, size_t first, uint64_t address)
{
    size_t low = first, high = locations->mapping_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct location_mapping *mapping = &locations->mappings[middle];
        if (address < mapping->start)
            high = middle;
        else if (address >= mapping->end)
            low = middle + 1;
        else
            return (uint32_t)middle;
    }
    return TABLE_NONE;
}

static bool add_mappings(struct locations *locations, const struct heap_profile *profile,
                         const struct symbols *symbols)
{
    const size_t first = locations->mapping_count;

    for (size_t i = 0; i < profile->mapping_count; i++) {
        const struct heap_mapping *from = &profile->mappings[i];
        const struct location_mapping *last = i ? &locations->mappings[first + i - 1] : NULL;
        const bool same = last && from->path == from[-1].path;
        struct location_mapping to = {
            .start = from->start,
            .end = from->end,
            .offset = from->offset,
            .path = same ? last->path : keep_text(locations, from->path),
            .name =
                same ? last->name : keep_text(locations, symbols_file_name(symbols, from->path)),
            .kind = code_kind_of_module(from->path)};
        if (!to.path || !to.name ||
            !GROW(locations->mappings, locations->mapping_capacity, locations->mapping_count))
            return false;
        locations->mappings[locations->mapping_count++] = to;
    }
    return true;
}

/* In the order of addresses, the symbolizer's pages and units are each visited once. */
static int by_address(const void *a, const void *b, void *ctx)
{
    const uint64_t *addresses = ctx, x = addresses[*(const uint32_t *)a],
                   y = addresses[*(const uint32_t *)b];
    return x < y ? -1 : x > y;
}

bool locations_add(struct locations *locations, const struct heap_profile *profile,
                   struct symbols *symbols)
{
    size_t first = locations->count, first_mapping = locations->mapping_count;
    const size_t count = profile->address_count;
    AUTO_FREE uint64_t *addresses = reallocarray(NULL, count + 1, sizeof *addresses);
    AUTO_FREE uint32_t *order = reallocarray(NULL, count + 1, sizeof *order);

    if (!addresses || !order || !add_mappings(locations, profile, symbols))
        return false;
    for (size_t i = 0; i < count; i++) {
        order[i] = (uint32_t)i;
        if (!GROW(locations->list, locations->capacity, locations->count))
            return false;
        locations->list[locations->count++] =
            (struct location){.address = profile->addresses[i] - (profile->addresses[i] > 0)};
    }
    qsort_r(order, count, sizeof *order, by_address, profile->addresses);
    for (size_t i = 0; i < count; i++)
        addresses[i] = locations->list[first + order[i]].address;
    /* Looks all addresses up at once, in order. Names that only the perf map has come last. */
    symbols_ask(symbols, addresses, count);
    if (symbols_find_map(symbols))
        symbols_read_map(symbols);
    for (size_t i = 0; i < count; i++) {
        struct location *location = &locations->list[first + order[i]];
        const struct symbol_line *lines;
        size_t found = symbols_lines(symbols, location->address, &lines);
        location->mapping = find_mapping(locations, first_mapping, location->address);
        if (location->mapping != TABLE_NONE)
            (void)symbols_build_id(symbols, location->address,
                                   &locations->mappings[location->mapping].build_id);
        location->first = (uint32_t)locations->line_count;
        if (found ? !add_known(locations, location, lines, found)
                  : !add_unknown(locations, location))
            return false;
    }
    symbols_finish(symbols);
    return true;
}

uint32_t locations_pseudo(struct locations *locations, const char *name)
{
    struct function function = {.name = name, .linkage = "", .file = "", .module = CODE_SYSTEM};
    struct location location = {
        .mapping = TABLE_NONE, .first = (uint32_t)locations->line_count, .named = true};

    if (!GROW(locations->list, locations->capacity, locations->count) ||
        !add_location_line(locations, &location, &function, name, 0))
        return TABLE_NONE;
    locations->list[locations->count] = location;
    return (uint32_t)locations->count++;
}

uint32_t locations_add_outer(struct locations *locations, uint32_t number, uint32_t lines)
{
    struct location outer = locations->list[number];

    if (!GROW(locations->list, locations->capacity, locations->count))
        return TABLE_NONE;
    outer.first += lines;
    outer.count -= lines;
    locations->list[locations->count] = outer;
    return (uint32_t)locations->count++;
}

/*
 * The text of the program's mappings: of the file that has the name of the given one, else the
 * first, above which the kernel maps the libraries.
 */
static const char *program_text(const struct heap_profile *profile, const char *given)
{
    const char *first = NULL;

    for (size_t i = 0; i < profile->mapping_count; i++) {
        const struct heap_mapping *mapping = &profile->mappings[i];
        if (mapping->path[0] == '/' &&
            strcmp(text_base_name(mapping->path), text_base_name(given)) == 0)
            return mapping->text;
        if (mapping->path[0] == '/' && !first)
            first = mapping->text;
    }
    return first;
}

struct symbols *locations_symbols(const struct heap_profile *profile,
                                  const struct symbols_options *options)
{
    AUTO_FREE struct symbol_mapping *mappings =
        calloc(profile->mapping_count + 1, sizeof *mappings);

    const char *program = options->program ? program_text(profile, options->program) : NULL;
    for (size_t i = 0; mappings && i < profile->mapping_count; i++) {
        const struct heap_mapping *from = &profile->mappings[i];
        const bool named = program && strcmp(from->text, program) == 0;
        mappings[i] = (struct symbol_mapping){.start = from->start,
                                              .end = from->end,
                                              .offset = from->offset,
                                              .path = from->text,
                                              .build_id = from->build_id,
                                              .inode = from->inode,
                                              .file = named ? options->program : NULL};
    }
    struct symbols_options with_names = *options;
    with_names.given = profile->names;
    with_names.given_count = profile->name_count;
    return mappings ? symbols_new(mappings, profile->mapping_count, &with_names) : NULL;
}

enum { ADDRESSES_SPARE = 1 << 16 }; /* more than those of four profiles */

static bool is_file(const struct heap_mapping *mapping)
{
    return mapping->text[0] == '/';
}

/* Anonymous memory comes and goes if code is made at run time, and has no names anyway. */
static bool is_same(const struct name_cache *cache, const struct heap_profile *profile)
{
    size_t count = 0;

    for (size_t i = 0; i < profile->mapping_count; i++) {
        const struct heap_mapping *mapping = &profile->mappings[i];
        const struct name_file *file = &cache->files[count];
        if (!is_file(mapping))
            continue;
        if (count == cache->file_count || file->start != mapping->start ||
            file->end != mapping->end || file->offset != mapping->offset ||
            strcmp(file->text, mapping->text) != 0)
            return false;
        count++;
    }
    return count == cache->file_count;
}

void name_cache_free(struct name_cache *cache)
{
    symbols_free(cache->symbols);
    cache->symbols = NULL;
    for (size_t i = 0; i < cache->file_count; i++)
        free(cache->files[i].text);
    free(cache->files);
    cache->files = NULL;
    cache->file_count = 0;
}

struct symbols *name_cache_symbols(struct name_cache *cache, const struct heap_profile *profile)
{
    if (cache->symbols && is_same(cache, profile) &&
        symbols_asked(cache->symbols) <= 4 * profile->address_count + ADDRESSES_SPARE)
        return cache->symbols;
    name_cache_free(cache);
    cache->files = calloc(profile->mapping_count + 1, sizeof *cache->files);
    for (size_t i = 0; cache->files && i < profile->mapping_count; i++) {
        const struct heap_mapping *mapping = &profile->mappings[i];
        struct name_file *file = &cache->files[cache->file_count];
        if (!is_file(mapping))
            continue;
        *file = (struct name_file){mapping->start, mapping->end, mapping->offset,
                                   strdup(mapping->text)};
        if (!file->text) {
            name_cache_free(cache);
            return NULL;
        }
        cache->file_count++;
    }
    cache->symbols = cache->files ? locations_symbols(profile, &cache->options) : NULL;
    if (!cache->symbols)
        name_cache_free(cache);
    return cache->symbols;
}
