/*
 * The ways out of functions: of this test's own, which the compiler made in
 * every form that it has, and of bytes that are laid out to mislead.
 */
#include "check.h"
#include "guard.h"
#include "inject/ways.h"
#include "own.h"

#include <limits.h>
#include <string.h>
#include <ucontext.h>

enum { FRAMES = 8, BASE = 0x10000, STACK_AT = 0x7000000 };

static struct own own;
static struct ways *ways;

/* --- functions of the test itself --- */

/* Where each function returns to, as the compiler knows it; the innermost is the last. */
static remote_addr returns_to[FRAMES];
static size_t depth;
static volatile int zero;
static volatile bool ended;
static ucontext_t context;

#define NOTE()                                                                                     \
    (returns_to[depth++] =                                                                         \
         (remote_addr)(uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0)))
#ifdef __clang__
#define APART __attribute__((noinline))
#else
#define APART __attribute__((noinline, noclone, noipa))
#endif

/* Not by a pointer: the sanitizer forbids words between the objects of a frame. */
static bool own_word(void *ctx, remote_addr addr, uint64_t *value)
{
    (void)ctx;
    return memory_read(&own.memory, addr, value, sizeof *value);
}

static remote_addr stack_end(void)
{
    for (size_t i = 0; i < own.modules.vma_count; i++)
        if (own.modules.vmas[i].stack)
            return own.modules.vmas[i].end;
    return 0;
}

/* getcontext returns here: registers as they are then. */
static struct way place_of_context(void)
{
    arch_regs regs;
    const greg_t *gregs = context.uc_mcontext.gregs;

    memset(&regs, 0, sizeof regs);
    regs.rip = (unsigned long long)gregs[REG_RIP];
    regs.rsp = (unsigned long long)gregs[REG_RSP];
    regs.rbp = (unsigned long long)gregs[REG_RBP];
    regs.rbx = (unsigned long long)gregs[REG_RBX];
    regs.r12 = (unsigned long long)gregs[REG_R12];
    regs.r13 = (unsigned long long)gregs[REG_R13];
    regs.r14 = (unsigned long long)gregs[REG_R14];
    regs.r15 = (unsigned long long)gregs[REG_R15];
    struct way way = arch_way_of(&regs);
    for (unsigned i = 0; i < ARCH_WAY_REGISTERS; i++)
        if (!arch_preserves(i))
            way.known &= ~(1u << i);
    return way;
}

static void check_chain(void)
{
    const struct leave_query query = {
        .memory = &own.memory, .modules = &own.modules, .stack_end = stack_end(), .word = own_word};
    struct way place = place_of_context(), before = place;
    unsigned few = 1, left;

    CHECK(!ways_leave(ways, &query, &few, &place) && few == 0 &&
          arch_pc(&place.regs) == arch_pc(&before.regs));
    for (size_t i = 0; i < depth; i++) {
        left = UINT_MAX;
        if (!CHECK(ways_leave(ways, &query, &left, &place) && left < UINT_MAX) ||
            !CHECK(arch_pc(&place.regs) == returns_to[depth - 1 - i]))
            break;
    }
    ended = true;
}

static APART int innermost(void)
{
    NOTE();
    getcontext(&context);
    if (!ended)
        check_chain();
    return zero;
}

static APART int of_many_registers(int a, int b, int c, int d)
{
    int x = a * 3, y = b * 5, z = c * 7, w = d * 11;

    NOTE();
    for (int i = 0; i <= zero; i++)
        x += innermost() + y * z - w + i;
    return x ^ y ^ z ^ w;
}

/* Its stack pointer is known only by the frame pointer. */
static APART int of_unknown_size(size_t size)
{
    volatile char *block = __builtin_alloca(size + 40);

    NOTE();
    block[size] = 1;
    int result = of_many_registers(1, 2, zero, 4) + block[size];
    __asm__ volatile("" ::"r"(block) : "memory");
    return result;
}

/* Its stack is aligned at run time. */
static APART int of_aligned_block(int n)
{
    _Alignas(128) volatile char block[256];

    NOTE();
    block[n] = 2;
    return of_unknown_size((size_t)(n + zero + 100)) + block[n];
}

