#include "base/library.h"
#include "base/search.h"
#include "profile/symbols/debug_unit.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Each split file is opened again after the units were freed, which is rare. */
#define SPLIT_READ_MAX (8ull << 30)

enum {
    ITEMS_MAX = 1 << 25,
    LINE_SIZE = 48
}; /* LINE_SIZE: approximate bytes that libdw uses for a line */

bool libdw_load(struct libdw *library)
{
    void *handle = library_open("libdw.so.1");

    if (!handle)
        return false;
#define RESOLVE(function)                                                                          \
    if (!(library->function = LIBRARY_FUNCTION(handle, function)))                                 \
        return false;
    LIBDW_FUNCTIONS(RESOLVE) /* libelf's functions are found through libdw, which depends on it */
#undef RESOLVE
    return library->elf_version(EV_CURRENT) != EV_NONE;
}

const struct debug_missing *debug_info_missing(const struct debug_info *info)
{
    return &info->missing;
}

bool debug_info_lacks_memory(const struct debug_info *info)
{
    return info->no_memory;
}

struct debug_info *debug_info_open(struct object *object, struct object *supplement,
                                   const struct debug_files *files, struct arena *arena,
                                   enum symbols_lack *lack)
{
    struct debug_info *info = calloc(1, sizeof *info);

    *lack = SYMBOLS_LACK_LINES;
    if (!info)
        return NULL;
    info->arena = arena;
    info->files = files;
    info->split_left = SPLIT_READ_MAX;
    info->items_left = ITEMS_MAX;
    table_init(&info->function_table);
    table_init(&info->path_table);
    if (!libdw_load(&info->lib)) {
        *lack = SYMBOLS_LACK_LIBRARY;
        free(info);
        return NULL;
    }
    bool good = debug_file_open(info, &info->own, object);
    if (good && supplement && debug_file_open(info, &info->supplement, supplement))
        info->lib.dwarf_setalt(info->own.dwarf, info->supplement.dwarf);
    if (good)
        debug_file_units(info, &info->own);
    info->own_count = info->unit_count;
    if (good && info->supplement.dwarf)
        debug_file_units(info, &info->supplement);
    if (!good || !spans_finish(&info->index)) {
        debug_info_free(info);
        return NULL;
    }
    *lack = SYMBOLS_LACK_NOTHING;
    return info;
}

void debug_info_free(struct debug_info *info)
{
    if (!info)
        return;
    for (size_t i = 0; i < info->unit_count; i++)
        debug_unit_free(&info->units[i]);
    debug_splits_free(info);
    free(info->splits);
    debug_file_close(info, &info->own);
    debug_file_close(info, &info->supplement);
    spans_free(&info->index);
    spans_free(&info->rest);
    table_free(&info->function_table);
    table_free(&info->path_table);
    free(info->units);
    free(info->functions);
    free(info->paths);
    free(info);
}

/*
 * Finds the unit, among count units of a file, that contains an address of its
 * .debug_info. Returns NULL if there is none.
 */
static struct debug_unit *unit_among(const struct debug_file *file, struct debug_unit *units,
                                     size_t count, const unsigned char *at)
{
    if (!count || at < file->info || at >= file->info + units[count - 1].end)
        return NULL;
    return &units[SEARCH_FIRST(i, count, (Dwarf_Off)(at - file->info) < units[i].end)];
}

struct debug_unit *debug_unit_of(struct debug_info *info, const void *at)
{
    size_t own = info->own_count;
    struct debug_unit *unit = unit_among(&info->own, info->units, own, at);

    for (size_t i = info->split_count; !unit && i-- > 0;)
        unit = unit_among(&info->splits[i]->file, &info->splits[i]->unit, 1, at);
    return unit ? unit
                : unit_among(&info->supplement, info->units + own, info->unit_count - own, at);
}

/*
 * Loads the units that do not give the range of their code: their functions do.
 * Done only when an address needs it.
 */
