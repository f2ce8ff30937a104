/* References of x86-64 code (Intel SDM, volume 2, 2.1 and appendix A). */
#include "inject/refs.h"

#include <string.h>

/* The purpose of an opcode's ModRM operand. */
enum {
    OPERAND_NONE,
    OPERAND_PLAIN,
    OPERAND_IMM8, /* an immediate follows the displacement, which counts from its end */
    OPERAND_IMM32,
    OPERAND_TEST8, /* like IMM8 if ModRM.reg is 0 or 1 */
    OPERAND_TEST32,
    OPERAND_ADDRESS, /* lea */
};

/* One-byte opcodes that compilers use with a memory operand. */
static const unsigned char operands[256] = {
    [0x01] = OPERAND_PLAIN, [0x03] = OPERAND_PLAIN,   [0x09] = OPERAND_PLAIN,
    [0x0b] = OPERAND_PLAIN, [0x21] = OPERAND_PLAIN,   [0x23] = OPERAND_PLAIN,
    [0x29] = OPERAND_PLAIN, [0x2b] = OPERAND_PLAIN,   [0x31] = OPERAND_PLAIN,
    [0x33] = OPERAND_PLAIN, [0x38] = OPERAND_PLAIN,   [0x39] = OPERAND_PLAIN,
    [0x3a] = OPERAND_PLAIN, [0x3b] = OPERAND_PLAIN,   [0x63] = OPERAND_PLAIN,
    [0x69] = OPERAND_IMM32, [0x6b] = OPERAND_IMM8,    [0x80] = OPERAND_IMM8,
    [0x81] = OPERAND_IMM32, [0x83] = OPERAND_IMM8,    [0x84] = OPERAND_PLAIN,
    [0x85] = OPERAND_PLAIN, [0x86] = OPERAND_PLAIN,   [0x87] = OPERAND_PLAIN,
    [0x88] = OPERAND_PLAIN, [0x89] = OPERAND_PLAIN,   [0x8a] = OPERAND_PLAIN,
    [0x8b] = OPERAND_PLAIN, [0x8d] = OPERAND_ADDRESS, [0xc6] = OPERAND_IMM8,
    [0xc7] = OPERAND_IMM32, [0xf6] = OPERAND_TEST8,   [0xf7] = OPERAND_TEST32,
    [0xfe] = OPERAND_PLAIN, [0xff] = OPERAND_PLAIN,
};

static remote_addr displacement(const unsigned char *at)
{
    int32_t value;
    memcpy(&value, at, sizeof value);
    return (remote_addr)(int64_t)value;
}

/*
 * True if the ModRM byte at code[i] follows a two-byte opcode of these: moves of vectors, cmov,
 * movzx, movsx, cmpxchg, xadd.
 */
static bool has_long_opcode(const unsigned char *code, size_t i)
{
    if (i < 2 || code[i - 2] != 0x0f)
        return false;
    unsigned char opcode = code[i - 1];
    return (opcode >= 0x40 && opcode < 0x50) || (opcode >= 0x10 && opcode <= 0x17) ||
           (opcode >= 0x28 && opcode <= 0x2f) || (opcode >= 0x51 && opcode <= 0x7f) ||
           (opcode >= 0xb6 && opcode <= 0xbf) || opcode == 0xaf || opcode == 0xb0 ||
           opcode == 0xb1 || opcode == 0xc0 || opcode == 0xc1 || opcode >= 0xd0;
}

/* Returns the access of the moves, comparisons and tests that have a ModRM byte at code[i]. */
static enum ref_access access_of(const unsigned char *code, size_t i, unsigned *size)
{
    unsigned char opcode = code[i - 1];
    unsigned reg = code[i] >> 3 & 7;

    *size = 1;
    if (has_long_opcode(code, i)) /* movzx, movsx */
        return opcode == 0xb6 || opcode == 0xbe ? REF_READ : REF_OTHER;
    if (opcode == 0x88)
        return REF_WRITE;
    if (opcode == 0x8a || opcode == 0x38 || opcode == 0x3a || opcode == 0x84 ||
        (opcode == 0x80 && reg == 7) || (opcode == 0xf6 && reg < 2))
        return REF_READ;
    *size = i >= 2 && (code[i - 2] & 0xf8) == 0x48 ? 8 : 0; /* REX.W */
    return opcode == 0x8b ? REF_READ : opcode == 0x89 ? REF_WRITE : REF_OTHER;
}

