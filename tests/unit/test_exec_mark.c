/* The random bytes of an exec: the test's own, a fork of it, and programs that it starts. */
#include "attach/exec_mark.h"
#include "check.h"
#include "own.h"

#include <signal.h>
#include <sys/auxv.h>
#include <sys/wait.h>

/* Starts a process that waits: a fork, or with argv another exec of this program. */
static pid_t start(char **argv, int *end)
{
    int pipes[2], ready[2];
    char byte;
    pid_t pid;

    if (pipe(pipes) || pipe(ready) || (pid = fork()) < 0)
        return -1;
    if (pid == 0) {
        dup2(pipes[0], STDIN_FILENO);
        dup2(ready[1], STDOUT_FILENO);
        close(pipes[1]);
        close(ready[0]);
        if (argv)
            execv("/proc/self/exe", argv);
        (void)!write(STDOUT_FILENO, "r", 1);
        _exit((int)read(STDIN_FILENO, &byte, 1));
    }
    close(pipes[0]);
    close(ready[1]);
    CHECK(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    *end = pipes[1];
    return pid;
}

static bool matches(const struct exec_mark *mark, struct own *own, pid_t pid)
{
    struct target target;
    struct memory memory;
    bool same = false;

    if (!CHECK(target_open(&target, &own->proc, pid, NULL) == FAULT_NONE))
        return false;
    memory_open(&memory, &target, &own->gate);
    same = exec_mark_matches(mark, &memory);
    memory_close(&memory);
    target_close(&target);
    return same;
}

static void test_started(const struct exec_mark *mark, struct own *own, char **argv, bool same)
{
    int end = -1;
    pid_t pid = start(argv, &end);

    if (!CHECK(pid > 0))
        return;
    CHECK(matches(mark, own, pid) == same);
    close(end);
    CHECK(waitpid(pid, NULL, 0) == pid);
}

/* argc of these has the value of AT_RANDOM, which must not be taken for it. */
static char *many[] = {"wait", "2",  "3",  "4",  "5",  "6",  "7",  "8",  "9",
                       "10",   "11", "12", "13", "14", "15", "16", "17", "18",
                       "19",   "20", "21", "22", "23", "24", "25", NULL};

int main(int argc, char **argv)
{
    const uint64_t at = getauxval(AT_RANDOM);
    char *one[] = {"wait", NULL}, byte;
    struct exec_mark mark;
    struct own own;

    if (!CHECK(own_open(&own)))
        return check_result();
    exec_mark_read(&mark, &own.target, &own.memory);
    CHECK(mark.random_at == at && mark.stack_start == own.target.stat.stack_start);
    CHECK(memcmp(mark.random, (const void *)(uintptr_t)at, EXEC_MARK_BYTES) == 0);
    CHECK(exec_mark_matches(&mark, &own.memory));
    if (strcmp(argv[0], "wait") == 0) {
        bool good = (argc == 1 || argc == AT_RANDOM) && !checks_failed;
        own_close(&own);
        return write(STDOUT_FILENO, good ? "r" : "", good) != 1 || read(STDIN_FILENO, &byte, 1);
    }
    test_started(&mark, &own, NULL, true);
    test_started(&mark, &own, one, false);
    test_started(&mark, &own, many, false);
    mark.random_at = 0;
    CHECK(!exec_mark_matches(&mark, &own.memory));
    own_close(&own);
    return check_result();
}
