/* How much memory the cgroups of a process leave it, v1 and v2. */
#include "check.h"
#include "host/headroom.h"
#include "proc_text.h"
#include "tree.h"

static struct tree tree;
static struct procfs proc;
static struct headroom headroom;
static unsigned cpus; /* of the machine; 0: memory.stat is exact */

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
    return headroom_read_on(&proc, NO_PID, cpus, &headroom);
}

static void test_second(void)
{
    const char *own = "self/root/sys/fs/cgroup/a/b", *above = "self/root/sys/fs/cgroup/a";

    CHECK(groups("0::/a/b\n") && !look());
    CHECK(second(own, "max\n", "4096\n", "anon 4096\n") && !look());
    CHECK(second(own, "1048576\n", "1048576\n", "anon 1048576\nfile 0\n"));
    CHECK(look() && headroom.bytes == 0 && strcmp(headroom.group, "/sys/fs/cgroup/a/b") == 0);
    /* Slab caches shrink when they want. */
    CHECK(second(own, "1048576\n", "1044480\n",
                 "file 24576\ninactive_file 8192\nactive_file 16384\nslab_reclaimable 32768\n"));
    CHECK(look() && headroom.bytes == 4096 + 8192 + 16384);
    /* The group around it has less. */
    CHECK(second(above, "2097152\n", "2097152\n", "file 4096\ninactive_file 4096\nx 7\n"));
    CHECK(look() && headroom.bytes == 4096 && strcmp(headroom.group, "/sys/fs/cgroup/a") == 0);
    /* Over its limit, which was lowered. */
    CHECK(second(above, "1048576\n", "2097152\n", "anon 0\n") && look() && headroom.bytes == 0);
}

/* Page cache that the kernel cannot drop at once is no headroom. */
static void test_cache(void)
{
    const char *own = "self/root/sys/fs/cgroup/a/b";

    CHECK(second("self/root/sys/fs/cgroup/a", "max\n", "0\n", "anon 0\n"));
    /* Dirty, or being written. */
    CHECK(second(own, "1048576\n", "1048576\n",
                 "file 65536\nfile_dirty 8192\nfile_writeback 4096\ninactive_file 65536\n"));
    CHECK(look() && headroom.bytes == 65536 - 8192 - 4096);
    CHECK(second(own, "1048576\n", "1048576\n", "file 4096\nfile_dirty 8192\nactive_file 4096\n"));
    CHECK(look() && headroom.bytes == 0);
    /* Mapped; shared memory may be mapped, too. */
    CHECK(second(own, "1048576\n", "1048576\n",
                 "file 65536\nfile_mapped 32768\nactive_file 65536\n"));
    CHECK(look() && headroom.bytes == 32768);
    CHECK(second(own, "1048576\n", "1048576\n",
                 "file 98304\nshmem 65536\nfile_mapped 65536\nactive_file 32768\n"));
    CHECK(look() && headroom.bytes == 0);
    /* Pages of MADV_FREE are on the same list, and may have been written again. */
    CHECK(second(own, "1048576\n", "1048576\n", "file 8192\nshmem 4096\ninactive_file 262144\n"));
    CHECK(look() && headroom.bytes == 4096);
}

/* Of each CPU, 128 pages may be gone already. */
static void test_stale(void)
{
    const char *own = "self/root/sys/fs/cgroup/a/b";

    CHECK(second("self/root/sys/fs/cgroup/a", "max\n", "0\n", "anon 0\n"));
    CHECK(second(own, "1048576\n", "1044480\n", "file 1048576\nactive_file 1048576\n"));
    cpus = 1;
    CHECK(look() && headroom.bytes == 4096 + 1048576 - 128 * 4096 - 63 * 4096);
    cpus = 2;
    CHECK(look() && headroom.bytes == 4096);
    cpus = 64;
    CHECK(look() && headroom.bytes == 4096);
    cpus = 0;
}

/* A CPU may keep 63 of 64 pages to itself, where as many are left. */
static void test_batches(void)
{
    const char *own = "self/root/sys/fs/cgroup/a/b";

    cpus = 2;
    CHECK(second(own, "1048576\n", "790528\n", "anon 0\n"));
    CHECK(look() && headroom.bytes == 63 * 4096);
    CHECK(second(own, "1048576\n", "786432\n", "anon 0\n"));
    CHECK(look() && headroom.bytes == 4096);
    CHECK(second(own, "1048576\n", "0\n", "anon 0\n"));
    CHECK(look() && headroom.bytes == (256 - 2 * 63) * 4096);
    cpus = 0;
}

