#include "run/graphviz.h"
#include "base/util.h"
#include "run/command.h"
#include "run/faults.h"
#include "run/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { DRAW_SECONDS = 30, POLL_NS = 5000000 };
/* dot takes gigabytes for a few thousand nodes, within seconds. */
static const struct rlimit draw_memory = {(rlim_t)2 << 30, (rlim_t)2 << 30};

extern char **environ;

static fault_code graphviz_failed(struct fault *fault, int err, const char *what)
{
    return fault_set(fault, FAULT_OUTPUT, err, "draw", "%s", what);
}

bool graphviz_find(char *path, size_t size)
{
    const char *directories = getenv("PATH");

    for (const char *at = directories; at && *at;) {
        size_t len = strcspn(at, ":");
        int n = snprintf(path, size, "%.*s/dot", (int)len, at);
        if (*at == '/' && n > 0 && (size_t)n < size && access(path, X_OK) == 0)
            return true;
        at += len + (at[len] == ':');
    }
    return false;
}

static fault_code draw_failed(struct fault *fault, const char *what)
{
    return fault_set(fault, FAULT_DRAW, 0, "draw", "%s", what);
}

/* Ends dot if it takes too long: the time of some graphs has no useful limit. */
static fault_code end_drawing(pid_t child, bool interrupted, struct fault *fault)
{
    char what[64];
    int status;

    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    if (interrupted)
        return graphviz_failed(fault, EINTR, "dot was ended");
    snprintf(what, sizeof what, "dot did not finish in %d s and was ended", DRAW_SECONDS);
    return draw_failed(fault, what);
}

static fault_code wait_for(pid_t child, struct fault *fault)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    uint64_t deadline = clock_now() + DRAW_SECONDS * 1000000000ull;
    int status;
    pid_t done;

    while ((done = waitpid(child, &status, WNOHANG)) == 0 || (done < 0 && errno == EINTR)) {
        bool interrupted = *interrupt_flag() != 0;
        if (interrupted || clock_now() > deadline)
            return end_drawing(child, interrupted, fault);
        nanosleep(&pause, NULL);
    }
    if (done < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return draw_failed(fault, "dot could not draw the graph");
    return FAULT_NONE;
}

static fault_code copy(int picture, FILE *out, struct fault *fault)
{
    char buffer[16 << 10];
    off_t at = 0;
    ssize_t n;

    while ((n = pread(picture, buffer, sizeof buffer, at)) > 0) {
        fwrite(buffer, 1, (size_t)n, out);
        at += n;
    }
    return n < 0 ? graphviz_failed(fault, errno, "the picture") : FAULT_NONE;
}

fault_code graphviz_draw(const char *dot, const char *graph, size_t len, FILE *out,
                         struct fault *fault)
{
    char *const words[] = {(char *)"dot", (char *)"-Tsvg", NULL};
    /* Memory files, so that neither side can block the other. */
    AUTO_CLOSE int in = memfd_create("graph", MFD_CLOEXEC);
    AUTO_CLOSE int picture = memfd_create("picture", MFD_CLOEXEC);
    fault_code rc;
    pid_t child;
    int err;

    if (in < 0 || picture < 0 || pwrite(in, graph, len, 0) != (ssize_t)len)
        return graphviz_failed(fault, errno, "the graph");
    err = command_spawn(&child, dot, words, environ, in, picture);
    if (err)
        return graphviz_failed(fault, err, dot);
    (void)prlimit(child, RLIMIT_AS, &draw_memory, NULL);
    rc = wait_for(child, fault);
    return rc == FAULT_NONE ? copy(picture, out, fault) : rc;
}
