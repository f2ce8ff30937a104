/* How much memory the cgroups of a process leave it, v1 and v2. */
#include "check.h"
#include "host/headroom.h"
#include "proc_text.h"
#include "tree.h"

static struct tree tree;
static struct procfs proc;
static struct headroom headroom;

static bool file(const char *where, const char *name, const char *text)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s", where, name);
    return tree_write(&tree, path, text);
}

static bool groups(const char *text)
{
    char name[48];

    snprintf(name, sizeof name, "%d/cgroup", NO_PID);
    return tree_write(&tree, name, text);
}

static bool second(const char *where, const char *limit, const char *usage, const char *stat)
{
    return file(where, "memory.max", limit) && file(where, "memory.current", usage) &&
           file(where, "memory.stat", stat);
}

static bool look(void)
{
    return headroom_read(&proc, NO_PID, &headroom);
}

static void test_second(void)
{
    const char *own = "self/root/sys/fs/cgroup/a/b", *above = "self/root/sys/fs/cgroup/a";

    CHECK(groups("0::/a/b\n") && !look());
    CHECK(second(own, "max\n", "4096\n", "anon 4096\n") && !look());
    CHECK(second(own, "1048576\n", "1048576\n", "anon 1048576\nfile 0\n"));
    CHECK(look() && headroom.bytes == 0 && strcmp(headroom.group, "/sys/fs/cgroup/a/b") == 0);
    CHECK(second(own, "1048576\n", "1044480\n",
                 "inactive_file 8192\nactive_file 16384\nslab_reclaimable 32768\n"));
    CHECK(look() && headroom.bytes == 4096 + 8192 + 16384 + 32768);
    /* The group around it has less. */
    CHECK(second(above, "2097152\n", "2097152\n", "inactive_file 4096\nworkingset 7\n"));
    CHECK(look() && headroom.bytes == 4096 && strcmp(headroom.group, "/sys/fs/cgroup/a") == 0);
    /* Over its limit, which was lowered. */
    CHECK(second(above, "1048576\n", "2097152\n", "anon 0\n") && look() && headroom.bytes == 0);
    CHECK(tree_write(&tree, "meminfo", "MemFree: 1 kB\nSwapFree:        0 kB\n") && look());
    CHECK(tree_write(&tree, "meminfo", "MemFree: 1 kB\nSwapFree:      100 kB\n") && !look());
    CHECK(tree_write(&tree, "meminfo", "MemFree: 1 kB\nSwapFree:        0 kB\n"));
}

/* A tool in another container does not see the group's directory; the target sees its own. */
static void test_of_target(void)
{
    char root[64];

    snprintf(root, sizeof root, "%d/root/sys/fs/cgroup", NO_PID);
    CHECK(groups("0::/../other\n") && !look());
    CHECK(second(root, "1048576\n", "1040384\n", "anon 0\n") && look() && headroom.bytes == 8192);
}

static void test_first(void)
{
    const char *own = "self/root/sys/fs/cgroup/memory/c";

    CHECK(groups("5:memory:/c\n0::/\n"));
    CHECK(file(own, "memory.limit_in_bytes", "1048576\n"));
    CHECK(file(own, "memory.usage_in_bytes", "1048576\n"));
    CHECK(file(own, "memory.stat", "cache 4096\ntotal_inactive_file 4096\ninactive_file 9\n"));
    CHECK(look() && headroom.bytes == 4096);
    CHECK(strcmp(headroom.group, "/sys/fs/cgroup/memory/c") == 0);
    CHECK(file(own, "memory.kmem.usage_in_bytes", "65536\n"));
    CHECK(look() && headroom.bytes == 4096 + 65536);
}

/* In a cgroup namespace the top directory of the mount is a cgroup that may have a limit. */
static void test_namespace(void)
{
    static const char mounts[] = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    const char *top = "self/root/sys/fs/cgroup";

    CHECK(groups("0::/b\n") && second("self/root/sys/fs/cgroup/b", "max\n", "0\n", "anon 0\n"));
    CHECK(second(top, "1048576\n", "1044480\n", "anon 0\n") && !look());
    CHECK(tree_write(&tree, "self/mountinfo", mounts));
    CHECK(look() && headroom.bytes == 4096 && strcmp(headroom.group, "/sys/fs/cgroup") == 0);
}

int main(void)
{
    if (!CHECK(tree_make(&tree)) || !CHECK(procfs_open(&proc, tree.path) == 0))
        return check_result();
    test_second();
    test_of_target();
    tree_remove(&tree);
    procfs_close(&proc);
    if (!CHECK(tree_make(&tree)) || !CHECK(procfs_open(&proc, tree.path) == 0))
        return check_result();
    test_first();
    test_namespace();
    procfs_close(&proc);
    tree_remove(&tree);
    return check_result();
}