static APART int of_large_block(int n)
{
    volatile char block[20000];

    NOTE();
    block[n] = 3;
    return of_aligned_block(n) + block[n];
}

/* A way ends in a call that never returns. */
static APART int of_no_return(int n)
{
    NOTE();
    int result = of_large_block(n);
    if (result == 12345)
        __builtin_trap();
    if (result == 23456)
        exit(3);
    return result + 1;
}

static APART int of_choice(int n)
{
    NOTE();
    int result = of_no_return(n);
    switch (result + zero) {
    case 100:
        return of_many_registers(1, 2, 3, 4) + 1;
    case 101:
        return zero;
    case 102:
        return of_aligned_block(n) + 3;
    case 103:
        return result * 5;
    case 104:
        return result * 3;
    case 105:
        return of_large_block(n) + 3;
    default:
        return result;
    }
}

static void test_own_functions(void)
{
    depth = 0;
    of_choice(7);
    CHECK(ended && depth == 7);
}

/* --- bytes --- */

static unsigned char code[256];
static uint64_t stack[64];

static bool read_code(void *ctx, remote_addr addr, unsigned char *buf, size_t size, size_t *len)
{
    (void)ctx;
    if (addr - BASE >= sizeof code)
        return false;
    *len = sizeof code - (addr - BASE) < size ? sizeof code - (addr - BASE) : size;
    memcpy(buf, code + (addr - BASE), *len);
    return true;
}

static bool read_stack(void *ctx, remote_addr addr, uint64_t *value)
{
    (void)ctx;
    if (addr - STACK_AT >= sizeof stack || addr % 8)
        return false;
    *value = stack[(addr - STACK_AT) / 8];
    return true;
}

static struct ways_found follow(const void *bytes, size_t len, remote_addr seek)
{
    unsigned left = UINT_MAX;
    const struct way_reader reader = {read_code, read_stack, NULL, &left};
    struct ways_found found;
    arch_regs regs;

    memset(code, 0xcc, sizeof code);
    memcpy(code, bytes, len);
    memset(&regs, 0, sizeof regs);
    regs.rip = BASE;
    regs.rsp = STACK_AT;
    regs.rbp = STACK_AT + 64;
    regs.rdi = STACK_AT;
    regs.rax = regs.rcx = STACK_AT + 8;
    struct way way = arch_way_of(&regs);
    arch_follow_ways(ways, &reader, &way, seek, &found);
    return found;
}

#define FOLLOW(bytes) follow(bytes, sizeof bytes - 1, 0)

static bool returns_at(const struct ways_found *found, uint64_t offset)
{
    return found->count == 1 && arch_sp(&found->returns[0].regs) == STACK_AT + offset;
}

static void test_forms(void)
{
    struct ways_found found = FOLLOW("\x58\xc3"); /* pop; ret */
    CHECK(returns_at(&found, 8) && !found.open && !found.too_many);
    found = FOLLOW("\x48\x83\xc4\x18\x5b\x5d\xc3"); /* add $24,%rsp; pop; pop; ret */
    CHECK(returns_at(&found, 40));
    found = FOLLOW("\xe8\0\0\0\0\xc9\xc3"); /* call; leave; ret */
    CHECK(returns_at(&found, 72));
    found = FOLLOW("\x48\x8d\x65\xf0\x5b\xc3"); /* lea -16(%rbp),%rsp; pop; ret */
    CHECK(returns_at(&found, 56));
    found = FOLLOW("\x58\x55\x48\x89\xe5\x48\x83\xe4\xe0\xc9\xc3"); /* a whole function */
    CHECK(returns_at(&found, 8));
    found = FOLLOW("\x6a\1\x6a\1\xff\xd0\x48\x83\xc4\x18\xc3"); /* push; push; call; add */
    CHECK(returns_at(&found, 8));
    found = FOLLOW("\x74\x02\x58\xc3\x58\x58\x58\xc3"); /* two returns */
    CHECK(found.count == 2);
    found = FOLLOW("\xeb\xfe"); /* for ever */
    CHECK(found.count == 0 && !found.open && !found.too_many);
}