/* The reference is at code[i]; of an operand in memory, or of its address, that is its ModRM byte.
 */
static void report_ref(const struct ref_query *query, const unsigned char *code, size_t i,
                       remote_addr address, enum ref_kind kind, remote_addr target)
{
    struct ref ref = {.at = address + i, .target = target, .kind = kind};

    if (!(query->kinds & kind) || target < query->low || target >= query->high)
        return;
    if (kind == REF_DATA)
        ref.access = access_of(code, i, &ref.size);
    if (ref.access == REF_OTHER)
        ref.size = 0;
    query->visit(query->ctx, &ref);
}

/*
 * Returns the purpose of the operand of the ModRM byte at code[i]; *after:
 * bytes after the displacement.
 */
static enum ref_kind operand_kind(const unsigned char *code, size_t i, size_t *after)
{
    unsigned reg = code[i] >> 3 & 7;

    *after = 0;
    if (has_long_opcode(code, i))
        return REF_DATA;
    switch (i >= 1 ? operands[code[i - 1]] : OPERAND_NONE) {
    case OPERAND_NONE:
        return 0;
    case OPERAND_ADDRESS: /* a 64-bit address: REX.W */
        return i >= 2 && (code[i - 2] & 0xfb) == 0x48 ? REF_ADDRESS : 0;
    case OPERAND_IMM8:
        *after = 1;
        break;
    case OPERAND_IMM32:
        *after = 4;
        break;
    case OPERAND_TEST8:
        *after = reg < 2 ? 1 : 0;
        break;
    case OPERAND_TEST32:
        *after = reg < 2 ? 4 : 0;
        break;
    default:
        break;
    }
    return REF_DATA;
}

/* Visits a displacement or immediate that is itself the address: 32 bits, sign-extended. */
static void visit_absolute(const unsigned char *code, size_t i, remote_addr address,
                           const struct ref_query *query)
{
    unsigned char byte = code[i], modrm = code[i + 1];
    size_t after;

    if ((byte & 0xf8) == 0xb8 || byte == 0x68) /* mov $imm32,%reg; push $imm32 */
        report_ref(query, code, i, address, REF_ADDRESS, displacement(code + i + 1));
    if ((byte == 0xc7 && (modrm & 0xf8) == 0xc0) || (byte == 0x81 && (modrm & 0xf8) == 0xf8))
        report_ref(query, code, i, address, REF_ADDRESS, displacement(code + i + 2)); /* mov, cmp */
    if (byte == 0x3d && i > 0 && code[i - 1] == 0x48)
        report_ref(query, code, i, address, REF_ADDRESS,
                   displacement(code + i + 1)); /* cmp $imm32,%rax */
    /* As ModRM: disp32(%base), disp32(%base,%index), disp32(,%index). */
    bool sib = (byte & 7) == 4;
    if ((byte & 0xc0) != 0x80 && !((byte & 0xc7) == 4 && (modrm & 7) == 5))
        return;
    enum ref_kind kind = operand_kind(code, i, &after);
    if (kind)
        report_ref(query, code, i, address, kind, displacement(code + i + 1 + sib));
}

static void visit_byte(const unsigned char *code, size_t i, remote_addr address,
                       const struct ref_query *query)
{
    unsigned char byte = code[i];
    size_t after;

    if (byte == 0xe8)
        report_ref(query, code, i, address, REF_CALL, address + i + 5 + displacement(code + i + 1));
    else if (byte == 0xe9 || ((byte & 0xf0) == 0x80 && code[i - 1] == 0x0f))
        report_ref(query, code, i, address, REF_JUMP, address + i + 5 + displacement(code + i + 1));
    else if ((byte & 0xc7) == 5) {
        enum ref_kind kind = operand_kind(code, i, &after);
        if (kind)
            report_ref(query, code, i, address, kind,
                       address + i + 5 + after + displacement(code + i + 1));
    }
}

