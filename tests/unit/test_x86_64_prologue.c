/* Calls, stubs and first instructions of functions on x86-64, as bytes. */
#include "check.h"
#include "perf/machine.h"

#include <stdlib.h>
#include <string.h>

#define AT ((remote_addr)0x10000)

static struct machine_call call;

/* The bytes end at AT. */
static bool is_call(const char *text, size_t len)
{
    unsigned char bytes[7] = {0};

    memcpy(bytes + sizeof bytes - len, text, len);
    return machine_is_call(bytes, AT, &call);
}

#define CALL(text) is_call(text, sizeof text - 1)

static void test_calls(void)
{
    CHECK(CALL("\xe8\x10\x00\x00\x00") && call.target == AT + 0x10 && !call.slot);
    CHECK(CALL("\xe8\xf0\xff\xff\xff") && call.target == AT - 0x10);
    CHECK(CALL("\xff\x15\x20\x00\x00\x00") && call.slot == AT + 0x20 && !call.target);
    CHECK(CALL("\xff\xd0") && !call.slot && !call.target); /* *%rax */
    CHECK(CALL("\x41\xff\xd4"));                           /* *%r12 */
    CHECK(CALL("\xff\x53\x08"));                           /* *8(%rbx) */
    CHECK(CALL("\xff\x14\x24"));                           /* *(%rsp) */
    CHECK(CALL("\xff\x14\xc5\x00\x00\x00\x01"));           /* *0x1000000(,%rax,8) */
    CHECK(!CALL("\xff\xe0"));                              /* jmp *%rax */
    CHECK(!CALL("\x90\x90\x90\x90\x90\x90\x90"));
    CHECK(!CALL("\xe9\x10\x00\x00\x00"));
}

static void test_stubs(void)
{
    static const unsigned char plain[16] = {0xff, 0x25, 0x10};
    static const unsigned char checked[16] = {0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0x10};
    static const unsigned char other[16] = {0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x15, 0x10};

    CHECK(machine_jump_slot(plain, AT) == AT + 6 + 0x10);
    CHECK(machine_jump_slot(checked, AT) == AT + 11 + 0x10);
    CHECK(machine_jump_slot(other, AT) == 0);
}

static struct machine_prologue prologue;

static bool reads(const char *text, size_t len)
{
    unsigned char code[128 + MACHINE_PROLOGUE_SPARE] = {0};

    memcpy(code, text, len);
    return machine_read_prologue(code, len, &prologue);
}

#define READS(text) reads(text, sizeof text - 1)

static void test_prologues(void)
{
    CHECK(READS("") && prologue.depth == 8 && !prologue.keeps_fp && !prologue.jump);
    /* endbr64; push %rbp; mov %rsp, %rbp; sub $0x20, %rsp */
    CHECK(READS("\xf3\x0f\x1e\xfa\x55\x48\x89\xe5\x48\x83\xec\x20"));
    CHECK(prologue.depth == 48 && prologue.keeps_fp && prologue.count == 1);
    CHECK(prologue.saved[0].reg == machine.fp && prologue.saved[0].offset == 16);
    /* push %r15; mov %rdi, %r15; push %rbx; test %esi, %esi; je; sub $0x348, %rsp; call */
    CHECK(READS("\x41\x57\x49\x89\xff\x53\x85\xf6\x74\x10\x48\x81\xec\x48\x03\x00\x00\xe8"));
    CHECK(prologue.depth == 8 + 16 + 0x348 && prologue.count == 2 && !prologue.keeps_fp);
    CHECK(prologue.saved[0].reg == 15 && prologue.saved[1].reg == 3);
    CHECK(prologue.saved[1].offset == 24);
    /* mov %fs:0x28, %rax; movabs; mov %rdx, 8(%rsp); push %rbx */
    CHECK(READS("\x64\x48\x8b\x04\x25\x28\x00\x00\x00\x49\xb8\x01\x02\x03\x04\x05\x06\x07\x08"
                "\x48\x89\x54\x24\x08\x53") &&
          prologue.depth == 16);
    /* What comes behind a branch that is always taken does not count. */
    CHECK(READS("\x53\xc3\x53") && prologue.depth == 16 && prologue.count == 1);
    CHECK(READS("\x53\x5b\x53") && prologue.depth == 16);
    /* A stack pointer that is aligned, or set, is not known. */
    CHECK(!READS("\x55\x48\x89\xe5\x48\x83\xe4\xc0") && prologue.keeps_fp);
    CHECK(!READS("\x48\x89\xc4"));
    CHECK(!READS("\x48\x81\xec\x00\x00\x00\x80"));
    /* mov %rcx, %r8; jmp */
    CHECK(READS("\x49\x89\xc8\xe9\x10\x00\x00\x00") && prologue.jump == 8 + 0x10);
    CHECK(READS("\xeb\xf0") && prologue.jump == 2 - 0x10);
    CHECK(READS("\x53\xe9\x10\x00\x00\x00") && prologue.jump == 0);
    /* More registers than have a place. */
    CHECK(READS("\x50\x51\x52\x53\x55\x56\x57\x41\x50\x41\x51\x41\x52"));
    CHECK(prologue.depth == 88 && prologue.count == MACHINE_SAVED_MAX);
}

/* Any bytes: it ends, and the stack pointer has only become lower. */
static void test_any(void)
{
    unsigned seed = 1;

    for (unsigned round = 0; round < 100000; round++) {
        char text[64];
        for (size_t i = 0; i < sizeof text; i++)
            text[i] = (char)rand_r(&seed);
        reads(text, round % sizeof text);
        CHECK(prologue.depth >= 8 && prologue.count <= MACHINE_SAVED_MAX);
        is_call(text, 7);
    }
}

int main(void)
{
    test_calls();
    test_stubs();
    test_prologues();
    test_any();
    return check_result();
}