/* Behind a call that never returns begins another function. */
static void test_no_return(void)
{
    struct ways_found found = FOLLOW("\xc3"); /* no function returns there */
    CHECK(found.count == 0);
    /* je 1f; pop; ret; 1: call; then a function that pushes, calls, pops and returns */
    found = FOLLOW("\x74\x02\x58\xc3\xe8\0\0\0\0\x55\xe8\0\0\0\0\x5d\xc3");
    CHECK(returns_at(&found, 8) && !found.open);
    found = FOLLOW("\x74\x02\x58\xc3\xe8\0\0\0\0\x31\xc0\xc3"); /* or a small one */
    CHECK(returns_at(&found, 8) && !found.open);
}

/* Nothing is known of a stack pointer that was computed, exchanged or loaded. */
static void test_unknown(void)
{
    static const struct form {
        const char *bytes;
        size_t len;
    } forms[] = {
        {"\x58\x48\x29\xc4\xc3", 5},                 /* pop; sub %rax,%rsp */
        {"\x48\x94\xc3", 3},                         /* xchg %rax,%rsp */
        {"\x48\x8b\x67\x10\xc3", 5},                 /* mov 16(%rdi),%rsp */
        {"\x48\x8b\x24\x25\x10\x20\x30\x40\xc3", 9}, /* mov 0x40302010,%rsp */
        {"\x5c\xc3", 2},                             /* pop %rsp */
        {"\x31\xed\xc9\xc3", 4},                     /* xor %ebp,%ebp; leave */
        {"\x40\xb5\x01\xc9\xc3", 5},                 /* mov $1,%bpl; leave */
        {"\x0f\x44\xe8\xc9\xc3", 5},                 /* cmove %eax,%ebp; leave */
        {"\xc4\xe2\xf8\xf2\xec\xc9\xc3", 7},         /* andn %rsp,%rax,%rbp; leave */
        {"\xe8\0\0\0\0\x48\x89\xcc\xc3", 9}, /* call; mov %rcx,%rsp: it may have been changed */
        {"\x55\x5d\xc9\xc3", 4},             /* push %rbp; pop %rbp: pushed words are not kept */
    };

    for (size_t i = 0; i < sizeof stack / sizeof *stack; i++)
        stack[i] = STACK_AT + 8;
    for (size_t i = 0; i < ARRAY_LEN(forms); i++)
        CHECK(follow(forms[i].bytes, forms[i].len, 0).count == 0);
    struct ways_found found = FOLLOW("\x48\x29\xc4\xc3"); /* sub %rax,%rsp; ret */
    CHECK(found.lost);
    /* je 1f; pop; ret; 1: sub %rax,%rsp; ret: the return that is known may be a wrong one */
    found = FOLLOW("\x74\x02\x58\xc3\x48\x29\xc4\xc3");
    CHECK(returns_at(&found, 8) && found.lost && !found.open);
    found = FOLLOW("\xff\xe0"); /* jmp *%rax */
    CHECK(found.count == 0 && found.open);
    found = FOLLOW("\x0f\x06"); /* no program executes that */
    CHECK(found.count == 0 && found.open);
    found = FOLLOW("\xc2\x08\x00"); /* ret $8 */
    CHECK(found.count == 0 && found.open);
}

static void test_registers(void)
{
    struct ways_found found;

    stack[1] = 0x1111;
    stack[2] = 0x2222;
    found = FOLLOW("\x58\x5b\x5d\xc3"); /* pop %rax; pop %rbx; pop %rbp */
    CHECK(returns_at(&found, 24));
    CHECK(found.returns[0].regs.rbx == 0x1111 && found.returns[0].regs.rbp == 0x2222);
    CHECK(found.returns[0].known >> 3 & 1 && found.returns[0].known >> 6 & 1);
    struct way way = found.returns[0];
    arch_take_return(&way, BASE + 5);
    CHECK(arch_pc(&way.regs) == BASE + 5 && arch_sp(&way.regs) == STACK_AT + 32);
    CHECK(!(way.known & 1) && way.known >> 3 & 1); /* rax, rbx */
    found = FOLLOW("\x53\x5b\x58\xc3"); /* what was pushed is not in the memory that is read */
    CHECK(returns_at(&found, 8) && !(found.returns[0].known >> 3 & 1));
    found = FOLLOW("\x74\x04\x5b\x31\xdb\xc3\x5b\xc3"); /* je; pop, xor, ret; pop, ret */
    CHECK(returns_at(&found, 8) && !(found.returns[0].known >> 3 & 1));
}

