#include "profile/symbols/dwp_index.h"

#include <string.h>

/* PROBES_MAX: a third of the slots is free (DWARF 5, section 7.3.5.3), so that a few are enough. */
enum { HEADER = 16, COLUMNS_MAX = 16, PROBES_MAX = 4096 };

struct dwp_index {
    const unsigned char *ids, *rows, *columns, *offsets, *sizes;
    uint32_t version, column_count, unit_count, slot_count;
};

static uint32_t index_word(const unsigned char *at, uint64_t index)
{
    uint32_t value;

    memcpy(&value, at + 4 * index, sizeof value);
    return value;
}

/* Version 5 has a version of two bytes, and two bytes of zeros. */
static bool open_index(struct dwp_index *index, const unsigned char *bytes, size_t len)
{
    uint64_t need;

    if (len < HEADER)
        return false;
    index->version = index_word(bytes, 0);
    index->column_count = index_word(bytes, 1);
    index->unit_count = index_word(bytes, 2);
    index->slot_count = index_word(bytes, 3);
    if ((index->version != 2 && index->version != 5) || index->column_count > COLUMNS_MAX ||
        index->slot_count == 0 || (index->slot_count & (index->slot_count - 1)))
        return false;
    need = HEADER + 12ull * index->slot_count +
           4ull * index->column_count * (1 + 2ull * index->unit_count);
    index->ids = bytes + HEADER;
    index->rows = index->ids + 8ull * index->slot_count;
    index->columns = index->rows + 4ull * index->slot_count;
    index->offsets = index->columns + 4ull * index->column_count;
    index->sizes = index->offsets + 4ull * index->column_count * index->unit_count;
    return need <= len;
}

/* Returns the row of a unit, from 1 on; 0: there is none. */
static uint32_t row_of(const struct dwp_index *index, uint64_t id)
{
    uint32_t mask = index->slot_count - 1, at = (uint32_t)id & mask,
             step = ((uint32_t)(id >> 32) & mask) | 1;

    for (uint32_t i = 0; i < index->slot_count && i < PROBES_MAX; i++, at = (at + step) & mask) {
        uint64_t found;
        memcpy(&found, index->ids + 8ull * at, sizeof found);
        uint32_t row = index_word(index->rows, at);
        if (row == 0)
            return 0;
        if (found == id)
            return row <= index->unit_count ? row : 0;
    }
    return 0;
}

/* Returns what a column is about; DWP_PARTS: not needed. */
static enum dwp_part dwp_part_of(const struct dwp_index *index, uint32_t column)
{
    static const enum dwp_part parts[] = {
        [1] = DWP_INFO, [3] = DWP_ABBREV, [4] = DWP_LINE, [6] = DWP_STR_OFFSETS};

    if (column == 8 && index->version == 5) /* that of macros in version 2 */
        return DWP_RNGLISTS;
    if (column != 1 && column != 3 && column != 4 && column != 6)
        return DWP_PARTS;
    return parts[column];
}

bool dwp_find(const void *bytes, size_t len, uint64_t id, struct dwp_unit *out)
{
    struct dwp_index index;
    uint32_t row;

    memset(out, 0, sizeof *out);
    if (!open_index(&index, bytes, len) || !(row = row_of(&index, id)))
        return false;
    for (uint32_t i = 0; i < index.column_count; i++) {
        enum dwp_part part = dwp_part_of(&index, index_word(index.columns, i));
        uint64_t at = (uint64_t)(row - 1) * index.column_count + i;
        if (part == DWP_PARTS)
            continue;
        out->has[part] = true;
        out->offset[part] = index_word(index.offsets, at);
        out->size[part] = index_word(index.sizes, at);
    }
    return out->has[DWP_INFO] && out->has[DWP_ABBREV];
}