static void load_rest(struct debug_info *info)
{
    info->rest_done = true;
    for (size_t i = 0; i < info->own_count; i++) {
        struct debug_unit *unit = &info->units[i];
        if (unit->ranged)
            continue;
        debug_trim_units(info);
        debug_unit_walk(info, unit);
        for (size_t j = 0; j < unit->spans.count; j++)
            if (!spans_add(&info->rest, (struct span){unit->spans.list[j].start,
                                                      unit->spans.list[j].end, 0, (uint32_t)i}))
                return;
    }
    if (!spans_finish(&info->rest))
        spans_free(&info->rest);
}

static struct debug_unit *unit_at(struct debug_info *info, uint64_t address)
{
    uint32_t place = spans_find(&info->index, address);

    if (place == SPANS_NONE) {
        if (!info->rest_done)
            load_rest(info);
        place = spans_find(&info->rest, address);
    }
    return place == SPANS_NONE ? NULL : &info->units[place];
}

/* Finds file and line of an address. */
static void line_at(struct debug_info *info, struct debug_unit *unit, uint64_t address,
                    struct symbol_line *line)
{
    Dwarf_Lines *lines;
    Dwarf_Line *row;
    size_t count;
    int number = 0;

    if (!unit->lined) {
        unit->lined = true;
        errno = 0;
        if (info->lib.dwarf_getsrclines(&unit->die, &lines, &count) == 0)
            info->held += count * LINE_SIZE;
        else if (errno == ENOMEM)
            info->no_memory = true;
    }
    row = info->lib.dwarf_getsrc_die(&unit->die, address);
    if (!row)
        return;
    line->file = debug_path(info, unit, info->lib.dwarf_linesrc(row, NULL, NULL));
    if (info->lib.dwarf_lineno(row, &number) == 0 && number > 0)
        line->line = (unsigned)number;
}

/* Finds file and line of the call that was inlined. */
static void line_of_call(struct debug_info *info, struct debug_unit *unit, Dwarf_Die *die,
                         struct symbol_line *line)
{
    const struct debug_unit *body = debug_unit_of(info, die->addr);
    Dwarf_Die table = unit->die;
    unsigned index = debug_number(info, die, DW_AT_call_file);
    Dwarf_Files *files;
    size_t count;

    line->file = NULL;
    line->line = debug_number(info, die, DW_AT_call_line);
    /* gcc gives a split file a table of its own, clang uses that of the skeleton. */
    if (body && body->split && debug_section(info, &body->split->file, ".debug_line.dwo").len)
        table = body->die;
    if (info->lib.dwarf_getsrcfiles(&table, &files, &count) == 0 && index < count)
        line->file = debug_path(info, unit, info->lib.dwarf_filesrc(files, index, NULL, NULL));
}

size_t debug_info_lines(struct debug_info *info, uint64_t address, struct symbol_line *lines,
                        size_t max)
{
    struct debug_unit *unit = unit_at(info, address);
    struct symbol_line place = {0};
    struct debug_unit *body;
    size_t count = 0;

    if (unit && !unit->walked)
        debug_trim_units(info);
    if (!unit || !debug_unit_walk(info, unit))
        return 0;
    body = debug_unit_body(info, unit);
    line_at(info, unit, address, &place);
    uint32_t scope = spans_find(&body->spans, address);
    while (scope != SPANS_NONE && count < max) {
        Dwarf_Die die = {.addr = body->scopes[scope].die, .cu = body->die.cu};
        struct symbol_line *line = &lines[count++];
        memset(line, 0, sizeof *line);
        debug_name(info, &die, line);
        line->file = place.file;
        line->line = place.line;
        scope = body->scopes[scope].parent;
        if (scope != SPANS_NONE)
            line_of_call(info, unit, &die, &place);
    }
    if (count == 0 && place.file)
        lines[count++] = place;
    return count;
}
