/*
 * stacks COUNT: a process whose heap profile has COUNT distinct live stacks.
 *
 * Each stack is a path through a binary tree: the bits of its number choose which of two functions
 * is called at each level. Run it with lg_prof_sample:0, so that each allocation is sampled.
 */
#include <err.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { DEPTH = 17, BLOCK = 16, MAX_STACKS = 1 << DEPTH };

static void *left(unsigned path, unsigned depth);
static void *right(unsigned path, unsigned depth);

static inline __attribute__((always_inline)) void *step(unsigned path, unsigned depth)
{
    if (depth == 0)
        return malloc(BLOCK);
    return (path & 1u ? right : left)(path >> 1, depth - 1);
}

/* The asm prevents tail calls; its operand prevents the merging of the two functions. */
static __attribute__((noinline)) void *left(unsigned path, unsigned depth)
{
    void *block = step(path, depth);

    __asm__ volatile("" : "+r"(block) : "i"(1));
    return block;
}

static __attribute__((noinline)) void *right(unsigned path, unsigned depth)
{
    void *block = step(path, depth);

    __asm__ volatile("" : "+r"(block) : "i"(2));
    return block;
}

int main(int argc, char **argv)
{
    static void *blocks[MAX_STACKS]; /* keeps them alive */
    char *end = NULL;
    unsigned long count = argc == 2 ? strtoul(argv[1], &end, 10) : 0;

    if (count == 0 || *end != '\0' || count > MAX_STACKS)
        errx(2, "usage: stacks COUNT, at most %d", MAX_STACKS);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (unsigned i = 0; i < count; i++) {
        blocks[i] = left(i, DEPTH);
        if (blocks[i] == NULL)
            err(1, "stack %u", i);
        memset(blocks[i], 1, BLOCK);
    }
    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        err(1, "stdout");
    for (;;)
        pause();
}
