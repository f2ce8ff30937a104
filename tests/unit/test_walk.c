/* The calls of this program itself, from copies of its registers and its stack, whole and forged.
 */
#include "check.h"
#include "own.h"
#include "perf/expression.h"
#include "perf/machine.h"
#include "perf/walk.h"

#include <execinfo.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK_MAX = 16 << 10, LEVELS = 20, PAGE = 4096 };

static struct own own;
static struct walker *walker;

/* The truth, and the state at the same place. */
static void *truth[WALK_DEPTH_MAX];
static int truth_count;
static struct user_state state;
static unsigned char stack[STACK_MAX];
static remote_addr stack_end; /* of the first thread's stack */

static remote_addr calls[WALK_DEPTH_MAX];
static size_t count;

static void set_register(unsigned dwarf, uint64_t value)
{
    int reg = machine_perf_register(dwarf);

    state.regs[reg] = value;
    state.mask |= (uint64_t)1 << reg;
}

static uint64_t get_register(unsigned dwarf)
{
    return state.regs[machine_perf_register(dwarf)];
}

/* Returns the end of the mapping that addr is in. */
static remote_addr mapping_end(remote_addr addr)
{
    const struct vma *vma = modules_vma_at(&own.modules, addr);
    return vma ? vma->end : addr;
}

/* Fills the truth; a sanitizer's backtrace adds frames of its own before this one. */
static void take_truth(const void *caller)
{
    int extra = 0;

    truth_count = backtrace(truth, WALK_DEPTH_MAX);
    while (extra + 1 < truth_count && truth[extra + 1] != caller)
        extra++;
    truth_count -= extra;
    memmove(truth, truth + extra, (size_t)truth_count * sizeof *truth);
}

/* Takes the state as the kernel does: all registers, and the stack from its pointer on. */
__attribute__((noinline)) static void take_state(void)
{
    ucontext_t context;
    remote_addr sp;

    take_truth(__builtin_return_address(0));
    getcontext(&context);
    state = (struct user_state){.stack = stack};
    for (unsigned i = 0; i < MACHINE_REGS; i++) {
        size_t offset = machine_signal_offset(i); /* in a struct ucontext as the kernel makes it */
        uint64_t value;
        if (machine_perf_register(i) < 0 || offset + sizeof value > sizeof context)
            continue;
        memcpy(&value, (unsigned char *)&context + offset, sizeof value);
        set_register(i, value);
    }
    sp = get_register(machine.sp);
    stack_end = mapping_end(sp);
    state.stack_len = stack_end - sp < STACK_MAX ? (size_t)(stack_end - sp) : STACK_MAX;
    CHECK(memory_read(&own.memory, sp, stack, state.stack_len));
}

__attribute__((noinline)) static int nest(int n)
{
    volatile int kept = n;

    if (n)
        kept += nest(n - 1);
    else
        take_state();
    return kept;
}

static enum walk_end walk(void)
{
    return walker_walk(walker, &state, calls, &count);
}

/* Returns how many calls agree with the truth; the innermost is at another instruction. */
static size_t agreed(void)
{
    size_t i = 1;

    while (i < count && i < (size_t)truth_count && calls[i] == (remote_addr)(uintptr_t)truth[i])
        i++;
    return i;
}

static void test_whole(void)
{
    CHECK(truth_count > LEVELS);
    CHECK(walk() == WALK_COMPLETE);
    CHECK(count == (size_t)truth_count && agreed() == count);
    CHECK(walker_guesses(walker) == 0);
    /* The same again, from what is kept. */
    CHECK(walk() == WALK_COMPLETE && agreed() == (size_t)truth_count);
}

static void test_cut(void)
{
    size_t whole = state.stack_len, last = 0;

    for (size_t len = 0; len < whole; len += 40) {
        state.stack_len = len;
        enum walk_end end = walk();
        CHECK(end == WALK_CUT || (end == WALK_COMPLETE && count == (size_t)truth_count));
        CHECK(agreed() == count && count >= last);
        last = count;
    }
    state.stack_len = whole;
    CHECK(last > LEVELS);
}

