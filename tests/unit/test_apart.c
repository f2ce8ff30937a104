/* A helper thread leaves nothing behind, even if a tracee has not stopped. */
#include "check.h"
#include "run/apart.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t signal_tid;

static long field_of(pid_t pid, const char *name)
{
    char path[64], text[4096];
    FILE *file;
    size_t n;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    file = fopen(path, "r");
    n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[n] = '\0';
    if (file)
        fclose(file);
    const char *at = strstr(text, name);
    return at ? (strcmp(name, "State:") == 0 ? at[strlen(name) + 1] : atol(at + strlen(name))) : -1;
}

/* A process that waits for the child of its vfork(2), and cannot be stopped before that ends. */
static pid_t start_waiting(int *release)
{
    int gate[2];
    pid_t pid;

    if (pipe(gate))
        return -1;
    pid = fork();
    if (pid == 0) {
        char byte;
        close(gate[1]);
        if (vfork() == 0) {
            (void)!read(gate[0], &byte, 1);
            _exit(0);
        }
        _exit(0);
    }
    close(gate[0]);
    *release = gate[1];
    for (int i = 0; i < 5000 && field_of(pid, "State:") != 'D'; i++)
        usleep(2000);
    return pid;
}

static void attach_and_leave(void *ctx)
{
    const pid_t pid = *(pid_t *)ctx;
    int status;

    CHECK(syscall(SYS_ptrace, (long)PTRACE_SEIZE, (long)pid, 0L, 0L) == 0);
    CHECK(syscall(SYS_ptrace, (long)PTRACE_INTERRUPT, (long)pid, 0L, 0L) == 0);
    CHECK(waitpid(pid, &status, __WALL | WNOHANG) == 0);
    CHECK(field_of(pid, "TracerPid:") == syscall(SYS_gettid));
}

static void test_lets_go(void)
{
    int release = -1;
    pid_t pid = start_waiting(&release);

    if (CHECK(pid > 0 && field_of(pid, "State:") == 'D')) {
        apart_run(attach_and_leave, &pid);
        CHECK(field_of(pid, "TracerPid:") == 0);
        /* It can be attached to again, and no helper thread is left. */
        attach_and_leave(&pid);
        CHECK(field_of(pid, "TracerPid:") == getpid());
    }
    kill(pid, SIGKILL);
    close(release);
    waitpid(pid, NULL, __WALL);
}

static void on_signal(int signo)
{
    (void)signo;
    signal_tid = (int)syscall(SYS_gettid);
}

static void take_signal(void *ctx)
{
    kill(getpid(), SIGUSR1);
    *(int *)ctx = (int)syscall(SYS_gettid);
    CHECK(signal_tid == *(int *)ctx); /* so that it ends a system call here */
}

static void test_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t before, after;
    int tid = 0;

    sigaction(SIGUSR1, &action, NULL);
    memset(&before, 0, sizeof before);
    memset(&after, 0, sizeof after);
    sigprocmask(SIG_BLOCK, NULL, &before);
    apart_run(take_signal, &tid);
    sigprocmask(SIG_BLOCK, NULL, &after);
    CHECK(tid != 0 && tid != getpid());
    CHECK(memcmp(&before, &after, sizeof before) == 0);
    CHECK(syscall(SYS_tgkill, getpid(), tid, 0) < 0);
}

int main(void)
{
    alarm(40);
    test_lets_go();
    test_signals();
    return check_result();
}
