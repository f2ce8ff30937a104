#include "attach/stragglers.h"
#include "attach/gate.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

/* The kernel keeps its list of tracees for the tool as a whole; so is this one. */
static pid_t left[STRAGGLERS_MAX];
static size_t count;

void stragglers_add(pid_t tid)
{
    if (!stragglers_has(tid) && count < STRAGGLERS_MAX)
        left[count++] = tid;
}

bool stragglers_has(pid_t tid)
{
    for (size_t i = 0; i < count; i++)
        if (left[i] == tid)
            return true;
    return false;
}

/* The signal that it was about to get; 0: it is a stop of another kind. */
static int signal_of(int status)
{
    int signal = WSTOPSIG(status);

    return status >> 16 || signal == (SIGTRAP | 0x80) ? 0 : signal;
}

/* False: it runs still, or was just killed and stops once more. */
static bool let_go(pid_t tid)
{
    struct gate gate = {0};
    int status;
    pid_t got = waitpid(tid, &status, __WALL | WNOHANG);

    if (got == 0)
        return false;
    if (got < 0 || !WIFSTOPPED(status))
        return true;
    return gate_ptrace(&gate, PTRACE_DETACH, tid, 0, (uint64_t)signal_of(status)) == 0 ||
           errno != ESRCH;
}

bool stragglers_release(void)
{
    for (size_t i = 0; i < count;)
        if (let_go(left[i]))
            left[i] = left[--count];
        else
            i++;
    return count == 0;
}
