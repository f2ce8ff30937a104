/*
 * jit: a process with code that it has made at run time. Prints "ready" and the
 * hexadecimal addresses of SLOTS functions of SLOT_SIZE bytes. For each digit on
 * stdin it calls the function of that number, which allocates BLOCK bytes through
 * keep(), and prints "done".
 */
#include <err.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { SLOTS = 4, SLOT_SIZE = 64, BLOCK = 100000, BLOCKS = 4096 };

static void *blocks[BLOCKS];
static size_t used;

__attribute__((noinline)) static void keep(void)
{
    if (used == BLOCKS || !(blocks[used++] = calloc(1, BLOCK)))
        err(1, "malloc");
    __asm__ volatile("" ::: "memory");
}

/* push %rbp; mov %rsp,%rbp; movabs $keep,%rax; call *%rax; pop %rbp; ret */
static void make_function(unsigned char *at)
{
    static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xb8, 0,    0,    0,
                                         0,    0,    0,    0,    0,    0xff, 0xd0, 0x5d, 0xc3};
    const uint64_t target = (uint64_t)(uintptr_t)keep;

    memcpy(at, code, sizeof code);
    memcpy(at + 6, &target, sizeof target);
}

int main(void)
{
    unsigned char *code = mmap(NULL, SLOTS * SLOT_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char byte;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (code == MAP_FAILED)
        err(1, "mmap");
    printf("ready");
    for (size_t i = 0; i < SLOTS; i++) {
        make_function(code + i * SLOT_SIZE);
        printf(" %lx", (unsigned long)(uintptr_t)(code + i * SLOT_SIZE));
    }
    puts("");
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) == 1) {
        void (*function)(void);
        const unsigned char *slot = code + (byte - '0') % SLOTS * SLOT_SIZE;
        memcpy(&function, &slot, sizeof function);
        function();
        puts("done");
        fflush(stdout);
    }
    return 0;
}
