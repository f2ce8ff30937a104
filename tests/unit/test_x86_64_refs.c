/* References in x86-64 code. The bytes are the output of gcc, clang and ld for the lines beside. */
#include "check.h"
#include "inject/refs.h"

#include <string.h>

enum { BASE = 0x401000, MARGIN = 16 };

static struct ref seen[64];
static size_t seen_count;

static void visit(void *ctx, const struct ref *ref)
{
    (void)ctx;
    if (seen_count < ARRAY_LEN(seen))
        seen[seen_count++] = *ref;
}

/* The code is between harmless bytes at BASE + MARGIN. */
static void look(const unsigned char *code, size_t len, bool absolute)
{
    unsigned char bytes[64];
    const struct ref_query query = {.kinds = REF_ADDRESS | REF_DATA | REF_CALL | REF_JUMP,
                                    .absolute = absolute,
                                    .low = 0x400000,
                                    .high = 0x600000,
                                    .visit = visit};

    memset(bytes, 0x90, sizeof bytes);
    memcpy(bytes + MARGIN, code, len);
    seen_count = 0;
    refs_visit(bytes, sizeof bytes, sizeof bytes, BASE, &query);
}

static bool is_seen(enum ref_kind kind, remote_addr target)
{
    for (size_t i = 0; i < seen_count; i++)
        if (seen[i].kind == kind && seen[i].target == target)
            return true;
    return false;
}

struct form {
    unsigned char code[12];
    size_t len;
    bool absolute;
    enum ref_kind kind;
    remote_addr target;
};

/* The displacement is 0x1000 in all that are relative. */
static const struct form forms[] = {
    {{0x48, 0x8d, 0x3d, 0, 0x10}, 7, false, REF_ADDRESS, 0x1000 + 7},    /* lea x(%rip),%rdi */
    {{0x4c, 0x8d, 0x05, 0, 0x10}, 7, false, REF_ADDRESS, 0x1000 + 7},    /* lea x(%rip),%r8 */
    {{0x0f, 0xb6, 0x05, 0, 0x10}, 7, false, REF_DATA, 0x1000 + 7},       /* movzbl x(%rip),%eax */
    {{0x8a, 0x05, 0, 0x10}, 6, false, REF_DATA, 0x1000 + 6},             /* mov x(%rip),%al */
    {{0x48, 0x8b, 0x05, 0, 0x10}, 7, false, REF_DATA, 0x1000 + 7},       /* mov x(%rip),%rax */
    {{0x80, 0x3d, 0, 0x10, 0, 0, 1}, 7, false, REF_DATA, 0x1000 + 7},    /* cmpb $1,x(%rip) */
    {{0xc6, 0x05, 0, 0x10, 0, 0, 1}, 7, false, REF_DATA, 0x1000 + 7},    /* movb $1,x(%rip) */
    {{0xc7, 0x05, 0, 0x10, 0, 0, 1}, 10, false, REF_DATA, 0x1000 + 10},  /* movl $1,x(%rip) */
    {{0xf6, 0x05, 0, 0x10, 0, 0, 1}, 7, false, REF_DATA, 0x1000 + 7},    /* testb $1,x(%rip) */
    {{0xf0, 0x0f, 0xb1, 0x0d, 0, 0x10}, 8, false, REF_DATA, 0x1000 + 8}, /* lock cmpxchg */
    {{0xe8, 0, 0x10}, 5, false, REF_CALL, 0x1000 + 5},
    {{0x67, 0xe8, 0, 0x10}, 6, false, REF_CALL, 0x1000 + 6}, /* addr32 call: ld's relaxation */
    {{0xe9, 0, 0x10}, 5, false, REF_JUMP, 0x1000 + 5},
    {{0x0f, 0x84, 0, 0x10}, 6, false, REF_JUMP, 0x1000 + 6},                /* je */
    {{0xbf, 0, 0x20, 0x40}, 5, true, REF_ADDRESS, 0x402000},                /* mov $x,%edi */
    {{0x41, 0xb8, 0, 0x20, 0x40}, 6, true, REF_ADDRESS, 0x402000},          /* mov $x,%r8d */
    {{0x48, 0xc7, 0xc7, 0, 0x20, 0x40}, 7, true, REF_ADDRESS, 0x402000},    /* mov $x,%rdi */
    {{0x68, 0, 0x20, 0x40}, 5, true, REF_ADDRESS, 0x402000},                /* push $x */
    {{0x48, 0x8b, 0x04, 0xc5, 0, 0x20, 0x40}, 8, true, REF_DATA, 0x402000}, /* x(,%rax,8) */
    {{0x0f, 0xb6, 0x80, 0, 0x20, 0x40}, 7, true, REF_DATA, 0x402000},       /* x(%rax) */
    {{0x48, 0x8b, 0x84, 0xc3, 0, 0x20, 0x40}, 8, true, REF_DATA, 0x402000}, /* x(%rbx,%rax,8) */
};

