/* x86-64 instructions: their length, and what they do to the stack pointer and other registers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INSN_MAX = 15 };

/* Numbers of registers, as instructions encode them. */
enum { REG_AX, REG_CX, REG_DX, REG_BX, REG_SP, REG_BP, REG_SI, REG_DI, REG_NONE = 16 };

enum insn_kind {
    INSN_OTHER,   /* only `writes` is known */
    INSN_RETURN,  /* ret */
    INSN_STOP,    /* ud2, hlt, int3: no way on */
    INSN_JUMP,    /* to `value`, relative to the end */
    INSN_BRANCH,  /* there, or to the next instruction */
    INSN_LEAVES,  /* to an unknown place: jmp *... */
    INSN_CALL,    /* direct or not; it returns to the next instruction */
    INSN_PUSH,    /* a value that is not known */
    INSN_POP,     /* into reg; REG_NONE: not into a register */
    INSN_LEAVE,   /* mov %rbp,%rsp; pop %rbp */
    INSN_ADD,     /* reg += value */
    INSN_AND,     /* reg &= value */
    INSN_MOVE,    /* reg = base */
    INSN_ADDRESS, /* reg = base + value */
    INSN_LOAD,    /* reg = *(base + value), 8 bytes */
};

struct insn {
    size_t len;
    enum insn_kind kind;
    unsigned reg, base;
    int64_t value;
    uint16_t writes; /* registers that it may change, in addition to what its kind says */
    bool stores; /* it writes a general register or a constant to memory: store_base + store_at */
    unsigned store_base;
    int64_t store_at;
};

/* Decodes the instruction at code[0..len). False: unknown, incomplete, or none of a compiler. */
bool insn_decode(const unsigned char *code, size_t len, struct insn *out);