/* What is stored on the way is not what the memory has now. */
static void test_stores(void)
{
    struct ways_found found;

    for (size_t i = 0; i < sizeof stack / sizeof *stack; i++)
        stack[i] = STACK_AT + 8;
    /* mov %rbx,16(%rsp); mov 16(%rsp),%rbx; pop; ret */
    found = FOLLOW("\x48\x89\x5c\x24\x10\x48\x8b\x5c\x24\x10\x58\xc3");
    CHECK(returns_at(&found, 8) && !(found.returns[0].known >> 3 & 1));
    /* mov %rax,(%rsp); mov 16(%rsp),%rbx; pop; ret: below it */
    found = FOLLOW("\x48\x89\x04\x24\x48\x8b\x5c\x24\x10\x58\xc3");
    CHECK(returns_at(&found, 8) && found.returns[0].known >> 3 & 1);
    /* mov %r11,24(%rsp); mov 24(%rsp),%rsi; lea 48(%rsi),%rsp; ret: the stack pointer is saved */
    found = FOLLOW("\x4c\x89\x5c\x24\x18\x48\x8b\x74\x24\x18\x48\x8d\x66\x30\xc3");
    CHECK(found.count == 0 && found.lost);
    /* the same without the store */
    found = FOLLOW("\x48\x8b\x74\x24\x18\x48\x8d\x66\x30\xc3");
    CHECK(returns_at(&found, 56) && !found.lost);
}

/* je 1f; pop; ret; 1: call 3f; 2: pause; lfence; jmp 2b; 3: mov %rax,(%rsp); ret */
static void test_retpoline(void)
{
    static const char bytes[] =
        "\x74\x02\x58\xc3\xe8\x07\0\0\0\xf3\x90\x0f\xae\xe8\xeb\xf9\x48\x89\x04\x24\xc3";
    struct ways_found found = FOLLOW(bytes);

    CHECK(returns_at(&found, 8) && found.open);
}

static void test_sought(void)
{
    CHECK(follow("\x90\x90\xc3", 3, BASE + 2).sought);
    CHECK(!follow("\x90\xc3\x90", 3, BASE + 2).sought);
    CHECK(follow("\xeb\x01\xc3\x90\xc3", 5, BASE + 4).sought);
    CHECK(!follow("\xeb\x01\xc3\x90\xc3", 5, BASE + 2).sought);
}

/* Each pass moves the stack pointer: never the same place twice. */
static void test_endless(void)
{
    struct ways_found found = FOLLOW("\x50\x50\x74\xfc\xc3"); /* 1: push; push; je 1b; ret */

    CHECK(found.open && found.count == 0);
    found = FOLLOW("\x58\x58\x74\xfc\x58\xc3"); /* 1: pop; pop; je 1b; pop; ret */
    CHECK(found.too_many && found.count == WAY_RETURNS_MAX);
}

int main(void)
{
    ways = ways_new();
    if (!CHECK(ways) || !CHECK(own_open(&own)))
        return check_result();
    modules_tell_memory(&own.modules, &own.memory);
#ifndef __SANITIZE_ADDRESS__ /* its code leads into its reports, which never return */
    test_own_functions();
#else
    (void)test_own_functions;
#endif
    test_forms();
    test_no_return();
    test_unknown();
    test_registers();
    test_stores();
    test_retpoline();
    test_sought();
    test_endless();
    ways_free(ways);
    own_close(&own);
    return check_result();
}