static void test_forms(void)
{
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        const struct form *form = &forms[i];
        remote_addr at = form->absolute ? 0 : BASE + MARGIN;
        look(form->code, form->len, form->absolute);
        if (!CHECK(is_seen(form->kind, form->target + at)))
            fprintf(stderr, "form %zu\n", i);
    }
}

/* How the operand is accessed, and how wide it is; 0, REF_OTHER: not one of the plain moves. */
static void test_access(void)
{
    static const struct {
        unsigned char code[8];
        size_t len;
        enum ref_access access;
        unsigned size;
    } accesses[] = {
        {{0x0f, 0xb6, 0x05, 0, 0x10}, 7, REF_READ, 1},        /* movzbl x(%rip),%eax */
        {{0x44, 0x0f, 0xbe, 0x3d, 0, 0x10}, 8, REF_READ, 1},  /* movsbl x(%rip),%r15d */
        {{0x8a, 0x1d, 0, 0x10}, 6, REF_READ, 1},              /* mov x(%rip),%bl */
        {{0x80, 0x3d, 0, 0x10, 0, 0, 1}, 7, REF_READ, 1},     /* cmpb $1,x(%rip) */
        {{0x38, 0x05, 0, 0x10}, 6, REF_READ, 1},              /* cmp %al,x(%rip) */
        {{0xf6, 0x05, 0, 0x10, 0, 0, 1}, 7, REF_READ, 1},     /* testb $1,x(%rip) */
        {{0x40, 0x88, 0x2d, 0, 0x10}, 7, REF_WRITE, 1},       /* mov %bpl,x(%rip) */
        {{0x88, 0x05, 0, 0x10}, 6, REF_WRITE, 1},             /* mov %al,x(%rip) */
        {{0x48, 0x8b, 0x05, 0, 0x10}, 7, REF_READ, 8},        /* mov x(%rip),%rax */
        {{0x4c, 0x89, 0x0d, 0, 0x10}, 7, REF_WRITE, 8},       /* mov %r9,x(%rip) */
        {{0x8b, 0x05, 0, 0x10}, 6, REF_READ, 0},              /* mov x(%rip),%eax */
        {{0xc6, 0x05, 0, 0x10, 0, 0, 1}, 7, REF_OTHER, 0},    /* movb $1,x(%rip) */
        {{0x80, 0x0d, 0, 0x10, 0, 0, 1}, 7, REF_OTHER, 0},    /* orb $1,x(%rip) */
        {{0x86, 0x05, 0, 0x10}, 6, REF_OTHER, 0},             /* xchg %al,x(%rip) */
        {{0x0f, 0xb7, 0x05, 0, 0x10}, 7, REF_OTHER, 0},       /* movzwl x(%rip),%eax */
        {{0xf0, 0x0f, 0xb0, 0x0d, 0, 0x10}, 8, REF_OTHER, 0}, /* lock cmpxchg %cl,x(%rip) */
        {{0x48, 0x8d, 0x05, 0, 0x10}, 7, REF_OTHER, 0},       /* lea x(%rip),%rax */
    };

    for (size_t i = 0; i < ARRAY_LEN(accesses); i++) {
        look(accesses[i].code, accesses[i].len, false);
        if (!CHECK(seen_count == 1 && seen[0].access == accesses[i].access &&
                   seen[0].size == accesses[i].size))
            fprintf(stderr, "access %zu\n", i);
    }
}

