/* The registers of x86-64 in DWARF (System V ABI, figure 3.36) and in perf events; its code. */
#include "perf/machine.h"

#include <asm/perf_regs.h>
#include <string.h>

enum { DWARF_RBP = 6, DWARF_RSP = 7, DWARF_RIP = 16 };

const struct machine machine = {
    .sp = DWARF_RSP,
    .fp = DWARF_RBP,
    .link = MACHINE_REGS,
    .pc = DWARF_RIP,
    .fp_gives_sp = true,
    .address_mask = UINT64_MAX,
    .call_size = 7,
};

int machine_perf_register(unsigned dwarf)
{
    static const unsigned char numbers[] = {
        PERF_REG_X86_AX,  PERF_REG_X86_DX,  PERF_REG_X86_CX,  PERF_REG_X86_BX,  PERF_REG_X86_SI,
        PERF_REG_X86_DI,  PERF_REG_X86_BP,  PERF_REG_X86_SP,  PERF_REG_X86_R8,  PERF_REG_X86_R9,
        PERF_REG_X86_R10, PERF_REG_X86_R11, PERF_REG_X86_R12, PERF_REG_X86_R13, PERF_REG_X86_R14,
        PERF_REG_X86_R15, PERF_REG_X86_IP,
    };

    return dwarf < sizeof numbers ? numbers[dwarf] : -1;
}

/* True if bytes are `call *operand` (FF /2), len bytes long, after an optional REX prefix. */
static bool is_indirect_call(const unsigned char *bytes, size_t len)
{
    unsigned mod, rm;
    size_t need = 2;

    if ((*bytes & 0xf0) == 0x40) {
        bytes++;
        len--;
    }
    if (len < 2 || bytes[0] != 0xff || (bytes[1] >> 3 & 7) != 2)
        return false;
    mod = bytes[1] >> 6;
    rm = bytes[1] & 7;
    if (mod != 3 && rm == 4)
        need++;
    if (mod == 1)
        need++;
    else if (mod == 2 || (mod == 0 && rm == 5) ||
             (mod == 0 && rm == 4 && len > 2 && (bytes[2] & 7) == 5))
        need += 4;
    return need == len;
}

static remote_addr add_distance(const unsigned char *bytes, remote_addr after)
{
    int32_t distance;

    memcpy(&distance, bytes, sizeof distance);
    return after + (uint64_t)(int64_t)distance;
}

bool machine_is_call(const unsigned char *bytes, remote_addr after, struct machine_call *call)
{
    *call = (struct machine_call){0};
    if (bytes[2] == 0xe8) {
        call->target = add_distance(bytes + 3, after);
        return true;
    }
    for (size_t len = 2; len <= machine.call_size; len++) {
        const unsigned char *at = bytes + machine.call_size - len;
        if (!is_indirect_call(at, len))
            continue;
        if (len == 6 && at[1] == 0x15) /* call *distance(%rip) */
            call->slot = add_distance(at + 2, after);
        return true;
    }
    return false;
}

/* endbr64, if there is one; bnd, if there is one; jmp *distance(%rip) */
remote_addr machine_jump_slot(const unsigned char code[16], remote_addr at)
{
    static const unsigned char endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
    size_t i = memcmp(code, endbr64, sizeof endbr64) == 0 ? sizeof endbr64 : 0;

    i += code[i] == 0xf2;
    if (code[i] != 0xff || code[i + 1] != 0x25)
        return 0;
    return add_distance(code + i + 2, at + i + 6);
}

