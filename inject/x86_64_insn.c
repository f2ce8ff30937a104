/* The lengths and the written registers of x86-64 instructions (Intel SDM, volume 2, appendix A).
 */
#include "inject/x86_64_insn.h"

#include <string.h>

/* The bytes of an instruction around its ModRM byte. */
struct form {
    const unsigned char *code;
    size_t len;         /* bytes that may be read */
    size_t at;          /* the next byte */
    bool word, wide;    /* prefixes 66; REX.W or its equivalent */
    bool f2, f3, other; /* segment or lock prefix */
    bool rex;
    unsigned rex_r, rex_x, rex_b; /* 0 or 8 */
    unsigned vector;              /* VEX.vvvv; REG_NONE without VEX */
    unsigned mod, reg, rm;        /* reg and rm extended; rm: base or register */
    bool plain;                   /* the operand is base + disp, without index, not %rip */
    int64_t disp;
    unsigned char field; /* ModRM.reg without extension: an opcode */
};

enum immediate { NO_IMM, IMM8, IMM16, IMM32, IMM_FULL, IMM_ADDRESS };
enum { W_REG = 1, W_RM = 2, W_AX = 4, W_DX = 8, W_CX = 16, W_VECTOR = 32, W_STRING = 64 };

/* What an opcode needs: whether it has ModRM, which immediate, what it writes. */
struct opcode {
    bool modrm;
    enum immediate imm;
    unsigned writes;
    bool bytes;   /* its registers are of 8 bits */
    bool unknown; /* not decoded */
};

#define CALLER_SAVED 0x0fc7 /* ax cx dx si di r8-r11 */

static bool take_code_byte(struct form *form, unsigned char *out)
{
    if (form->at >= form->len)
        return false;
    *out = form->code[form->at++];
    return true;
}

static bool take_number(struct form *form, size_t size, int64_t *out)
{
    int32_t value32;

    *out = 0;
    if (form->len - form->at < size)
        return false;
    if (size == 1) {
        *out = (int8_t)form->code[form->at];
    } else if (size == 4) {
        memcpy(&value32, form->code + form->at, sizeof value32);
        *out = value32;
    } else if (size == 8) {
        memcpy(out, form->code + form->at, sizeof *out);
    }
    form->at += size;
    return true;
}

/* --- prefixes --- */

static bool take_legacy(struct form *form, unsigned char byte)
{
    switch (byte) {
    case 0x66:
        form->word = true;
        return true;
    case 0xf2:
        form->f2 = true;
        return true;
    case 0xf3:
        form->f3 = true;
        return true;
    case 0xf0:
    case 0x2e:
    case 0x36:
    case 0x3e:
    case 0x26:
    case 0x64:
    case 0x65:
        form->other = true;
        return true;
    default:
        return false;
    }
}

/* Reads all prefixes and the first byte of the opcode. 67 stands only before calls. */
static bool take_prefixes(struct form *form, unsigned char *opcode)
{
    bool small = false;

    do {
        if (!take_code_byte(form, opcode))
            return false;
        small |= *opcode == 0x67;
    } while (*opcode == 0x67 || take_legacy(form, *opcode));
    if ((*opcode & 0xf0) == 0x40) {
        form->rex = true;
        form->wide = *opcode & 8;
        form->rex_r = *opcode & 4 ? 8 : 0;
        form->rex_x = *opcode & 2 ? 8 : 0;
        form->rex_b = *opcode & 1 ? 8 : 0;
        if (!take_code_byte(form, opcode))
            return false;
    }
    return !small || *opcode == 0xe8 || *opcode == 0x8d;
}

/* --- operands --- */

