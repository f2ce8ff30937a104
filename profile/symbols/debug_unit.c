#include "profile/symbols/debug_unit.h"
#include "base/list.h"

#include <dwarf.h>
#include <stdlib.h>

enum { WALK_DEPTH_MAX = 256 };

struct walk {
    struct debug_info *info;
    struct debug_unit *unit;
    bool abandoned; /* too deep: finding the way out would take a search at each level */
};

/* The position of a DIE in the tree. */
struct position {
    uint32_t scope, container; /* SPANS_NONE: none */
    uint32_t depth;            /* number of scopes around it */
    uint32_t level;            /* number of DIEs around it */
    bool dropped;              /* in a function that the linker dropped */
};

/* A small file can describe very many items; all that are kept are counted. */
static bool item_left(struct debug_info *info)
{
    if (!info->items_left)
        return false;
    info->items_left--;
    return true;
}

bool debug_add_range(struct debug_info *info, struct span span, struct spans *spans)
{
    return item_left(info) && spans_add(spans, span);
}

static bool add_ranges(const struct walk *walk, Dwarf_Die *die, uint32_t depth, uint32_t value)
{
    struct debug_unit *unit = walk->unit;
    const struct span span = {.depth = depth, .value = value};

    return unit->split ? debug_split_ranges(walk->info, unit->split, die, span, &unit->spans)
                       : debug_ranges(walk->info, die, depth, value, &unit->spans);
}

bool debug_ranges(struct debug_info *info, Dwarf_Die *die, uint32_t depth, uint32_t value,
                  struct spans *spans)
{
    Dwarf_Addr base = 0, start, end;
    ptrdiff_t at = 0;
    bool any = false;

    while (info->budget && (at = info->lib.dwarf_ranges(die, at, &base, &start, &end)) > 0) {
        info->budget--;
        if (start == 0 || start >= end)
            continue;
        if (!debug_add_range(info, (struct span){start, end, depth, value}, spans))
            return any;
        any = true;
    }
    return any;
}

static bool is_container(int tag)
{
    switch (tag) {
    case DW_TAG_namespace:
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
    case DW_TAG_interface_type:
    case DW_TAG_enumeration_type:
    case DW_TAG_module:
        return true;
    default:
        return false;
    }
}

static bool enter_container(struct walk *walk, const Dwarf_Die *die, struct position *position)
{
    struct debug_unit *unit = walk->unit;

    if (!LIST_GROW(unit->containers, unit->container_capacity, unit->container_count))
        return false;
    if (!item_left(walk->info))
        return false;
    unit->containers[unit->container_count] =
        (struct debug_container){die->addr, position->container};
    position->container = (uint32_t)unit->container_count++;
    return true;
}

static bool note_place(struct walk *walk, const Dwarf_Die *die, uint32_t container)
{
    struct debug_unit *unit = walk->unit;
    const struct debug_place *last =
        unit->place_count ? &unit->places[unit->place_count - 1] : NULL;

    if (last ? last->container == container : container == SPANS_NONE)
        return true;
    if (!LIST_GROW(unit->places, unit->place_capacity, unit->place_count))
        return false;
    if (!item_left(walk->info))
        return false;
    unit->places[unit->place_count++] = (struct debug_place){die->addr, container};
    return true;
}

/* A function starts a chain of calls, an inlined call continues it. */
static bool enter_scope(struct walk *walk, Dwarf_Die *die, bool function, struct position *position)
{
    struct debug_unit *unit = walk->unit;
    uint32_t scope = (uint32_t)unit->scope_count;

    if (!LIST_GROW(unit->scopes, unit->scope_capacity, unit->scope_count))
        return false;
    if (!item_left(walk->info))
        return false;
    if (function)
        position->scope = SPANS_NONE;
    if (position->dropped || !add_ranges(walk, die, position->depth, scope)) {
        position->dropped = position->dropped || function;
        return true;
    }
    unit->scopes[unit->scope_count++] = (struct debug_scope){die->addr, position->scope};
    position->scope = scope;
    position->depth++;
    return true;
}