/* Absolute forms do not count if code can be at any address. */
static void test_not_absolute(void)
{
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        if (!forms[i].absolute)
            continue;
        look(forms[i].code, forms[i].len, false);
        CHECK(!is_seen(forms[i].kind, forms[i].target));
    }
}

/* Cut into pieces anywhere, each reference is found once. */
static void test_pieces(void)
{
    unsigned char bytes[96];
    const struct ref_query query = {
        .kinds = REF_CALL, .low = 0x400000, .high = 0x600000, .visit = visit};

    memset(bytes, 0x90, sizeof bytes);
    for (size_t i = 10; i < 60; i += 10)
        memcpy(bytes + i, "\xe8\x00\x10\x00\x00", 5);
    for (size_t cut = 1; cut < sizeof bytes - REF_OVERLAP; cut++) {
        seen_count = 0;
        refs_visit(bytes, cut + REF_OVERLAP, cut, BASE, &query);
        refs_visit(bytes + cut, sizeof bytes - cut, sizeof bytes - cut, BASE + cut, &query);
        if (!CHECK(seen_count == 5))
            fprintf(stderr, "cut at %zu: %zu\n", cut, seen_count);
    }
}

static void test_fork(void)
{
    /* _Fork of glibc 2.36: mov $0x38,%eax; mov $0x1200011,%edi; syscall; cmp; ret */
    static const unsigned char fork_code[] = {0xb8, 0x38, 0,    0,    0, 0xbf, 0x11, 0,    0x20, 1,
                                              0x0f, 0x05, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff, 0xc3};
    /* musl: mov $0x39,%eax; syscall */
    static const unsigned char musl[] = {0xb8, 0x39, 0, 0, 0, 0x0f, 0x05, 0xc3};
    /* clone: the child calls its function; read: another number */
    static const unsigned char thread[] = {0xb8, 0x38, 0, 0,    0,    0x0f, 0x05, 0x48, 0x85,
                                           0xc0, 0x74, 1, 0xc3, 0x58, 0x5f, 0xff, 0xd0};
    static const unsigned char other[] = {0xb8, 0, 0, 0, 0, 0x0f, 0x05, 0xc3};
    /* the end of glibc's clone3: the thread calls its function, then exits */
    static const unsigned char leaves[] = {0xb8, 0xb3, 1,    0,    0,    0x0f, 0x05,
                                           0x31, 0xed, 0xff, 0xd2, 0x48, 0x89, 0xc7,
                                           0xb8, 0x3c, 0,    0,    0,    0x0f, 0x05};
    /* mov $56,%eax; mov $60,%r8d; syscall */
    static const unsigned char argument[] = {0xb8, 0x38, 0, 0, 0,    0x41, 0xb8,
                                             0x3c, 0,    0, 0, 0x0f, 0x05, 0xc3};
    /* mov $56,%eax; mov 256(%r8),%rdi; syscall */
    static const unsigned char loaded[] = {0xb8, 0x38, 0, 0, 0,    0x49, 0x8b, 0xb8,
                                           0,    1,    0, 0, 0x0f, 0x05, 0xc3};

    CHECK(refs_find_fork(loaded, sizeof loaded) == 12);
    CHECK(refs_find_fork(fork_code, sizeof fork_code) == 10);
    CHECK(refs_find_fork(musl, sizeof musl) == 5);
    CHECK(refs_find_fork(thread, sizeof thread) == SIZE_MAX);
    CHECK(refs_find_fork(other, sizeof other) == SIZE_MAX);
    CHECK(refs_find_fork(leaves, sizeof leaves) == SIZE_MAX);
    CHECK(refs_find_fork(argument, sizeof argument) == 11);
    CHECK(refs_make_syscall(other, sizeof other));
    CHECK(!refs_make_syscall(other, 5));
}