/* mov $15, %rax or %eax; syscall */
bool machine_is_signal_return(const unsigned char code[16])
{
    static const unsigned char with_rax[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
    static const unsigned char with_eax[] = {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};

    return memcmp(code, with_rax, sizeof with_rax) == 0 ||
           memcmp(code, with_eax, sizeof with_eax) == 0;
}

/* struct ucontext (asm/ucontext.h): struct sigcontext_64 at 40, in the order of the kernel. */
size_t machine_signal_offset(unsigned dwarf)
{
    static const unsigned char places[] = {13, 12, 14, 11, 9, 8, 10, 15, 0,
                                           1,  2,  3,  4,  5, 6, 7,  16};

    return dwarf < sizeof places ? 40 + 8 * (size_t)places[dwarf] : SIZE_MAX;
}

/* ---- prologues ---- */

/*
 * The first instructions of a function on x86-64: what they push, and how far they move
 * the stack pointer. Compilers put moves, comparisons and conditional jumps between
 * them. Reading ends at any instruction that is not among these.
 */
enum kind { KIND_END, KIND_PLAIN, KIND_MODRM, KIND_MODRM_IMM8, KIND_MODRM_IMM32 };

struct instruction {
    const unsigned char *at; /* behind the prefixes */
    size_t left;             /* bytes from there */
    size_t prefix_len;
    unsigned char rex;
    bool short_operand; /* 0x66 */
};

/* Instructions without an operand byte, besides push: their length; 0: another one. */
static size_t len_without_operand(const struct instruction *in)
{
    unsigned char op = in->at[0];

    if (op == 0x90 || op == 0x98 || op == 0x99)
        return 1;
    if ((op >= 0x70 && op <= 0x7f) || op == 0xa8 || op == 0x3c || (op >= 0xb0 && op <= 0xb7))
        return 2;
    if (op >= 0xb8 && op <= 0xbf)
        return in->rex & 8 ? 9 : in->short_operand ? 3 : 5;
    if (op == 0x3d || op == 0xa9 || op == 0x05 || op == 0x2d || op == 0x25 || op == 0x0d)
        return in->short_operand ? 3 : 5;
    if (op == 0x0f && in->left > 1 && in->at[1] >= 0x80 && in->at[1] <= 0x8f)
        return 6;
    return 0;
}

static enum kind kind_of_long(unsigned char op)
{
    if (op == 0xc6 || op == 0x70 || op == 0xa4 || op == 0xba)
        return KIND_MODRM_IMM8;
    if ((op >= 0x10 && op <= 0x1f) || (op >= 0x28 && op <= 0x2f) || (op >= 0x40 && op <= 0x6f) ||
        (op >= 0x90 && op <= 0x9f) || op == 0x7e || op == 0x7f || op == 0xaf || op == 0xb6 ||
        op == 0xb7 || (op >= 0xbc && op <= 0xbf) || (op >= 0xd0 && op <= 0xfe))
        return KIND_MODRM;
    return KIND_END;
}

static enum kind kind_of(const struct instruction *in)
{
    unsigned char op = in->at[0];

    if (op == 0x0f)
        return in->left > 1 ? kind_of_long(in->at[1]) : KIND_END;
    if (op < 0x40 && (op & 7) < 4)
        return KIND_MODRM;
    if (op == 0x80 || op == 0x83 || op == 0x6b || op == 0xc0 || op == 0xc1 || op == 0xc6)
        return KIND_MODRM_IMM8;
    if (op == 0x81 || op == 0x69 || op == 0xc7)
        return KIND_MODRM_IMM32;
    if (op == 0x63 || (op >= 0x84 && op <= 0x8b) || op == 0x8d || op == 0xd1 || op == 0xd3)
        return KIND_MODRM;
    return KIND_END;
}

/* Returns the length of the operand byte and what belongs to it. */
static size_t modrm_len(const unsigned char *modrm, size_t left)
{
    unsigned mod = modrm[0] >> 6, rm = modrm[0] & 7;
    size_t len = 1;

    if (mod == 3)
        return 1;
    if (rm == 4) {
        len++;
        if (mod == 0 && left > 1 && (modrm[1] & 7) == 5)
            len += 4;
    }
    if (mod == 1)
        len += 1;
    else if (mod == 2 || (mod == 0 && rm == 5))
        len += 4;
    return len;
}

/* Returns the length behind the prefixes; 0: an instruction that ends the reading. */
static size_t instruction_len(const struct instruction *in)
{
    static const unsigned char immediate[] = {0, 0, 0, 1, 4};
    size_t len = len_without_operand(in), op_len = in->at[0] == 0x0f ? 2 : 1;
    enum kind kind;

    if (len)
        return len;
    kind = kind_of(in);
    if (kind == KIND_END || in->left <= op_len)
        return 0;
    len = op_len + modrm_len(in->at + op_len, in->left - op_len) + immediate[kind];
    return kind == KIND_MODRM_IMM32 && in->short_operand ? len - 2 : len;
}

static void skip_prefixes(struct instruction *in)
{
    for (; in->left > 1; in->at++, in->left--, in->prefix_len++) {
        unsigned char byte = in->at[0];
        if (byte == 0x66)
            in->short_operand = true;
        else if (byte != 0xf2 && byte != 0xf3 && byte != 0x64 && byte != 0x2e)
            break;
    }
    if (in->left > 1 && (in->at[0] & 0xf0) == 0x40) {
        in->rex = in->at[0];
        in->at++;
        in->left--;
        in->prefix_len++;
    }
}

static int64_t immediate_of(const unsigned char *at, size_t size)
{
    int32_t value;

    if (size == 1)
        return (int8_t)*at;
    memcpy(&value, at, sizeof value);
    return value;
}

/* True if the instruction has the stack pointer as its destination. */
static bool is_stack_pointer_changed(const struct instruction *in)
{
    unsigned char op = in->at[0], modrm = in->at[1];

    if (in->left < 2 || op == 0x0f || in->rex & 1 || op == 0x39 || op == 0x3b || op == 0x85)
        return false;
    if (op == 0x8b || op == 0x8d || op == 0x03 || op == 0x2b)
        return (modrm >> 3 & 7) == 4 && !(in->rex & 4);
    return (op == 0x89 || op == 0x81 || op == 0x83 || op == 0x01 || op == 0x29) &&
           modrm >> 6 == 3 && (modrm & 7) == 4 && (modrm >> 3 & 7) != 7;
}

/* sub $n, %rsp; lea -n(%rsp), %rsp. False: it becomes something else, or greater. */
static bool move_stack_pointer(const struct instruction *in, struct machine_prologue *out)
{
    const unsigned char *at = in->at;
    int64_t by;

    if ((at[0] == 0x83 || at[0] == 0x81) && at[1] == 0xec && in->left >= 6)
        by = immediate_of(at + 2, at[0] == 0x83 ? 1 : 4);
    else if (at[0] == 0x8d && (at[1] == 0x64 || at[1] == 0xa4) && at[2] == 0x24 && in->left >= 7)
        by = -immediate_of(at + 3, at[1] == 0x64 ? 1 : 4);
    else
        return false;
    if (by < 0)
        return false;
    out->depth += (uint64_t)by;
    return true;
}

/* Returns the length of the instruction; 0: the reading ends here. */
static size_t read_one(struct instruction *in, struct machine_prologue *out, bool *known)
{
    static const unsigned char dwarf[] = {0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15};
    size_t len;

    skip_prefixes(in);
    const unsigned char *at = in->at;
    if (at[0] >= 0x50 && at[0] <= 0x57) { /* push */
        out->depth += 8;
        if (out->count < MACHINE_SAVED_MAX) {
            out->saved[out->count].reg = dwarf[(at[0] & 7) + (in->rex & 1) * 8];
            out->saved[out->count++].offset = out->depth;
        }
        return in->prefix_len + 1;
    }
    len = instruction_len(in);
    if (!len || len > in->left)
        return 0;
    if (is_stack_pointer_changed(in)) {
        /* add $n, %rsp: the function ends */
        bool back = (at[0] == 0x83 || at[0] == 0x81) && at[1] == 0xc4;
        *known = back || move_stack_pointer(in, out);
        if (back || !*known)
            return 0;
    }
    if (in->rex == 0x48) /* mov %rsp, %rbp; lea n(%rsp), %rbp */
        out->keeps_fp |= (at[0] == 0x89 && at[1] == 0xe5) ||
                         (at[0] == 0x8d && (at[1] == 0x6c || at[1] == 0xac) && at[2] == 0x24);
    return in->prefix_len + len;
}

bool machine_read_prologue(const unsigned char *code, size_t len, struct machine_prologue *out)
{
    bool known = true;

    *out = (struct machine_prologue){.depth = 8};
    for (size_t at = 0, one; at < len; at += one) {
        struct instruction in = {.at = code + at, .left = len + MACHINE_PROLOGUE_SPARE - at};
        one = read_one(&in, out, &known);
        if (one)
            continue;
        /* jmp: the distance from the function's start to where it leads */
        const int64_t opcode_at = (int64_t)(at + in.prefix_len);
        if (out->depth == 8 && in.at[0] == 0xe9)
            out->jump = opcode_at + 5 + immediate_of(in.at + 1, 4);
        else if (out->depth == 8 && in.at[0] == 0xeb)
            out->jump = opcode_at + 2 + immediate_of(in.at + 1, 1);
        break;
    }
    return known;
}