void refs_visit(const unsigned char *code, size_t len, size_t fresh, remote_addr address,
                const struct ref_query *query)
{
    /* From the third byte on, so that an opcode before ModRM is in the same piece. */
    size_t end = len < 7 ? 0 : fresh + 2 < len - 6 ? fresh + 2 : len - 6;
    bool absolute = query->absolute && query->kinds & (REF_ADDRESS | REF_DATA);
    bool chosen[256] = {false}; /* bytes that may start or end the part that is searched */

    /* Three times as fast: memchr finds the opcode of a call. */
    if (query->kinds == REF_CALL) {
        for (const unsigned char *at = code + 2;
             at < code + end && (at = memchr(at, 0xe8, (size_t)(code + end - at))); at++)
            visit_byte(code, (size_t)(at - code), address, query);
        return;
    }
    chosen[0xe8] = query->kinds & REF_CALL;
    chosen[0xe9] = query->kinds & REF_JUMP;
    for (unsigned i = 0; i < 256; i++) {
        if ((i & 0xf0) == 0x80 && query->kinds & REF_JUMP)
            chosen[i] = true; /* jcc rel32, after 0f */
        if ((i & 0xc7) == 5 && query->kinds & (REF_ADDRESS | REF_DATA))
            chosen[i] = true; /* ModRM: disp32(%rip) */
    }
    for (size_t i = 2; i < end; i++) {
        if (chosen[code[i]])
            visit_byte(code, i, address, query);
        if (absolute)
            visit_absolute(code, i, address, query);
    }
}

bool refs_make_syscall(const unsigned char *code, size_t len)
{
    return memmem(code, len, "\x0f\x05", 2) != NULL;
}

enum { NUMBER_NEAR = 48, THREAD_NEAR = 48 };

/* mov $nr,%eax, or %al, for clone 56, fork 57, vfork 58, clone3 435. */
static bool loads_fork_number(const unsigned char *code, size_t len)
{
    static const unsigned char numbers[][5] = {{0xb8, 56}, {0xb8, 57}, {0xb8, 58}, {0xb8, 179, 1}};

    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        if (len >= 5 && memcmp(code, numbers[i], 5) == 0)
            return true;
    return len >= 2 && code[0] == 0xb0 && code[1] >= 56 && code[1] <= 58;
}

/* call *%reg: the first function of a thread. */
static bool calls_register(const unsigned char *code, size_t len)
{
    for (size_t i = 0; i + 2 <= len && i < THREAD_NEAR; i++)
        if (code[i] == 0xff && (code[i + 1] & 0xf8) == 0xd0)
            return true;
    return false;
}

static bool is_fork(const unsigned char *at, size_t back)
{
    /*
     * mov $number,%eax right before a system call, but not mov $number,%r8d, nor
     * mov number(%r8),%edi and its like: no other number counts.
     */
    if (back >= 6 && at[-5] == 0xb8 && (at[-6] & 0xf0) != 0x40 && (at[-6] & 0xf9) != 0x89 &&
        at[-3] <= 1 && at[-2] == 0 && at[-1] == 0)
        return loads_fork_number(at - 5, 5);
    for (const unsigned char *number = at - back; number < at; number++)
        if (loads_fork_number(number, (size_t)(at - number)))
            return true;
    return false;
}

size_t refs_find_fork(const unsigned char *code, size_t len)
{
    static const unsigned char instruction[] = {0x0f, 0x05};
    const unsigned char *at = code;

    while ((at = memmem(at, (size_t)(code + len - at), instruction, sizeof instruction))) {
        size_t offset = (size_t)(at - code);
        size_t back = offset < NUMBER_NEAR ? offset : NUMBER_NEAR;
        if (is_fork(at, back) && !calls_register(at + 2, len - offset - 2))
            return offset;
        at += sizeof instruction;
    }
    return SIZE_MAX;
}

/*
 * CLONE_VM, FS, FILES, SIGHAND, THREAD, SYSVSEM, SETTLS, PARENT_SETTID,
 * CHILD_CLEARTID, and in musl DETACHED.
 */
