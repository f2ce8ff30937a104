#include "profile/debug_unit.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#define SECTIONS_UNPACKED_MAX OBJECT_READ_MAX

/* libdw takes more than 1 KiB for a unit, whose smallest form has 11 bytes. */
enum { UNITS_MAX = 1 << 18, ITEMS_MAX = 1 << 25 };

static const char *const needed[] = {
    ".debug_abbrev", ".debug_addr",     ".debug_info", ".debug_line",        ".debug_line_str",
    ".debug_ranges", ".debug_rnglists", ".debug_str",  ".debug_str_offsets",
};

static bool is_needed(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        if (strcmp(name, needed[i]) == 0)
            return true;
    return false;
}

bool debug_info_present(struct object *object)
{
    return object && object_section_named(object, ".debug_info");
}

/* Bytes of a section once unpacked; UINT64_MAX: its header cannot be read. */
static uint64_t unpacked_size(const Elf64_Shdr *section, const void *bytes)
{
    Elf64_Chdr header;

    if (!(section->sh_flags & SHF_COMPRESSED))
        return section->sh_size;
    if (section->sh_size < sizeof header)
        return UINT64_MAX;
    memcpy(&header, bytes, sizeof header);
    return header.ch_size;
}

/*
 * Reads what is needed of a file and hides the other sections from libdw, which
 * would unpack and check all of them. *size grows by what they take unpacked.
 */
static bool sections_prepare(struct object *object, uint64_t *size)
{
    for (size_t i = 0; i < object->section_count; i++) {
        const Elf64_Shdr *section = &object->sections[i];
        const void *bytes = NULL;
        if (is_needed(object_section_name(object, section)))
            bytes = object_section(object, section);
        uint64_t unpacked = bytes ? unpacked_size(section, bytes) : 0;
        if (unpacked > SECTIONS_UNPACKED_MAX - *size)
            return false;
        *size += unpacked;
        if (!bytes && section->sh_offset != object->names.sh_offset)
            object_hide_section(object, i);
    }
    return true;
}

static Dwarf *open_dwarf(struct debug_info *info, struct object *object, Elf **elf)
{
    uint64_t size = 0;

    if (!sections_prepare(object, &size))
        return NULL;
    *elf = info->lib.elf_memory((char *)object->bytes, object->size);
    info->budget += 2 * size;
    return *elf ? info->lib.dwarf_begin_elf(*elf, DWARF_C_READ, NULL) : NULL;
}

static bool add_unit(struct debug_info *info, Dwarf *dwarf, Dwarf_Off die, Dwarf_Off end)
{
    struct debug_unit *list, *unit;

    if (info->unit_count >= UNITS_MAX)
        return false;
    list = list_grow(info->units, &info->unit_room, info->unit_count, sizeof *list);
    if (!list)
        return false;
    info->units = list;
    unit = &list[info->unit_count];
    *unit = (struct debug_unit){.end = end};
    if (!info->lib.dwarf_offdie(dwarf, die, &unit->die))
        return true;
    unit->ranged = debug_ranges(info, &unit->die, 0, (uint32_t)info->unit_count, &info->index);
    info->unit_count++;
    return true;
}

static void load_units(struct debug_info *info, Dwarf *dwarf)
{
    Dwarf_Off at = 0, next;
    size_t header;

    while (info->lib.dwarf_nextcu(dwarf, at, &next, &header, NULL, NULL, NULL) == 0 && next > at) {
        /* libdw would read the DIE of a unit that ends with its header. */
        if (header < next - at && !add_unit(info, dwarf, at + header, next))
            break;
        at = next;
    }
}

struct debug_info *debug_info_open(struct object *object, struct object *supplement,
                                   struct arena *arena, enum symbols_lack *lack)
{
    struct debug_info *info = calloc(1, sizeof *info);

