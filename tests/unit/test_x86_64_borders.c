/* x86-64: the finders read no byte beyond their input. */
#include "check.h"
#include "guard.h"
#include "inject/arch.h"

#include <sys/wait.h>

static struct guard guard;

/* In a child, because one byte too many ends it by SIGSEGV. */
static bool survives(void (*test)(void))
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        checks_failed = 0;
        test();
        _exit(checks_failed != 0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status);
}

typedef size_t (*finder)(const unsigned char *code, size_t len);

/* Any bytes of a small alphabet, made of the instructions that are searched. */
static void test_finders(void)
{
    static const unsigned char alphabet[] = {0x48, 0x89, 0x43, 0x03, 0x07, 0x47, 0x5b, 0xc3,
                                             0x0f, 0x05, 0xc7, 0xc0, 0x73, 0x01, 0xff, 0x3d};
    static const finder finders[] = {arch_find_syscall_return, arch_find_sigreturn, arch_find_store,
                                     arch_find_store_pops};
    unsigned seed = 1;

    for (unsigned round = 0; round < 200000; round++) {
        unsigned char code[24];
        size_t len = round / 4 % sizeof code;
        for (size_t i = 0; i < len; i++) {
            seed = seed * 1103515245 + 12345;
            code[i] = alphabet[(seed >> 16) % sizeof alphabet];
        }
        size_t at = finders[round % 4](guard_put(&guard, code, len), len);
        if (at != SIZE_MAX && at >= len)
            CHECK(at < len);
    }
}

/* A store whose displacement is the last byte, which also looks like a return. */
static void test_store_at_end(void)
{
    static const unsigned char codes[][16] = {
        {0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x48, 0x89, 0x43,
         0xc3},
        {0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x48, 0x89, 0x47,
         0xc3},
        {0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x48, 0x89, 0x03,
         0xc3},
    };

    for (size_t i = 0; i < ARRAY_LEN(codes); i++)
        CHECK(arch_find_store(guard_put(&guard, codes[i], 16), 16) == SIZE_MAX);
}

/* An incomplete instruction before the return address. */
static void test_call_at_end(void)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        unsigned char before[8] = {0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0};
        before[7] = (unsigned char)byte;
        bool call = arch_follows_call(guard_put(&guard, before, sizeof before));
        CHECK(call ==
              ((byte & 0xf8) == 0xd0 || ((byte & 0xf8) == 0x10 && byte != 0x14 && byte != 0x15)));
    }
}

int main(void)
{
    if (!CHECK(guard_make(&guard, 1)))
        return check_result();
    CHECK(survives(test_finders));
    CHECK(survives(test_store_at_end));
    CHECK(survives(test_call_at_end));
    guard_free(&guard);
    return check_result();
}
