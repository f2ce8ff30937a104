/* The units of split DWARF: their files, and the ranges of their functions. */
#include "base/list.h"
#include "profile/symbols/debug_unit.h"

#include <dwarf.h>
#include <errno.h>
#include <string.h>

enum { SPLIT_ATTEMPTS = 16 };

/* What a skeleton says of its split unit. */
struct skeleton {
    unsigned version;
    uint64_t id, base, address_base, range_base;
    const char *dir, *name;
};

static bool number_of(const struct debug_info *info, Dwarf_Die *die, unsigned name, uint64_t *value)
{
    Dwarf_Attribute attribute;
    Dwarf_Word word;

    if (!info->lib.dwarf_attr(die, name, &attribute) ||
        info->lib.dwarf_formudata(&attribute, &word) != 0)
        return false;
    *value = word;
    return true;
}

/*
 * The header of a unit: length (4 bytes), version (2); in version 5 then its type
 * (1), the size of an address (1), an offset (4) and, of split units and their
 * skeletons, the id (8).
 */
static bool read_unit_head(const unsigned char *at, uint64_t len, unsigned type,
                           struct skeleton *out)
{
    uint16_t version;
    uint32_t length;

    if (len < 20)
        return false;
    memcpy(&length, at, sizeof length);
    memcpy(&version, at + 4, sizeof version);
    memcpy(&out->id, at + 12, sizeof out->id);
    out->version = version;
    if (length == UINT32_MAX) /* offsets of 8 bytes: no compiler splits such units */
        return false;
    return version == 4 || (version == 5 && at[6] == type);
}

static bool read_skeleton(struct debug_info *info, struct debug_unit *unit, struct skeleton *out)
{
    Dwarf_Die *die = &unit->die;
    Dwarf_Attribute low;
    bool good;

    memset(out, 0, sizeof *out);
    if (unit->supplement || unit->split || !info->files || !debug_unit_ready(info, unit) ||
        !read_unit_head(info->own.info + unit->start, unit->end - unit->start, DW_UT_skeleton, out))
        return false;
    out->dir = debug_string(info, die, DW_AT_comp_dir);
    out->name = debug_string(info, die, out->version < 5 ? DW_AT_GNU_dwo_name : DW_AT_dwo_name);
    good = out->version == 5 || number_of(info, die, DW_AT_GNU_dwo_id, &out->id);
    (void)number_of(info, die, out->version < 5 ? DW_AT_GNU_addr_base : DW_AT_addr_base,
                    &out->address_base);
    (void)number_of(info, die, DW_AT_GNU_ranges_base, &out->range_base);
    if (info->lib.dwarf_attr(die, DW_AT_low_pc, &low) &&
        info->lib.dwarf_formaddr(&low, &out->base) != 0)
        out->base = 0;
    return good && out->name;
}

static struct debug_bytes bytes_from(struct debug_bytes bytes, uint64_t offset)
{
    if (offset >= bytes.len)
        return (struct debug_bytes){NULL, 0};
    return (struct debug_bytes){bytes.at + offset, bytes.len - offset};
}

/* Finds the unit with the id; in DWARF 5 those of types may be before it. */
static bool find_split_unit(struct debug_info *info, struct debug_split *split,
                            const struct skeleton *skeleton)
{
    struct debug_bytes bytes = debug_section(info, &split->file, ".debug_info.dwo");
    struct debug_unit *unit = &split->unit;
    size_t header;

    split->file.info = bytes.at;
    split->file.size = bytes.len;
    while (unit->start < bytes.len &&
           info->lib.dwarf_nextcu(split->file.dwarf, unit->start, &unit->end, &header, NULL, NULL,
                                  NULL) == 0 &&
           unit->end > unit->start && unit->end <= bytes.len) {
        struct skeleton head = {0};
        unit->first = unit->start + header;
        if (unit->first < unit->end &&
            read_unit_head(bytes.at + unit->start, unit->end - unit->start, DW_UT_split_compile,
                           &head) &&
            head.version == skeleton->version &&
            info->lib.dwarf_offdie(split->file.dwarf, unit->first, &unit->die) &&
            (head.version == 5 || number_of(info, &unit->die, DW_AT_GNU_dwo_id, &head.id)) &&
            head.id == skeleton->id)
            return true;
        unit->start = unit->end;
    }
    return false;
}

/* Bytes that were read or unpacked for a split unit. */
static uint64_t split_cost(const struct debug_split *split)
{
    return split->file.unpacked + split->object->size;
}

static void pay_split(struct debug_info *info, const struct debug_split *split)
{
    uint64_t cost = split_cost(split);

    info->split_left -= cost < info->split_left ? cost : info->split_left;
}

static void free_split(struct debug_info *info, struct debug_split *split)
{
    debug_unit_free(&split->unit);
    debug_file_close(info, &split->file);
    object_free(split->object);
    free(split);
}

