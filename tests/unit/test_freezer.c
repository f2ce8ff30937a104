/* Frozen cgroups, v1 and v2. */
#include "check.h"
#include "host/cgroup.h"
#include "proc_text.h"
#include "tree.h"

static struct tree tree;
static struct procfs proc;

static void groups(const char *text)
{
    char name[48];

    snprintf(name, sizeof name, "%d/cgroup", NO_PID);
    CHECK(tree_write(&tree, name, text));
}

/* The directory that counts as frozen; "": none. */
static const char *held(void)
{
    static char path[FREEZER_PATH_MAX];

    if (!freezer_of_group(&proc, NO_PID, path, sizeof path))
        path[0] = '\0';
    return path;
}

static bool state(const char *file, const char *text)
{
    char name[FREEZER_PATH_MAX + 64];

    snprintf(name, sizeof name, "self/root/sys/fs/cgroup/%s", file);
    return tree_write(&tree, name, text);
}

static void test_first(void)
{
    groups("9:name=systemd:/\n6:freezer:/docker/abc\n5:cpu,cpuacct:/docker/abc\n0::/\n");
    CHECK(state("freezer/docker/abc/freezer.state", "THAWED\n") && !*held());
    CHECK(state("freezer/docker/abc/freezer.state", "FROZEN\n"));
    CHECK(strcmp(held(), "/sys/fs/cgroup/freezer/docker/abc") == 0);
    CHECK(state("freezer/docker/abc/freezer.state", "FREEZING\n") && *held());
    /* Of another controller, and of none: not the freezer's path. */
    groups("6:memory:/docker/abc\n");
    CHECK(!*held());
    groups("6:freezer:/docker/other\n");
    CHECK(!*held());
    groups("6:freezer:/../abc\n"); /* above the tool's own root of cgroups */
    CHECK(!*held());
}

static void test_second(void)
{
    groups("0::/system.slice/docker-abc.scope\n");
    CHECK(!*held());
    CHECK(state("system.slice/docker-abc.scope/cgroup.events", "populated 1\nfrozen 0\n"));
    CHECK(!*held());
    CHECK(state("system.slice/docker-abc.scope/cgroup.events", "populated 1\nfrozen 1\n"));
    CHECK(strcmp(held(), "/sys/fs/cgroup/system.slice/docker-abc.scope") == 0);
    groups("0::/x:y/z\n"); /* a colon in a name */
    CHECK(state("unified/x:y/z/cgroup.events", "populated 1\nfrozen 1\n"));
    CHECK(strcmp(held(), "/sys/fs/cgroup/unified/x:y/z") == 0);
    groups("0::/\n");
    CHECK(state("cgroup.events", "frozen 1\n") && strcmp(held(), "/sys/fs/cgroup") == 0);
}

static void test_odd(void)
{
    char name[600], line[1400];

    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(line, sizeof line, "6:freezer:/%s\n0::/%s\n", name, name);
    groups(line);
    CHECK(!*held());
    for (const char *const *text = (const char *const[]){"", "\n\n", "6", "6:", "6:freezer",
                                                         "::", "0::", "x:freezer:/a\n", NULL};
         *text; text++) {
        groups(*text);
        CHECK(!*held());
    }
    CHECK(!freezer_of_group(&proc, NO_PID + 1, name, sizeof name));
}

/* A path that is cut off is the name of another cgroup. */
static void test_cut_off(void)
{
    char path[sizeof "/sys/fs/cgroup/freezer/a"];

    groups("6:freezer:/ab\n");
    CHECK(state("freezer/a/freezer.state", "FROZEN\n"));
    CHECK(!freezer_of_group(&proc, NO_PID, path, sizeof path));
    groups("6:freezer:/a\n");
    CHECK(freezer_of_group(&proc, NO_PID, path, sizeof path));
}

static bool thread(int tid, char letter, const char *wchan)
{
    char name[64], text[256];

    snprintf(name, sizeof name, "%d/task/%d/wchan", NO_PID, tid);
    if (!tree_write(&tree, name, wchan))
        return false;
    snprintf(name, sizeof name, "%d/task/%d/stat", NO_PID, tid);
    snprintf(text, sizeof text,
             "%d (a) b) %c 1 1 1 0 -1 4194304 1 0 0 0 1 2 0 0 20 0 1 0 100 1 1 1\n", tid, letter);
    return tree_write(&tree, name, text);
}

/* As in /proc of kernel 6.18; one thread in another cgroup decides. */
static void test_threads(void)
{
    CHECK(!freezer_of_threads(&proc, NO_PID)); /* none at all */
    CHECK(thread(7, 'D', "hrtimer_nanosleep") && freezer_of_threads(&proc, NO_PID));
    CHECK(thread(8, 'D', "__refrigerator") && freezer_of_threads(&proc, NO_PID));
    CHECK(thread(8, 'D', "folio_wait_bit_common") && !freezer_of_threads(&proc, NO_PID));
    CHECK(thread(8, 'S', "hrtimer_nanosleep") && !freezer_of_threads(&proc, NO_PID));
    CHECK(thread(7, 'S', "get_signal") && thread(8, 'S', "do_freezer_trap"));
    CHECK(freezer_of_threads(&proc, NO_PID));
    CHECK(thread(8, 'D', "get_signal") && !freezer_of_threads(&proc, NO_PID));
    CHECK(thread(8, 'T', "get_signal") && !freezer_of_threads(&proc, NO_PID));
    CHECK(thread(8, 'S', "0") && !freezer_of_threads(&proc, NO_PID)); /* unreadable */
    CHECK(thread(8, 'R', "get_signal") && !freezer_of_threads(&proc, NO_PID));
}

int main(void)
{
    if (!CHECK(tree_make(&tree)) || !CHECK(procfs_open(&proc, tree.path) == 0))
        return check_result();
    test_first();
    test_second();
    test_odd();
    test_cut_off();
    test_threads();
    procfs_close(&proc);
    tree_remove(&tree);
    return check_result();
}