size_t refs_find_thread_flags(const unsigned char *code, size_t len)
{
    static const unsigned char flags[][4] = {{0, 0x0f, 0x3d, 0}, {0, 0x0f, 0x7d, 0}};
    size_t first = SIZE_MAX;

    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        const unsigned char *at = memmem(code, len, flags[i], sizeof flags[i]);
        if (at && (size_t)(at - code) < first)
            first = (size_t)(at - code);
    }
    return first;
}

/* call *(%reg); mov %rax,%rdi, or movslq %eax,%rdi; call rel32 */
size_t refs_find_thread_end(const unsigned char *code, size_t len, int64_t *target)
{
    static const unsigned char moves[][4] = {{0x48, 0x89, 0xc7, 0xe8}, {0x48, 0x63, 0xf8, 0xe8}};

    for (size_t i = 2; i + 8 <= len; i++) {
        int32_t distance;
        if (code[i] != 0x48 || code[i - 2] != 0xff || (code[i - 1] & 0xf8) != 0x10 ||
            (memcmp(code + i, moves[0], 4) != 0 && memcmp(code + i, moves[1], 4) != 0))
            continue;
        memcpy(&distance, code + i + 4, sizeof distance);
        *target = (int64_t)i + 8 + distance;
        return i + 3;
    }
    return SIZE_MAX;
}

/* mov $60,%reg; ...; 1: mov %reg,%rax; syscall; jmp 1b */
size_t refs_find_exit_loop(const unsigned char *code, size_t len)
{
    static const unsigned char number[] = {60, 0, 0, 0}, loop[] = {0x0f, 0x05, 0xeb};
    const unsigned char *at = code;

    while ((at = memmem(at, (size_t)(code + len - at), loop, sizeof loop))) {
        size_t offset = (size_t)(at - code), back = offset < 16 ? offset : 16;
        if (len - offset >= 4 && at[3] >= 0x80 && memmem(at - back, back, number, sizeof number))
            return offset + 4;
        at++;
    }
    return SIZE_MAX;
}

/*
 * glibc:  mov $offset,%rcx; neg %eax; mov %eax,%fs:(%rcx)
 * musl:   mov %fs:0,%rax; ... mov %ecx,0x34(%rax) has no distinctive form; only
 *         its __errno_location is recognized.
 */
bool refs_errno_offset(const unsigned char *code, size_t len, int32_t *offset)
{
    static const unsigned char store[] = {0xf7, 0xd8, 0x64, 0x89, 0x01};
    static const unsigned char load[] = {0x48, 0xc7, 0xc1};
    static const unsigned char musl[] = {0x64, 0x48, 0x8b, 0x04, 0x25, 0,    0,
                                         0,    0,    0x48, 0x83, 0xc0, 0x34, 0xc3};
    const unsigned char *at = code;

    while ((at = memmem(at, (size_t)(code + len - at), store, sizeof store))) {
        if (at - code >= 7 && memcmp(at - 7, load, sizeof load) == 0) {
            memcpy(offset, at - 4, sizeof *offset);
            return true;
        }
        at++;
    }
    *offset = 0x34;
    return memmem(code, len, musl, sizeof musl) != NULL;
}

size_t refs_find_errno_location(const unsigned char *code, size_t len, int32_t offset)
{
    /* mov $offset,%rax; add %fs:0,%rax; ret   or   mov %fs:0,%rax; add $offset,%rax; ret */
    unsigned char glibc[] = {0x48, 0xc7, 0xc0, 0, 0, 0, 0, 0x64, 0x48,
                             0x03, 0x04, 0x25, 0, 0, 0, 0, 0xc3};
    unsigned char musl[] = {0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0, 0x48, 0x83, 0xc0, 0, 0xc3};
    const unsigned char *at;

    memcpy(glibc + 3, &offset, sizeof offset);
    at = memmem(code, len, glibc, sizeof glibc);
    if (!at && offset >= 0 && offset < 128) {
        musl[12] = (unsigned char)offset;
        at = memmem(code, len, musl, sizeof musl);
    }
    return at ? (size_t)(at - code) : SIZE_MAX;
}

const struct tls_relocations arch_tls_relocations = {.offset = R_X86_64_TPOFF64,
                                                     .module = R_X86_64_DTPMOD64};