static bool take_modrm(struct form *form)
{
    static const size_t sizes[] = {0, 1, 4, 0};
    unsigned char modrm, sib = 0;

    if (!take_code_byte(form, &modrm))
        return false;
    form->mod = modrm >> 6;
    form->field = modrm >> 3 & 7;
    form->reg = form->field | form->rex_r;
    form->rm = (modrm & 7) | form->rex_b;
    form->plain = form->mod != 3;
    if (form->mod == 3)
        return true;
    size_t size = sizes[form->mod];
    if ((modrm & 7) == 4) {
        if (!take_code_byte(form, &sib))
            return false;
        form->plain = ((sib >> 3 & 7) | form->rex_x) == 4;
        form->rm = (sib & 7) | form->rex_b;
    }
    unsigned low = (modrm & 7) == 4 ? sib & 7u : modrm & 7u;
    if (form->mod == 0 && low == 5) { /* disp32, with %rip or without a base */
        form->plain = false;
        size = 4;
    }
    return take_number(form, size, &form->disp);
}

static bool take_immediate(struct form *form, enum immediate imm, int64_t *value)
{
    switch (imm) {
    case IMM8:
        return take_number(form, 1, value);
    case IMM16:
        return take_number(form, 2, value);
    case IMM32:
        return take_number(form, form->word && !form->wide ? 2 : 4, value);
    case IMM_FULL:
        return take_number(form, form->wide ? 8 : form->word ? 2 : 4, value);
    case IMM_ADDRESS:
        return take_number(form, 8, value);
    default:
        *value = 0;
        return true;
    }
}

/* Without REX, the byte registers 4 to 7 are ah, ch, dh and bh. */
static uint16_t bit_of(const struct form *form, unsigned reg, bool bytes)
{
    if (bytes && !form->rex && reg >= 4 && reg < 8)
        reg -= 4;
    return (uint16_t)(1u << (reg & 15));
}

static uint16_t written(const struct form *form, const struct opcode *opcode)
{
    uint16_t bits = 0;

    if (opcode->writes & W_REG)
        bits |= bit_of(form, form->reg, opcode->bytes);
    if (opcode->writes & W_RM && form->mod == 3)
        bits |= bit_of(form, form->rm, opcode->bytes);
    if (opcode->writes & W_VECTOR)
        bits |= (uint16_t)(1u << (form->vector & 15));
    bits |= opcode->writes & W_AX ? 1u << REG_AX : 0;
    bits |= opcode->writes & W_DX ? 1u << REG_DX : 0;
    bits |= opcode->writes & W_CX ? 1u << REG_CX : 0;
    bits |= opcode->writes & W_STRING ? 1u << REG_SI | 1u << REG_DI | 1u << REG_CX : 0;
    return bits;
}

/* --- one byte --- */

static struct opcode arithmetic(unsigned char byte)
{
    static const unsigned writes[6] = {W_RM, W_RM, W_REG, W_REG, W_AX, W_AX};
    unsigned low = byte & 7;
    struct opcode opcode = {.modrm = low<4, .bytes = !(low & 1), .unknown = low> 5};

    if (opcode.unknown)
        return opcode;
    opcode.imm = low == 4 ? IMM8 : low == 5 ? IMM32 : NO_IMM;
    opcode.writes = byte >= 0x38 ? 0 : writes[low]; /* cmp */
    return opcode;
}

static const struct opcode unknown_opcode = {.unknown = true};

/* 80 to 8f. */
static struct opcode moves(unsigned char byte)
{
    static const struct opcode list[16] = {
        {true, IMM8, W_RM, true, false},
        {true, IMM32, W_RM, false, false},
        {.unknown = true},
        {true, IMM8, W_RM, false, false},
        {true, NO_IMM, 0, true, false},
        {true, NO_IMM, 0, false, false},
        {true, NO_IMM, W_RM | W_REG, true, false},
        {true, NO_IMM, W_RM | W_REG, false, false},
        {true, NO_IMM, W_RM, true, false},
        {true, NO_IMM, W_RM, false, false},
        {true, NO_IMM, W_REG, true, false},
        {true, NO_IMM, W_REG, false, false},
        {true, NO_IMM, W_RM, false, false},
        {true, NO_IMM, W_REG, false, false},
        {.unknown = true},
        {true, NO_IMM, W_RM, false, false},
    };
    return list[byte & 15];
}

/* a0 to af: moves of absolute addresses, strings, test. */
static struct opcode strings(unsigned char byte)
{
    if (byte < 0xa4)
        return (struct opcode){.imm = IMM_ADDRESS, .writes = byte < 0xa2 ? W_AX : 0};
    if (byte == 0xa8 || byte == 0xa9)
        return (struct opcode){.imm = byte == 0xa8 ? IMM8 : IMM32};
    return (struct opcode){.writes = W_STRING | W_AX};
}

