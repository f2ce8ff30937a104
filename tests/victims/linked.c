/* A program of one allocation, to be linked in every way that a linker knows. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void)
{
    void *volatile block = malloc(100);

    puts(block ? "ready" : "no memory");
    fflush(stdout);
    for (;;)
        usleep(20000);
}
