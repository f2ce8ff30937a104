/*
 * A program of one allocation, to be linked in every way. With --move it first moves its code into
 * anonymous memory, as some programs do for huge pages.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The copy replaces the code in one step, which is itself in that code. */
static int move_code(uintptr_t start, uintptr_t end)
{
    size_t size = end - start;
    void *copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (copy == MAP_FAILED)
        return -1;
    memcpy(copy, (const void *)start, size);
    if (mprotect(copy, size, PROT_READ | PROT_EXEC))
        return -1;
    return mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)start) == MAP_FAILED;
}

static int move_own_code(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    uintptr_t start, end, own = (uintptr_t)move_own_code;
    char line[4096];
    int rc = -1;

    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx", &start, &end) == 2 && start <= own && own < end)
            rc = move_code(start, end);
    if (maps)
        fclose(maps);
    return rc;
}

int main(int argc, char **argv)
{
    void *volatile block = malloc(100);

    if (argc == 2 && strcmp(argv[1], "--move") == 0 && move_own_code())
        return 1;
    puts(block ? "ready" : "no memory");
    fflush(stdout);
    for (;;)
        usleep(20000);
}
