/*
 * What the walk of a stack must know of the machine. One implementation for each,
 * chosen by CMake: perf/x86_64.c, perf/aarch64.c. The DWARF numbers of the registers
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

/*
 * True if the bytes before a return address, machine.call_size of them, end in a call
 * instruction. *target: where it leads to; 0: that is not in the instruction.
 */
bool machine_is_call(const unsigned char *bytes, remote_addr after, remote_addr *target);

/* True if code is the start of the C library's return from a signal handler. */
bool machine_is_signal_return(const unsigned char code[16]);
/*
 * The offset from the stack pointer, in that code, to where the kernel has saved a register;
 * SIZE_MAX: nowhere.
 */
size_t machine_signal_offset(unsigned dwarf);
