/* The user namespace of a process: by the kernel's links, and by the maps if those are refused. */
#include "check.h"
#include "host/namespaces.h"
#include "proc_text.h"
#include "tree.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

static struct tree tree;
static struct procfs proc;

static const char initial[] = "         0          0 4294967295\n";

static enum userns by_maps(const char *own, const char *its)
{
    char name[48];

    CHECK(tree_write(&tree, "self/uid_map", own));
    snprintf(name, sizeof name, "%d/uid_map", NO_PID);
    CHECK(tree_write(&tree, name, its));
    return userns_of(&proc, NO_PID);
}

static void test_maps(void)
{
    CHECK(userns_of(&proc, NO_PID) == USERNS_UNKNOWN);
    CHECK(by_maps(initial, initial) == USERNS_SAME);
    CHECK(by_maps(initial, "         0       1001          1\n") == USERNS_BELOW);
    CHECK(by_maps(initial, "  0 1001 1\n  1 100000 65536\n") == USERNS_BELOW);
    /* Inside one: its own map has its parent's numbers, other maps have its own. */
    CHECK(by_maps("0 1001 1\n", "0 1001 1\n") == USERNS_SAME);
    CHECK(by_maps("0 1001 1\n", "0 4294967295 4294967295\n") == USERNS_OUTSIDE);
    CHECK(by_maps("0 100000 65536\n", "0 1000 1\n1 4294967295 10\n") == USERNS_OUTSIDE);
    CHECK(by_maps("0 100000 65536\n", "0 0 65536\n") == USERNS_OTHER); /* below, or beside */
    CHECK(by_maps(initial, "") == USERNS_UNKNOWN);
    CHECK(by_maps("", initial) == USERNS_OUTSIDE);        /* no ids at all: nothing can be below */
    CHECK(by_maps("0 0 1\n", initial) == USERNS_OUTSIDE); /* more than it has itself */
    CHECK(by_maps("0 100000 10\n20 200000 10\n", "0 5 20\n") == USERNS_OUTSIDE);
    CHECK(by_maps("0 100000 10\n20 200000 10\n", "0 22 8\n10 3 7\n") == USERNS_OTHER);
    CHECK(by_maps(initial, "x y z\n") == USERNS_BELOW); /* another one, at any rate */
}

static void test_links(void)
{
    char name[48];

    /* The same file: the same namespace, whatever the maps contain. */
    snprintf(name, sizeof name, "%d/ns/user", NO_PID);
    CHECK(by_maps("0 1 1\n", "0 4294967295 1\n") == USERNS_OUTSIDE);
    CHECK(tree_write(&tree, "self/ns/user", ""));
    CHECK(tree_link(&tree, name, "/proc/self/no/such"));
    CHECK(userns_of(&proc, NO_PID) == USERNS_OUTSIDE); /* refused: the maps decide */
    CHECK(tree_write(&tree, "ns", "") && tree_link(&tree, name, "../../ns"));
    CHECK(tree_link(&tree, "self/ns/user", "../../ns"));
    CHECK(userns_of(&proc, NO_PID) == USERNS_SAME);
}

/* A child in a user namespace of its own; how each sees the other. */
static void test_real(void)
{
    struct procfs real;
    int down[2], up[2];
    char byte = 0;
    pid_t parent = getpid(), child;

    if (!CHECK(procfs_open(&real, "/proc") == 0) || pipe(down) || pipe(up))
        return;
    CHECK(userns_of(&real, parent) == USERNS_SAME);
    child = fork();
    if (child == 0) {
        char seen = unshare(CLONE_NEWUSER) == 0 ? 1 : 0;
        if (seen)
            seen = userns_of(&real, parent) == USERNS_OUTSIDE ? 2 : 1;
        (void)!write(up[1], &seen, 1);
        _exit(read(down[0], &seen, 1) == 1 ? 0 : 1);
    }
    CHECK(read(up[0], &byte, 1) == 1);
    if (byte) {
        CHECK(byte == 2);
        CHECK(userns_of(&real, child) == USERNS_OWNED); /* its maker is this process's user */
    }
    CHECK(write(down[1], &byte, 1) == 1);
    waitpid(child, NULL, 0);
    for (int i = 0; i < 2; i++) {
        close(down[i]);
        close(up[i]);
    }
    procfs_close(&real);
}

int main(void)
{
    if (!CHECK(tree_make(&tree)) || !CHECK(procfs_open(&proc, tree.path) == 0))
        return check_result();
    test_maps();
    test_links();
    test_real();
    procfs_close(&proc);
    tree_remove(&tree);
    return check_result();
}
