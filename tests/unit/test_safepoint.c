/* The proof that a thread has no lock, over a stack that the test has made. */
#include "check.h"
#include "guard.h"
#include "inject/safepoint.h"
#include "own.h"

enum { STACK_PAGES = 64, ROOM = 8192, CALL_END = 0x105 };

static struct own own;
static struct plan plan;
static struct modules modules;
static struct guard stack, code;
static arch_regs regs;
static uint64_t descriptor[3]; /* the target of the thread pointer */

static uint64_t address(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

static uint64_t stack_end(void)
{
    return address(stack.base) + stack.size;
}

static void parse_maps_to(uint64_t end, const char *perms, const char *name)
{
    char text[256];

    modules_free(&modules);
    snprintf(text, sizeof text, "%lx-%lx %s 00000000 00:00 0   %s\n", (long)address(stack.base),
             (long)end, perms, name);
    CHECK(modules_parse(&modules, text, strlen(text)));
}

static void parse_maps(const char *perms, const char *name)
{
    parse_maps_to(stack_end(), perms, name);
}

/* Half of the stack is in use; pc is outside of the forbidden code. */
static void prepare(void)
{
    memset(stack.base, 0, stack.size);
    memset(code.base, 0x90, code.size);
    code.base[CALL_END - 5] = 0xe8;
    memset(&regs, 0, sizeof regs);
    regs.rip = 0x401000;
    regs.rsp = address(stack.base) + stack.size / 2;
    regs.fs_base = address(descriptor);
    descriptor[0] = address(descriptor);
    plan.gadgets.sigreturn = 0x7f1234560000;
    parse_maps("rw-p", "[stack]");
    memory_forget(&own.memory);
}

static struct evidence prove(bool main_thread)
{
    return safepoint_prove(&plan, &modules, &own.memory, NULL, true, &regs, main_thread, ROOM);
}

static enum proof proof_of(bool main_thread)
{
    return prove(main_thread).proof;
}

/* The proof with that word at an offset from the stack pointer. */
static struct evidence with_word(int64_t offset, uint64_t word)
{
    prepare();
    memcpy((void *)(uintptr_t)(regs.rsp + (uint64_t)offset), &word, sizeof word);
    return prove(true);
}

static void test_clean(void)
{
    prepare();
    struct evidence evidence = prove(true);
    CHECK(evidence.proof == PROOF_SAFE && evidence.scanned == stack.size / 2);
    CHECK(evidence.frames == 0);
    for (size_t i = 0; i < stack.size / 16; i++) /* words that are not addresses of code */
        ((uint64_t *)(void *)stack.base)[stack.size / 16 + i] = i * 0x9e3779b97f4a7c15;
    CHECK(proof_of(true) == PROOF_SAFE);
}

static void test_return_addresses(void)
{
    const uint64_t call = address(code.base) + CALL_END;
    const int64_t last = (int64_t)(stack.size / 2) - 8;
    static const int64_t offsets[] = {0, 8, 65536 - 8, 65536, 65536 + 8};

    for (size_t i = 0; i < ARRAY_LEN(offsets); i++) {
        struct evidence evidence = with_word(offsets[i], call);
        CHECK(evidence.proof == PROOF_STACK && evidence.address == call);
        CHECK(evidence.what && strcmp(evidence.what, "forbidden") == 0);
    }
    CHECK(with_word(last, call).proof == PROOF_STACK);
    CHECK(with_word(-8, call).proof == PROOF_SAFE); /* left over from a call that has ended */
    CHECK(with_word(0, call + 1).proof == PROOF_SAFE);
    CHECK(with_word(0, call - 1).proof == PROOF_SAFE);
    CHECK(with_word(3, call).proof == PROOF_SAFE); /* return addresses are aligned */
}

/* The call may be the last instruction of its range, and its function may never return. */
static void test_range_borders(void)
{
    const uint64_t start = address(code.base), end = start + code.size;

    prepare();
    code.base[code.size - 5] = 0xe8;
    memcpy((void *)(uintptr_t)regs.rsp, &end, sizeof end);
    CHECK(proof_of(true) == PROOF_STACK);
    CHECK(with_word(0, start).proof == PROOF_SAFE);
    CHECK(with_word(0, end + 1).proof == PROOF_SAFE);
}

/* Unreadable code may contain a call anywhere. */
static void test_unreadable_code(void)
{
    struct plan unreadable = plan;
    uint64_t word = stack_end() + 64; /* in the guard */

    prepare();
    unreadable.forbidden = (struct code_ranges){0};
    CHECK(plan_forbid(&unreadable, stack_end(), stack_end() + GUARD_PAGE, "guard", NULL) == 0);
    plan_seal(&unreadable);
    memcpy((void *)(uintptr_t)regs.rsp, &word, sizeof word);
    CHECK(
        safepoint_prove(&unreadable, &modules, &own.memory, NULL, true, &regs, true, ROOM).proof ==
        PROOF_STACK);
    ranges_free(&unreadable.forbidden);
}

static void test_pc(void)
{
    prepare();
    regs.rip = address(code.base);
    struct evidence evidence = prove(true);
    CHECK(evidence.proof == PROOF_PC && evidence.address == regs.rip);
    CHECK(evidence.what && strcmp(evidence.what, "forbidden") == 0);
    regs.rip = address(code.base) + code.size - 1;
    CHECK(proof_of(true) == PROOF_PC);
    regs.rip++;
    CHECK(proof_of(true) == PROOF_SAFE);
    regs.rip = address(code.base) - 1;
    CHECK(proof_of(true) == PROOF_SAFE);
}

static void test_handler(void)
{
    CHECK(with_word(0, 0x7f1234560000).proof == PROOF_HANDLER);
    CHECK(with_word((int64_t)(stack.size / 2) - 8, 0x7f1234560000).proof == PROOF_HANDLER);
    CHECK(with_word(-8, 0x7f1234560000).proof == PROOF_SAFE);
}

/*
 * At the restorer itself its address is already popped; the frame that it is about to restore may
 * be the allocator's, and need not contain any return address.
 */
static void test_at_the_restorer(void)
{
    prepare();
    regs.rip = plan.gadgets.sigreturn;
    CHECK(proof_of(true) == PROOF_HANDLER);
    regs.rip = plan.gadgets.sigreturn + 7; /* at its system call */
    CHECK(proof_of(true) == PROOF_HANDLER);
    regs.rip = plan.gadgets.sigreturn + 9;
    CHECK(proof_of(true) == PROOF_SAFE);
    regs.rip = plan.gadgets.sigreturn - 1;
    CHECK(proof_of(true) == PROOF_SAFE);
}

/* libpthread of glibc before 2.34 has one of its own. */
static void test_other_restorer(void)
{
    const remote_addr other = 0x7f1234570000;

    CHECK(with_word(0, other).proof == PROOF_SAFE);
    plan.restorers[plan.restorer_count++] = other;
    CHECK(with_word(0, other).proof == PROOF_HANDLER);
    CHECK(with_word(0, other + 1).proof == PROOF_SAFE);
    prepare();
    regs.rip = other + ARCH_SIGRETURN_LEN - 1;
    CHECK(proof_of(true) == PROOF_HANDLER);
    regs.rip++;
    CHECK(proof_of(true) == PROOF_SAFE);
    plan.restorer_count = 0;
}

static void test_own_stack(void)
{
    prepare();
    regs.rsp += 4;
    CHECK(proof_of(true) == PROOF_FOREIGN_STACK);
    regs.rsp = stack_end();
    CHECK(proof_of(true) == PROOF_FOREIGN_STACK);
    regs.rsp = address(stack.base) - 8;
    CHECK(proof_of(true) == PROOF_FOREIGN_STACK);
    prepare();
    CHECK(proof_of(false) == PROOF_FOREIGN_STACK); /* the descriptor is elsewhere */
    parse_maps("rw-p", "");
    CHECK(proof_of(true) == PROOF_FOREIGN_STACK);
    parse_maps("r--p", "[stack]");
    CHECK(proof_of(true) == PROOF_FOREIGN_STACK);
}

/* A thread's stack ends at its descriptor, which has the address of their common block. */
static void test_thread_stack(void)
{
    uint64_t *top = (uint64_t *)(void *)(stack.base + stack.size - 64);

    prepare();
    parse_maps("rw-p", "");
    *top = address(top);
    regs.fs_base = address(top);
    CHECK(proof_of(false) == PROOF_FOREIGN_STACK);
    top[4] = address(stack.base);
    top[5] = stack.size;
    CHECK(proof_of(false) == PROOF_MAYBE_ENDING);
    top[4] = regs.rsp + 8; /* a coroutine's stack below the thread's, in one mapping */
    top[5] = stack_end() - top[4];
    CHECK(proof_of(false) == PROOF_FOREIGN_STACK);
    top[4] = address(stack.base);
    top[5] = stack.size;
    CHECK(proof_of(true) == PROOF_FOREIGN_STACK);
    *top = 0;
    CHECK(proof_of(false) == PROOF_NO_TLS);
}

/* Since glibc 2.42: the guard of the next stack is in the same mapping, and cannot be read. */
static void test_guard_in_mapping(void)
{
    uint64_t *top = (uint64_t *)(void *)(stack.base + stack.size - 64);

    prepare();
    parse_maps_to(stack_end() + 4 * (uint64_t)GUARD_PAGE, "rw-p", "");
    *top = address(top);
    regs.fs_base = address(top);
    top[4] = address(stack.base);
    top[5] = stack.size;
    CHECK(proof_of(false) == PROOF_MAYBE_ENDING);
    top[5] = 0;
    CHECK(proof_of(false) == PROOF_FOREIGN_STACK);
}

static void test_room(void)
{
    prepare();
    regs.rsp = address(stack.base) + ROOM;
    CHECK(proof_of(true) == PROOF_SAFE);
    regs.rsp -= 8;
    CHECK(proof_of(true) == PROOF_NO_SPACE);
    regs.rsp = address(stack.base);
    CHECK(proof_of(true) == PROOF_NO_SPACE);
}

static void test_descriptor(void)
{
    prepare();
    descriptor[0]++;
    CHECK(proof_of(true) == PROOF_NO_TLS);
    prepare();
    regs.fs_base = 0;
    CHECK(proof_of(true) == PROOF_NO_TLS);
    regs.fs_base = stack_end(); /* unreadable */
    CHECK(proof_of(true) == PROOF_NO_TLS);
}

static void test_unreadable_stack(void)
{
    prepare();
    CHECK(mprotect(stack.base + stack.size - GUARD_PAGE, GUARD_PAGE, PROT_NONE) == 0);
    CHECK(proof_of(true) == PROOF_UNREADABLE);
    CHECK(mprotect(stack.base + stack.size - GUARD_PAGE, GUARD_PAGE, PROT_READ | PROT_WRITE) == 0);
}

/* The longest that is scanned, and 8 bytes more. */
static void test_too_long(void)
{
    const size_t size = SAFEPOINT_SCAN_MAX + ROOM + 8;
    struct guard longest;

    prepare();
    if (!CHECK(guard_make(&longest, size / GUARD_PAGE + 1)))
        return;
    struct guard usual = stack;
    stack = longest;
    parse_maps("rw-p", "[stack]");
    regs.rsp = stack_end() - SAFEPOINT_SCAN_MAX;
    CHECK(prove(true).scanned == SAFEPOINT_SCAN_MAX && proof_of(true) == PROOF_SAFE);
    regs.rsp -= 8;
    CHECK(proof_of(true) == PROOF_TOO_LONG);
    stack = usual;
    guard_free(&longest);
}

static void test_texts(void)
{
    for (enum proof proof = PROOF_SAFE; proof <= PROOF_UNWIND; proof++)
        CHECK(proof_text(proof) && *proof_text(proof));
    CHECK(safepoint_wants_unwinder(PROOF_STACK) && safepoint_wants_unwinder(PROOF_HANDLER) &&
          safepoint_wants_unwinder(PROOF_TOO_LONG));
    CHECK(!safepoint_wants_unwinder(PROOF_SAFE) && !safepoint_wants_unwinder(PROOF_PC) &&
          !safepoint_wants_unwinder(PROOF_NO_TLS) &&
          !safepoint_wants_unwinder(PROOF_FOREIGN_STACK));
}

int main(void)
{
    if (!CHECK(own_open(&own)) || !CHECK(guard_make(&stack, STACK_PAGES)) ||
        !CHECK(guard_make(&code, 2)))
        return check_result();
    own_guard(&own, stack.base + stack.size - GUARD_PAGE, 2 * GUARD_PAGE);
    CHECK(plan_forbid(&plan, address(code.base), address(code.base) + code.size, "forbidden",
                      NULL) == FAULT_NONE);
    plan_seal(&plan);
    test_clean();
    test_return_addresses();
    test_range_borders();
    test_unreadable_code();
    test_pc();
    test_handler();
    test_at_the_restorer();
    test_other_restorer();
    test_own_stack();
    test_thread_stack();
    test_room();
    test_guard_in_mapping();
    test_descriptor();
    test_unreadable_stack();
    test_too_long();
    test_texts();
    plan_free(&plan);
    modules_free(&modules);
    guard_free(&stack);
    guard_free(&code);
    own_close(&own);
    return check_result();
}
