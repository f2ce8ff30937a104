/*
 * dear_walks FILE: touches pages below many calls whose call frame information takes as
 * long to evaluate as it can: each register of each caller is an expression that reads
 * FILE's pages, which are mapped at an address of their own, until it has had too many steps.
 * Only for x86-64.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define BASE       0x300000000000ull
#define FILE_BYTES ((size_t)1 << 30)
#define CHURN      ((size_t)64 << 20)
#define CALLS      120

void calls_and_touches(int calls, char *page);

/* DW_CFA_val_expression reg: addr BASE; L: dup, deref, drop, plus_uconst 4096, skip L */
#define DEAR(reg)                                                                                  \
    ".cfi_escape 0x16," #reg ",18, 0x03,0,0,0,0,0,0x30,0,0, 0x12,0x06,0x13,0x23,0x80,0x20,"        \
    "0x2f,0xf7,0xff\n"

__asm__(".text\n"
        ".type calls_and_touches,@function\n"
        "calls_and_touches:\n"
        ".cfi_startproc\n"
        "push %rbp\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset 6,-16\n" DEAR(0) DEAR(1) DEAR(2) DEAR(3) DEAR(4) DEAR(5) DEAR(8) DEAR(9)
            DEAR(10) DEAR(11) DEAR(12) DEAR(13) DEAR(14)
                DEAR(15) "test %edi,%edi\n"
                         "je 1f\n"
                         "dec %edi\n"
                         "call calls_and_touches\n"
                         "pop %rbp\n"
                         "ret\n"
                         "1: movb $1,(%rsi)\n"
                         "pop %rbp\n"
                         "ret\n"
                         ".cfi_endproc\n"
                         ".size calls_and_touches,.-calls_and_touches\n");

int main(int argc, char **argv)
{
    int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1;
    volatile char *file = mmap((void *)BASE, FILE_BYTES, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);

    if (file == MAP_FAILED)
        return 1;
    for (size_t at = 0; at < (size_t)4 << 20; at += 4096)
        (void)file[at];
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        char *pages = mmap(NULL, CHURN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(pages, CHURN, MADV_NOHUGEPAGE);
        for (size_t at = 0; at < CHURN; at += 4096)
            calls_and_touches(CALLS, pages + at);
        munmap(pages, CHURN);
    }
}
