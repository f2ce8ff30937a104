/* The locks by which runs of the tool know of each other: each struct peers is one run. */
#include "check.h"
#include "run/peers.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

static struct procfs proc;
static struct target target;

static void test_marks(void)
{
    struct peers one = {0}, other = {0};

    peers_open(&one, &target);
    peers_open(&one, &target);
    peers_open(&other, &target);
    CHECK(one.opened && other.opened && !peers_sample(&target));
    peers_mark(&one, PEER_OWES, true);
    CHECK(!peers_others(&one, PEER_OWES) && peers_others(&other, PEER_OWES));
    CHECK(!peers_others(&other, PEER_AT_WORK) && !peers_sample(&target));
    peers_mark(&other, PEER_AT_WORK, true);
    peers_mark(&other, PEER_OWES, true);
    CHECK(peers_others(&one, PEER_OWES) && peers_others(&one, PEER_AT_WORK));
    CHECK(peers_sample(&target));
    peers_mark(&other, PEER_OWES, false);
    CHECK(!peers_others(&one, PEER_OWES) && peers_others(&one, PEER_AT_WORK));
    peers_close(&other);
    CHECK(!peers_others(&one, PEER_AT_WORK));
    peers_close(&one);
    CHECK(!one.opened);
}

static void test_enter(void)
{
    struct peers one = {0}, other = {0};

    peers_open(&one, &target);
    peers_open(&other, &target);
    CHECK(peers_enter(&one, true));
    CHECK(!peers_enter(&one, true) && one.entered); /* it is entered already */
    CHECK(!peers_enter(&other, false) && !other.entered);
    peers_leave(&one);
    CHECK(peers_enter(&other, false));
    peers_close(&other);
    CHECK(peers_enter(&one, false));
    peers_close(&one);
}

/* SIGKILL removes them. */
static void test_killed(void)
{
    struct peers one = {0}, other = {0};
    int ready[2];
    char byte;
    pid_t pid;

    if (!CHECK(pipe(ready) == 0 && (pid = fork()) >= 0))
        return;
    if (pid == 0) {
        peers_open(&other, &target);
        peers_mark(&other, PEER_OWES, true);
        peers_enter(&other, false);
        (void)!write(ready[1], "r", 1);
        pause();
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    peers_open(&one, &target);
    CHECK(peers_others(&one, PEER_OWES) && !peers_enter(&one, false));
    kill(pid, SIGKILL);
    CHECK(waitpid(pid, NULL, 0) == pid);
    CHECK(!peers_others(&one, PEER_OWES) && peers_enter(&one, false));
    peers_close(&one);
}

/* Without the file nothing is seen, and nothing fails. */
static void test_none(void)
{
    struct procfs none = {.dirfd = -1};
    struct target gone = {.proc = &none, .pid = 1};
    struct peers peers = {0};

    peers_open(&peers, &gone);
    CHECK(!peers.opened && !peers_others(&peers, PEER_OWES) && !peers_enter(&peers, true));
    peers_mark(&peers, PEER_OWES, true);
    peers_leave(&peers);
    peers_close(&peers);
}

int main(void)
{
    if (!CHECK(procfs_open(&proc, "/proc") == 0 &&
               target_open(&target, &proc, getpid(), NULL) == FAULT_NONE))
        return check_result();
    test_marks();
    test_enter();
    test_killed();
    test_none();
    target_close(&target);
    procfs_close(&proc);
    return check_result();
}
