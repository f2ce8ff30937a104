/* A thread that does not stop in time is let go when it does, not when the tool ends. */
#include "attach/session.h"
#include "attach/stragglers.h"
#include "check.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t start_child(void)
{
    pid_t pid = fork();

    while (pid == 0)
        pause();
    return pid;
}

static void end_child(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, __WALL);
}

static int tracer_of(pid_t pid)
{
    char path[64], line[256];
    int tracer = -1;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "TracerPid: %d", &tracer) == 1)
            break;
    if (file)
        fclose(file);
    return tracer;
}

static bool release_in_time(void)
{
    const struct timespec pause = {0, STRAGGLERS_LOOK_NS};

    for (int look = 0; look < 6000; look++) {
        if (stragglers_release())
            return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

static void test_late_stop(void)
{
    struct target target = {.pidfd = -1};
    struct session session, again;
    struct gate gate = {0};
    struct fault fault = {0};
    pid_t pid = start_child();

    if (!CHECK(pid > 0))
        return;
    if (session_seize(&session, &target, pid, &gate, &fault) != FAULT_NONE) {
        end_child(pid);
        printf("SKIP: ptrace is not permitted\n");
        return;
    }
    session_detach(&session); /* it runs: it cannot be */
    CHECK(session.state == SESSION_IDLE && stragglers_has(pid));
    CHECK(!stragglers_release() && tracer_of(pid) == getpid());
    CHECK(session_seize(&again, &target, pid, &gate, &fault) == FAULT_NO_STOP);
    session_detach(&again);
    CHECK(gate_ptrace(&gate, PTRACE_INTERRUPT, pid, 0, 0) == 0);
    CHECK(release_in_time());
    CHECK(!stragglers_has(pid) && tracer_of(pid) == 0);
    CHECK(session_seize(&again, &target, pid, &gate, &fault) == FAULT_NONE);
    session_detach(&again);
    kill(pid, SIGTERM); /* which it gets, though it stops it first */
    CHECK(release_in_time());
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

static void test_end(void)
{
    struct target target = {.pidfd = -1};
    struct session session;
    struct gate gate = {0};
    pid_t pid = start_child();

    if (!CHECK(pid > 0) || session_seize(&session, &target, pid, &gate, NULL) != FAULT_NONE)
        return;
    session_detach(&session);
    CHECK(!stragglers_release());
    kill(pid, SIGKILL);
    CHECK(release_in_time() && !stragglers_has(pid));
    waitpid(pid, NULL, __WALL);
}

int main(void)
{
    CHECK(stragglers_release() && !stragglers_has(getpid()));
    test_late_stop();
    test_end();
    return check_result();
}
