#include "perf/walk.h"
#include "elf/eh_frames.h"
#include "perf/expression.h"
#include "perf/walker.h"

#include <stdlib.h>
#include <string.h>

enum {
    EXPRESSION_MAX = 1024,
    STACK_MAX = 64 << 20, /* bytes; larger stacks are rare */
    CHAIN_MAX = 1024,     /* addresses; the kernel stops at 127 (kernel.perf_event_max_stack) */
    CONTEXTS = 4095,      /* the highest values in a chain are marks (PERF_CONTEXT_MAX) */
};

/* ---- the call frame information ---- */

/*
 * A program in steady state shows some thousand different return addresses. Slots that
 * are not in use are not touched, so that they take no memory.
 */
#ifndef ROWS_BITS /* the fuzz targets set another one */
#define ROWS_BITS 13
#endif

struct slot {
    remote_addr pc; /* 0: empty */
    bool found;
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
    struct source *sources; /* one for each module */
    struct cfi_reader reader;
    struct slot slots[1 << ROWS_BITS];
};

static struct source *source_of(struct walker *walker, const struct module *module)
{
    struct source *source = &walker->rows->sources[module - walker->modules->list];
    struct view view;

    if (source->looked)
        return source;
    source->looked = true;
    source->state = unwind_table_find(&source->table, walker->memory, module);
    /* A static program may lack the table (elf/eh_frames.h). */
    if (source->state == UNWIND_TABLE_NONE &&
        view_open(&view, module, walker->target, walker->memory)) {
        eh_frames_load(&source->own, &view);
        view_close(&view);
    }
    return source;
}

/* Returns the address of the FDE that may describe pc; 0: none. */
static remote_addr find_fde(struct walker *walker, remote_addr pc)
{
    const struct vma *vma = modules_vma_at(walker->modules, pc);
    const struct module *module = modules_at(walker->modules, pc);
    const struct source *source;
    size_t i;

    if (!vma || !(vma->prot & MAP_EXEC) || !module)
        return 0;
    source = source_of(walker, module);
    if (source->state == UNWIND_TABLE_FOUND)
        return unwind_table_search(&source->table, walker->memory, pc);
    i = eh_frames_at(&source->own, pc);
    return i == SIZE_MAX ? 0 : source->own.base + source->own.list[i].record;
}

/* Returns the row for pc, valid until the next call; NULL: there is none. */
static const struct cfi_row *row_at(struct walker *walker, remote_addr pc)
{
    struct rows *rows = walker->rows;
    struct slot *slot = &rows->slots[(pc * 0x9e3779b97f4a7c15) >> (64 - ROWS_BITS)];

    if (slot->pc != pc || !pc) {
        remote_addr record = find_fde(walker, pc);
        slot->pc = pc;
        slot->found = record && cfi_row_at(&rows->reader, record, pc, &slot->row);
    }
    return slot->found ? &slot->row : NULL;
}

/* ---- a walk ---- */

struct walker *walker_new(const struct target *target, struct memory *memory,
                          const struct modules *modules)
{
    struct walker *walker = calloc(1, sizeof *walker);

    if (!walker)
        return NULL;
    walker->target = target;
    walker->memory = memory;
    walker->modules = modules;
    walker->rows = calloc(1, sizeof *walker->rows);
    if (walker->rows) {
        walker->rows->reader.memory = memory;
        walker->rows->sources = calloc(modules->count + 1, sizeof *walker->rows->sources);
        if (walker->rows->sources)
            return walker;
    }
    free(walker->rows);
    free(walker);
    return NULL;
}

void walker_free(struct walker *walker)
{
    if (!walker)
        return;
    for (size_t i = 0; i < walker->modules->count; i++)
        eh_frames_free(&walker->rows->sources[i].own);
    free(walker->rows->sources);
    free(walker->rows);
    free(walker);
}

size_t walker_guesses(const struct walker *walker)
{
    return walker->guesses;
}

static bool is_copied(const struct walker *walker, remote_addr addr)
{
    return addr >= walker->stack_start && addr < walker->stack_end &&
           walker->stack_end - addr >= sizeof(uint64_t);
}

