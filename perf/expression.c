#include "perf/expression.h"

enum {
    DEPTH_MAX = 64,
    STEPS_MAX = 1000,
    OP_ADDR = 0x03,
    OP_DEREF = 0x06,
    OP_CONST1U = 0x08,
    OP_CONST8S = 0x0f,
    OP_CONSTU = 0x10,
    OP_CONSTS = 0x11,
    OP_DUP = 0x12,
    OP_DROP,
    OP_OVER,
    OP_PICK,
    OP_SWAP,
    OP_ROT,
    OP_ABS = 0x19,
    OP_AND,
    OP_DIV,
    OP_MINUS,
    OP_MOD,
    OP_MUL,
    OP_NEG,
    OP_NOT,
    OP_OR,
    OP_PLUS,
    OP_PLUS_UCONST,
    OP_SHL,
    OP_SHR,
    OP_SHRA,
    OP_XOR,
    OP_BRA,
    OP_EQ,
    OP_GE,
    OP_GT,
    OP_LE,
    OP_LT,
    OP_NE,
    OP_SKIP,
    OP_LIT0 = 0x30,
    OP_LIT31 = 0x4f,
    OP_BREG0 = 0x70,
    OP_BREG31 = 0x8f,
    OP_BREGX = 0x92,
    OP_DEREF_SIZE = 0x94,
    OP_NOP = 0x96,
};

struct evaluation {
    const struct expression_source *source;
    const unsigned char *start;
    struct dwarf_bytes bytes;
    uint64_t stack[DEPTH_MAX];
    size_t depth;
};

static void push(struct evaluation *eval, uint64_t value)
{
    if (eval->depth == DEPTH_MAX)
        eval->bytes.bad = true;
    else
        eval->stack[eval->depth++] = value;
}

static uint64_t pop(struct evaluation *eval)
{
    if (eval->depth)
        return eval->stack[--eval->depth];
    eval->bytes.bad = true;
    return 0;
}

static void push_picked(struct evaluation *eval, uint64_t from_top)
{
    if (from_top >= eval->depth)
        eval->bytes.bad = true;
    else
        push(eval, eval->stack[eval->depth - 1 - from_top]);
}

/* Moves the top below `count` others. */
static void rotate_words(struct evaluation *eval, size_t count)
{
    if (eval->depth <= count) {
        eval->bytes.bad = true;
        return;
    }
    uint64_t *top = &eval->stack[eval->depth - 1], value = *top;
    memmove(top - count + 1, top - count, count * sizeof *top);
    top[-(ptrdiff_t)count] = value;
}

static void push_register(struct evaluation *eval, uint64_t reg, int64_t offset)
{
    uint64_t value = 0;

    if (reg > UINT32_MAX || !eval->source->reg(eval->source->ctx, (unsigned)reg, &value))
        eval->bytes.bad = true;
    push(eval, value + (uint64_t)offset);
}

static void push_memory(struct evaluation *eval, uint64_t size)
{
    uint64_t value = 0;

    if (size < 1 || size > 8 || !eval->source->word(eval->source->ctx, pop(eval), &value))
        eval->bytes.bad = true;
    else
        push(eval, size == 8 ? value : value & (((uint64_t)1 << 8 * size) - 1));
}

static void jump(struct evaluation *eval, bool really)
{
    int64_t distance = dwarf_fixed_signed(&eval->bytes, 2);
    int64_t at = eval->bytes.at - eval->start + distance;

    if (!really)
        return;
    if (at < 0 || at > eval->bytes.end - eval->start)
        eval->bytes.bad = true;
    else
        eval->bytes.at = eval->start + at;
}

/* False: it is no operation that pushes a constant or a register. */
static bool do_push(struct evaluation *eval, unsigned char op)
{
    struct dwarf_bytes *bytes = &eval->bytes;

    if (op >= OP_LIT0 && op <= OP_LIT31)
        push(eval, op - OP_LIT0);
    else if (op >= OP_BREG0 && op <= OP_BREG31)
        push_register(eval, op - OP_BREG0, dwarf_sleb(bytes));
    else if (op >= OP_CONST1U && op <= OP_CONST8S)
        push(eval, op & 1 ? (uint64_t)dwarf_fixed_signed(bytes, (size_t)1 << (op - OP_CONST1U) / 2)
                          : dwarf_fixed(bytes, (size_t)1 << (op - OP_CONST1U) / 2));
    else if (op == OP_ADDR)
        push(eval, dwarf_fixed(bytes, 8));
    else if (op == OP_CONSTU)
        push(eval, dwarf_uleb(bytes));
    else if (op == OP_CONSTS)
        push(eval, (uint64_t)dwarf_sleb(bytes));
    else if (op == OP_BREGX) {
        uint64_t reg = dwarf_uleb(bytes);
        push_register(eval, reg, dwarf_sleb(bytes));
    } else {
        return false;
    }
    return true;
}

