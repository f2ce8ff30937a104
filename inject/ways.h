/*
 * Where a function returns to, found by its code alone: the second proof where
 * call frame information is missing.
 *
 * From the place of a stopped thread, or of a call that has not returned, all
 * code that can be executed next is followed, both ways at each branch, over
 * each call, until an instruction returns. Only what changes the stack pointer,
 * or the registers that functions preserve, is computed. The word that a return
 * would take from the stack is the return address, if it is behind a call in
 * code of a module. What is not certain has no answer:
 *
 * - two returns that would take different words, both behind calls: a call that
 *   never returns is followed into the next function, whose return is not that
 *   of this one;
 * - a word at an address that the ABI does not allow for one: the same, when
 *   only the wrong return is found;
 * - a call of a known function from which the code does not lead to the place;
 * - more code than the limit.
 */
#pragma once

#include "attach/memory.h"
#include "elf/modules.h"
#include "inject/arch.h"

/* A place in code with the registers there, as far as they are known. */
struct way {
    arch_regs regs;
    uint32_t known; /* bit n: the register with DWARF number n */
};

/* Reads the target; both return false if the bytes are not there. */
struct way_reader {
    /* Code that does not change: fills at most size bytes, *len of them. */
    bool (*code)(void *ctx, remote_addr addr, unsigned char *buf, size_t size, size_t *len);
    bool (*word)(void *ctx, remote_addr addr, uint64_t *value); /* of the stack */
    void *ctx;
    unsigned *left; /* instructions that may be followed */
};

enum { WAY_RETURNS_MAX = 32 };

struct ways_found {
    struct way returns[WAY_RETURNS_MAX]; /* just before a return: sp is where its word is */
    size_t count;
    bool sought;   /* the place that was sought is on a way */
    bool open;     /* a way leads to a place that the code does not show */
    bool lost;     /* a return was left out because its stack pointer is not known */
    bool too_many; /* not all ways were followed */
};

struct ways;

/* NULL: out of memory. */
struct ways *ways_new(void);
void ways_free(struct ways *ways);

/*
 * Follows all ways from a place, implemented for each architecture. Returns
 * through stack pointers that are not known, or that the ABI does not allow, are
 * left out. seek: an address, or 0.
 */
void arch_follow_ways(struct ways *ways, const struct way_reader *reader, const struct way *from,
                      remote_addr seek, struct ways_found *found);
/* Makes *way, just before a return, the place that it returns to. */
void arch_take_return(struct way *way, remote_addr address);
/* Returns the target of the direct call that ends at an address; before: 8 bytes before it. */
remote_addr arch_call_target(const unsigned char before[8], remote_addr end);
/* Returns a place of which only the address is known. */
struct way arch_way_at(remote_addr pc);
/* Returns the place of a stopped thread, whose registers are all known. */
struct way arch_way_of(const arch_regs *regs);
/* Sets a register by its DWARF number; the highest is ARCH_WAY_REGISTERS - 1, the address. */
enum { ARCH_WAY_REGISTERS = 17 };
void arch_set_way_register(struct way *way, unsigned number, uint64_t value);
/* True if functions preserve the register with that DWARF number. */
bool arch_preserves(unsigned number);

/*
 * Replaces a place in a function by the place that the function returns to.
 * False: not certain, *at is unchanged. Follows at most *left instructions, and
 * subtracts their number. The words are read by `word`, between
 * the stack pointer and stack_end.
 */
struct leave_query {
    struct memory *memory;
    const struct modules *modules;
    remote_addr stack_end;
    bool (*word)(void *ctx, remote_addr addr, uint64_t *value);
    void *ctx;
};
bool ways_leave(struct ways *ways, const struct leave_query *query, unsigned *left, struct way *at);
