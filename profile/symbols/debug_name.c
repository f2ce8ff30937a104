#include "base/list.h"
#include "base/search.h"
#include "profile/symbols/debug_unit.h"
#include "profile/symbols/demangle.h"

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ORIGINS_MAX = 16, CONTAINERS_MAX = 64, QUALIFIED_MAX = 4 << 10 };

/* Without the supplement libdw would look for one itself, in the tool's own root. */
static bool form_readable(const struct debug_info *info, Dwarf_Attribute *attribute)
{
    switch (info->lib.dwarf_whatform(attribute)) {
    case DW_FORM_GNU_ref_alt:
    case DW_FORM_GNU_strp_alt:
    case DW_FORM_ref_sup4:
    case DW_FORM_ref_sup8:
    case DW_FORM_strp_sup:
        return info->supplement.dwarf != NULL;
    case DW_FORM_ref_sig8: /* only for types */
        return false;
    default:
        return true;
    }
}

static bool attribute_of(const struct debug_info *info, Dwarf_Die *die, unsigned name,
                         Dwarf_Attribute *out)
{
    return info->lib.dwarf_attr(die, name, out) && form_readable(info, out);
}

static const unsigned char *info_of(const struct debug_info *info, const struct debug_unit *unit)
{
    return unit->split        ? unit->split->file.info
           : unit->supplement ? info->supplement.info
                              : info->own.info;
}

/*
 * libdw assumes that a string in .debug_info ends; it must end within the
 * mapped part of the section.
 */
static bool string_ends(struct debug_info *info, Dwarf_Attribute *attribute, const char *text)
{
    const struct debug_unit *unit;
    const unsigned char *at = attribute->valp;

    if (info->lib.dwarf_whatform(attribute) != DW_FORM_string)
        return true;
    unit = debug_unit_of(info, at);
    if (!unit)
        return strnlen(text, SYMBOL_NAME_MAX) < SYMBOL_NAME_MAX;
    return memchr(text, 0, unit->end - (Dwarf_Off)(at - info_of(info, unit))) != NULL;
}

const char *debug_string(struct debug_info *info, Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    const char *text;

    if (!attribute_of(info, die, name, &attribute))
        return NULL;
    text = info->lib.dwarf_formstring(&attribute);
    if (!text || !string_ends(info, &attribute, text) || !*text)
        return NULL;
    return strnlen(text, SYMBOL_NAME_MAX) < SYMBOL_NAME_MAX ? text : NULL;
}

/* The text for as long as the symbols live, NULL included. */
static const char *debug_keep(struct debug_info *info, const char *text)
{
    /* Nothing of a split file stays. */
    return text && (info->split_count || debug_unit_of(info, text))
               ? arena_string(info->arena, text, strlen(text))
               : text;
}

unsigned debug_number(struct debug_info *info, Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    Dwarf_Word value;

    if (!attribute_of(info, die, name, &attribute) ||
        info->lib.dwarf_formudata(&attribute, &value) != 0 || value > UINT32_MAX)
        return 0;
    return (unsigned)value;
}

static bool debug_reference(struct debug_info *info, Dwarf_Die *die, unsigned name, Dwarf_Die *out)
{
    Dwarf_Attribute attribute;
    struct debug_unit *unit;

    if (!attribute_of(info, die, name, &attribute) || !info->lib.dwarf_formref_die(&attribute, out))
        return false;
    unit = debug_unit_of(info, out->addr);
    return !unit || debug_unit_load(info, unit);
}

/* Returns the container of the functions that start at a DIE's address, or SPANS_NONE. */
static uint32_t container_of(const struct debug_unit *unit, const Dwarf_Die *die)
{
    size_t low = SEARCH_FIRST(i, unit->place_count,
                              (unsigned char *)unit->places[i].die > (unsigned char *)die->addr);
    return low ? unit->places[low - 1].container : SPANS_NONE;
}

/* Puts text and "::" before the text in buf that starts at *at. False: no space left. */
static bool prepend_scope(char *buf, size_t *at, const char *text)
{
    size_t len = strlen(text);

    if (*at < len + 2)
        return false;
    memcpy(buf + *at - 2, "::", 2);
    *at -= len + 2;
    memcpy(buf + *at, text, len);
    return true;
}

/*
 * Returns the name of the container of `inner`; for one without a name, the
 * demangler's text: a class without a name that can be called is a lambda.
 * *whole: the name includes those of the containers around it.
 */
static const char *container_name(struct debug_info *info, Dwarf_Die *die, const char *inner,
                                  bool *whole)
{
    struct symbol_line function = {0};
    int tag = info->lib.dwarf_tag(die);
    const char *name;

    *whole = tag == DW_TAG_subprogram;
    if (*whole) {
        debug_name(info, die, &function);
        name = function.function;
    } else {
        name = debug_string(info, die, DW_AT_name);
    }
    if (name)
        return name;
    if (tag == DW_TAG_namespace)
        return "(anonymous namespace)";
    return strcmp(inner, "operator()") == 0 ? "{lambda}" : "{unnamed}";
}

