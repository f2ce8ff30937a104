#include "profile/locations.h"
#include "base/list.h"
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

static uint64_t hash_function(const struct table *table, const struct function *function)
{
    return table_hash_number(table, function->start_line) ^
           table_hash_bytes(table, function->name, strlen(function->name)) << 2 ^
           table_hash_bytes(table, function->file, strlen(function->file)) ^
           table_hash_bytes(table, function->linkage, strlen(function->linkage)) << 1;
}

/* Returns the group of the functions that are shown as this one is. */
static uint32_t find_group_of(struct locations *locations, const char *name)
{
    char shortened[NAME_SIZE];

    if (locations->short_names)
        name = short_name(name, shortened, sizeof shortened);
    return find_group(locations, name);
}

/* Keeps the name of a function: few have another one than their group. */
static const char *keep_full_name(struct locations *locations, const struct function *function)
{
    const char *shown = locations->groups[function->group];

    return strcmp(shown, function->name) == 0 ? shown : keep_text(locations, function->name);
}

/* Completes a new function, and copies its strings. False: out of memory. */
static bool keep_function(struct locations *locations, struct function *function)
{
    function->group = find_group_of(locations, function->name);
    if (function->group == TABLE_NONE)
        return false;
    function->name = keep_full_name(locations, function);
    function->linkage = keep_text(locations, function->linkage);
    function->file = keep_text(locations, function->file);
    if (!function->name || !function->linkage || !function->file)
        return false;
    function->kind = code_kind(function->name);
    if (function->kind == CODE_OWN)
        function->kind = function->module;
    return true;
}

/* Returns the number of the function; copies its strings if it is new. */
static uint32_t find_function(struct locations *locations, struct function function)
{
    uint32_t place;

    if (strcmp(function.linkage, function.name) == 0)
        function.linkage = "";
    if (!GROW(locations->functions, locations->function_capacity, locations->function_count))
        return TABLE_NONE;
    place =
        table_put(&locations->function_table, hash_function(&locations->function_table, &function),
                  same_function_line, locations, &function, (uint32_t)locations->function_count);
    if (place == TABLE_NONE || place != locations->function_count)
        return place;
    if (!keep_function(locations, &function))
        return TABLE_NONE;
    locations->functions[place] = function;
    locations->function_count++;
    return place;
}

static bool add_location_line(struct locations *locations, struct location *location,
                              const struct function *function, unsigned line)
{
    struct function wanted = *function;
    uint32_t number;

    if (location->mapping != TABLE_NONE)
        wanted.module = locations->mappings[location->mapping].kind;
    number = find_function(locations, wanted);
    if (number == TABLE_NONE ||
        !GROW(locations->lines, locations->line_capacity, locations->line_count))
        return false;
    locations->lines[locations->line_count++] = (struct location_line){number, line};
    location->count++;
    return true;
}

/* Records in the profile's mapping which kinds of names its locations have. */
static void note_line(struct locations *locations, const struct location *location,
                      const struct symbol_line *line)
{
    struct location_mapping *mapping;

    if (location->mapping == TABLE_NONE)
        return;
    mapping = &locations->mappings[location->mapping];
    mapping->has_functions = true;
    mapping->has_files |= line->file && *line->file;
    mapping->has_lines |= line->line > 0;
    mapping->has_inlines |= location->count > 1;
}

static bool add_known(struct locations *locations, struct location *location,
                      const struct symbol_line *lines, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct function function = {.name = lines[i].function ? lines[i].function : "??",
                                    .linkage = lines[i].linkage ? lines[i].linkage : "",
                                    .file = lines[i].file ? lines[i].file : "",
                                    .start_line = lines[i].start_line};
        if (!add_location_line(locations, location, &function, lines[i].line))
            return false;
        note_line(locations, location, &lines[i]);
    }
    location->named = true;
    return true;
}

/*
 * Adds "libz.so.1+0x1234": an offset into the file, as objdump shows it if
 * offsets are addresses.
 */