bool walker_word(void *ctx, remote_addr addr, uint64_t *value)
{
    struct walker *walker = ctx;

    if (is_copied(walker, addr)) {
        memcpy(value, walker->state->stack + (addr - walker->stack_start), sizeof *value);
        return true;
    }
    /* Behind the copy, and perhaps on the same stack. */
    if (addr + sizeof(uint64_t) > walker->stack_end && addr - walker->stack_start < STACK_MAX)
        walker->cut = true;
    if (!walker->reads_left || !memory_is_unchanging(walker->memory, addr))
        return false;
    walker->reads_left--;
    return memory_read_cached(walker->memory, addr, value, sizeof *value);
}

static bool read_register(void *ctx, unsigned reg, uint64_t *value)
{
    const struct walker *walker = ctx;

    return frame_get(&walker->frame, reg, value);
}

static bool evaluate(struct walker *walker, const struct cfi_rule *rule, const uint64_t *cfa,
                     uint64_t *value)
{
    const struct expression_source source = {walker_word, read_register, walker};
    unsigned char bytes[EXPRESSION_MAX];

    if (!walker->expressions_left)
        return false;
    walker->expressions_left--;
    return rule->len <= sizeof bytes &&
           memory_read_cached(walker->memory, (remote_addr)rule->value, bytes, rule->len) &&
           expression_value((struct dwarf_bytes){bytes, bytes + rule->len, false}, cfa, &source,
                            value);
}

/* Finds the value that a rule describes. False: it is not known. */
static bool rule_value(struct walker *walker, const struct cfi_rule *rule, const uint64_t *cfa,
                       uint64_t *value)
{
    uint64_t at;

    switch (rule->how) {
    case CFI_AT:
        return walker_word(walker, *cfa + (uint64_t)rule->value, value);
    case CFI_IS:
        *value = *cfa + (uint64_t)rule->value;
        return true;
    case CFI_REGISTER:
        if (!frame_get(&walker->frame, rule->from, value))
            return false;
        *value += (uint64_t)rule->value;
        return true;
    case CFI_AT_EXPRESSION:
        return evaluate(walker, rule, cfa, &at) && walker_word(walker, at, value);
    case CFI_IS_EXPRESSION:
        return evaluate(walker, rule, cfa, value);
    default:
        return false;
    }
}

enum step walker_leave(struct walker *walker, struct frame *next, unsigned link, bool signal)
{
    struct frame *frame = &walker->frame;
    uint64_t pc, sp, old_sp;

    if (!frame_get(next, link, &pc))
        return walker->cut ? STEP_CUT : STEP_LOST;
    pc &= machine.address_mask;
    if (!pc)
        return STEP_OUTERMOST;
    if (!signal && frame_get(next, machine.sp, &sp) && frame_get(frame, machine.sp, &old_sp) &&
        (sp < old_sp || (sp == old_sp && !frame->exact)))
        return STEP_LOST;
    frame_set(next, machine.pc, pc);
    next->exact = signal;
    *frame = *next;
    return STEP_DONE;
}

static enum step leave_by_cfi(struct walker *walker, const struct cfi_row *row)
{
    struct frame next = walker->frame;
    uint64_t cfa;

    for (unsigned i = 0; i < row->count; i++)
        if (row->rules[i].reg == row->link && row->rules[i].how == CFI_UNDEFINED)
            return STEP_OUTERMOST;
    if (row->cfa.how == CFI_UNDEFINED || !rule_value(walker, &row->cfa, NULL, &cfa))
        return walker->cut ? STEP_CUT : STEP_LOST;
    frame_set(&next, machine.sp, cfa);
    for (unsigned i = 0; i < row->count; i++) {
        const struct cfi_rule *rule = &row->rules[i];
        uint64_t value;
        next.known &= ~((uint64_t)1 << rule->reg);
        if (rule_value(walker, rule, &cfa, &value))
            frame_set(&next, rule->reg, value);
    }
    return walker_leave(walker, &next, row->link, row->signal);
}

/* Leaves the end of a signal handler in a C library that does not describe it. */
static enum step leave_handler(struct walker *walker)
{
    struct frame next = {.known = 0};
    uint64_t sp, value;

