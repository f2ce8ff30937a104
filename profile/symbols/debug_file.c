#include "base/list.h"
#include "profile/symbols/debug_unit.h"

#include <string.h>

/* Bytes of compressed sections; the child may allocate little more (profile/symbols/reader.c). */
#define SECTIONS_UNPACKED_MAX (256ull << 20)

/* libdw uses more than 1 KiB for a unit, whose smallest form has 11 bytes. */
enum { UNITS_MAX = 1 << 18 };

/* Bytes of the start of a unit: its header and first DIE, which libdw reads of all units. */
enum { UNIT_HEAD = 4 << 10 };

/*
 * Bytes that all units may use together. The tests have a build that frees the
 * units at every new one.
 */
#ifndef DEBUG_HELD_MAX
#define DEBUG_HELD_MAX (16 << 20)
#endif

enum { HEADS_AT_ONCE = 1000 };

static const char info_name[] = ".debug_info";
static const char *const needed[] = {
    ".debug_abbrev", ".debug_addr",     info_name,    ".debug_line",        ".debug_line_str",
    ".debug_ranges", ".debug_rnglists", ".debug_str", ".debug_str_offsets",
};
static const char *const needed_of_split[] = {
    ".debug_abbrev.dwo",   ".debug_info.dwo", ".debug_line.dwo",
    ".debug_rnglists.dwo", ".debug_str.dwo",  ".debug_str_offsets.dwo",
};

static bool is_needed(const struct debug_file *file, const char *name)
{
    for (size_t i = 0; !file->split && i < ARRAY_LEN(needed); i++)
        if (strcmp(name, needed[i]) == 0)
            return true;
    for (size_t i = 0; file->split && i < ARRAY_LEN(needed_of_split); i++)
        if (strcmp(name, needed_of_split[i]) == 0)
            return true;
    return false;
}

bool debug_info_present(struct object *object)
{
    return object && object_section_named(object, info_name);
}

/* Returns the bytes of a section after unpacking; UINT64_MAX: its header cannot be read. */
static uint64_t unpacked_size(struct object *object, const Elf64_Shdr *section)
{
    const void *bytes;
    Elf64_Chdr header;

    if (!(section->sh_flags & SHF_COMPRESSED))
        return section->sh_size;
    bytes = section->sh_size < sizeof header
                ? NULL
                : object_bytes(object, section->sh_offset, sizeof header);
    if (!bytes)
        return UINT64_MAX;
    memcpy(&header, bytes, sizeof header);
    return header.ch_size;
}

/* True if the units of .debug_info are read when they are needed: unless they are compressed. */
static bool is_by_unit(struct debug_file *file, const Elf64_Shdr *section)
{
    const struct object *object = file->object;

    if (file->offset || (section->sh_flags & SHF_COMPRESSED) || section->sh_type == SHT_NOBITS ||
        section->sh_offset >= object->size ||
        section->sh_size > object->size - section->sh_offset ||
        strcmp(object_section_name(file->object, section), info_name) != 0)
        return false;
    file->offset = section->sh_offset;
    return true;
}

/*
 * The section with the names of the sections must be visible. It may also be a
 * section that libdw knows: for .gnu_debugaltlink libdw would open a path
 * itself, in the tool's own root, and block there if it is that of a FIFO.
 */
static bool is_names_only(struct object *object, const Elf64_Shdr *section)
{
    const char *name = object_section_name(object, section);

    return section->sh_offset == object->names.sh_offset && !strstr(name, "debug");
}

/*
 * Reads the needed parts of a file and hides the other sections from libdw,
 * which would unpack and check all of them. Adds their unpacked size to *size.
 */
