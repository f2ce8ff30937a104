#include "perf/rows.h"
#include "elf/eh_frames.h"

#include <stdlib.h>
#include <string.h>

/*
 * A program in steady state shows some thousand different return addresses. Slots that
 * are not in use are not touched, so that they take no memory.
 */
#ifndef ROWS_BITS /* the fuzz targets set another one */
#define ROWS_BITS 13
#endif

struct slot {
    remote_addr pc; /* 0: empty */
    bool found, code;
    struct cfi_row row;
};

/* The table of a module, or one made of its call frame information. */
struct source {
    bool looked;
    enum unwind_table_state state;
    struct unwind_table table;
    struct eh_frames own;
};

struct rows {
    const struct target *target;
    struct memory *memory;
    const struct modules *modules;
    struct source *sources; /* one for each module */
    struct cfi_reader reader;
    struct slot slots[1 << ROWS_BITS];
};

struct rows *rows_new(const struct target *target, struct memory *memory,
                      const struct modules *modules)
{
    struct rows *rows = calloc(1, sizeof *rows);

    if (!rows)
        return NULL;
    rows->target = target;
    rows->memory = rows->reader.memory = memory;
    rows->modules = modules;
    rows->sources = calloc(modules->count + 1, sizeof *rows->sources);
    if (rows->sources)
        return rows;
    free(rows);
    return NULL;
}

void rows_free(struct rows *rows)
{
    if (!rows)
        return;
    for (size_t i = 0; i < rows->modules->count; i++)
        eh_frames_free(&rows->sources[i].own);
    free(rows->sources);
    free(rows);
}

/* A static program may lack the table (elf/eh_frames.h). */
static void make_table(struct rows *rows, const struct module *module, struct source *source)
{
    struct view view;

    if (!view_open(&view, module, rows->target, rows->memory))
        return;
    eh_frames_load(&source->own, &view);
    view_close(&view);
}

static struct source *source_of(struct rows *rows, const struct module *module)
{
    struct source *source = &rows->sources[module - rows->modules->list];

    if (source->looked)
        return source;
    source->looked = true;
    source->state = unwind_table_find(&source->table, rows->memory, module);
    if (source->state == UNWIND_TABLE_NONE)
        make_table(rows, module, source);
    return source;
}

/* Returns the address of the FDE that may describe pc; 0: none. */
static remote_addr find_fde(struct rows *rows, remote_addr pc)
{
    const struct module *module = modules_at(rows->modules, pc);
    const struct source *source;
    size_t i;

    if (!module)
        return 0;
    source = source_of(rows, module);
    if (source->state == UNWIND_TABLE_FOUND)
        return unwind_table_search(&source->table, rows->memory, pc);
    i = eh_frames_at(&source->own, pc);
    return i == SIZE_MAX ? 0 : source->own.base + source->own.list[i].record;
}

static bool is_in_function(const struct rows *rows, remote_addr pc)
{
    const struct vma *vma = modules_vma_at(rows->modules, pc);

    return vma && vma->prot & MAP_EXEC;
}

static void slot_fill(struct rows *rows, struct slot *slot, remote_addr pc)
{
    remote_addr record;

    slot->pc = pc;
    slot->found = false;
    slot->code = is_in_function(rows, pc);
    record = slot->code ? find_fde(rows, pc) : 0;
    slot->found = record && cfi_row_at(&rows->reader, record, pc, &slot->row);
}

const struct cfi_row *rows_at(struct rows *rows, remote_addr pc, bool *code)
{
    struct slot *slot = &rows->slots[(pc * 0x9e3779b97f4a7c15) >> (64 - ROWS_BITS)];

    if (slot->pc != pc || !pc)
        slot_fill(rows, slot, pc);
    *code = slot->code;
    return slot->found ? &slot->row : NULL;
}
