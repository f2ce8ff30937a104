/* x86-64: the instructions that the finders recognize. */
#include "check.h"
#include "inject/arch.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* True if the last instruction of bytes that end at a return address is taken for a call. */
static bool follows(const unsigned char *code, size_t len)
{
    unsigned char before[8];

    memset(before, 0x90, sizeof before);
    memcpy(before + sizeof before - len, code, len);
    return arch_follows_call(before);
}

struct encoding {
    const char *text;
    size_t len;
    unsigned char code[8];
};

static void test_calls(void)
{
    static const struct encoding rows[] = {
        {"call rel32", 5, {0xe8, 0x01, 0x02, 0x03, 0x04}},
        {"call *%rax", 2, {0xff, 0xd0}},
        {"call *%rdi", 2, {0xff, 0xd7}},
        {"call *%r11", 3, {0x41, 0xff, 0xd3}},
        {"notrack call *%rax", 3, {0x3e, 0xff, 0xd0}},
        {"call *(%rax)", 2, {0xff, 0x10}},
        {"call *(%r11)", 3, {0x41, 0xff, 0x13}},
        {"call *8(%rbx)", 3, {0xff, 0x53, 0x08}},
        {"call *0(%rbp)", 3, {0xff, 0x55, 0x00}},
        {"call *0x100(%rcx)", 6, {0xff, 0x91, 0x00, 0x01, 0x00, 0x00}},
        {"call *disp32(%rip)", 6, {0xff, 0x15, 0x44, 0x33, 0x22, 0x11}},
        {"call *(%rsp)", 3, {0xff, 0x14, 0x24}},
        {"call *(%rsp,%rax,8)", 3, {0xff, 0x14, 0xc4}},
        {"call *(%rdi,%rax,8)", 3, {0xff, 0x14, 0xc7}},
        {"call *8(%rsp)", 4, {0xff, 0x54, 0x24, 0x08}},
        {"call *16(%r12)", 5, {0x41, 0xff, 0x54, 0x24, 0x10}},
        {"call *0x1234(%rsp)", 7, {0xff, 0x94, 0x24, 0x34, 0x12, 0x00, 0x00}},
        {"call *0x1234(%r12)", 8, {0x41, 0xff, 0x94, 0x24, 0x34, 0x12, 0x00, 0x00}},
        {"call *disp32", 7, {0xff, 0x14, 0x25, 0x44, 0x33, 0x22, 0x11}},
        {"call *disp32(,%rax,8)", 7, {0xff, 0x14, 0xc5, 0x44, 0x33, 0x22, 0x11}},
        {"call *%fs:disp32", 8, {0x64, 0xff, 0x14, 0x25, 0x10, 0x00, 0x00, 0x00}},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (!CHECK(follows(rows[i].code, rows[i].len)))
            fprintf(stderr, "  %s\n", rows[i].text);
}

/* The offset of the target in the instruction, and the end of a call through a pointer. */
static void test_direct_calls(void)
{
    static const unsigned char direct[8] = {0x90, 0x90, 0x90, 0xe8, 1, 2, 3, 4};
    static const unsigned char both[8] = {0x90, 0x90, 0x90, 0xe8, 1, 2, 0xff, 0xd0};
    static const unsigned char indirect[8] = {0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xd0};

    CHECK(arch_follows_direct_call(direct));
    CHECK(!arch_follows_direct_call(both) && !arch_follows_direct_call(indirect));
}

static void test_no_calls(void)
{
    static const struct encoding rows[] = {
        {"nops", 1, {0x90}},
        {"jmp rel32", 5, {0xe9, 0x01, 0x02, 0x03, 0x04}},
        {"jmp *%rax", 2, {0xff, 0xe0}},
        {"jmp *disp32(%rip)", 6, {0xff, 0x25, 0x44, 0x33, 0x22, 0x11}},
        {"push (%rax)", 2, {0xff, 0x30}},
        {"inc %eax", 2, {0xff, 0xc0}},
        {"dec (%rax)", 2, {0xff, 0x08}},
        {"push %rbp", 1, {0x55}},
        {"ret", 1, {0xc3}},
        {"syscall", 2, {0x0f, 0x05}},
        {"mov %rax,%rdi", 3, {0x48, 0x89, 0xc7}},
        {"call rel32, then a byte", 6, {0xe8, 0x01, 0x02, 0x03, 0x04, 0x90}},
        {"call *%rax, then a byte", 3, {0xff, 0xd0, 0x90}},
        {"call *8(%rbx) without its displacement", 2, {0xff, 0x53}},
        {"call *disp32(%rip) without one of its bytes", 5, {0xff, 0x15, 0x44, 0x33, 0x22}},
        {"call *(%rsp,%rax,8) without its SIB", 2, {0xff, 0x14}},
        {"call *disp32 without one of its bytes", 6, {0xff, 0x14, 0x25, 0x44, 0x33, 0x22}},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (!CHECK(!follows(rows[i].code, rows[i].len)))
            fprintf(stderr, "  %s\n", rows[i].text);
}

/* Every ModRM byte of opcode ff: its length by the manual's table, and only /2 is a call. */
static void test_all_forms(void)
{
    for (unsigned modrm = 0; modrm < 256; modrm++) {
        unsigned mod = modrm >> 6, rm = modrm & 7;
        bool sib = mod != 3 && rm == 4;
        size_t displacement = mod == 1 ? 1 : mod == 2 || (mod == 0 && rm == 5) ? 4 : 0;
        size_t len = 2 + sib + displacement;
        unsigned char code[8] = {0xff, (unsigned char)modrm, 0x20};
        CHECK(follows(code, len) == ((modrm >> 3 & 7) == 2));
        CHECK(!follows(code, len + 1));
    }
}

static const unsigned char glibc_syscall[] = {0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0,
                                              0xff, 0xff, 0x73, 0x01, 0xc3};
static const unsigned char plain_syscall[] = {0x0f, 0x05, 0xc3};
static const unsigned char restorer[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};

typedef size_t (*finder)(const unsigned char *code, size_t len);

/* In a copy of exactly its size, at every possible place, and cut short at the end. */
static void check_finder(finder find, const unsigned char *bytes, size_t n, size_t from)
{
    enum { LEN = 64 };
    unsigned char *code = malloc(LEN);

    if (!CHECK(code != NULL))
        return;
    for (size_t at = from; at + n <= LEN; at++) {
        memset(code, 0xc3, LEN);
        memcpy(code + at, bytes, n);
        CHECK(find(code, LEN) == at);
    }
    for (size_t missing = 1; missing < n; missing++) {
        memset(code, 0x90, LEN);
        memcpy(code + LEN - n + missing, bytes, n - missing);
        CHECK(find(code, LEN) == SIZE_MAX);
    }
    CHECK(find(code, 0) == SIZE_MAX);
    free(code);
}

static void test_syscall_return(void)
{
    unsigned char code[64];

    check_finder(arch_find_syscall_return, glibc_syscall, sizeof glibc_syscall, 0);
    check_finder(arch_find_syscall_return, plain_syscall, sizeof plain_syscall, 0);
    memset(code, 0x90, sizeof code);
    memcpy(code + 8, plain_syscall, sizeof plain_syscall);
    memcpy(code + 32, glibc_syscall, sizeof glibc_syscall);
    CHECK(arch_find_syscall_return(code, sizeof code) == 32); /* it is preferred */
    CHECK(arch_find_syscall_return(code, 42) == 8);
    code[40] = 0x0f; /* jae to another place than over the return */
    CHECK(arch_find_syscall_return(code, sizeof code) == 8);
}

static void test_sigreturn(void)
{
    unsigned char code[32];

    check_finder(arch_find_sigreturn, restorer, sizeof restorer, 0);
    memset(code, 0x90, sizeof code);
    memcpy(code + 4, restorer, sizeof restorer);
    code[7] = 0x0e; /* another system call */
    CHECK(arch_find_sigreturn(code, sizeof code) == SIZE_MAX);
}

struct store {
    const char *text;
    size_t len; /* 0: no store */
    unsigned char code[8];
    unsigned char form;
    int8_t disp;
};

static const struct store stores[] = {
    {"mov %rax,(%rdi); ret", 4, {0x48, 0x89, 0x07, 0xc3}, ARCH_STORE_PLAIN, 0},
    {"mov %rax,8(%rdi); ret", 5, {0x48, 0x89, 0x47, 0x08, 0xc3}, ARCH_STORE_PLAIN, 8},
    {"mov %rax,-16(%rdi); ret", 5, {0x48, 0x89, 0x47, 0xf0, 0xc3}, ARCH_STORE_PLAIN, -16},
    {"mov %rax,(%rbx); pop; ret", 5, {0x48, 0x89, 0x03, 0x5b, 0xc3}, ARCH_STORE_POPS, 0},
    {"mov %rax,24(%rbx); pop; ret", 6, {0x48, 0x89, 0x43, 0x18, 0x5b, 0xc3}, ARCH_STORE_POPS, 24},
    {"mov %rax,-128(%rbx); pop; ret",
     6,
     {0x48, 0x89, 0x43, 0x80, 0x5b, 0xc3},
     ARCH_STORE_POPS,
     -128},
    {"mov %rax,(%rbx); ret", 0, {0x48, 0x89, 0x03, 0xc3}, 0, 0},
    {"mov %rax,(%rdi); pop %rbx; ret", 0, {0x48, 0x89, 0x07, 0x5b, 0xc3}, 0, 0},
    {"mov %rax,(%rbx); pop %rbp; ret", 0, {0x48, 0x89, 0x03, 0x5d, 0xc3}, 0, 0},
    {"mov %eax,(%rdi); ret", 0, {0x89, 0x07, 0xc3}, 0, 0},
    {"mov %rcx,(%rdi); ret", 0, {0x48, 0x89, 0x0f, 0xc3}, 0, 0},
    {"mov %rax,(%rsi); ret", 0, {0x48, 0x89, 0x06, 0xc3}, 0, 0},
    {"mov %rax,%rdi; ret", 0, {0x48, 0x89, 0xc7, 0xc3}, 0, 0},
    {"mov %rax,disp32(%rdi); ret", 0, {0x48, 0x89, 0x87, 0x00, 0x00, 0x00, 0x00, 0xc3}, 0, 0},
    {"mov (%rdi),%rax; ret", 0, {0x48, 0x8b, 0x07, 0xc3}, 0, 0},
};

static void test_decode_store(void)
{
    for (size_t i = 0; i < ARRAY_LEN(stores); i++) {
        struct arch_gadgets gadgets = {0};
        arch_decode_store(&gadgets, 0x1234, stores[i].code);
        bool good = gadgets.store == (stores[i].len ? 0x1234 : 0);
        good &= !stores[i].len ||
                (gadgets.store_form == stores[i].form && gadgets.store_disp == stores[i].disp);
        if (!CHECK(good))
            fprintf(stderr, "  %s\n", stores[i].text);
    }
}

/* The first bytes of code are left out; a module's code does not begin with such a function. */
static void test_find_store(void)
{
    for (size_t i = 0; i < ARRAY_LEN(stores); i++) {
        unsigned char code[32];
        memset(code, 0x90, sizeof code);
        if (stores[i].len) {
            check_finder(arch_find_store, stores[i].code, stores[i].len, 8);
            continue;
        }
        memcpy(code + 12, stores[i].code, 8);
        memset(code + 20, 0x90, sizeof code - 20);
        if (!CHECK(arch_find_store(code, sizeof code) == SIZE_MAX))
            fprintf(stderr, "  %s\n", stores[i].text);
    }
}

/* The form that can follow a function's return, and no other. */
static void test_find_store_pops(void)
{
    for (size_t i = 0; i < ARRAY_LEN(stores); i++) {
        unsigned char code[32];
        memset(code, 0x90, sizeof code);
        memcpy(code + 12, stores[i].code, stores[i].len);
        bool pops = stores[i].len && stores[i].form == ARCH_STORE_POPS;
        CHECK(arch_find_store_pops(code, sizeof code) == (pops ? 12 : SIZE_MAX));
    }
}

static void test_trampoline(void)
{
    size_t len;
    const unsigned char *code = arch_trampoline(&len);

    CHECK(len > 64 && len <= 4096 && len % 8 == 0);
    /* It ends in a sigreturn, followed by a jump back and no further code. */
    CHECK(memmem(code, len, "\x0f\x05\xeb", 3) != NULL);
    CHECK(arch_find_sigreturn(code, len) != SIZE_MAX);
    CHECK(arch_fp_control() == 0x1f80);
}

int main(void)
{
    test_calls();
    test_direct_calls();
    test_no_calls();
    test_all_forms();
    test_syscall_return();
    test_sigreturn();
    test_decode_store();
    test_find_store();
    test_find_store_pops();
    test_trampoline();
    return check_result();
}
