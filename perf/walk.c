#include "perf/walk.h"
#include "perf/expression.h"
#include "perf/rows.h"

#include <stdlib.h>

enum {
    EXPRESSION_MAX = 1024,
    NEAR = 64 << 10,      /* bytes: a call leads to this code if it leads so close before it */
    STACK_MAX = 64 << 20, /* bytes; larger stacks are rare */
    CONTEXTS = 4095,      /* the highest values in a chain are marks (PERF_CONTEXT_MAX) */
};

/* A thread in one of its calls: the registers that are known there. */
struct frame {
    uint64_t regs[MACHINE_REGS]; /* by DWARF number */
    uint64_t known;              /* bit i: regs[i] */
    bool exact; /* pc is where the thread was interrupted; otherwise after a call */
};

enum step { STEP_DONE, STEP_OUTERMOST, STEP_CUT, STEP_LOST };

struct walker {
    struct memory *memory;
    const struct modules *modules;
    struct rows *rows;
    const struct user_state *state;
    struct frame frame;
    remote_addr stack_start, stack_end; /* of the copy */
    bool cut;                           /* a word behind the copy was needed */
    size_t guesses;
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

static bool frame_get(const struct frame *frame, unsigned reg, uint64_t *value)
{
    if (reg >= MACHINE_REGS || !(frame->known >> reg & 1))
        return false;
    *value = frame->regs[reg];
    return true;
}

static void frame_set(struct frame *frame, unsigned reg, uint64_t value)
{
    frame->regs[reg] = value;
    frame->known |= (uint64_t)1 << reg;
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

/* Reads a word of the copy, or one that cannot have changed since. */
static bool read_stack_word(void *ctx, remote_addr addr, uint64_t *value)
{
    struct walker *walker = ctx;

    if (is_copied(walker, addr)) {
        memcpy(value, walker->state->stack + (addr - walker->stack_start), sizeof *value);
        return true;
    }
    if (is_further_out(walker, addr))
        walker->cut = true;
    return memory_is_unchanging(walker->memory, addr) &&
           memory_read_cached(walker->memory, addr, value, sizeof *value);
}

static bool read_register(void *ctx, unsigned reg, uint64_t *value)
{
    const struct walker *walker = ctx;

    return frame_get(&walker->frame, reg, value);
}

static bool evaluate(struct walker *walker, const struct cfi_rule *rule, const uint64_t *cfa,
                     uint64_t *value)
{
    const struct expression_source source = {read_stack_word, read_register, walker};
    unsigned char bytes[EXPRESSION_MAX];

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
        return read_stack_word(walker, *cfa + (uint64_t)rule->value, value);
    case CFI_IS:
        *value = *cfa + (uint64_t)rule->value;
        return true;
    case CFI_REGISTER:
        if (!frame_get(&walker->frame, rule->from, value))
            return false;
        *value += (uint64_t)rule->value;
        return true;
    case CFI_AT_EXPRESSION:
        return evaluate(walker, rule, cfa, &at) && read_stack_word(walker, at, value);
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

/*
 * Goes to the caller. The stack grows downwards, so a caller's stack pointer is higher;
 * it is the same only if the interrupted function has used no stack. A signal handler
 * may have its own stack.
 */
static enum step step_by_link(struct walker *walker, struct frame *next, unsigned link, bool signal)
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
    return step_by_link(walker, &next, row->link, row->signal);
}

/* True if addr is a return address: code, behind a call. *target: as in machine_is_call. */
static bool is_return(struct walker *walker, remote_addr addr, remote_addr *target)
{
    unsigned char bytes[8];
    bool code;

    addr &= machine.address_mask;
    if (addr < sizeof bytes)
        return false;
    rows_at(walker->rows, addr - 1, &code);
    return code &&
           memory_read_cached(walker->memory, addr - machine.call_size, bytes, machine.call_size) &&
           machine_is_call(bytes, addr, target);
}

/* A frame without call frame information, and its candidates for the return address. */
struct guess {
    uint64_t pc, sp, fp;
    uint64_t top;     /* word at sp, or the link register: of a function without a frame */
    uint64_t below;   /* word above the saved frame pointer */
    uint64_t next_fp; /* the saved frame pointer */
    bool has_top, has_frame;
    remote_addr top_target, below_target; /* where their calls lead to; 0: unknown */
};

static bool is_frame(struct walker *walker, struct guess *guess)
{
    return guess->fp >= guess->sp && read_stack_word(walker, guess->fp, &guess->next_fp) &&
           read_stack_word(walker, guess->fp + 8, &guess->below) &&
           is_return(walker, guess->below, &guess->below_target);
}

static bool guess_find(struct walker *walker, struct guess *guess)
{
    const struct frame *frame = &walker->frame;

    if (!frame_get(frame, machine.pc, &guess->pc) || !frame_get(frame, machine.fp, &guess->fp))
        return false;
    if (!frame_get(frame, machine.sp, &guess->sp))
        guess->sp = walker->stack_start;
    if (frame->exact)
        guess->has_top =
            (machine.link == MACHINE_REGS ? read_stack_word(walker, guess->sp, &guess->top)
                                          : frame_get(frame, machine.link, &guess->top)) &&
            is_return(walker, guess->top, &guess->top_target);
    guess->has_frame = is_frame(walker, guess);
    return true;
}

/* Takes the return address at the stack pointer, of a function that has not changed it. */
static enum step leave_by_top(struct walker *walker, const struct guess *guess)
{
    struct frame next = walker->frame;

    frame_set(&next, machine.sp, guess->sp + (machine.link == MACHINE_REGS ? 8 : 0));
    frame_set(&next, machine.pc, guess->top);
    return step_by_link(walker, &next, machine.pc, false);
}

static enum step leave_by_frame(struct walker *walker, const struct guess *guess)
{
    struct frame next = {.known = 0};

    frame_set(&next, machine.fp, guess->next_fp);
    if (machine.fp_gives_sp)
        frame_set(&next, machine.sp, guess->fp + 16);
    frame_set(&next, machine.pc, guess->below);
    return step_by_link(walker, &next, machine.pc, false);
}

/*
 * Which of the two: the one whose call leads to this function, that is, to the closest
 * address below pc; else the frame, as a word at the stack pointer may be left from an
 * earlier call.
 */
static bool is_top_better(const struct guess *guess)
{
    if (!guess->has_top || !guess->has_frame)
        return guess->has_top;
    return guess->top_target <= guess->pc && guess->pc - guess->top_target < NEAR &&
           (guess->below_target > guess->pc || guess->below_target < guess->top_target);
}

static enum step leave_by_guess(struct walker *walker)
{
    struct guess guess = {.has_top = false};

    if (!guess_find(walker, &guess))
        return STEP_LOST;
    if (is_top_better(&guess))
        return leave_by_top(walker, &guess);
    if (guess.has_frame)
        return leave_by_frame(walker, &guess);
    if (!guess.fp && !walker->frame.exact)
        return STEP_OUTERMOST;
    return walker->cut ? STEP_CUT : STEP_LOST;
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
        if (offset != SIZE_MAX && read_stack_word(walker, sp + offset, &value))
            frame_set(&next, i, value);
    }
    return step_by_link(walker, &next, machine.pc, true);
}

static bool is_handler_end(struct walker *walker, remote_addr pc)
{
    unsigned char code[16];

    return !walker->frame.exact && memory_read_cached(walker->memory, pc, code, sizeof code) &&
           machine_is_signal_return(code);
}

static enum step next_call(struct walker *walker)
{
    uint64_t pc = walker->frame.regs[machine.pc];
    const struct cfi_row *row;
    enum step step;
    bool code;

    walker->cut = false;
    row = rows_at(walker->rows, walker->frame.exact ? pc : pc - 1, &code);
    if (row)
        return leave_by_cfi(walker, row);
    if (is_handler_end(walker, pc))
        return leave_handler(walker);
    step = leave_by_guess(walker);
    walker->guesses += step == STEP_DONE;
    return step;
}

static bool begin(struct walker *walker, const struct user_state *state)
{
    struct frame *frame = &walker->frame;

    *frame = (struct frame){.exact = true};
    walker->state = state;
    walker->guesses = 0;
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
    const uint64_t *chain = walker->state->chain;
    size_t len = walker->state->chain_len, at = len;
    remote_addr target;

    for (size_t i = len; i-- > 0 && at == len;)
        if (chain[i] == calls[*count - 1])
            at = i;
    for (size_t i = at; i + 1 < len && *count < WALK_DEPTH_MAX; i++) {
        if (chain[i + 1] > UINT64_MAX - CONTEXTS || !is_return(walker, chain[i + 1], &target))
            return;
        calls[(*count)++] = chain[i + 1];
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
