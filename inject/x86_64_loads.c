/* Loads of x86-64 code through a pointer (Intel SDM, volume 2, 2.1.5 and 2.2.1). */
#include "inject/refs.h"

#include <string.h>

enum {
    THROUGH_NEAR = 48, /* bytes after the load of a pointer in which it is used */
    ADDEND_NEAR = 16,  /* bytes between a constant and the addition of the pointer to it */
    RIP = 16,          /* as a base register: the next instruction */
};

enum { OPCODE_ADD = 0x03, OPCODE_ADD_IMM8 = 0x83, OPCODE_ADD_IMM32 = 0x81 };
enum { OPCODE_LOAD = 0x8b, OPCODE_LEA = 0x8d, OPCODE_ADD_RAX = 0x05 };

/* An instruction with a 64-bit operand: REX.W, one byte of opcode, ModRM. */
struct word_instruction {
    unsigned char opcode;
    unsigned reg, base; /* registers 0 to 15; base also RIP */
    bool in_memory;
    int64_t disp;
    size_t len; /* without an immediate */
};

/* size: 0, 1 or 4 bytes. */
static int64_t read_disp(const unsigned char *at, size_t size)
{
    int32_t value;

    if (size != sizeof value)
        return size ? (int8_t)*at : 0;
    memcpy(&value, at, sizeof value);
    return value;
}

/* Decodes without index registers: a member of a structure needs none. */
static bool decode_word(const unsigned char *code, size_t len, struct word_instruction *out)
{
    static const size_t sizes[] = {0, 1, 4, 0};

    if (len < 3 || (code[0] & 0xf8) != 0x48)
        return false;
    unsigned mod = code[2] >> 6, rm = code[2] & 7;
    bool sib = mod != 3 && rm == 4, rip = mod == 0 && rm == 5;
    size_t size = rip ? 4 : sizes[mod];
    *out = (struct word_instruction){
        .opcode = code[1],
        .reg = (code[2] >> 3 & 7) | (code[0] & 4u) << 1,
        .base = rip ? RIP : rm | (code[0] & 1u) << 3,
        .in_memory = mod != 3,
        .len = 3 + sib + size,
    };
    if (out->len > len || (sib && code[3] != 0x24))
        return false;
    out->disp = read_disp(code + 3 + sib, size);
    return true;
}

/* --- through variables --- */

static void visit_through(const unsigned char *code, size_t len, unsigned reg,
                          struct ref_load *load, load_visitor visit, void *ctx)
{
    struct word_instruction next;

    load->through = true;
    for (size_t i = 0; i < len && i < THROUGH_NEAR; i++) {
        if (!decode_word(code + i, len - i, &next) || next.opcode != OPCODE_LOAD ||
            !next.in_memory || next.base != reg)
            continue;
        load->offset = next.disp;
        visit(ctx, load);
    }
}

void refs_visit_loads(const unsigned char *code, size_t len, remote_addr address,
                      load_visitor visit, void *ctx)
{
    struct word_instruction first;

    for (size_t i = 0; i < len; i++) {
        if (!decode_word(code + i, len - i, &first) || first.opcode != OPCODE_LOAD ||
            first.base != RIP)
            continue;
        size_t next = i + first.len;
        struct ref_load load = {.variable = address + next + (remote_addr)first.disp};
        visit(ctx, &load);
        visit_through(code + next, len - next, first.reg, &load, visit, ctx);
    }
}

/* --- members --- */

/* add $imm,%reg; lea disp(%reg),...; mov disp(%reg),... */
static bool adds_offset(const unsigned char *code, size_t len, unsigned reg, int64_t *offset)
{
    struct word_instruction word;

    if (reg == 0 && len >= 6 && code[0] == 0x48 && code[1] == OPCODE_ADD_RAX) {
        *offset = read_disp(code + 2, 4);
        return true;
    }
    if (!decode_word(code, len, &word) || word.base != reg)
        return false;
    if (word.in_memory) {
        *offset = word.disp;
        return word.opcode == OPCODE_LOAD || word.opcode == OPCODE_LEA;
    }
    size_t size = word.opcode == OPCODE_ADD_IMM32 ? 4 : word.opcode == OPCODE_ADD_IMM8 ? 1 : 0;
    if (!size || word.reg & 7 || len < word.len + size)
        return false;
    *offset = read_disp(code + word.len, size);
    return true;
}

/* mov $imm32,%reg some bytes before the pointer is added to it. */
static bool starts_with_constant(const unsigned char *code, size_t at, unsigned reg,
                                 int64_t *offset)
{
    for (size_t back = 5; back <= at && back <= ADDEND_NEAR; back++)
        if (code[at - back] == (0xb8 | (reg & 7))) {
            *offset = read_disp(code + at - back + 1, 4);
            return true;
        }
    return false;
}

void refs_visit_fields(const unsigned char *code, size_t len, int64_t link, field_visitor visit,
                       void *ctx)
{
    struct word_instruction first;
    int64_t offset;

    for (size_t i = 0; i < len; i++) {
        if (!decode_word(code + i, len - i, &first) || !first.in_memory || first.base == RIP ||
            first.disp != link)
            continue;
        if (first.opcode == OPCODE_ADD && starts_with_constant(code, i, first.reg, &offset))
            visit(ctx, offset);
        if (first.opcode != OPCODE_LOAD)
            continue;
        for (size_t next = i + first.len; next < len && next < i + THROUGH_NEAR; next++)
            if (adds_offset(code + next, len - next, first.reg, &offset))
                visit(ctx, offset);
    }
}
