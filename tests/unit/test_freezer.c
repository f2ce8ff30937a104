/* Frozen control groups, of both versions. */
#include "attach/freezer.h"
#include "check.h"
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

/* The directory that is said to be frozen; "": none. */
static const char *held(void)
{
    static char path[FREEZER_PATH_MAX];

    if (!freezer_holds(&proc, NO_PID, path, sizeof path))
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
    groups("6:freezer:/../abc\n"); /* above the tool's own root of groups */
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
    CHECK(!freezer_holds(&proc, NO_PID + 1, name, sizeof name));
}

int main(void)
{
    if (!CHECK(tree_make(&tree)) || !CHECK(procfs_open(&proc, tree.path) == 0))
        return check_result();
    test_first();
    test_second();
    test_odd();
    procfs_close(&proc);
    tree_remove(&tree);
    return check_result();
}
