/*
 * The caller of a function without call frame information: code of a JIT compiler, Go, a C
 * library without it. A word of the stack is taken for the return address if it is
 * behind a call, and what is known of that call agrees.
 */
#include "perf/walker.h"

#include <string.h>

enum {
    LOWEST_CODE = 4096,
    NEAR = 64 << 10,    /* bytes: the function that a call leads to may contain what is so close */
    PROLOGUE_MAX = 128, /* bytes */
    ARGUMENTS_MAX = 48, /* bytes that a function pushes for another call */
    WORDS_MAX = 256,    /* of the stack, that are looked at for a return address */
};

/* A return address that was found in the stack, and the function that was called. */
struct found {
    uint64_t address;
    remote_addr at;                   /* address of the word behind it: the CFA */
    remote_addr target;               /* 0: unknown */
    struct machine_prologue prologue; /* of the target */
};

/* A frame record: the saved frame pointer and the return address. */
struct frame_record {
    uint64_t next_fp, address;
    remote_addr at;
    bool valid;     /* the address is one */
    bool certain;   /* its call leads to the function of pc, which has set the frame pointer */
    bool linked;    /* the saved frame pointer leads to another record */
    bool outermost; /* the saved frame pointer is 0, as in a thread's first function */
    remote_addr target;
};

struct guess {
    uint64_t pc, sp, fp;
    uint64_t
        spare; /* bytes that the stack pointer may be lower than behind the first instructions */
    struct frame_record record;
};

/* Follows a call through a word of memory, and through the stub of a PLT. 0: unknown. */
static remote_addr target_of(struct walker *walker, const struct machine_call *call)
{
    remote_addr target = call->target, slot = call->slot;
    unsigned char code[16];

    if (target && memory_read_cached(walker->memory, target, code, sizeof code))
        slot = machine_jump_slot(code, target);
    if (slot && !memory_read(walker->memory, slot, &target, sizeof target))
        return 0;
    return target;
}

static bool read_prologue(struct walker *walker, remote_addr target, uint64_t len,
                          struct machine_prologue *out)
{
    unsigned char code[PROLOGUE_MAX + MACHINE_PROLOGUE_SPARE];

    if (len > PROLOGUE_MAX)
        len = PROLOGUE_MAX;
    *out = (struct machine_prologue){.depth = 0};
    return memory_read_cached(walker->memory, target, code, len + MACHINE_PROLOGUE_SPARE) &&
           machine_read_prologue(code, len, out);
}

static void look_behind(struct walker *walker, struct return_slot *slot)
{
    const struct vma *vma = modules_vma_at(walker->modules, slot->addr - 1);
    struct machine_prologue prologue;
    struct machine_call call;
    unsigned char bytes[8], code[16];

    if (!vma || !(vma->prot & MAP_EXEC) ||
        !memory_read_cached(walker->memory, slot->addr - machine.call_size, bytes,
                            machine.call_size))
        return;
    slot->handler_end = memory_read_cached(walker->memory, slot->addr, code, sizeof code) &&
                        machine_is_signal_return(code);
    slot->good = machine_is_call(bytes, slot->addr, &call) || slot->handler_end;
    slot->target = target_of(walker, &call);
    if (slot->target && read_prologue(walker, slot->target, PROLOGUE_MAX, &prologue) &&
        prologue.jump)
        slot->jump = slot->target + (uint64_t)prologue.jump;
}

const struct return_slot *walker_return(struct walker *walker, remote_addr addr)
{
    struct return_slot *slot;

    addr &= machine.address_mask;
    if (addr < LOWEST_CODE || addr >> 56)
        return NULL;
    slot = &walker->returns[(addr * 0x9e3779b97f4a7c15) >> (64 - RETURN_BITS)];
    if (slot->addr != addr) {
        *slot = (struct return_slot){.addr = addr};
        look_behind(walker, slot);
    }
    return slot->good ? slot : NULL;
}

/* True if the function at target may contain pc. */
static bool may_contain(remote_addr target, remote_addr pc)
{
    return target && target <= pc && pc - target < NEAR;
}

/*
 * True if the call leads to the function of pc, and the stack pointer is where the first
 * instructions of that function have moved it.
 */
static bool found_fits(struct walker *walker, const struct guess *guess, struct found *found,
                       remote_addr target)
{
    found->target = target;
    return may_contain(target, guess->pc) &&
           read_prologue(walker, target, guess->pc - target, &found->prologue) &&
           found->at - guess->sp - found->prologue.depth <= guess->spare;
}

/*
 * Looks at one word. False: it is no address behind a call to the function of pc, or to one
 * that only jumps to it.
 */
static bool find_at(struct walker *walker, const struct guess *guess, remote_addr at,
                    struct found *found)
{
    const struct return_slot *slot;

    if (!walker_word(walker, at, &found->address) ||
        !(slot = walker_return(walker, found->address)))
        return false;
    found->at = at + sizeof found->address;
    return found_fits(walker, guess, found, slot->target) ||
           found_fits(walker, guess, found, slot->jump);
}

/*
 * Looks for a call to the function of pc, whose return address is as far from the stack
 * pointer as the first instructions of that function have moved it. If several agree, the
 * function that begins closest before pc is that of pc. Behind a frame record are only other
 * functions.
 */
