/*
 * carrier [/LIBRARY FUNCTION...]...: calls these functions all the time with the address of
 * another, keep(), which they call, and which keeps memory that points to its caller. Prints
 * "ready" when each was called.
 */
#include <dlfcn.h>
#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { FUNCTIONS = 256, BLOCK = 8000, ROUNDS = 3000, PAUSE_US = 20000 };

typedef void (*caller)(void (*)(void));

static caller callers[FUNCTIONS];
static size_t count;
static caller current;

__attribute__((noinline)) static void keep(void)
{
    char *block = malloc(BLOCK);

    if (!block)
        err(1, "malloc");
    memset(block, 1, BLOCK);
    memcpy(block, &current, sizeof current);
    __asm__ volatile("" ::: "memory");
}

static void call_each(void)
{
    for (size_t i = 0; i < count; i++) {
        current = callers[i];
        current(keep);
    }
}

int main(int argc, char **argv)
{
    void *library = NULL;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 1; i < argc; i++) {
        void *symbol =
            argv[i][0] == '/' ? library = dlopen(argv[i], RTLD_NOW) : dlsym(library, argv[i]);
        if (!symbol || count == FUNCTIONS)
            errx(1, "%s", symbol ? "too many functions" : dlerror());
        if (symbol != library)
            memcpy(&callers[count++], &symbol, sizeof symbol);
    }
    call_each();
    puts("ready");
    fflush(stdout);
    for (int round = 0; round < ROUNDS; round++) {
        call_each();
        usleep(PAUSE_US);
    }
    pause();
}
