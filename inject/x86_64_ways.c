/* x86-64: the ways out of a function (System V ABI, AMD64 supplement, 3.2). */
#include "inject/ways.h"
#include "inject/x86_64_insn.h"

#include <stdlib.h>
#include <string.h>

enum {
    SEEN_MAX = 1 << 15, /* places with their stack pointers, a hash table */
    SEEN_USED = SEEN_MAX * 3 / 4,
    BRANCHES_MAX = 2048,
    WINDOW = 4096, /* bytes of code that are read at once */
    REGISTERS = 16,
    STACK_SPAN = 64 << 20, /* bytes of a function's frame */
    DEEPER = 64 << 10,     /* bytes by which a function extends its frame after it was entered */
    NEAR_STORE = 64 << 10, /* bytes above the stack pointer: farther, an address is none of it */
    THUNK_MAX = 64,        /* bytes from the call in a retpoline to its target */
};

/* Registers that a called function does not preserve: ax cx dx si di r8-r11. */
enum { CALLER_SAVED = 0x0fc7 };

/* Numbers of registers in DWARF, by their number in instructions. */
static const unsigned char dwarf[REGISTERS] = {0, 2, 1,  3,  7,  6,  4,  5,
                                               8, 9, 10, 11, 12, 13, 14, 15};

/* Where a way is. Words of the stack below `floor` have been, or may have been, overwritten. */
struct state {
    remote_addr pc, floor;
    uint64_t values[REGISTERS];
    uint16_t known;
};

struct seen {
    remote_addr pc;
    uint64_t sp, bp;
    unsigned run; /* of another run: empty */
};

struct ways {
    struct seen seen[SEEN_MAX];
    struct state branches[BRANCHES_MAX]; /* to be followed */
    size_t seen_count, branch_count;
    unsigned run;
    remote_addr window_start, first_sp;
    size_t window_len;
    unsigned char window[WINDOW];
    const struct way_reader *reader;
    remote_addr seek;
    struct ways_found *found;
};

struct ways *ways_new(void)
{
    return calloc(1, sizeof(struct ways));
}

void ways_free(struct ways *ways)
{
    free(ways);
}

/* --- registers --- */

static unsigned long long *register_of(arch_regs *regs, unsigned reg)
{
    unsigned long long *const list[REGISTERS] = {&regs->rax, &regs->rcx, &regs->rdx, &regs->rbx,
                                                 &regs->rsp, &regs->rbp, &regs->rsi, &regs->rdi,
                                                 &regs->r8,  &regs->r9,  &regs->r10, &regs->r11,
                                                 &regs->r12, &regs->r13, &regs->r14, &regs->r15};
    return list[reg];
}

static bool knows(const struct state *state, unsigned reg)
{
    return reg < REGISTERS && state->known >> reg & 1;
}

static void set_register(struct state *state, unsigned reg, bool known, uint64_t value)
{
    if (reg >= REGISTERS)
        return;
    state->values[reg] = known ? value : 0;
    state->known = (uint16_t)((state->known & ~(1u << reg)) | (unsigned)known << reg);
}

static void forget_registers(struct state *state, uint16_t bits)
{
    for (unsigned i = 0; i < REGISTERS; i++)
        if (bits >> i & 1)
            set_register(state, i, false, 0);
}

/* --- the places that were seen --- */

/* True if this place was not seen with the same registers. */
static bool is_new(struct ways *ways, const struct state *state)
{
    struct seen place = {state->pc, state->values[REG_SP], state->values[REG_BP], ways->run};
    uint64_t hash = (place.pc ^ place.sp << 7 ^ place.bp << 17) * 0x9e3779b97f4a7c15;
    size_t i = hash >> 49; /* SEEN_MAX */

    for (; ways->seen[i].run == ways->run; i = (i + 1) % SEEN_MAX)
        if (ways->seen[i].pc == place.pc && ways->seen[i].sp == place.sp &&
            ways->seen[i].bp == place.bp)
            return false;
    if (ways->seen_count++ >= SEEN_USED || !*ways->reader->left) {
        ways->found->too_many = true;
        return false;
    }
    --*ways->reader->left;
    ways->seen[i] = place;
    return true;
}

static void add_branch(struct ways *ways, const struct state *state, remote_addr pc)
{
    if (ways->branch_count == BRANCHES_MAX) {
        ways->found->too_many = true;
        return;
    }
    ways->branches[ways->branch_count] = *state;
    ways->branches[ways->branch_count++].pc = pc;
}

/* --- instructions --- */

static const unsigned char *code_at(struct ways *ways, remote_addr addr, size_t *len)
{
    uint64_t offset = addr - ways->window_start;

    if (offset >= ways->window_len || ways->window_len - offset < INSN_MAX) {
        ways->window_start = addr;
        offset = 0;
        if (!ways->reader->code(ways->reader->ctx, addr, ways->window, WINDOW, &ways->window_len))
            ways->window_len = 0;
    }
    *len = ways->window_len - offset;
    return ways->window + offset;
}

