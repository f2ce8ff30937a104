/*
 * A process with jemalloc whose stop is delayed until it is released: it waits for its child in
 * vfork(2), which only SIGKILL can end.
 *
 *   late
 *
 * A byte or the end of its stdin releases it, and it sleeps from then on. Ends when its parent
 * does.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(void)
{
    char byte;
    char *block = malloc(100);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!block)
        return 1;
    block[0] = 1;
    pid_t child = vfork();
    if (child == 0) {
        while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR)
            ;
        _exit(0);
    }
    for (;;)
        usleep(20000);
}
