/*
 * What the walk of a stack must know of the machine. One implementation for each,
 * chosen by CMake: perf/x86_64*.c, perf/aarch64*.c. The DWARF numbers of the registers
 * are those of the machine's ABI; the others are those of asm/perf_regs.h.
 */
#pragma once

#include "base/util.h"

#include <stdbool.h>
#include <stddef.h>

enum { MACHINE_REGS = 40 }; /* DWARF numbers below this are followed */

struct machine {
    unsigned sp, fp;       /* DWARF numbers */
    unsigned link;         /* the register with the return address at the start of a function;
                              MACHINE_REGS: it is on the stack */
    unsigned pc;           /* DWARF number, or one that the ABI leaves free */
    bool fp_gives_sp;      /* the frame record ends the callee's frame */
    uint64_t address_mask; /* the bits of a code address: without pointer authentication */
    size_t call_size;      /* maximum bytes of a call instruction */
};

extern const struct machine machine;

/* Returns the number of a register in asm/perf_regs.h; -1: it is not sampled. */
int machine_perf_register(unsigned dwarf);

/* Where a call leads to: as far as the instruction itself says it. */
struct machine_call {
    remote_addr target; /* 0: not in the instruction */
    remote_addr slot;   /* the word with the target; 0: none */
};

/*
 * True if the bytes before a return address, machine.call_size of them, end in a call
 * instruction.
 */
bool machine_is_call(const unsigned char *bytes, remote_addr after, struct machine_call *call);

/* Returns the word with the target if code at `at` only jumps there, as in a PLT; 0: it does not.
 */
remote_addr machine_jump_slot(const unsigned char code[16], remote_addr at);

enum { MACHINE_SAVED_MAX = 8, MACHINE_PROLOGUE_SPARE = 16 /* bytes */ };

/* The stack of a function after its first instructions. */
struct machine_prologue {
    uint64_t depth; /* bytes from the stack pointer to the CFA */
    bool keeps_fp;  /* the frame pointer has been set */
    int64_t jump; /* without a frame, it goes on at this distance from its start; 0: it does not */
    unsigned count;
    struct {
        unsigned reg;    /* DWARF number */
        uint64_t offset; /* it is saved at CFA - offset */
    } saved[MACHINE_SAVED_MAX];
};

/*
 * Reads the len first bytes of a function, up to a branch that is always taken;
 * MACHINE_PROLOGUE_SPARE more bytes can be read behind them. False: the stack pointer is
 * not known behind them.
 */
bool machine_read_prologue(const unsigned char *code, size_t len, struct machine_prologue *out);

/* True if code is the start of the C library's return from a signal handler. */
bool machine_is_signal_return(const unsigned char code[16]);
/*
 * The offset from the stack pointer, in that code, to where the kernel has saved a register;
 * SIZE_MAX: nowhere.
 */
size_t machine_signal_offset(unsigned dwarf);