/* c0 to df without what is decoded elsewhere: shifts, moves of constants, the x87. */
static struct opcode shifts(unsigned char byte)
{
    if (byte == 0xc0 || byte == 0xc1)
        return (struct opcode){true, IMM8, W_RM, byte == 0xc0, false};
    if (byte == 0xc6 || byte == 0xc7)
        return (struct opcode){true, byte == 0xc6 ? IMM8 : IMM32, W_RM, byte == 0xc6, false};
    if (byte >= 0xd0 && byte <= 0xd3)
        return (struct opcode){true, NO_IMM, W_RM, !(byte & 1), false};
    if (byte >= 0xd8)
        return (struct opcode){true, NO_IMM, W_AX, false, false};
    return unknown_opcode;
}

/* f6, f7, fe, ff and the single bytes between them. */
static struct opcode groups(unsigned char byte, unsigned char modrm)
{
    unsigned field = modrm >> 3 & 7;

    if (byte == 0xf6 || byte == 0xf7)
        return (struct opcode){true,
                               field > 1      ? NO_IMM
                               : byte == 0xf6 ? IMM8
                                              : IMM32,
                               field < 2   ? 0
                               : field < 4 ? W_RM
                                           : W_AX | W_DX,
                               byte == 0xf6, false};
    if (byte == 0xfe || byte == 0xff)
        return (struct opcode){true, NO_IMM, field < 2 ? W_RM : 0, byte == 0xfe,
                               field == 3 || field == 5 || field == 7};
    if (byte == 0xf5 || byte == 0xf8 || byte == 0xf9 || byte == 0xfc || byte == 0xfd)
        return (struct opcode){0};
    return unknown_opcode;
}

static struct opcode one_byte(unsigned char byte, unsigned char next)
{
    if (byte < 0x40)
        return arithmetic(byte);
    if (byte == 0x63)
        return (struct opcode){.modrm = true, .writes = W_REG};
    if (byte == 0x69 || byte == 0x6b)
        return (struct opcode){true, byte == 0x69 ? IMM32 : IMM8, W_REG, false, false};
    switch (byte >> 4) {
    case 0x8:
        return moves(byte);
    case 0x9:
        if (byte <= 0x98 || byte == 0x9b || byte == 0x9e || byte == 0x9f)
            return (struct opcode){.writes = W_AX};
        return byte == 0x99 ? (struct opcode){.writes = W_DX} : unknown_opcode;
    case 0xa:
        return strings(byte);
    case 0xb:
        return (struct opcode){.imm = byte < 0xb8 ? IMM8 : IMM_FULL};
    case 0xc:
    case 0xd:
        return shifts(byte);
    case 0xf:
        return groups(byte, next);
    default:
        return unknown_opcode;
    }
}

/* --- after 0f --- */

/* Those with an immediate byte. */
static bool long_has_imm8(unsigned char byte)
{
    return (byte >= 0x70 && byte <= 0x73) || byte == 0xa4 || byte == 0xac || byte == 0xba ||
           byte == 0xc2 || (byte >= 0xc4 && byte <= 0xc6);
}

static unsigned long_writes(const struct form *form, unsigned char byte)
{
    if ((byte & 0xf0) == 0x40 || byte == 0x50 || byte == 0x2c || byte == 0x2d || byte == 0xaf ||
        byte == 0xb6 || byte == 0xb7 || byte == 0xb8 || byte == 0xbc || byte == 0xbd ||
        byte == 0xbe || byte == 0xbf || byte == 0xc5 || byte == 0xd7 || byte == 0x02 ||
        byte == 0x03)
        return W_REG;
    if ((byte & 0xf0) == 0x90 || byte == 0xa4 || byte == 0xa5 || byte == 0xab || byte == 0xac ||
        byte == 0xad || byte == 0xb3 || byte == 0xba || byte == 0xbb || byte == 0x00)
        return W_RM;
    if (byte == 0x7e)
        return form->f3 ? 0 : W_RM;
    if (byte == 0xb0 || byte == 0xb1)
        return W_RM | W_AX;
    if (byte == 0xc0 || byte == 0xc1)
        return W_RM | W_REG;
    if (byte == 0x01 || byte == 0xc7)
        return W_AX | W_DX | W_CX | W_RM;
    if (byte == 0xae || byte == 0x1e)
        return form->f3 ? W_RM : 0;
    return 0;
}