/* Takes ownership of the object. NULL: it does not have the unit. */
static struct debug_split *open_split(struct debug_info *info, struct object *object,
                                      const struct skeleton *skeleton)
{
    struct debug_split *split = calloc(1, sizeof *split);
    bool ranges_in_split = skeleton->version >= 5;

    if (!split) {
        object_free(object);
        return NULL;
    }
    *split = (struct debug_split){.object = object,
                                  .file = {.split = true},
                                  .base = skeleton->base,
                                  .version = skeleton->version};
    split->unit = (struct debug_unit){.split = split, .loaded = true, .ready = true};
    if (!debug_file_open(info, &split->file, object) || !find_split_unit(info, split, skeleton)) {
        pay_split(info, split); /* any number of skeletons may name a large file in vain */
        free_split(info, split);
        return NULL;
    }
    pay_split(info, split);
    split->addresses =
        bytes_from(debug_section(info, &info->own, ".debug_addr"), skeleton->address_base);
    split->ranges = ranges_in_split ? debug_section(info, &split->file, ".debug_rnglists.dwo")
                                    : bytes_from(debug_section(info, &info->own, ".debug_ranges"),
                                                 skeleton->range_base);
    return split;
}

/* ---- the files ---- */

static struct debug_split *split_of_file(struct debug_info *info, const struct skeleton *skeleton)
{
    struct debug_split *split = NULL;
    bool more = true;

    for (unsigned i = 0; more && !split && info->split_left && i < SPLIT_ATTEMPTS; i++) {
        const struct debug_files *files = info->files;
        int fd = files->open(files->ctx, skeleton->dir, skeleton->name, i);
        more = fd != -EDOM;
        struct object *object = fd < 0 ? NULL : object_open(fd);
        if (object)
            split = open_split(info, object, skeleton);
    }
    return split;
}

static bool keep_split(struct debug_info *info, struct debug_unit *unit, struct debug_split *split)
{
    if (!LIST_GROW(info->splits, info->split_capacity, info->split_count))
        return false;
    info->splits[info->split_count++] = split;
    info->held += split_cost(split);
    split->skeleton = unit;
    unit->body = split;
    return true;
}

static void seek_body(struct debug_info *info, struct debug_unit *unit)
{
    struct debug_split *split;
    struct skeleton skeleton;

    unit->body_sought = true;
    if (unit->missed || !read_skeleton(info, unit, &skeleton))
        return;
    split = split_of_file(info, &skeleton);
    if (split && !keep_split(info, unit, split)) {
        free_split(info, split);
        split = NULL;
    }
    if (split || unit->missed)
        return;
    unit->missed = true;
    info->missing.count++;
    if (!info->missing.path)
        info->missing.path = arena_string(info->arena, skeleton.name, strlen(skeleton.name));
}

struct debug_unit *debug_unit_body(struct debug_info *info, struct debug_unit *unit)
{
    if (!unit->body_sought)
        seek_body(info, unit);
    if (!unit->body || !debug_unit_walk(info, &unit->body->unit))
        return unit;
    return &unit->body->unit;
}

void debug_splits_free(struct debug_info *info)
{
    for (size_t i = 0; i < info->split_count; i++) {
        struct debug_split *split = info->splits[i];
        split->skeleton->body = NULL;
        split->skeleton->body_sought = false;
        info->items_left += split->unit.items;
        free_split(info, split);
    }
    if (info->split_count) { /* the next files may be at the same addresses */
        table_free(&info->function_table);
        table_init(&info->function_table);
        info->function_count = 0;
    }
    info->split_count = 0;
}

/* ---- ranges ---- */

struct reading {
    struct debug_info *info;
    const struct debug_split *split;
    struct debug_bytes rest;
    struct span span;
    struct spans *spans;
    uint64_t base;
    bool any;
};

static bool take_split_word(struct debug_bytes *rest, unsigned size, uint64_t *value)
{
    *value = 0;
    if (rest->len < size)
        return false;
    memcpy(value, rest->at, size);
    *rest = (struct debug_bytes){rest->at + size, rest->len - size};
    return true;
}