/* As gcc 12 compiles musl 1.2.3 and glibc 2.36. */
static void test_threads(void)
{
    static const unsigned char musl[] = {0xba, 0, 0x0f, 0x7d, 0};
    static const unsigned char glibc[] = {0x48, 0xc7, 0x44, 0x24, 0x10, 0, 0x0f, 0x3d, 0};
    /* call *(%rbx); mov %rax,%rdi; call -642 */
    static const unsigned char start[] = {0xff, 0x13, 0x48, 0x89, 0xc7,
                                          0xe8, 0x7e, 0xfd, 0xff, 0xff};
    /* call *(%rax); movslq %eax,%rdi; call; and a call without the first */
    static const unsigned char start_c11[] = {0xff, 0x10, 0x48, 0x63, 0xf8, 0xe8, 4, 0, 0, 0};
    static const unsigned char other[] = {0x90, 0x90, 0x48, 0x89, 0xc7, 0xe8, 4, 0, 0, 0};
    /* mov $60,%edx; xor %edi,%edi; 1: mov %rdx,%rax; syscall; jmp 1b */
    static const unsigned char loop[] = {0xba, 0x3c, 0,    0,    0,    0x31, 0xff,
                                         0x48, 0x89, 0xd0, 0x0f, 0x05, 0xeb, 0xf9};
    int64_t target = 0;

    CHECK(refs_find_thread_flags(musl, sizeof musl) == 1);
    CHECK(refs_find_thread_flags(glibc, sizeof glibc) == 5);
    CHECK(refs_find_thread_flags(glibc, sizeof glibc - 1) == SIZE_MAX);
    CHECK(refs_find_thread_end(start, sizeof start, &target) == 5 && target == 10 - 642);
    CHECK(refs_find_thread_end(start_c11, sizeof start_c11, &target) == 5 && target == 14);
    CHECK(refs_find_thread_end(start, sizeof start - 1, &target) == SIZE_MAX);
    CHECK(refs_find_thread_end(other, sizeof other, &target) == SIZE_MAX);
    CHECK(refs_find_exit_loop(loop, sizeof loop) == sizeof loop);
    CHECK(refs_find_exit_loop(loop, sizeof loop - 1) == SIZE_MAX);
    CHECK(refs_find_exit_loop(loop + 5, sizeof loop - 5) == SIZE_MAX);
}

static void test_errno(void)
{
    /* mov $-80,%rcx; neg %eax; mov %eax,%fs:(%rcx) */
    static const unsigned char tail[] = {0x48, 0xc7, 0xc1, 0xb0, 0xff, 0xff,
                                         0xff, 0xf7, 0xd8, 0x64, 0x89, 0x01};
    static const unsigned char location[] = {0x48, 0xc7, 0xc0, 0xb0, 0xff, 0xff, 0xff, 0x64, 0x48,
                                             0x03, 0x04, 0x25, 0,    0,    0,    0,    0xc3};
    static const unsigned char musl[] = {0x64, 0x48, 0x8b, 0x04, 0x25, 0,    0,
                                         0,    0,    0x48, 0x83, 0xc0, 0x34, 0xc3};
    int32_t offset = 0;

    CHECK(refs_errno_offset(tail, sizeof tail, &offset) && offset == -80);
    CHECK(refs_find_errno_location(location, sizeof location, -80) == 0);
    CHECK(refs_find_errno_location(location, sizeof location, -72) == SIZE_MAX);
    CHECK(refs_errno_offset(musl, sizeof musl, &offset) && offset == 0x34);
    CHECK(refs_find_errno_location(musl, sizeof musl, 0x34) == 0);
    CHECK(!refs_errno_offset(tail + 7, sizeof tail - 7, &offset));
}

int main(void)
{
    test_forms();
    test_access();
    test_not_absolute();
    test_pieces();
    test_fork();
    test_threads();
    test_errno();
    return check_result();
}