static bool sections_prepare(struct debug_file *file, uint64_t *size)
{
    struct object *object = file->object;

    /* libdw reads all headers in place, including those of sections that are not changed. */
    if (!object_bytes(object, object->header.e_shoff, object->section_count * sizeof(Elf64_Shdr)))
        return false;
    for (size_t i = 0; i < object->section_count; i++) {
        Elf64_Shdr here; /* in a package, of a part of the section */
        memcpy(&here, object->bytes + object->header.e_shoff + i * sizeof here, sizeof here);
        const Elf64_Shdr *section = &here;
        bool used = is_needed(file, object_section_name(object, section)) &&
                    (is_by_unit(file, section) || object_section(object, section));
        uint64_t unpacked = used ? unpacked_size(object, section) : 0;
        bool packed = section->sh_flags & SHF_COMPRESSED;
        if (packed && unpacked > SECTIONS_UNPACKED_MAX - file->unpacked)
            return false;
        *size += unpacked;
        file->unpacked += packed ? unpacked : 0;
        if (!used && !is_names_only(object, section))
            object_hide_section(object, i);
    }
    return true;
}

/* A small file unpacks to gigabytes, and any number of units may name it: all share one limit. */
static bool unpack_within_limit(struct debug_info *info, struct debug_file *file)
{
    if (!file->split)
        return true;
    if (file->unpacked > SECTIONS_UNPACKED_MAX - info->split_unpacked) {
        file->unpacked = 0;
        return false;
    }
    info->split_unpacked += file->unpacked;
    return true;
}

/* libdw takes each text of a section to end in it. */
static bool strings_end(const struct debug_info *info, const struct debug_file *file)
{
    static const char *const names[] = {".debug_str", ".debug_line_str", ".debug_str.dwo"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const struct debug_bytes bytes = debug_section(info, file, names[i]);
        if (bytes.len && bytes.at[bytes.len - 1] != '\0')
            return false;
    }
    return true;
}

bool debug_file_open(struct debug_info *info, struct debug_file *file, struct object *object)
{
    uint64_t size = 0;

    file->object = object;
    if (!sections_prepare(file, &size)) {
        file->unpacked = 0;
        return false;
    }
    if (!unpack_within_limit(info, file))
        return false;
    file->elf = info->lib.elf_memory((char *)object->bytes, object->size);
    info->budget += 2 * size;
    if (file->elf)
        file->dwarf = info->lib.dwarf_begin_elf(file->elf, DWARF_C_READ, NULL);
    return file->dwarf && strings_end(info, file);
}

struct debug_bytes debug_section(const struct debug_info *info, const struct debug_file *file,
                                 const char *name)
{
    const Elf64_Shdr *section = object_section_named(file->object, name);
    Elf_Scn *scn = section
                       ? info->lib.elf_getscn(file->elf, (size_t)(section - file->object->sections))
                       : NULL;
    Elf_Data *data = scn ? info->lib.elf_getdata(scn, NULL) : NULL;

    return data && data->d_buf ? (struct debug_bytes){data->d_buf, data->d_size}
                               : (struct debug_bytes){NULL, 0};
}

void debug_file_close(struct debug_info *info, struct debug_file *file)
{
    info->lib.dwarf_end(file->dwarf);
    info->lib.elf_end(file->elf);
    if (file->split)
        info->split_unpacked -= file->unpacked;
}

static bool read_info(struct debug_file *file, Dwarf_Off start, Dwarf_Off end)
{
    return !file->offset || object_bytes(file->object, file->offset + start, end - start);
}

static bool add_unit(struct debug_info *info, struct debug_file *file,
                     const struct debug_unit *made)
{
    struct debug_unit *unit;

    if (info->unit_count >= UNITS_MAX)
        return false;
    if (!LIST_GROW(info->units, info->unit_capacity, info->unit_count))
        return false;
    unit = &info->units[info->unit_count];
    *unit = *made;
    if (!info->lib.dwarf_offdie(file->dwarf, unit->first, &unit->die))
        return true;
    file->info = (unsigned char *)unit->die.addr - unit->first;
    unit->ready = true;
    unit->ranged = debug_ranges(info, &unit->die, 0, (uint32_t)info->unit_count, &info->index);
    info->unit_count++;
    return true;
}