/* False: it is no operation that moves values or goes elsewhere. */
static bool do_move(struct evaluation *eval, unsigned char op)
{
    if (op == OP_DUP)
        push_picked(eval, 0);
    else if (op == OP_DROP)
        pop(eval);
    else if (op == OP_OVER)
        push_picked(eval, 1);
    else if (op == OP_PICK)
        push_picked(eval, dwarf_fixed(&eval->bytes, 1));
    else if (op == OP_SWAP)
        rotate_words(eval, 1);
    else if (op == OP_ROT)
        rotate_words(eval, 2);
    else if (op == OP_DEREF)
        push_memory(eval, 8);
    else if (op == OP_DEREF_SIZE)
        push_memory(eval, dwarf_fixed(&eval->bytes, 1));
    else if (op == OP_SKIP)
        jump(eval, true);
    else if (op == OP_BRA)
        jump(eval, pop(eval) != 0);
    else
        return op == OP_NOP;
    return true;
}

/* False: it is no operation with one operand. */
static bool do_unary(struct evaluation *eval, unsigned char op)
{
    uint64_t value;

    if (op != OP_ABS && op != OP_NEG && op != OP_NOT && op != OP_PLUS_UCONST)
        return false;
    value = pop(eval);
    if (op == OP_PLUS_UCONST)
        push(eval, value + dwarf_uleb(&eval->bytes));
    else if (op == OP_NOT)
        push(eval, ~value);
    else
        push(eval, op == OP_NEG || (int64_t)value < 0 ? -value : value);
    return true;
}

static uint64_t shifted(unsigned char op, uint64_t value, uint64_t by)
{
    if (by > 63)
        return op == OP_SHRA && (int64_t)value < 0 ? UINT64_MAX : 0;
    if (op == OP_SHL)
        return value << by;
    return op == OP_SHR ? value >> by : (uint64_t)((int64_t)value >> by);
}

static bool compared(unsigned char op, int64_t a, int64_t b)
{
    switch (op) {
    case OP_EQ:
        return a == b;
    case OP_GE:
        return a >= b;
    case OP_GT:
        return a > b;
    case OP_LE:
        return a <= b;
    case OP_LT:
        return a < b;
    default:
        return a != b;
    }
}

/* The quotient is signed, the remainder is not (DWARF 5, 2.5.1.4). */
static uint64_t divided(struct evaluation *eval, unsigned char op, uint64_t a, uint64_t b)
{
    if (b == 0) {
        eval->bytes.bad = true;
        return 0;
    }
    if (op == OP_MOD)
        return a % b;
    return b == UINT64_MAX ? -a : (uint64_t)((int64_t)a / (int64_t)b);
}

static void do_binary(struct evaluation *eval, unsigned char op)
{
    uint64_t b = pop(eval), a = pop(eval);

    if (op == OP_AND)
        push(eval, a & b);
    else if (op == OP_OR)
        push(eval, a | b);
    else if (op == OP_XOR)
        push(eval, a ^ b);
    else if (op == OP_PLUS)
        push(eval, a + b);
    else if (op == OP_MINUS)
        push(eval, a - b);
    else if (op == OP_MUL)
        push(eval, a * b);
    else if (op == OP_DIV || op == OP_MOD)
        push(eval, divided(eval, op, a, b));
    else if (op >= OP_SHL && op <= OP_SHRA)
        push(eval, shifted(op, a, b));
    else if (op >= OP_EQ && op <= OP_NE)
        push(eval, compared(op, (int64_t)a, (int64_t)b));
    else
        eval->bytes.bad = true;
}

bool expression_value(struct dwarf_bytes bytes, const uint64_t *cfa,
                      const struct expression_source *source, uint64_t *value)
{
    struct evaluation eval = {.source = source, .start = bytes.at, .bytes = bytes};

    if (cfa)
        push(&eval, *cfa);
    for (unsigned steps = 0; !eval.bytes.bad && dwarf_left(&eval.bytes); steps++) {
        unsigned char op = (unsigned char)dwarf_fixed(&eval.bytes, 1);
        if (steps == STEPS_MAX)
            return false;
        if (!do_push(&eval, op) && !do_move(&eval, op) && !do_unary(&eval, op))
            do_binary(&eval, op);
    }
    *value = eval.bytes.bad ? 0 : pop(&eval);
    return !eval.bytes.bad;
}
