/*
 * Call frame information: how to find the caller's registers at one address (DWARF 5,
 * 6.4; LSB, "Exception Frames"). All of it is untrusted.
 */
#pragma once

#include "attach/memory.h"
#include "perf/machine.h"

enum cfi_how {
    CFI_SAME,          /* the register has not changed */
    CFI_UNDEFINED,     /* its value is lost */
    CFI_AT,            /* at CFA + value */
    CFI_IS,            /* is CFA + value */
    CFI_REGISTER,      /* is register `from`, plus value */
    CFI_AT_EXPRESSION, /* at the address that the expression yields */
    CFI_IS_EXPRESSION, /* is what the expression yields */
};

/* The rule of a register, or of the CFA: the stack pointer before the call. */
struct cfi_rule {
    unsigned char reg;  /* DWARF number */
    unsigned char how;  /* enum cfi_how */
    unsigned char from; /* DWARF number */
    uint16_t len;       /* bytes of the expression, which is at address `value` */
    int64_t value;
};

struct cfi_row {
    bool signal;        /* a signal handler's return: the caller was interrupted */
    unsigned char link; /* the register whose rule gives the return address */
    unsigned char count;
    struct cfi_rule cfa;
    struct cfi_rule rules[MACHINE_REGS]; /* without those that are CFI_SAME */
};

enum { CFI_RECORD_MAX = 64 << 10 }; /* bytes; longer records are not read */

/* One reader: holds the bytes of a record. */
struct cfi_reader {
    struct memory *memory;
    unsigned char cie[4096];
    unsigned char fde[CFI_RECORD_MAX];
};

/* Fills the row for pc from the FDE at `record`. False: that FDE does not describe pc. */
bool cfi_row_at(struct cfi_reader *reader, remote_addr record, remote_addr pc, struct cfi_row *row);