static void test_registers(void)
{
    uint64_t mask = state.mask, sp = get_register(machine.sp), pc = get_register(machine.pc);

    state.mask = 0;
    CHECK(walk() == WALK_LOST && count == 0);
    state.mask = (uint64_t)1 << machine_perf_register(machine.pc);
    CHECK(walk() != WALK_COMPLETE && count == 1 && calls[0] == pc);
    state.mask = mask;
    set_register(machine.sp, UINT64_MAX - 8);
    CHECK(walk() != WALK_COMPLETE && count < WALK_DEPTH_MAX);
    set_register(machine.sp, sp);
    set_register(machine.pc, 0);
    /* The word at the stack pointer may be behind a call, as after a call of NULL. */
    walk();
    CHECK(count >= 1 && calls[0] == 0);
    set_register(machine.pc, pc);
}

/* The kernel sees the stack behind the copy; its chain counts if it has the last call found. */
static void test_chain(void)
{
    uint64_t chain[WALK_DEPTH_MAX + 2];
    size_t whole = state.stack_len, short_count;

    state.stack_len = 512;
    CHECK(walk() == WALK_CUT);
    short_count = count;
    chain[0] = (uint64_t)-512; /* PERF_CONTEXT_USER */
    for (int i = 0; i < truth_count; i++)
        chain[i + 1] = (uint64_t)(uintptr_t)truth[i];
    chain[1] = get_register(machine.pc);
    state.chain = chain;
    state.chain_len = (size_t)truth_count + 1;
    CHECK(walk() == WALK_CUT);
    /* The last one, in _start, may be behind no call that is known. */
    CHECK(count + 1 >= (size_t)truth_count && agreed() == count);
    CHECK(walker_guesses(walker) == count - short_count);
    chain[short_count + 4] = 0x1234; /* no code: the rest is not used */
    CHECK(walk() == WALK_CUT && count == short_count + 3 && agreed() == count);
    for (size_t i = 1; i <= (size_t)truth_count; i++)
        chain[i] ^= 0x100000;
    CHECK(walk() == WALK_CUT && count == short_count && walker_guesses(walker) == 0);
    state.chain_len = 0;
    state.stack_len = whole;
}

/* Any contents: the walk ends, and its first call is the pc. */
static void test_garbage(void)
{
    unsigned seed = 1;

    for (unsigned round = 0; round < 2000; round++) {
        nest(2);
        for (unsigned i = 0; i < 20; i++) {
            size_t at = (size_t)rand_r(&seed) % (state.stack_len / 8) * 8 % 1024;
            uint64_t value = round % 3 ? get_register(machine.sp) + (uint64_t)rand_r(&seed) % 2048
                                       : (uint64_t)(uintptr_t)truth[rand_r(&seed) % truth_count];
            memcpy(stack + at, &value, sizeof value);
        }
        walk();
        CHECK(count >= 1 && count <= WALK_DEPTH_MAX && calls[0] == get_register(machine.pc));
    }
    nest(LEVELS);
}

/* Code that nothing describes, and frame records that lead to themselves. */
static void test_loop(unsigned char *code)
{
    remote_addr start = (remote_addr)(uintptr_t)code, sp = 0x7000;
    uint64_t words[64] = {0};

    for (size_t i = 0; i < 60; i += 2) {
        words[i] = sp + 8 * i; /* its own address */
        words[i + 1] = start + 64;
    }
    state = (struct user_state){.stack = (unsigned char *)words, .stack_len = sizeof words};
    set_register(machine.pc, start + 128);
    set_register(machine.sp, sp);
    set_register(machine.fp, sp);
    CHECK(walk() == WALK_LOST && count == 2 && calls[1] == start + 64);
    for (size_t i = 0; i < 60; i += 2)
        words[i] = sp + 8 * (i + 2);
    words[58] = 0;
    CHECK(walk() == WALK_COMPLETE && count == 30 && walker_guesses(walker) == 29);
    /* Behind no call. The call before it leads elsewhere, so that its record is none either. */
    words[21] = start + 32;
    CHECK(walk() == WALK_LOST && count == 10);
}