static bool host_swap(const char *text)
{
    return tree_write(&tree, "meminfo", text);
}

/* The free swap of the host is nobody's headroom whose group may not use it. */
static void test_swap(void)
{
    const char *own = "self/root/sys/fs/cgroup/a/b", *above = "self/root/sys/fs/cgroup/a";

    CHECK(second(own, "1048576\n", "1048576\n", "inactive_anon 8192\nactive_anon 786432\n"));
    CHECK(host_swap("MemFree: 1 kB\nSwapFree:        0 kB\n"));
    CHECK(look() && headroom.bytes == 0);
    CHECK(host_swap("MemFree: 1 kB\nSwapFree:      100 kB\n"));
    CHECK(look() && headroom.bytes == 100 << 10);
    CHECK(file(own, "memory.swap.max", "0\n") && file(own, "memory.swap.current", "0\n"));
    CHECK(look() && headroom.bytes == 0);
    CHECK(file(own, "memory.swap.max", "65536\n") && file(own, "memory.swap.current", "16384\n"));
    CHECK(look() && headroom.bytes == 49152);
    CHECK(file(own, "memory.swap.max", "max\n") && look() && headroom.bytes == 100 << 10);
    /* No more than there is to be swapped out. */
    CHECK(second(own, "1048576\n", "1048576\n", "inactive_anon 8192\nunevictable 786432\n"));
    CHECK(look() && headroom.bytes == 8192);
    /* A group above it counts, even if it has no limit on memory. */
    CHECK(file(above, "memory.swap.max", "4096\n") && file(above, "memory.swap.current", "0\n"));
    CHECK(look() && headroom.bytes == 4096);
    /* vm.swappiness 0: a limit never makes the kernel swap. */
    CHECK(tree_write(&tree, "sys/vm/swappiness", "0\n") && look() && headroom.bytes == 0);
    CHECK(tree_write(&tree, "sys/vm/swappiness", "60\n") && look() && headroom.bytes == 4096);
    CHECK(host_swap("MemFree: 1 kB\nSwapFree:        0 kB\n"));
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
    CHECK(file(own, "memory.stat",
               "cache 4096\ntotal_cache 8192\ntotal_inactive_file 8192\ninactive_file 9\n"));
    CHECK(look() && headroom.bytes == 8192);
    CHECK(strcmp(headroom.group, "/sys/fs/cgroup/memory/c") == 0);
    /* Kernel memory: stacks, page tables, structures of what runs. None of it comes back. */
    CHECK(file(own, "memory.kmem.usage_in_bytes", "135168\n"));
    CHECK(look() && headroom.bytes == 8192);
    CHECK(file(own, "memory.stat",
               "total_cache 8192\ntotal_dirty 4096\ntotal_writeback 2048\n"
               "total_inactive_file 8192\n"));
    CHECK(look() && headroom.bytes == 2048);
}

/* cgroup v1 limits memory and swap together. */
static void test_first_swap(void)
{
    const char *own = "self/root/sys/fs/cgroup/memory/c";

    CHECK(file(own, "memory.stat",
               "total_cache 4096\ntotal_active_file 4096\ntotal_active_anon 786432\n"));
    CHECK(host_swap("MemFree: 1 kB\nSwapFree:      100 kB\n"));
    CHECK(look() && headroom.bytes == 4096 + (100 << 10));
    CHECK(file(own, "memory.memsw.limit_in_bytes", "1064960\n"));
    CHECK(file(own, "memory.memsw.usage_in_bytes", "1048576\n"));
    CHECK(look() && headroom.bytes == 4096 + 16384);
    CHECK(file(own, "memory.memsw.limit_in_bytes", "1048576\n"));
    CHECK(look() && headroom.bytes == 4096);
    CHECK(file(own, "memory.memsw.limit_in_bytes", "9223372036854771712\n"));
    CHECK(look() && headroom.bytes == 4096 + (100 << 10));
    CHECK(file(own, "memory.swappiness", "0\n") && look() && headroom.bytes == 4096);
    CHECK(host_swap("MemFree: 1 kB\nSwapFree:        0 kB\n"));
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
    test_cache();
    test_stale();
    test_batches();
    test_swap();
    test_of_target();
    tree_remove(&tree);
    procfs_close(&proc);
    if (!CHECK(tree_make(&tree)) || !CHECK(procfs_open(&proc, tree.path) == 0))
        return check_result();
    test_first();
    test_first_swap();
    test_namespace();
    procfs_close(&proc);
    tree_remove(&tree);
    return check_result();
}