/* A stack pointer far above where the way began is none of this function's. */
static void set_stack_pointer(struct ways *ways, struct state *state, bool known, uint64_t value)
{
    known = known && value - ways->first_sp + STACK_SPAN < 2ull * STACK_SPAN;
    set_register(state, REG_SP, known, value);
}

/* No function loads the stack pointer from memory; code that changes stacks does. */
static void assign_loaded(struct state *state, unsigned reg, bool known, uint64_t value)
{
    set_register(state, reg, known && reg != REG_SP, value);
}

static void assign(struct ways *ways, struct state *state, unsigned reg, bool known, uint64_t value)
{
    if (reg == REG_SP)
        set_stack_pointer(ways, state, known, value);
    else
        set_register(state, reg, known, value);
}

/* What a way has stored is not in the memory that is read; neither is it below. */
static void store_word(struct state *state, const struct insn *insn)
{
    remote_addr at = state->values[insn->store_base] + (uint64_t)insn->store_at;

    bool frame = insn->store_base == REG_SP || insn->store_base == REG_BP;

    if (insn->stores && knows(state, insn->store_base) &&
        at - state->floor < (frame ? STACK_SPAN : NEAR_STORE))
        state->floor = at + 8;
}

static bool load_slot(struct ways *ways, const struct state *state, remote_addr addr,
                      uint64_t *value)
{
    *value = 0;
    return addr >= state->floor && addr - ways->first_sp < STACK_SPAN &&
           ways->reader->word(ways->reader->ctx, addr, value);
}

static void pop_word(struct ways *ways, struct state *state, unsigned reg)
{
    uint64_t value = 0;
    bool known = knows(state, REG_SP) && load_slot(ways, state, state->values[REG_SP], &value);

    state->values[REG_SP] += knows(state, REG_SP) ? 8 : 0;
    assign_loaded(state, reg, known, value);
}

/* Executes what does not jump. */
static void execute(struct ways *ways, struct state *state, const struct insn *insn)
{
    uint64_t value = (uint64_t)insn->value, *sp = &state->values[REG_SP], loaded;
    bool known =
        knows(state, insn->kind == INSN_ADD || insn->kind == INSN_AND ? insn->reg : insn->base);

    store_word(state, insn);
    forget_registers(state, insn->writes);
    switch (insn->kind) {
    case INSN_PUSH:
        if (!knows(state, REG_SP))
            break;
        if (*sp > state->floor)
            state->floor = *sp;
        *sp -= 8;
        break;
    case INSN_POP:
        pop_word(ways, state, insn->reg);
        break;
    case INSN_LEAVE:
        set_stack_pointer(ways, state, knows(state, REG_BP), state->values[REG_BP]);
        pop_word(ways, state, REG_BP);
        break;
    case INSN_ADD:
        assign(ways, state, insn->reg, known, state->values[insn->reg] + value);
        break;
    case INSN_AND:
        assign(ways, state, insn->reg, known, state->values[insn->reg] & value);
        break;
    case INSN_MOVE:
    case INSN_ADDRESS:
        assign(ways, state, insn->reg, known, state->values[insn->base] + value);
        break;
    case INSN_LOAD:
        known = knows(state, insn->base) &&
                load_slot(ways, state, state->values[insn->base] + value, &loaded);
        assign_loaded(state, insn->reg, known, known ? loaded : 0);
        break;
    default:
        break;
    }
}

/* --- ways --- */

static void add_return(struct ways *ways, const struct state *state)
{
    struct ways_found *found = ways->found;
    struct way way = {.regs.rip = state->pc, .known = 1u << 16};

    found->lost |= !knows(state, REG_SP);
    if (!knows(state, REG_SP) || state->values[REG_SP] % 16 != 8)
        return;
    for (unsigned i = 0; i < REGISTERS; i++) {
        if (!(state->known >> i & 1))
            continue;
        *register_of(&way.regs, i) = state->values[i];
        way.known |= 1u << dwarf[i];
    }
    for (size_t i = 0; i < found->count; i++) {
        struct way *former = &found->returns[i];
        if (former->regs.rsp != way.regs.rsp)
            continue;
        /* The same place on the stack: keeps what both know. */
        former->known &= way.known;
        for (unsigned k = 0; k < REGISTERS; k++)
            if (*register_of(&former->regs, k) != *register_of(&way.regs, k))
                former->known &= ~(1u << dwarf[k]);
        return;
    }
    if (found->count == WAY_RETURNS_MAX)
        found->too_many = true;
    else
        found->returns[found->count++] = way;
}