static bool word_of(void *ctx, remote_addr addr, uint64_t *value)
{
    (void)ctx;
    *value = addr + 1;
    return addr != 13;
}

static bool register_of(void *ctx, unsigned dwarf, uint64_t *value)
{
    (void)ctx;
    *value = 1000 + dwarf;
    return dwarf < 32;
}

/* Evaluates bytes; UINT64_MAX: no value. */
static uint64_t value_of(const char *text, size_t len)
{
    const struct expression_source source = {word_of, register_of, NULL};
    const unsigned char *bytes = (const unsigned char *)text;
    uint64_t cfa = 5, value;

    return expression_value((struct dwarf_bytes){bytes, bytes + len, false}, &cfa, &source, &value)
               ? value
               : UINT64_MAX;
}

#define VALUE(text) value_of(text, sizeof text - 1)

static void test_expressions(void)
{
    CHECK(VALUE("") == 5);
    CHECK(VALUE("\x77\x08") == 1015);                     /* breg7 8 */
    CHECK(VALUE("\x34\x33\x1c") == 1);                    /* 4 - 3 */
    CHECK(VALUE("\x31\x32\x37\x17\x1c") == (uint64_t)-1); /* 1 2 7 rot -: 7 1 2 */
    CHECK(VALUE("\x31\x37\x16\x1c") == 6);                /* 1 7 swap - */
    CHECK(VALUE("\x38\x32\x24") == 32);                   /* 8 << 2 */
    CHECK(VALUE("\x09\xf8\x32\x26") == (uint64_t)-2);     /* -8 >> 2 */
    CHECK(VALUE("\x09\xf8\x32\x1b") == (uint64_t)-4);     /* -8 / 2 */
    CHECK(VALUE("\x38\x30\x1b") == UINT64_MAX);           /* / 0 */
    CHECK(VALUE("\x38\x06") == 9);                        /* deref */
    CHECK(VALUE("\x3d\x06") == UINT64_MAX);               /* unreadable */
    CHECK(VALUE("\x31\x28\x01\x00\x32\x34") == 4);        /* bra over lit2 */
    CHECK(VALUE("\x2f\xfd\xff") == UINT64_MAX);           /* skip to itself, for ever */
    CHECK(VALUE("\x2f\xf0\xff") == UINT64_MAX);           /* skip to before the start */
    CHECK(VALUE("\x12\x2f\xfc\xff") == UINT64_MAX);       /* dup for ever: the stack is full */
    CHECK(VALUE("\x92\x28\x00") == UINT64_MAX);           /* a register that is not known */
    CHECK(VALUE("\x0e\x01\x02") == UINT64_MAX);           /* it ends within an operand */
    CHECK(VALUE("\x13\x13") == UINT64_MAX);               /* drop of nothing */
    CHECK(VALUE("\xf3") == UINT64_MAX);                   /* unknown */
}

int main(void)
{
    unsigned char *code =
        mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (code == MAP_FAILED || !CHECK(own_open(&own)))
        return check_result();
    code[59] = 0xe8;
    modules_tell_memory(&own.modules, &own.memory);
    walker = walker_new(&own.target, &own.memory, &own.modules);
    if (CHECK(walker)) {
        nest(LEVELS);
        test_whole();
        test_cut();
        test_registers();
        test_chain();
        test_garbage();
        test_loop(code);
        test_expressions();
    }
    walker_free(walker);
    munmap(code, PAGE);
    own_close(&own);
    return check_result();
}
