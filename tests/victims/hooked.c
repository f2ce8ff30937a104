/*
 * An application with its own hook for finished dumps (jemalloc 5.3).
 *
 *   hooked LOG [killed | others]
 *
 * The hook appends to LOG the name that it got, and whether that file exists. With "killed"
 * it then kills the process, as the kernel does that finds no memory for it. With
 * "others", the hooks are those for backtraces, for samples (5.3.1) and for
 * allocations instead, and append their names, at first those of one allocation.
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

static volatile sig_atomic_t telling;

static void tell(const char *line)
{
    if (telling && write(log_fd, line, strlen(line)) < 0)
        abort();
}

static void on_backtrace(void **frames, unsigned *count, unsigned most)
{
    frames[0] = most ? frames : NULL;
    *count = most > 0;
    tell("backtrace\n");
}

static void on_sample(const void *block, size_t size, void **frames, unsigned count, size_t usable)
{
    (void)block;
    (void)size;
    (void)frames;
    (void)count;
    (void)usable;
    tell("sample\n");
}

static void on_free(const void *block, size_t size)
{
    (void)block;
    (void)size;
    tell("sample_free\n");
}

/* jemalloc's include/jemalloc/internal/hook.h; all its functions have void results. */
static void on_event(void)
{
    tell("allocation\n");
}

static int set_others(void)
{
    void (*backtrace)(void **, unsigned *, unsigned) = on_backtrace;
    void (*sample)(const void *, size_t, void **, unsigned, size_t) = on_sample;
    void (*sample_free)(const void *, size_t) = on_free;
    struct {
        void (*allocated)(void), (*freed)(void), (*expanded)(void);
        void *extra;
    } hooks = {on_event, on_event, on_event, NULL};
    void *handle;
    size_t size = sizeof handle;

    (void)mallctl("experimental.hooks.prof_sample", NULL, NULL, &sample, sizeof sample);
    (void)mallctl("experimental.hooks.prof_sample_free", NULL, NULL, &sample_free,
                  sizeof sample_free);
    (void)mallctl("experimental.hooks.install", &handle, &size, &hooks, sizeof hooks);
    return mallctl("experimental.hooks.prof_backtrace", NULL, NULL, &backtrace, sizeof backtrace);
}

int main(int argc, char **argv)
{
    void (*hook)(const char *) = on_dump;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    killed = argc == 3 && strcmp(argv[2], "killed") == 0;
    if (argc != 2 && argc != 3)
        return 2;
    log_fd = open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (log_fd < 0)
        return 2;
    if (argc == 3 && !killed
            ? set_others()
            : mallctl("experimental.hooks.prof_dump", NULL, NULL, &hook, sizeof hook) != 0)
        return 77;
    for (int i = 0; i < 5000; i++) {
        char *block = malloc(100); /* content for a profile */
        if (!block)
            return 1;
        block[0] = 1;
    }
    telling = 1;
    free(malloc(100)); /* the others are said to work */
    if (argc == 3)
        tell("ready\n");
    for (;;)
        usleep(20000);
}
