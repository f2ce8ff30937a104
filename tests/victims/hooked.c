/*
 * An application with its own hook for finished dumps (jemalloc 5.3).
 *
 *   hooked LOG [killed]
 *
 * The hook appends to LOG the name that it got, and whether that file exists. With "killed"
 * it then kills the process, as the kernel does that finds no memory for it.
 * Exit code 77 if jemalloc has no such hook. Ends with its parent.
 */
#include <fcntl.h>
#include <jemalloc/jemalloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static int log_fd;
static bool killed;

static void on_dump(const char *name)
{
    const char *found = access(name, R_OK) == 0 ? " found\n" : " missing\n";

    if (write(log_fd, name, strlen(name)) < 0 || write(log_fd, found, strlen(found)) < 0)
        abort();
    if (killed)
        raise(SIGKILL);
}

int main(int argc, char **argv)
{
    void (*hook)(const char *) = on_dump;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    killed = argc == 3 && strcmp(argv[2], "killed") == 0;
    if (argc != 2 && !killed)
        return 2;
    log_fd = open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (log_fd < 0)
        return 2;
    if (mallctl("experimental.hooks.prof_dump", NULL, NULL, &hook, sizeof hook) != 0)
        return 77;
    for (int i = 0; i < 5000; i++) {
        char *block = malloc(100); /* content for a profile */
        if (!block)
            return 1;
        block[0] = 1;
    }
    for (;;)
        usleep(20000);
}