/* Returns the end of a unit's head, of which only the start is known. */
static Dwarf_Off head_end(const struct debug_file *file, Dwarf_Off start)
{
    return file->size - start < UNIT_HEAD ? file->size : start + UNIT_HEAD;
}

void debug_file_units(struct debug_info *info, struct debug_file *file)
{
    struct debug_unit unit = {.supplement = file == &info->supplement};
    size_t header;

    file->size = debug_section(info, file, info_name).len;
    /* libdw reads a unit as far as its header says, also beyond the section. */
    while (unit.start < file->size && read_info(file, unit.start, head_end(file, unit.start)) &&
           info->lib.dwarf_nextcu(file->dwarf, unit.start, &unit.end, &header, NULL, NULL, NULL) ==
               0 &&
           unit.end > unit.start && unit.end <= file->size) {
        unit.first = unit.start + header;
        /* libdw would read the DIE of a unit that ends after its header. */
        if (unit.first < unit.end && !add_unit(info, file, &unit))
            break;
        unit.start = unit.end;
        objects_trim();
    }
    info->reads_left += 3 * unit.start;
}

/* Returns the file that contains a unit. */
static struct debug_file *debug_unit_file(struct debug_info *info, const struct debug_unit *unit)
{
    if (unit->split)
        return &unit->split->file;
    return unit->supplement ? &info->supplement : &info->own;
}

bool debug_unit_load(struct debug_info *info, struct debug_unit *unit)
{
    uint64_t size = unit->end - unit->start;

    if (unit->loaded)
        return true;
    if (!read_info(debug_unit_file(info, unit), unit->start, unit->end))
        return false;
    unit->loaded = true;
    info->held += size;
    info->reads_left -= size < info->reads_left ? size : info->reads_left;
    return true;
}

bool debug_unit_ready(struct debug_info *info, struct debug_unit *unit)
{
    struct debug_file *file = debug_unit_file(info, unit);

    if (!debug_unit_load(info, unit))
        return false;
    if (!unit->ready && file->dwarf)
        unit->ready = info->lib.dwarf_offdie(file->dwarf, unit->first, &unit->die) != NULL;
    return unit->ready;
}

/*
 * libdw can only free everything that it has allocated. Before it finds a unit it reads the heads
 * of all units before that one: of a thousand at once, lest a file with very many is in memory as
 * a whole.
 */
static void file_renew(struct debug_info *info, struct debug_file *file, size_t first, size_t end)
{
    Dwarf_Die unused;

    if (!file->dwarf)
        return;
    info->lib.dwarf_end(file->dwarf);
    file->dwarf = info->lib.dwarf_begin_elf(file->elf, DWARF_C_READ, NULL);
    for (size_t i = first + HEADS_AT_ONCE; file->dwarf && i < end; i += HEADS_AT_ONCE) {
        (void)info->lib.dwarf_offdie(file->dwarf, info->units[i].first, &unused);
        objects_trim();
    }
}

/*
 * Addresses arrive in order, as most units are, so that hardly any unit is
 * needed again. If the units are in another order, reads_left ends the repeated
 * reading.
 */
void debug_trim_units(struct debug_info *info)
{
    if (info->held <= DEBUG_HELD_MAX || !info->reads_left)
        return;
    debug_splits_free(info);
    for (size_t i = 0; i < info->unit_count; i++) {
        info->units[i].ready = false;
        if (info->units[i].loaded) {
            struct debug_unit *unit = &info->units[i];
            debug_unit_free(unit);
            info->items_left += unit->items;
            unit->items = 0;
            unit->loaded = unit->walked = unit->lined = false;
        }
    }
    file_renew(info, &info->own, 0, info->own_count);
    file_renew(info, &info->supplement, info->own_count, info->unit_count);
    if (info->own.dwarf && info->supplement.dwarf)
        info->lib.dwarf_setalt(info->own.dwarf, info->supplement.dwarf);
    info->held = 0;
}
