/*
 * The index of a DWARF package: which parts of its sections belong to a unit
 * (.debug_cu_index; DWARF 5 section 7.3.5.3, and version 2 of GNU).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dwp_part {
    DWP_INFO,
    DWP_ABBREV,
    DWP_LINE,
    DWP_STR_OFFSETS,
    DWP_RNGLISTS,
    DWP_PARTS,
};

struct dwp_unit {
    bool has[DWP_PARTS];
    uint32_t offset[DWP_PARTS], size[DWP_PARTS]; /* bytes in the section of that part */
};

/* Finds the unit with an id. False: the index does not have it, or is malformed. */
bool dwp_find(const void *bytes, size_t len, uint64_t id, struct dwp_unit *out);