static bool add_unknown(struct locations *locations, struct location *location)
{
    const struct location_mapping *mapping;
    struct function function = {.linkage = "", .file = ""};
    char name[NAME_SIZE];
    const char *slash;

    if (location->mapping == TABLE_NONE) {
        snprintf(name, sizeof name, "0x%llx", (unsigned long long)location->address);
    } else {
        mapping = &locations->mappings[location->mapping];
        slash = strrchr(mapping->path, '/');
        snprintf(name, sizeof name, "%.400s+%#llx",
                 slash            ? slash + 1
                 : *mapping->path ? mapping->path
                                  : "[anon]",
                 (unsigned long long)(location->address - mapping->start + mapping->offset));
    }
    function.name = name;
    return add_location_line(locations, location, &function, 0);
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

static bool add_mappings(struct locations *locations, const struct heap_profile *profile)
{
    const size_t first = locations->mapping_count;

    for (size_t i = 0; i < profile->mapping_count; i++) {
        const struct heap_mapping *from = &profile->mappings[i];
        struct location_mapping to = {.start = from->start,
                                      .end = from->end,
                                      .offset = from->offset,
                                      .path = i && from->path == from[-1].path
                                                  ? locations->mappings[first + i - 1].path
                                                  : keep_text(locations, from->path),
                                      .kind = code_kind_of_module(from->path)};
        if (!to.path ||
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

static uint32_t *address_order(const struct heap_profile *profile)
{
    uint32_t *order = reallocarray(NULL, profile->address_count + 1, sizeof *order);

    for (size_t i = 0; order && i < profile->address_count; i++)
        order[i] = (uint32_t)i;
    if (order)
        qsort_r(order, profile->address_count, sizeof *order, by_address, profile->addresses);
    return order;
}

static bool resolve_location(struct locations *locations, struct location *location,
                             size_t first_mapping, struct symbols *symbols)
{
    const struct symbol_line *lines;
    size_t count = symbols_lines(symbols, location->address, &lines);

    location->mapping = find_mapping(locations, first_mapping, location->address);
    if (location->mapping != TABLE_NONE)
        (void)symbols_build_id(symbols, location->address,
                               &locations->mappings[location->mapping].build_id);
    location->first = (uint32_t)locations->line_count;
    return count ? add_known(locations, location, lines, count) : add_unknown(locations, location);
}

/* Looks all addresses up at once, in their order. Names that only the perf map has come last. */
static bool look_up(const struct locations *locations, size_t first, const uint32_t *order,
                    struct symbols *symbols)
{
    const size_t count = locations->count - first;
    AUTO_FREE uint64_t *addresses = reallocarray(NULL, count + 1, sizeof *addresses);

    for (size_t i = 0; addresses && i < count; i++)
        addresses[i] = locations->list[first + order[i]].address;
    if (!addresses)
        return false;
    symbols_ask(symbols, addresses, count);
    if (symbols_find_map(symbols))
        symbols_read_map(symbols);
    return true;
}

bool locations_add(struct locations *locations, const struct heap_profile *profile,
                   struct symbols *symbols)
{
    size_t first = locations->count, first_mapping = locations->mapping_count;
    AUTO_FREE uint32_t *order = address_order(profile);

    if (!order || !add_mappings(locations, profile))
        return false;
    for (size_t i = 0; i < profile->address_count; i++) {
        if (!GROW(locations->list, locations->capacity, locations->count))
            return false;
        locations->list[locations->count++] =
            (struct location){.address = profile->addresses[i] - (profile->addresses[i] > 0)};
    }
    if (!look_up(locations, first, order, symbols))
        return false;
    for (size_t i = 0; i < profile->address_count; i++)
        if (!resolve_location(locations, &locations->list[first + order[i]], first_mapping,
                              symbols))
            return false;
    symbols_finish(symbols);
    return true;
}

uint32_t locations_pseudo(struct locations *locations, const char *name)
{
    struct function function = {.name = name, .linkage = "", .file = "", .module = CODE_SYSTEM};
    struct location location = {
        .mapping = TABLE_NONE, .first = (uint32_t)locations->line_count, .named = true};

    if (!GROW(locations->list, locations->capacity, locations->count) ||
        !add_location_line(locations, &location, &function, 0))
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

struct symbols *locations_symbols(const struct heap_profile *profile,
                                  const struct symbols_options *options)
{
    AUTO_FREE struct symbol_mapping *mappings =
        calloc(profile->mapping_count + 1, sizeof *mappings);

    for (size_t i = 0; mappings && i < profile->mapping_count; i++)
        mappings[i] = (struct symbol_mapping){.start = profile->mappings[i].start,
                                              .end = profile->mappings[i].end,
                                              .offset = profile->mappings[i].offset,
                                              .path = profile->mappings[i].text};
    return mappings ? symbols_new(mappings, profile->mapping_count, options) : NULL;
}