    if (!frame_get(&walker->frame, machine.sp, &sp))
        return STEP_LOST;
    for (unsigned i = 0; i < MACHINE_REGS; i++) {
        size_t offset = machine_signal_offset(i);
        if (offset != SIZE_MAX && walker_word(walker, sp + offset, &value))
            frame_set(&next, i, value);
    }
    return walker_leave(walker, &next, machine.pc, true);
}

static enum step next_call(struct walker *walker)
{
    uint64_t pc = walker->frame.regs[machine.pc], sp;
    const struct return_slot *back;
    const struct cfi_row *row;
    enum step step;

    /* A signal handler's caller may be on another stack. */
    walker->cut = frame_get(&walker->frame, machine.sp, &sp) && !is_copied(walker, sp);
    row = row_at(walker, walker->frame.exact ? pc : pc - 1);
    if (row)
        return leave_by_cfi(walker, row);
    back = walker->frame.exact ? NULL : walker_return(walker, pc);
    if (back && back->handler_end)
        return leave_handler(walker);
    step = walker_guess(walker);
    walker->guesses += step == STEP_DONE;
    return step;
}

static bool begin(struct walker *walker, const struct user_state *state)
{
    struct frame *frame = &walker->frame;

    *frame = (struct frame){.exact = true};
    walker->state = state;
    walker->guesses = 0;
    walker->words_left = WORDS_OF_WALK;
    walker->reads_left = READS_OF_WALK;
    walker->expressions_left = EXPRESSIONS_OF_WALK;
    if (++walker->walks % WALKS_KEPT == 0)
        memset(walker->returns, 0, sizeof walker->returns);
    for (unsigned i = 0; i < MACHINE_REGS; i++) {
        int reg = machine_perf_register(i);
        if (reg >= 0 && reg < USER_REGS_MAX && state->mask >> reg & 1)
            frame_set(frame, i, state->regs[reg]);
    }
    if (!frame_get(frame, machine.sp, &walker->stack_start))
        walker->stack_start = 0;
    walker->stack_end = walker->stack_start + state->stack_len;
    if (!walker->stack_start || walker->stack_end < walker->stack_start)
        walker->stack_end = walker->stack_start;
    return frame->known >> machine.pc & 1;
}

/*
 * Appends what the kernel has found by frame pointers beyond the last call: it sees the
 * whole stack, and other stacks that the frame pointers lead to.
 */
static void append_chain(struct walker *walker, remote_addr *calls, size_t *count)
{
    const struct user_state *state = walker->state;
    size_t best = 0, at = state->chain_len;

    /* Finds the last call in it, by those before it, too: a recursion repeats its addresses. */
    for (size_t i = 0; i < state->chain_len && i < CHAIN_MAX; i++) {
        size_t agreed = 0;
        while (agreed <= i && agreed < *count &&
               state->chain[i - agreed] == calls[*count - 1 - agreed])
            agreed++;
        if (agreed > best) {
            best = agreed;
            at = i;
        }
    }
    for (size_t i = at; i + 1 < state->chain_len && *count < WALK_DEPTH_MAX; i++) {
        remote_addr next = state->chain[i + 1];
        if (next > UINT64_MAX - CONTEXTS || !walker_return(walker, next))
            return;
        calls[(*count)++] = next;
        walker->guesses++;
    }
}

enum walk_end walker_walk(struct walker *walker, const struct user_state *state,
                          remote_addr calls[WALK_DEPTH_MAX], size_t *count)
{
    enum step step = STEP_DONE;

    *count = 0;
    if (!begin(walker, state))
        return WALK_LOST;
    while (step == STEP_DONE && *count < WALK_DEPTH_MAX) {
        calls[(*count)++] = walker->frame.regs[machine.pc];
        step = next_call(walker);
    }
    if (step == STEP_OUTERMOST)
        return WALK_COMPLETE;
    append_chain(walker, calls, count);
    return step == STEP_LOST ? WALK_LOST : WALK_CUT;
}

remote_addr walk_stack_pointer(const struct user_state *state)
{
    int number = machine_perf_register(machine.sp);

    return number >= 0 && state->mask >> number & 1 ? state->regs[number] : 0;
}