/* Those that no compiled program for user space executes, or that were not looked at. */
static bool long_is_unknown(unsigned char byte)
{
    return (byte >= 0x04 && byte <= 0x0a) || byte == 0x0c || byte == 0x0e || byte == 0x0f ||
           (byte >= 0x20 && byte <= 0x27) || (byte >= 0x30 && byte <= 0x3f) || byte == 0x78 ||
           byte == 0x79 || byte == 0xa0 || byte == 0xa1 || (byte >= 0xa6 && byte <= 0xaa) ||
           byte == 0xb2 || byte == 0xb4 || byte == 0xb5;
}

static struct opcode two_bytes(const struct form *form, unsigned char byte)
{
    /* Those without ModRM that compilers and hand-written code use. */
    if (byte == 0x77)
        return (struct opcode){.writes = 0};
    if (byte == 0x05 || byte == 0x31 || byte == 0xa2)
        return (struct opcode){.writes = W_AX | W_DX | W_CX};
    if (long_is_unknown(byte))
        return unknown_opcode;
    return (struct opcode){.modrm = true,
                           .imm = long_has_imm8(byte) ? IMM8 : NO_IMM,
                           .writes = long_writes(form, byte),
                           .bytes = (byte & 0xf0) == 0x90 || byte == 0xb0 || byte == 0xc0};
}

/* 0f 38 and 0f 3a: vectors, except these. */
static struct opcode three_bytes(bool has_imm, unsigned char byte)
{
    struct opcode opcode = {.modrm = true, .imm = has_imm ? IMM8 : NO_IMM};

    if (has_imm)
        opcode.writes = byte >= 0x14 && byte <= 0x17   ? W_RM
                        : byte >= 0x60 && byte <= 0x63 ? W_CX /* pcmpestri and the like */
                                                       : 0;
    else if (byte >= 0xf0)
        opcode.writes = W_REG | W_RM;
    return opcode;
}

/* --- VEX and EVEX --- */

static unsigned vex_writes(const struct form *form, unsigned map, unsigned char byte)
{
    if (map == 1 && (byte == 0x50 || byte == 0xd7 || byte == 0x2c || byte == 0x2d || byte == 0xc5 ||
                     byte == 0x78 || byte == 0x79 || byte == 0x93))
        return W_REG;
    if (map == 1 && byte == 0x7e)
        return form->f3 ? 0 : W_RM;
    if (map == 2 && byte >= 0xf0)
        return W_REG | W_VECTOR;
    if (map == 3 && byte >= 0x14 && byte <= 0x17)
        return W_RM;
    if (map == 3 && byte >= 0x60 && byte <= 0x63)
        return W_CX;
    if (map == 3 && byte == 0xf0)
        return W_REG;
    return map == 5 ? W_REG | W_RM : 0;
}

/* The bits of the last byte before the opcode; the registers' are inverted. */
static void take_vex_tail(struct form *form, unsigned char byte, bool whole)
{
    form->vector = ~byte >> 3 & 15;
    form->wide = whole && byte & 0x80;
    form->word = (byte & 3) == 1;
    form->f3 = (byte & 3) == 2;
    form->f2 = (byte & 3) == 3;
}

static bool take_vex(struct form *form, unsigned char first, unsigned *map)
{
    unsigned char byte;

    if (form->rex || !take_code_byte(form, &byte))
        return false;
    form->rex_r = byte & 0x80 ? 0 : 8;
    form->rex = true;
    *map = 1;
    if (first == 0xc5) {
        take_vex_tail(form, byte, false);
        return true;
    }
    form->rex_x = byte & 0x40 ? 0 : 8;
    form->rex_b = byte & 0x20 ? 0 : 8;
    *map = byte & (first == 0x62 ? 7 : 31);
    if (!take_code_byte(form, &byte))
        return false;
    take_vex_tail(form, byte, true);
    return first != 0x62 || take_code_byte(form, &byte);
}