static bool enter_function(struct walk *walk, Dwarf_Die *die, struct position *position)
{
    position->dropped = false;
    return note_place(walk, die, position->container) && enter_scope(walk, die, true, position);
}

/* Applies a DIE to the position of its children. False: its children are of no interest. */
static bool enter_die(struct walk *walk, Dwarf_Die *die, struct position *position)
{
    int tag = walk->info->lib.dwarf_tag(die);
    bool function = tag == DW_TAG_subprogram;

    position->level++;
    if (function && !enter_function(walk, die, position))
        return false;
    if (function || is_container(tag))
        return walk->info->lib.dwarf_haschildren(die) > 0 && enter_container(walk, die, position);
    if (tag == DW_TAG_inlined_subroutine)
        return enter_scope(walk, die, false, position);
    switch (tag) {
    case DW_TAG_lexical_block:
    case DW_TAG_try_block:
    case DW_TAG_catch_block:
    case DW_TAG_with_stmt:
    case DW_TAG_common_block:
        return true;
    default:
        return false;
    }
}

static unsigned char *unit_end(const struct walk *walk)
{
    const struct debug_unit *unit = walk->unit;

    return (unsigned char *)unit->die.addr + (unit->end - unit->first);
}

/*
 * After a walk of its children the terminator of their list is known, and the
 * next DIE of the same parent follows it: this saves the search for it if there
 * is no DW_AT_sibling (clang). False: it was the last one; its address is then
 * that of the terminator, or NULL.
 */
static bool next_after(const struct walk *walk, Dwarf_Die *die, unsigned char *terminator)
{
    Dwarf_Die next = {.addr = terminator + 1, .cu = die->cu};

    if (terminator + 1 >= unit_end(walk))
        next.addr = NULL;
    *die = next;
    return next.addr && terminator[1];
}

/* Does the same by searching; libdw also remembers where its search has ended. */
static bool next_search(const struct walk *walk, Dwarf_Die *die)
{
    Dwarf_Die next = {0};
    int rc = walk->info->lib.dwarf_siblingof(die, &next);
    bool forward = (unsigned char *)next.addr > (unsigned char *)die->addr;

    if (rc < 0 || !forward)
        next.addr = NULL;
    *die = next;
    return rc == 0 && forward;
}

static void walk_children(struct walk *walk, Dwarf_Die *parent, struct position around,
                          void **terminator)
{
    struct debug_info *info = walk->info;
    Dwarf_Die die;

    *terminator = NULL;
    walk->abandoned = walk->abandoned || around.level > WALK_DEPTH_MAX;
    if (walk->abandoned || info->lib.dwarf_child(parent, &die) != 0)
        return;
    for (;;) {
        struct position position = around;
        void *inner = NULL;
        if (!info->budget)
            return;
        info->budget--;
        if (enter_die(walk, &die, &position))
            walk_children(walk, &die, position, &inner);
        if (walk->abandoned)
            return;
        if (!(inner ? next_after(walk, &die, inner) : next_search(walk, &die)))
            break;
    }
    *terminator = die.addr;
}

bool debug_unit_walk(struct debug_info *info, struct debug_unit *unit)
{
    struct walk walk = {info, unit, false};
    struct position top = {SPANS_NONE, SPANS_NONE, 0, 0, false};
    uint64_t items = info->items_left;
    void *terminator;

    if (!debug_unit_ready(info, unit))
        return false;
    if (unit->walked)
        return true;
    unit->walked = true;
    walk_children(&walk, &unit->die, top, &terminator);
    unit->items = items - info->items_left;
    if (!spans_finish(&unit->spans))
        spans_free(&unit->spans);
    return true;
}

void debug_unit_free(struct debug_unit *unit)
{
    free(unit->scopes);
    free(unit->containers);
    free(unit->places);
    spans_free(&unit->spans);
    unit->scopes = NULL;
    unit->containers = NULL;
    unit->places = NULL;
    unit->scope_count = unit->scope_capacity = 0;
    unit->container_count = unit->container_capacity = 0;
    unit->place_count = unit->place_capacity = 0;
}