    *lack = SYMBOLS_LACK_LINES;
    if (!info)
        return NULL;
    info->arena = arena;
    info->items_left = ITEMS_MAX;
    table_init(&info->function_table);
    table_init(&info->path_table);
    if (!libdw_load(&info->lib)) {
        *lack = SYMBOLS_LACK_LIBRARY;
        free(info);
        return NULL;
    }
    info->dwarf = open_dwarf(info, object, &info->elf);
    if (info->dwarf && supplement)
        info->supplement = open_dwarf(info, supplement, &info->supplement_elf);
    if (info->supplement)
        info->lib.dwarf_setalt(info->dwarf, info->supplement);
    if (info->dwarf)
        load_units(info, info->dwarf);
    info->own_count = info->unit_count;
    if (info->supplement)
        load_units(info, info->supplement);
    if (!info->dwarf || !spans_finish(&info->index)) {
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
    info->lib.dwarf_end(info->dwarf);
    info->lib.dwarf_end(info->supplement);
    info->lib.elf_end(info->elf);
    info->lib.elf_end(info->supplement_elf);
    spans_free(&info->index);
    spans_free(&info->rest);
    table_free(&info->function_table);
    table_free(&info->path_table);
    free(info->units);
    free(info->functions);
    free(info->paths);
    free(info);
}

/* The one of count units of one .debug_info that holds an address of it, or NULL. */
static struct debug_unit *unit_among(struct debug_info *info, struct debug_unit *units,
                                     size_t count, const unsigned char *at)
{
    const unsigned char *first;
    size_t low = 0, high = count;

    if (!count)
        return NULL;
    first = (unsigned char *)units[0].die.addr - info->lib.dwarf_dieoffset(&units[0].die);
    if (at < first || at >= first + units[count - 1].end)
        return NULL;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if ((Dwarf_Off)(at - first) >= units[mid].end)
            low = mid + 1;
        else
            high = mid;
    }
    return &units[low];
}

struct debug_unit *debug_unit_of(struct debug_info *info, const Dwarf_Die *die)
{
    size_t own = info->own_count;
    struct debug_unit *unit = unit_among(info, info->units, own, die->addr);

    return unit ? unit : unit_among(info, info->units + own, info->unit_count - own, die->addr);
}

/* Units that do not tell where their code is: their functions do. Only when an address asks. */
static void load_rest(struct debug_info *info)
{
    info->rest_done = true;
    for (size_t i = 0; i < info->own_count; i++) {
        struct debug_unit *unit = &info->units[i];
        if (unit->ranged)
            continue;
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

/* File and line of an address. */
static void line_at(struct debug_info *info, struct debug_unit *unit, uint64_t address,
                    struct symbol_line *line)
{
    Dwarf_Line *row = info->lib.dwarf_getsrc_die(&unit->die, address);
    int number = 0;

    if (!row)
        return;
    line->file = debug_path(info, unit, info->lib.dwarf_linesrc(row, NULL, NULL));
    if (info->lib.dwarf_lineno(row, &number) == 0 && number > 0)
        line->line = (unsigned)number;
}

/* File and line of the call that was inlined. */
static void line_of_call(struct debug_info *info, struct debug_unit *unit, Dwarf_Die *die,
                         struct symbol_line *line)
{
    unsigned index = debug_number(info, die, DW_AT_call_file);
    Dwarf_Files *files;
    size_t count;

    line->file = NULL;
    line->line = debug_number(info, die, DW_AT_call_line);
    if (info->lib.dwarf_getsrcfiles(&unit->die, &files, &count) == 0 && index < count)
        line->file = debug_path(info, unit, info->lib.dwarf_filesrc(files, index, NULL, NULL));
}

size_t debug_info_lines(struct debug_info *info, uint64_t address, struct symbol_line *lines,
                        size_t max)
{
    struct debug_unit *unit = unit_at(info, address);
    struct symbol_line place = {0};
    size_t count = 0;

    if (!unit)
        return 0;
    debug_unit_walk(info, unit);
    line_at(info, unit, address, &place);
    uint32_t scope = spans_find(&unit->spans, address);
    while (scope != SPANS_NONE && count < max) {
        Dwarf_Die die = {.addr = unit->scopes[scope].die, .cu = unit->die.cu};
        struct symbol_line *line = &lines[count++];
        memset(line, 0, sizeof *line);
        debug_name(info, &die, line);
        line->file = place.file;
        line->line = place.line;
        scope = unit->scopes[scope].parent;
        if (scope != SPANS_NONE)
            line_of_call(info, unit, &die, &place);
    }
    if (count == 0 && place.file)
        lines[count++] = place;
    return count;
}