static bool vector_opcode(struct form *form, unsigned char first, struct opcode *opcode)
{
    unsigned char byte;
    unsigned map;

    if (!take_vex(form, first, &map) || !take_code_byte(form, &byte) ||
        (map != 1 && map != 2 && map != 3 && map != 5 && map != 6))
        return false;
    bool imm = map == 3 || (map == 1 && long_has_imm8(byte) && byte >= 0x70 && byte != 0xa4 &&
                            byte != 0xac && byte != 0xba);
    *opcode = (struct opcode){.modrm = map != 1 || byte != 0x77,
                              .imm = imm ? IMM8 : NO_IMM,
                              .writes = vex_writes(form, map, byte)};
    return true;
}

/* --- kinds --- */

static bool finish(struct form *form, enum insn_kind kind, struct insn *out)
{
    out->kind = kind;
    out->len = form->at;
    return true;
}

/* Control flow, and the stack. *done: it is one of these. */
static bool decode_flow(struct form *form, unsigned char byte, struct insn *out, bool *done)
{
    *done = true;
    if ((byte & 0xf0) == 0x70 || (byte >= 0xe0 && byte <= 0xe3)) {
        out->writes = byte >= 0xe0 ? 1u << REG_CX : 0;
        return take_number(form, 1, &out->value) && finish(form, INSN_BRANCH, out);
    }
    switch (byte) {
    case 0xc3:
        return finish(form, INSN_RETURN, out);
    case 0xcc:
    case 0xf1:
    case 0xf4:
        return finish(form, INSN_STOP, out);
    case 0xe8:
        return take_number(form, 4, &out->value) && finish(form, INSN_CALL, out);
    case 0xe9:
        return take_number(form, 4, &out->value) && finish(form, INSN_JUMP, out);
    case 0xeb:
        return take_number(form, 1, &out->value) && finish(form, INSN_JUMP, out);
    default:
        *done = false;
        return false;
    }
}

static bool decode_stack(struct form *form, unsigned char byte, struct insn *out, bool *done)
{
    *done = true;
    out->reg = (byte & 7) | form->rex_b;
    if (form->word && (byte & 0xf0) == 0x50)
        return false; /* 16 bits */
    if ((byte & 0xf8) == 0x50)
        return finish(form, INSN_PUSH, out);
    if ((byte & 0xf8) == 0x58)
        return finish(form, INSN_POP, out);
    out->reg = REG_NONE;
    switch (byte) {
    case 0x68:
        return take_number(form, 4, &out->value) && finish(form, INSN_PUSH, out);
    case 0x6a:
        return take_number(form, 1, &out->value) && finish(form, INSN_PUSH, out);
    case 0x9c:
        return finish(form, INSN_PUSH, out);
    case 0x9d:
        return finish(form, INSN_POP, out);
    case 0xc9:
        return finish(form, INSN_LEAVE, out);
    default:
        *done = false;
        return false;
    }
}

/* The moves, sums and loads of whole words of which the result can be computed. */
static enum insn_kind computed_kind(const struct form *form, unsigned char byte, struct insn *out)
{
    if (!form->wide || form->other || form->f2 || form->f3 || form->word)
        return INSN_OTHER;
    out->reg = form->reg;
    out->base = form->rm;
    if (byte == 0x89 && form->mod == 3) {
        out->reg = form->rm;
        out->base = form->reg;
        return INSN_MOVE;
    }
    if (byte == 0x8b && form->mod == 3)
        return INSN_MOVE;
    if ((byte == 0x8b || byte == 0x8d) && form->plain) {
        out->value = form->disp;
        return byte == 0x8b ? INSN_LOAD : INSN_ADDRESS;
    }
    if ((byte != 0x81 && byte != 0x83) || form->mod != 3)
        return INSN_OTHER;
    out->reg = form->rm;
    if (form->field == 5)
        out->value = -out->value;
    return form->field == 0 || form->field == 5 ? INSN_ADD
           : form->field == 4                   ? INSN_AND
                                                : INSN_OTHER;
}