/*
 * A static function has no linkage name: builds one from its name and those of
 * its classes and namespaces.
 */
static const char *qualified_name(struct debug_info *info, const Dwarf_Die *die, const char *name)
{
    char buf[QUALIFIED_MAX];
    size_t len = strlen(name), at = sizeof buf - len;
    struct debug_unit *unit = debug_unit_of(info, die->addr);
    uint32_t container;

    if (!unit || len >= sizeof buf || !debug_unit_walk(info, unit))
        return name;
    container = container_of(unit, die);
    if (container == SPANS_NONE)
        return name;
    memcpy(buf + at, name, len);
    for (unsigned i = 0; i < CONTAINERS_MAX && container != SPANS_NONE; i++) {
        Dwarf_Die outer = {.addr = unit->containers[container].die, .cu = unit->die.cu};
        bool whole;
        const char *scope = container_name(info, &outer, i ? "" : name, &whole);
        if (!prepend_scope(buf, &at, scope) || whole)
            break;
        container = unit->containers[container].parent;
    }
    return arena_string(info->arena, buf + at, sizeof buf - at);
}

struct naming {
    const char *linkage, *name;
    Dwarf_Die named; /* the DIE with the name */
    unsigned line;
};

/* Collects the attributes of a function from its code, its origin and its declaration. */
static void collect_names(struct debug_info *info, Dwarf_Die die, struct naming *naming)
{
    for (unsigned i = 0; i < ORIGINS_MAX; i++) {
        Dwarf_Die next;
        if (!naming->linkage)
            naming->linkage = debug_string(info, &die, DW_AT_linkage_name);
        if (!naming->linkage)
            naming->linkage = debug_string(info, &die, DW_AT_MIPS_linkage_name);
        if (!naming->name && (naming->name = debug_string(info, &die, DW_AT_name)))
            naming->named = die;
        if (!naming->line)
            naming->line = debug_number(info, &die, DW_AT_decl_line);
        if (!debug_reference(info, &die, DW_AT_abstract_origin, &next) &&
            !debug_reference(info, &die, DW_AT_specification, &next))
            return;
        die = next;
    }
}

static bool same_debug_function(const void *ctx, uint32_t place, const void *key)
{
    const struct debug_info *info = ctx;
    return info->functions[place].die == *(void *const *)key;
}

void debug_name(struct debug_info *info, Dwarf_Die *die, struct symbol_line *line)
{
    uint32_t fresh = (uint32_t)info->function_count, place;
    Dwarf_Die origin;

    if (!LIST_GROW(info->functions, info->function_capacity, info->function_count))
        return;
    if (info->function_count >= TABLE_NONE)
        return;
    if (!debug_reference(info, die, DW_AT_abstract_origin, &origin))
        origin = *die;
    place = table_put(&info->function_table,
                      table_hash_number(&info->function_table, (uintptr_t)origin.addr),
                      same_debug_function, info, &origin.addr, fresh);
    if (place == TABLE_NONE)
        return;
    if (place == fresh) {
        struct symbol_line found = {0};
        info->functions[fresh] = (struct debug_function){.die = origin.addr};
        info->function_count++;
        struct naming naming = {0};
        collect_names(info, origin, &naming);
        found.start_line = naming.line;
        found.linkage = debug_keep(info, naming.linkage ? naming.linkage : naming.name);
        if (found.linkage && naming.linkage)
            found.function = demangle(info->arena, found.linkage);
        else if (found.linkage) /* may need the name of a function around it */
            found.function = qualified_name(info, &naming.named, found.linkage);
        info->functions[fresh].line = found;
    }
    *line = info->functions[place].line;
}

static bool same_path(const void *ctx, uint32_t place, const void *key)
{
    const struct debug_info *info = ctx;
    return strcmp(info->paths[place], key) == 0;
}

/* libdw's strings are freed with the unit; the paths are few, so one copy of each is kept. */
static const char *path_keep(struct debug_info *info, const char *path)
{
    uint32_t fresh = (uint32_t)info->path_count, place;
    size_t len = strlen(path);

    if (!LIST_GROW(info->paths, info->path_capacity, info->path_count))
        return NULL;
    if (info->path_count >= TABLE_NONE)
        return NULL;
    info->paths[fresh] = path;
    place = table_put(&info->path_table, table_hash_bytes(&info->path_table, path, len), same_path,
                      info, path, fresh);
    if (place == TABLE_NONE)
        return NULL;
    if (place == fresh && (info->paths[fresh] = arena_string(info->arena, path, len)))
        info->path_count++;
    return info->paths[place];
}

const char *debug_path(struct debug_info *info, struct debug_unit *unit, const char *path)
{
    char whole[QUALIFIED_MAX];
    const char *dir;
    int len;

    if (!path || *path == '/')
        return path ? path_keep(info, path) : NULL;
    dir = debug_string(info, &unit->die, DW_AT_comp_dir);
    len = dir ? snprintf(whole, sizeof whole, "%s/%s", dir, path) : -1;
    return path_keep(info, len > 0 && (size_t)len < sizeof whole ? whole : path);
}
