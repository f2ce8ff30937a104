#include "perf/walk.h"
#include "perf/expression.h"
#include "perf/walker.h"

#include <stdlib.h>

enum {
    EXPRESSION_MAX = 1024,
    STACK_MAX = 64 << 20, /* bytes; larger stacks are rare */
    CHAIN_MAX = 1024,     /* addresses; the kernel stops at 127 (kernel.perf_event_max_stack) */
    CONTEXTS = 4095,      /* the highest values in a chain are marks (PERF_CONTEXT_MAX) */
};

struct walker *walker_new(const struct target *target, struct memory *memory,
                          const struct modules *modules)
{
    struct walker *walker = calloc(1, sizeof *walker);

    if (!walker)
        return NULL;
    walker->memory = memory;
    walker->modules = modules;
    walker->rows = rows_new(target, memory, modules);
    if (walker->rows)
        return walker;
    free(walker);
    return NULL;
}

void walker_free(struct walker *walker)
{
    if (!walker)
        return;
    rows_free(walker->rows);
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

/* True if addr is behind the copy, and may be on the same stack. */
static bool is_further_out(const struct walker *walker, remote_addr addr)
{
    return addr + sizeof(uint64_t) > walker->stack_end && addr - walker->stack_start < STACK_MAX;
}

bool walker_word(void *ctx, remote_addr addr, uint64_t *value)
{
    struct walker *walker = ctx;

    if (is_copied(walker, addr)) {
        memcpy(value, walker->state->stack + (addr - walker->stack_start), sizeof *value);
        return true;
    }
    if (is_further_out(walker, addr))
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

static bool find_cfa(struct walker *walker, const struct cfi_row *row, uint64_t *cfa)
{
    return row->cfa.how != CFI_UNDEFINED && rule_value(walker, &row->cfa, NULL, cfa);
}

static const struct cfi_rule *link_rule(const struct cfi_row *row)
{
    for (unsigned i = 0; i < row->count; i++)
        if (row->rules[i].reg == row->link)
            return &row->rules[i];
    return NULL;
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
    const struct cfi_rule *link = link_rule(row);
    struct frame next = walker->frame;
    uint64_t cfa;

    if (link && link->how == CFI_UNDEFINED)
        return STEP_OUTERMOST;
    if (!find_cfa(walker, row, &cfa))
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
    bool code;

    /* A signal handler's caller may be on another stack. */
    walker->cut = frame_get(&walker->frame, machine.sp, &sp) && !is_copied(walker, sp);
    row = rows_at(walker->rows, walker->frame.exact ? pc : pc - 1, &code);
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

/* Returns how many calls, back from the last one, are those of the chain back from `at`. */
static size_t count_agreed(const struct user_state *state, size_t at, const remote_addr *calls,
                           size_t count)
{
    size_t n = 0;

    while (n <= at && n < count && state->chain[at - n] == calls[count - 1 - n])
        n++;
    return n;
}

/* Finds the last call in the chain, by those before it, too: a recursion repeats its addresses. */
static size_t find_in_chain(const struct user_state *state, const remote_addr *calls, size_t count)
{
    size_t best = 0, at = state->chain_len;

    for (size_t i = 0; i < state->chain_len && i < CHAIN_MAX; i++) {
        size_t n = count_agreed(state, i, calls, count);
        if (n > best) {
            best = n;
            at = i;
        }
    }
    return at;
}

/*
 * Appends what the kernel has found by frame pointers beyond the last call: it sees the
 * whole stack, and other stacks that the frame pointers lead to.
 */
static void append_chain(struct walker *walker, remote_addr *calls, size_t *count)
{
    const struct user_state *state = walker->state;
    size_t at = find_in_chain(state, calls, *count);

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