static bool search_call(struct walker *walker, const struct guess *guess, struct found *best)
{
    remote_addr end = guess->record.certain || guess->record.linked ? guess->record.at : UINT64_MAX;
    struct found found;

    best->target = 0;
    for (size_t i = 0; i < WORDS_MAX && walker->words_left; i++, walker->words_left--) {
        remote_addr at = guess->sp + i * sizeof found.address;
        if (at + sizeof found.address > walker->stack_end || at >= end)
            break;
        if (find_at(walker, guess, at, &found) && found.target > best->target)
            *best = found;
    }
    return best->target != 0;
}

/* Looks first where the return address was when the thread was at this pc before. */
static bool find_call(struct walker *walker, struct guess *guess, struct found *best)
{
    struct call_slot *slot =
        &walker->called[(guess->pc * 0x9e3779b97f4a7c15) >> (64 - CALLED_BITS)];
    bool found;

    guess->spare = ARGUMENTS_MAX;
    if (slot->pc == guess->pc && find_at(walker, guess, guess->sp + slot->distance, best) &&
        best->target == slot->target)
        return true;
    guess->spare = 0;
    found = search_call(walker, guess, best);
    if (!found && !guess->record.certain && !walker->frame.exact) {
        guess->spare = ARGUMENTS_MAX;
        found = search_call(walker, guess, best);
    }
    if (found)
        *slot = (struct call_slot){guess->pc, best->at - sizeof best->address - guess->sp,
                                   best->target};
    return found;
}

static enum step leave_by_call(struct walker *walker, const struct found *found)
{
    struct frame next = walker->frame;

    for (unsigned i = 0; i < found->prologue.count; i++) {
        unsigned reg = found->prologue.saved[i].reg;
        uint64_t value;
        if (walker_word(walker, found->at - found->prologue.saved[i].offset, &value))
            frame_set(&next, reg, value);
    }
    frame_set(&next, machine.sp, found->at);
    frame_set(&next, machine.pc, found->address);
    return walker_leave(walker, &next, machine.pc, false);
}

static void find_frame_record(struct walker *walker, struct guess *guess)
{
    struct frame_record *record = &guess->record;
    struct machine_prologue prologue = {.depth = 0};
    const struct return_slot *slot;
    const struct vma *vma;
    uint64_t next;

    record->at = guess->fp + 16;
    if (guess->fp < guess->sp || !walker_word(walker, guess->fp, &record->next_fp) ||
        !walker_word(walker, guess->fp + 8, &record->address))
        return;
    slot = walker_return(walker, record->address);
    record->valid = slot != NULL;
    record->target = slot ? slot->target : 0;
    if (may_contain(record->target, guess->pc))
        read_prologue(walker, record->target, guess->pc - record->target, &prologue);
    record->certain = prologue.keeps_fp;
    record->linked = record->valid && record->next_fp > guess->fp &&
                     walker_word(walker, record->next_fp + 8, &next) && walker_return(walker, next);
    vma = modules_vma_at(walker->modules, record->address);
    record->outermost = !record->next_fp && vma && vma->prot & MAP_EXEC;
}

static enum step leave_by_record(struct walker *walker, const struct frame_record *record)
{
    struct frame next = {.known = 0};

    frame_set(&next, machine.fp, record->next_fp);
    if (machine.fp_gives_sp)
        frame_set(&next, machine.sp, record->at);
    frame_set(&next, machine.pc, record->address);
    return walker_leave(walker, &next, machine.pc, false);
}

/*
 * Takes the return address in the link register, or that at the stack pointer if nobody knows
 * where its call leads to: the function may have no frame.
 */
static enum step leave_by_top(struct walker *walker, const struct guess *guess)
{
    struct frame next = walker->frame;
    const struct return_slot *slot;
    uint64_t address;
    bool linked = machine.link != MACHINE_REGS;

    if (!walker->frame.exact ||
        !(linked ? frame_get(&walker->frame, machine.link, &address)
                 : walker_word(walker, guess->sp, &address)) ||
        !(slot = walker_return(walker, address)) || (!linked && slot->target))
        return STEP_LOST;
    frame_set(&next, machine.sp, guess->sp + (linked ? 0 : sizeof address));
    frame_set(&next, machine.pc, address);
    return walker_leave(walker, &next, machine.pc, false);
}

enum step walker_guess(struct walker *walker)
{
    struct guess guess = {.record = {.valid = false}};
    const struct frame_record *record = &guess.record;
    struct found found;
    bool called;

    if (!frame_get(&walker->frame, machine.pc, &guess.pc))
        return STEP_LOST;
    guess.pc -= !walker->frame.exact;
    if (!frame_get(&walker->frame, machine.sp, &guess.sp))
        guess.sp = walker->stack_start;
    if (frame_get(&walker->frame, machine.fp, &guess.fp))
        find_frame_record(walker, &guess);
    called = find_call(walker, &guess, &found);
    if (record->certain && !(called && found.target > record->target))
        return leave_by_record(walker, record);
    if (called)
        return leave_by_call(walker, &found);
    /*
     * Where the call leads elsewhere, the function that it leads to may have jumped to this one;
     * or this one has no frame record. Then the next record is not one either.
     */
    if (record->valid &&
        (!record->target || may_contain(record->target, guess.pc) || record->linked))
        return leave_by_record(walker, record);
    if (leave_by_top(walker, &guess) == STEP_DONE)
        return STEP_DONE;
    if (record->outermost)
        return STEP_OUTERMOST;
    return walker->cut ? STEP_CUT : STEP_LOST;
}
