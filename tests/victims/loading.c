/*
 * Loads a library and unloads it, for ever: outside of the loader it executes three instructions.
 *
 *   loading LIBRARY
 *
 * Says "loading" when it begins; ends when its parent does.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

int main(int argc, char **argv)
{
    char *block = malloc(100);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc != 2 || !block)
        return 2;
    block[0] = 1;
    puts("loading");
    fflush(stdout);
    for (;;) {
        void *library = dlopen(argv[1], RTLD_NOW);
        if (!library || dlclose(library) != 0)
            break;
    }
    fprintf(stderr, "loading: %s\n", dlerror());
    return 1;
}
