/* The locks by which runs of the tool know of each other: each process is one run. */
#include "check.h"
#include "run/peers.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define SECOND_NS ((uint64_t)1000000000)

static struct procfs proc;
static struct target target;

enum { INSIDE = 1 << PEER_INSIDE, AT_WORK = 1 << PEER_AT_WORK, OWES = 1 << PEER_OWES };

/* Starts another run, as that user, which has these marks until it is killed. */
static pid_t start(unsigned marks, uid_t user)
{
    struct peers other = {0};
    int ready[2];
    char byte;
    pid_t pid;

    if (!CHECK(pipe(ready) == 0 && (pid = fork()) >= 0))
        exit(check_result());
    if (pid == 0) {
        peers_open(&other, &target);
        if (user != getuid() && setuid(user))
            _exit(1);
        for (enum peer_mark mark = 0; mark <= PEER_INSIDE; mark++)
            if (marks & 1u << mark)
                peers_mark(&other, mark, true);
        (void)!write(ready[1], "r", 1);
        pause();
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void stop(pid_t pid)
{
    kill(pid, SIGKILL);
    CHECK(waitpid(pid, NULL, 0) == pid);
}

static void test_marks(void)
{
    struct peers one = {0};
    pid_t other;

    peers_open(&one, &target);
    peers_open(&one, &target);
    CHECK(one.opened);
    peers_mark(&one, PEER_OWES, true);
    CHECK(!peers_others(&one, PEER_OWES) && !peers_others(&one, PEER_AT_WORK));
    other = start(AT_WORK, getuid());
    CHECK(!peers_others(&one, PEER_OWES) && peers_others(&one, PEER_AT_WORK));
    stop(other);
    CHECK(!peers_others(&one, PEER_AT_WORK) && !peers_sample(&target));
    peers_close(&one);
    CHECK(!one.opened);
    other = start(OWES, getuid());
    peers_open(&one, &target);
    CHECK(peers_others(&one, PEER_OWES) && !peers_sample(&target));
    stop(other);
    peers_close(&one);
}

static void test_enter(void)
{
    const struct deadline late = {.at = clock_now() + 3600 * SECOND_NS},
                          soon = {.at = clock_now() + SECOND_NS / 5};
    volatile sig_atomic_t stopped = 1;
    const struct deadline stops = {.at = late.at, .interrupted = &stopped};
    struct peers one = {0};
    pid_t other;

    peers_open(&one, &target);
    CHECK(peers_enter(&one, &late));
    CHECK(!peers_enter(&one, &late) && one.entered); /* it is entered already */
    peers_leave(&one);
    other = start(INSIDE, getuid());
    CHECK(!peers_enter(&one, NULL) && !one.entered);
    CHECK(!peers_others(&one, PEER_OWES));
    unsigned tries = one.tries;
    CHECK(!peers_enter(&one, &stops) && one.tries == tries);
    CHECK(!peers_enter(&one, &soon) && one.tries > 0 && clock_now() < soon.at + SECOND_NS * 60);
    CHECK(!peers_enter(&one, &late) && one.tries == 0);
    CHECK(!peers_enter(&one, &late));
    stop(other);
    CHECK(peers_enter(&one, NULL));
    peers_close(&one);
}

/* Anyone who can open the file can lock it. */
static void test_strangers(void)
{
    struct peers one = {0};
    pid_t other;

    if (geteuid() != 0)
        return;
    other = start(INSIDE | AT_WORK | OWES, 65534);
    peers_open(&one, &target);
    CHECK(!peers_sample(&target) && !peers_others(&one, PEER_OWES) && peers_enter(&one, NULL));
    stop(other);
    peers_close(&one);
}

/* Without the file nothing is seen, and nothing fails. */
static void test_none(void)
{
    struct procfs none = {.dirfd = -1};
    struct target gone = {.proc = &none, .pid = 1};
    struct peers peers = {0};

    peers_open(&peers, &gone);
    CHECK(!peers.opened && !peers_others(&peers, PEER_OWES) && !peers_enter(&peers, NULL));
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
    test_strangers();
    test_none();
    target_close(&target);
    procfs_close(&proc);
    return check_result();
}
