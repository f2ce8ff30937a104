/*
 * later LIBRARY: prints a line, waits for one, then opens the library, whose call_back touches
 * new pages by the function that it is given. The library is the same source with -DLIBRARY.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BLOCK = 64 << 10 };

#ifdef LIBRARY

__attribute__((noinline)) static void *grow_in_library(void)
{
    volatile char *block = malloc(BLOCK);

    for (size_t i = 0; block && i < BLOCK; i += 1024)
        block[i] = 1;
    return (void *)block;
}

void call_back(void (*keep)(void *))
{
    keep(grow_in_library());
    usleep(1000);
}

#else

static void *kept;

static void keep(void *block)
{
    if (!block)
        abort();
    *(void **)block = kept;
    kept = block;
}

int main(int argc, char **argv)
{
    char line[16];

    puts("ready");
    fflush(stdout);
    if (argc < 2 || !fgets(line, sizeof line, stdin))
        return 2;
    void *library = dlopen(argv[1], RTLD_NOW);
    void (*call)(void (*)(void *)) =
        library ? (void (*)(void (*)(void *)))dlsym(library, "call_back") : NULL;
    if (!call)
        return 2;
    for (;;)
        call(keep);
}

#endif