static bool decode_operands(struct form *form, const struct opcode *opcode, unsigned char byte,
                            struct insn *out)
{
    /* ff: inc, dec, call, jmp, push. */
    static const enum insn_kind kinds[8] = {[2] = INSN_CALL, [4] = INSN_LEAVES, [6] = INSN_PUSH};

    if (opcode->unknown || (opcode->modrm && !take_modrm(form)) ||
        !take_immediate(form, opcode->imm, &out->value))
        return false;
    out->writes = written(form, opcode);
    out->stores = opcode->modrm && opcode->writes & W_RM && form->plain;
    out->store_base = form->rm;
    out->store_at = form->disp;
    if ((byte & 0xf0) == 0xb0) /* mov $imm,%reg */
        out->writes |= bit_of(form, (byte & 7) | form->rex_b, byte < 0xb8);
    if (byte > 0x90 && byte <= 0x97) /* xchg %rax,%reg */
        out->writes |= (uint16_t)(1u << ((byte & 7) | form->rex_b));
    if ((byte == 0x80 || byte == 0x81 || byte == 0x83) && form->field == 7) /* cmp */
        out->writes = 0;
    if ((byte == 0xc7 || byte == 0xc6 || byte == 0x8f) && form->field) /* xbegin, XOP */
        return false;
    out->kind = opcode->modrm && byte == 0xff ? kinds[form->field] : INSN_OTHER;
    if (opcode->modrm && byte == 0x8f) {
        out->kind = INSN_POP;
        out->reg = form->mod == 3 ? form->rm : REG_NONE;
        out->writes = 0;
    } else if (out->kind == INSN_OTHER && opcode->modrm) {
        out->kind = computed_kind(form, byte, out);
        if (out->kind != INSN_OTHER)
            out->writes = 0;
    }
    out->len = form->at;
    return true;
}

static bool decode_long(struct form *form, struct insn *out)
{
    struct opcode opcode;
    unsigned char byte;

    if (!take_code_byte(form, &byte))
        return false;
    if (byte == 0x0b || byte == 0xb9 || byte == 0xff)
        return finish(form, INSN_STOP, out);
    if ((byte & 0xf0) == 0x80)
        return take_number(form, 4, &out->value) && finish(form, INSN_BRANCH, out);
    if ((byte & 0xf8) == 0xc8) { /* bswap */
        out->writes = (uint16_t)(1u << ((byte & 7) | form->rex_b));
        return finish(form, INSN_OTHER, out);
    }
    if (byte == 0x38 || byte == 0x3a) {
        bool has_imm = byte == 0x3a;
        if (!take_code_byte(form, &byte))
            return false;
        opcode = three_bytes(has_imm, byte);
    } else {
        opcode = two_bytes(form, byte);
    }
    if (!decode_operands(form, &opcode, 0x90, out))
        return false;
    if (byte == 0x05 || byte == 0xa2 || byte == 0x01) /* syscall: r11; cpuid: rbx */
        out->writes |= 1u << 11 | (byte == 0xa2 ? 1u << REG_BX : 0);
    return true;
}

bool insn_decode(const unsigned char *code, size_t len, struct insn *out)
{
    struct form form = {.code = code, .len = len < INSN_MAX ? len : INSN_MAX, .vector = REG_NONE};
    struct opcode opcode;
    unsigned char byte;
    bool done, ok;

    memset(out, 0, sizeof *out);
    if (!take_prefixes(&form, &byte))
        return false;
    if (byte == 0x0f)
        return decode_long(&form, out);
    if (byte == 0xc4 || byte == 0xc5 || byte == 0x62)
        return vector_opcode(&form, byte, &opcode) && decode_operands(&form, &opcode, 0x90, out);
    ok = decode_flow(&form, byte, out, &done);
    if (done)
        return ok;
    ok = decode_stack(&form, byte, out, &done);
    if (done)
        return ok;
    opcode = one_byte(byte, form.at < form.len ? form.code[form.at] : 0);
    return decode_operands(&form, &opcode, byte, out);
}