static bool take_leb(struct debug_bytes *rest, uint64_t *value)
{
    uint64_t byte;

    *value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (!take_split_word(rest, 1, &byte))
            return false;
        *value |= (byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

static bool address_at(const struct debug_split *split, uint64_t index, uint64_t *address)
{
    struct debug_bytes rest = index < split->addresses.len / 8
                                  ? bytes_from(split->addresses, 8 * index)
                                  : (struct debug_bytes){NULL, 0};
    return take_split_word(&rest, 8, address);
}

static bool take_indexed(struct reading *reading, uint64_t *address)
{
    uint64_t index;

    return take_leb(&reading->rest, &index) && address_at(reading->split, index, address);
}

static bool emit_range(struct reading *reading, uint64_t start, uint64_t end)
{
    struct span span = reading->span;

    span.start = start;
    span.end = end;
    if (start == 0 || start >= end)
        return true;
    if (!debug_add_range(reading->info, span, reading->spans))
        return false;
    reading->any = true;
    return true;
}

/* An entry of .debug_rnglists (DWARF 5, section 7.25). False: it was the last one. */
static bool take_entry_5(struct reading *reading)
{
    struct debug_bytes *rest = &reading->rest;
    uint64_t kind, a = 0, b = 0;

    if (!take_split_word(rest, 1, &kind))
        return false;
    switch (kind) {
    case DW_RLE_base_addressx:
        return take_indexed(reading, &reading->base);
    case DW_RLE_startx_endx:
        return take_indexed(reading, &a) && take_indexed(reading, &b) && emit_range(reading, a, b);
    case DW_RLE_startx_length:
        return take_indexed(reading, &a) && take_leb(rest, &b) && emit_range(reading, a, a + b);
    case DW_RLE_offset_pair:
        return take_leb(rest, &a) && take_leb(rest, &b) &&
               emit_range(reading, reading->base + a, reading->base + b);
    case DW_RLE_base_address:
        return take_split_word(rest, 8, &reading->base);
    case DW_RLE_start_end:
        return take_split_word(rest, 8, &a) && take_split_word(rest, 8, &b) &&
               emit_range(reading, a, b);
    case DW_RLE_start_length:
        return take_split_word(rest, 8, &a) && take_leb(rest, &b) && emit_range(reading, a, a + b);
    default:
        return false;
    }
}

/* An entry of .debug_ranges (DWARF 4, section 2.17.3). */
static bool take_entry_4(struct reading *reading)
{
    uint64_t a, b;

    if (!take_split_word(&reading->rest, 8, &a) || !take_split_word(&reading->rest, 8, &b) ||
        (!a && !b))
        return false;
    if (a == UINT64_MAX) {
        reading->base = b;
        return true;
    }
    return emit_range(reading, reading->base + a, reading->base + b);
}

/* What is left of the unit from an attribute's value on. */
static struct debug_bytes value_of(const struct debug_split *split,
                                   const Dwarf_Attribute *attribute)
{
    const unsigned char *end = split->file.info + split->unit.end;

    if (attribute->valp < split->file.info || attribute->valp >= end)
        return (struct debug_bytes){NULL, 0};
    return (struct debug_bytes){attribute->valp, (uint64_t)(end - attribute->valp)};
}

/* Finds the list that DW_AT_ranges refers to. */
static struct debug_bytes list_of(const struct debug_info *info, const struct debug_split *split,
                                  Dwarf_Attribute *attribute)
{
    enum { RNGLISTS_HEADER = 12 };
    struct debug_bytes value = value_of(split, attribute), rest;
    uint64_t offset;

    if (info->lib.dwarf_whatform(attribute) != DW_FORM_rnglistx)
        return take_split_word(&value, 4, &offset) ? bytes_from(split->ranges, offset)
                                                   : (struct debug_bytes){NULL, 0};
    rest = take_leb(&value, &offset) && offset < split->ranges.len
               ? bytes_from(split->ranges, RNGLISTS_HEADER + 4 * offset)
               : (struct debug_bytes){NULL, 0};
    return take_split_word(&rest, 4, &offset) ? bytes_from(split->ranges, RNGLISTS_HEADER + offset)
                                              : (struct debug_bytes){NULL, 0};
}

/* The value of an attribute that is an address. False: it is not one. */
static bool attribute_address(const struct debug_info *info, const struct debug_split *split,
                              Dwarf_Attribute *attribute, uint64_t *address)
{
    struct debug_bytes value = value_of(split, attribute);
    unsigned size = 0;
    uint64_t index;

    switch (info->lib.dwarf_whatform(attribute)) {
    case DW_FORM_addr:
        return take_split_word(&value, 8, address);
    case DW_FORM_addrx:
    case DW_FORM_GNU_addr_index:
        return take_leb(&value, &index) && address_at(split, index, address);
    case DW_FORM_addrx1:
        size = 1;
        break;
    case DW_FORM_addrx2:
        size = 2;
        break;
    case DW_FORM_addrx4:
        size = 4;
        break;
    default:
        return false;
    }
    return take_split_word(&value, size, &index) && address_at(split, index, address);
}

static void add_low_to_high(struct reading *reading, Dwarf_Die *die)
{
    const struct debug_info *info = reading->info;
    Dwarf_Attribute attribute;
    uint64_t low, high;

    if (!info->lib.dwarf_attr(die, DW_AT_low_pc, &attribute) ||
        !attribute_address(info, reading->split, &attribute, &low) ||
        !info->lib.dwarf_attr(die, DW_AT_high_pc, &attribute))
        return;
    if (!attribute_address(info, reading->split, &attribute, &high)) {
        if (!number_of(info, die, DW_AT_high_pc, &high))
            return;
        high += low;
    }
    (void)emit_range(reading, low, high);
}

bool debug_split_ranges(struct debug_info *info, const struct debug_split *split, Dwarf_Die *die,
                        struct span span, struct spans *spans)
{
    struct reading reading = {
        .info = info, .split = split, .span = span, .spans = spans, .base = split->base};
    Dwarf_Attribute attribute;

    if (!info->lib.dwarf_attr(die, DW_AT_ranges, &attribute)) {
        add_low_to_high(&reading, die);
        return reading.any;
    }
    reading.rest = list_of(info, split, &attribute);
    while (info->budget && (split->version < 5 ? take_entry_4(&reading) : take_entry_5(&reading)))
        info->budget--;
    return reading.any;
}