/*
 * A retpoline: a call over a loop of pause and lfence, whose target replaces the
 * return address. Where it goes, the code does not show.
 */
static bool is_retpoline(struct ways *ways, const struct state *state, const struct insn *insn)
{
    size_t len;

    if (insn->value <= 0 || insn->value > THUNK_MAX)
        return false;
    const unsigned char *next = code_at(ways, state->pc + insn->len, &len);
    return (len >= 2 && memcmp(next, "\xf3\x90", 2) == 0) ||
           (len >= 3 && memcmp(next, "\x0f\xae\xe8", 3) == 0);
}

/* Goes on behind an instruction. False: the way ends there. */
static bool go_on(struct ways *ways, struct state *state, const struct insn *insn)
{
    remote_addr next = state->pc + insn->len, target = next + (uint64_t)insn->value;

    switch (insn->kind) {
    case INSN_RETURN:
        add_return(ways, state);
        return false;
    case INSN_STOP:
        return false;
    case INSN_CALL:
        ways->found->open |= is_retpoline(ways, state, insn);
        /*
         * A call pushes its address onto a stack that is aligned to 16. Where that does not hold,
         * a call that never returns was followed into the next function.
         */
        if (knows(state, REG_SP) && state->values[REG_SP] % 16)
            return false;
        forget_registers(state, CALLER_SAVED);
        break;
    case INSN_LEAVES:
        ways->found->open = true;
        return false;
    case INSN_BRANCH:
        forget_registers(state, insn->writes);
        add_branch(ways, state, target);
        break;
    case INSN_JUMP:
        state->pc = target;
        return true;
    default:
        execute(ways, state, insn);
        break;
    }
    state->pc = next;
    return true;
}

static void follow_way(struct ways *ways, struct state *state)
{
    struct insn insn;
    size_t len;

    while (is_new(ways, state)) {
        const unsigned char *code = code_at(ways, state->pc, &len);
        ways->found->sought |= state->pc == ways->seek;
        /* A loop that touches each page of a new frame (-fstack-clash-protection) is not
           followed to its end. */
        bool too_deep =
            knows(state, REG_SP) && (int64_t)(ways->first_sp - state->values[REG_SP]) > DEEPER;
        if (too_deep || !insn_decode(code, len, &insn)) {
            ways->found->open = true;
            return;
        }
        if (!go_on(ways, state, &insn))
            return;
    }
}

void arch_follow_ways(struct ways *ways, const struct way_reader *reader, const struct way *from,
                      remote_addr seek, struct ways_found *found)
{
    arch_regs regs = from->regs;
    struct state state = {.pc = regs.rip, .floor = regs.rsp};

    for (unsigned i = 0; i < REGISTERS; i++) {
        state.values[i] = *register_of(&regs, i);
        if (from->known >> dwarf[i] & 1)
            state.known |= (uint16_t)(1u << i);
    }
    memset(found, 0, sizeof *found);
    if (++ways->run == 0)
        memset(ways->seen, 0, sizeof ways->seen);
    ways->reader = reader;
    ways->seek = seek;
    ways->found = found;
    ways->first_sp = from->regs.rsp;
    ways->seen_count = ways->branch_count = ways->window_len = 0;
    for (follow_way(ways, &state); ways->branch_count && !found->too_many;) {
        state = ways->branches[--ways->branch_count];
        follow_way(ways, &state);
    }
}

void arch_take_return(struct way *way, remote_addr address)
{
    way->regs.rip = address;
    way->regs.rsp += 8;
    for (unsigned i = 0; i < REGISTERS; i++)
        if (CALLER_SAVED >> i & 1)
            way->known &= ~(1u << dwarf[i]);
}

remote_addr arch_call_target(const unsigned char before[8], remote_addr end)
{
    int32_t distance;

    memcpy(&distance, before + 4, sizeof distance);
    return end + (uint64_t)(int64_t)distance;
}

struct way arch_way_at(remote_addr pc)
{
    struct way way = {.known = 1u << 16};

    way.regs.rip = pc;
    return way;
}

struct way arch_way_of(const arch_regs *regs)
{
    return (struct way){.regs = *regs, .known = (1u << 17) - 1};
}

void arch_set_way_register(struct way *way, unsigned number, uint64_t value)
{
    way->known |= 1u << number;
    if (number == ARCH_WAY_REGISTERS - 1)
        way->regs.rip = value;
    for (unsigned i = 0; i < REGISTERS; i++)
        if (dwarf[i] == number)
            *register_of(&way->regs, i) = value;
}

bool arch_preserves(unsigned number)
{
    for (unsigned i = 0; i < REGISTERS; i++)
        if (dwarf[i] == number)
            return !(CALLER_SAVED >> i & 1);
    return number == ARCH_WAY_REGISTERS - 1;
}
