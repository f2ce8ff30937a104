/* Memory limits: the files of cgroup v1 and v2, and the way to the root. */
#include "check.h"
#include "host/cgroup.h"
#include "host/group_account.h"
#include "host/limits.h"
#include "tree.h"

#define MIB ((uint64_t)1 << 20)

static bool parse(const char *text, uint64_t *bytes)
{
    size_t len = strlen(text);
    char *copy = malloc(len ? len : 1);
    bool good = copy && limit_parse(memcpy(copy, text, len), len, bytes);

    free(copy);
    return good;
}

static void test_numbers(void)
{
    uint64_t bytes = 0;

    CHECK(parse("max\n", &bytes) && bytes == UINT64_MAX);
    CHECK(parse("max", &bytes) && bytes == UINT64_MAX);
    CHECK(parse("0\n", &bytes) && bytes == 0);
    CHECK(parse("67108864\n", &bytes) && bytes == 64 * MIB);
    CHECK(parse("9223372036854771712\n", &bytes) && bytes == UINT64_MAX);
    CHECK(!parse("", &bytes) && !parse("\n", &bytes) && !parse("-1\n", &bytes));
    CHECK(!parse("maximum\n", &bytes) && !parse("12 34\n", &bytes) && !parse("ma", &bytes));
    CHECK(!parse("99999999999999999999999\n", &bytes));
}

static void test_texts(void)
{
    static const char v1[] = "cache 5\ninactive_file 4096\nhierarchical_memory_limit 1\n"
                             "total_inactive_file 8192\ntotal_active_file 1\n";
    static const char v2[] = "anon 1\nfile 2\ninactive_anon 7\ninactive_file 12288\n";
    static const char meminfo[] = "MemTotal:       24682540 kB\nMemFree:        23379308 kB\n"
                                  "MemAvailable:   24166144 kB\n";
    uint64_t value = 0;
    struct limit_use use;

    CHECK(limit_files_parse(v1, sizeof v1 - 1, false, false, &value) && value == 8192);
    CHECK(limit_files_parse(v1, sizeof v1 - 1, false, true, &value) && value == 1);
    CHECK(limit_files_parse(v2, sizeof v2 - 1, true, false, &value) && value == 12288);
    CHECK(!limit_files_parse(v2, sizeof v2 - 1, true, true, &value));
    CHECK(!limit_files_parse(v2, sizeof v2 - 1, false, false, &value));
    CHECK(limit_meminfo_parse(meminfo, sizeof meminfo - 1, &use));
    CHECK(use.limit == 24682540ull * 1024 && use.used == (24682540ull - 24166144) * 1024);
    CHECK(!limit_meminfo_parse(meminfo, 20, &use));
    CHECK(limit_statm_parse("2048 512 30 1 0 99 0\n", 20, &value) && value == 512);
    CHECK(!limit_statm_parse("2048", 4, &value) && !limit_statm_parse("2048 x", 6, &value));
}

static bool path_is(const char *text, enum cgroup_tree tree, const char *expected)
{
    char path[64];
    bool found = cgroup_path(cursor_of(text, strlen(text)), tree, path, sizeof path);

    return expected ? found && strcmp(path, expected) == 0 : !found;
}

static void test_paths(void)
{
    static const char hybrid[] = "9:name=systemd:/a\n4:cpu,memory:/jobs/x\n1:cpuset:/\n0::/b\n";

    CHECK(path_is(hybrid, CGROUP_V1_MEMORY, "/jobs/x"));
    CHECK(path_is(hybrid, CGROUP_V2, "/b"));
    CHECK(path_is("0::/user.slice/a:b\n", CGROUP_V2, "/user.slice/a:b"));
    CHECK(path_is("0::/user.slice\n", CGROUP_V1_MEMORY, NULL));
    CHECK(path_is("4:memory_x:/a\n", CGROUP_V1_MEMORY, NULL));
    CHECK(path_is("4:memory:a\n", CGROUP_V1_MEMORY, NULL));
    CHECK(path_is("", CGROUP_V2, NULL));
    CHECK(path_is("0::/0123456789012345678901234567890123456789012345678901234567890123\n",
                  CGROUP_V2, NULL));
}

static bool dir_is(const char *mountinfo, enum cgroup_tree tree, const char *path,
                   const char *expected, size_t expected_top)
{
    struct cgroup_dir dir;
    bool found = cgroup_dir_mounted(cursor_of(mountinfo, strlen(mountinfo)), tree, path, &dir);

    if (!expected)
        return !found;
    return found && strcmp(dir.path, expected) == 0 && dir.top == expected_top;
}

static void test_mounts(void)
{
    static const char host[] = "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
                               "35 31 0:32 / /cg/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu\n"
                               "36 31 0:33 / /cg/memory rw shared:9 - cgroup cgroup rw,memory\n"
                               "41 31 0:38 / /cg/unified rw - cgroup2 cgroup2 rw\n";
    static const char inside[] = "36 31 0:33 /docker/1 /cg/mem\\040ory rw - cgroup c rw,memory\n"
                                 "41 31 0:38 /../other /cg2 rw - cgroup2 cgroup2 rw\n";

    CHECK(dir_is(host, CGROUP_V1_MEMORY, "/a/b", "/cg/memory/a/b", 10));
    CHECK(dir_is(host, CGROUP_V1_MEMORY, "/", "/cg/memory", 10));
    CHECK(dir_is(host, CGROUP_V2, "/a", "/cg/unified/a", 11));
    CHECK(dir_is(host, CGROUP_V2, "/../a", NULL, 0));
    CHECK(dir_is(host, CGROUP_V2, "/a/..", NULL, 0));
    CHECK(dir_is(host, CGROUP_V2, "/a/..b", "/cg/unified/a/..b", 11));
    CHECK(dir_is(inside, CGROUP_V1_MEMORY, "/docker/1", "/cg/mem ory", 11));
    CHECK(dir_is(inside, CGROUP_V1_MEMORY, "/docker/1/x", "/cg/mem ory/x", 11));
    CHECK(dir_is(inside, CGROUP_V1_MEMORY, "/docker/12", NULL, 0));
    CHECK(dir_is(inside, CGROUP_V1_MEMORY, "/", NULL, 0));
    CHECK(dir_is(inside, CGROUP_V2, "/../other/x", "/cg2/x", 4));
    CHECK(dir_is("", CGROUP_V2, "/", NULL, 0));
    CHECK(dir_is("41 31 0:38 / /cg2", CGROUP_V2, "/", NULL, 0));
    CHECK(dir_is("41 31 0:38 / /cg2 rw - cgroup2", CGROUP_V2, "/", NULL, 0));
}

/* ---- a tree of files ---- */

static bool make_host(struct tree *tree, bool v1, const char *cgroup)
{
    char text[4 * TREE_PATH_MAX];

    if (!CHECK(tree_make(tree)))
        return false;
    snprintf(text, sizeof text,
             "36 31 0:33 / %s/%s rw - cgroup cgroup rw,%s\n41 31 0:38 / %s/v2 rw - cgroup2 cgroup2 "
             "rw\n",
             tree->path, v1 ? "v1" : "cpu", v1 ? "memory" : "cpu", tree->path);
    return CHECK(tree_write(tree, "proc/self/mountinfo", text)) &&
           CHECK(tree_link(tree, "proc/self/root", "/")) &&
           CHECK(tree_write(tree, "proc/42/mountinfo", text)) &&
           CHECK(tree_write(tree, "proc/42/cgroup", cgroup)) &&
           CHECK(
               tree_write(tree, "proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable: 786432 kB\n"));
}

static bool open_host(struct tree *tree, struct procfs *proc, struct limits *limits)
{
    char path[TREE_PATH_MAX];

    if (!CHECK(procfs_open(proc, tree_name(tree, "proc", path)) == 0))
        return false;
    limits_open(limits, proc, 42);
    return true;
}

static void close_host(struct tree *tree, struct procfs *proc, struct limits *limits)
{
    limits_close(limits);
    procfs_close(proc);
    tree_remove(tree);
}

static void test_version_1(void)
{
    struct tree tree;
    struct procfs proc;
    struct limits limits;
    struct limit_use use;

    if (!make_host(&tree, true, "4:memory:/pod/app\n0::/\n"))
        return;
    tree_write(&tree, "v1/memory.limit_in_bytes", "9223372036854771712\n");
    tree_write(&tree, "v1/memory.usage_in_bytes", "800000000\n");
    tree_write(&tree, "v1/pod/memory.limit_in_bytes", "104857600\n"); /* 100 MiB */
    tree_write(&tree, "v1/pod/memory.usage_in_bytes", "94371840\n");  /* 90 MiB */
    tree_write(&tree, "v1/pod/memory.stat",
               "inactive_file 5\ntotal_inactive_file 10485760\n"
               "total_active_file 4194304\n");
    tree_write(&tree, "v1/pod/app/memory.limit_in_bytes", "209715200\n"); /* more: no use */
    tree_write(&tree, "v1/pod/app/memory.usage_in_bytes", "52428800\n");
    tree_write(&tree, "v1/pod/app/memory.stat", "total_inactive_file 1048576\n");
    if (!open_host(&tree, &proc, &limits))
        return;
    CHECK(limits.count == 3 && limits_smallest(&limits) == 100 * MIB);
    CHECK(limits_use(&limits, 0, &use) && use.limit == 100 * MIB && use.used == 80 * MIB);
    CHECK(use.level == 1 && use.cached == 4 * MIB);
    CHECK(limits_use(&limits, 0.95, &use) && use.used == 90 * MIB);
    CHECK(limits_own_use(&limits, &use.used) && use.used == 49 * MIB);
    tree_write(&tree, "v1/memory.limit_in_bytes", "838860800\n"); /* it gets one: 800 MiB */
    tree_write(&tree, "v1/pod/memory.limit_in_bytes", "943718400\n");
    limits_renew(&limits);
    CHECK(limits_smallest(&limits) == 200 * MIB);
    CHECK(limits_use(&limits, 0, &use) && use.limit == 800 * MIB && use.used == 800000000);
    close_host(&tree, &proc, &limits);
}

static void test_version_2(void)
{
    struct tree tree;
    struct procfs proc;
    struct limits limits;
    struct limit_use use;

    if (!make_host(&tree, false, "0::/a/b/c\n"))
        return;
    tree_write(&tree, "v2/cgroup.procs", "");
    tree_write(&tree, "v2/a/memory.max", "524288000\n"); /* 500 MiB */
    tree_write(&tree, "v2/a/memory.high", "max\n");
    tree_write(&tree, "v2/a/memory.current", "104857600\n");
    tree_write(&tree, "v2/a/b/memory.max", "209715200\n");  /* 200 MiB, but throttled */
    tree_write(&tree, "v2/a/b/memory.high", "157286400\n"); /* at 150 */
    tree_write(&tree, "v2/a/b/memory.current", "94371840\n");
    tree_write(&tree, "v2/a/b/memory.stat", "inactive_file 15728640\n");
    tree_write(&tree, "v2/a/b/c/memory.max", "max\n");
    tree_write(&tree, "v2/a/b/c/memory.current", "5242880\n");
    tree_write(&tree, "v2/a/b/c/memory.stat", "inactive_file 9999999999\n");
    if (!open_host(&tree, &proc, &limits))
        return;
    CHECK(limits.count == 3 && limits_smallest(&limits) == 150 * MIB);
    CHECK(limits_use(&limits, 0, &use) && use.limit == 150 * MIB && use.used == 75 * MIB);
    CHECK(limits_own_use(&limits, &use.used) && use.used == 0);
    close_host(&tree, &proc, &limits);
}

static void test_no_limit(void)
{
    struct tree tree;
    struct procfs proc;
    struct limits limits;
    struct limit_use use;

    if (!make_host(&tree, false, "0::/a\n"))
        return;
    tree_write(&tree, "v2/a/memory.max", "9999999999999\n"); /* more than the machine has */
    tree_write(&tree, "v2/a/memory.current", "5242880\n");
    if (!open_host(&tree, &proc, &limits))
        return;
    CHECK(limits.count == 1 && limits_smallest(&limits) == 1024 * MIB);
    CHECK(limits_use(&limits, 0, &use) && use.limit == 1024 * MIB && use.used == 256 * MIB);
    CHECK(limits_own_use(&limits, &use.used) && use.used == 5 * MIB);
    close_host(&tree, &proc, &limits);
}

static void test_no_group(void)
{
    struct tree tree;
    struct procfs proc;
    struct limits limits;
    struct limit_use use;

    if (!make_host(&tree, false, "0::/gone (deleted)\n"))
        return;
    if (!open_host(&tree, &proc, &limits))
        return;
    CHECK(limits.count == 0 && limits_smallest(&limits) == 1024 * MIB);
    CHECK(limits_use(&limits, 0, &use) && use.limit == 1024 * MIB);
    CHECK(limits_own_use(&limits, &use.used) && use.used == 256 * MIB);
    close_host(&tree, &proc, &limits);
}

static void test_zero(void)
{
    struct tree tree;
    struct procfs proc;
    struct limits limits;
    struct limit_use use;

    if (!make_host(&tree, false, "0::/a\n"))
        return;
    tree_write(&tree, "v2/a/memory.max", "0\n");
    tree_write(&tree, "v2/a/memory.current", "0\n");
    if (!open_host(&tree, &proc, &limits))
        return;
    CHECK(limits_smallest(&limits) == 0);
    CHECK(limits_use(&limits, 0, &use) && use.limit == 1024 * MIB);
    close_host(&tree, &proc, &limits);
}

/* ---- what a cgroup has beside one process ---- */

static void test_account_of_version_2(void)
{
    struct tree tree;
    struct procfs proc;
    struct limits limits;
    struct group_account account;

    if (!make_host(&tree, false, "0::/pod/app\n"))
        return;
    tree_write(&tree, "v2/pod/memory.max", "134217728\n");
    tree_write(&tree, "v2/pod/memory.current", "67108864\n");
    tree_write(&tree, "v2/pod/memory.stat",
               "anon 20971520\nfile 30408704\nkernel 9437184\nkernel_stack 65536\n"
               "pagetables 2097152\nsock 4194304\nshmem 12582912\nhugetlb 8388608\n"
               "inactive_file 1048576\nactive_file 16777216\nslab 6291456\n");
    tree_write(&tree, "v2/pod/cgroup.procs", "");
    tree_write(&tree, "v2/pod/app/memory.max", "max\n");
    tree_write(&tree, "v2/pod/app/memory.current", "6291456\n");
    tree_write(&tree, "v2/pod/app/cgroup.procs", "42\n0\n");
    tree_write(&tree, "v2/pod/side/cgroup.procs", "50\n51\n52\n53\n54\n");
    tree_write(&tree, "proc/42/status",
               "VmRSS:\t6144 kB\nRssAnon:\t4096 kB\nRssFile:\t1024 kB\nRssShmem:\t1024 kB\n");
    tree_write(&tree, "proc/50/status", "VmRSS:\t900 kB\nRssAnon:\t800 kB\n");
    tree_write(&tree, "proc/51/status", "VmRSS:\t9000 kB\nRssAnon:\t8000 kB\n");
    tree_write(&tree, "proc/51/stat", "51 (wor ker) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 7 0 0");
    tree_write(&tree, "proc/53/status", "VmRSS:\t5000 kB\nRssAnon:\t4000 kB\n");
    tree_write(&tree, "proc/54/status", "VmRSS:\t50 kB\nRssAnon:\t40 kB\n");
    if (!open_host(&tree, &proc, &limits))
        return;
    group_account_read(&proc, 42, 1, &account);
    CHECK(account.known && account.processes == 5 && account.whole);
    CHECK(account.kinds[GROUP_PROCESSES] == 16 * MIB && account.kinds[GROUP_SHARED] == 11 * MIB);
    CHECK(account.kinds[GROUP_FILES] == 15 * MIB && account.kinds[GROUP_SOCKETS] == 4 * MIB);
    CHECK(account.kinds[GROUP_HUGE] == 8 * MIB && account.kinds[GROUP_SLAB] == 6 * MIB);
    CHECK(account.kinds[GROUP_TABLES] == 2 * MIB && account.kinds[GROUP_KERNEL] == 1 * MIB);
    CHECK(account.largest[0].pid == 51 && account.largest[0].own == 8000 * 1024);
    CHECK(strcmp(account.largest[0].comm, "wor ker") == 0);
    CHECK(account.largest[1].pid == 53 && account.largest[2].pid == 50);
    group_account_read(&proc, 42, 0, &account); /* it has no memory.stat */
    CHECK(!account.known);
    group_account_read(&proc, 42, 7, &account);
    CHECK(!account.known);
    close_host(&tree, &proc, &limits);
}

/* Each cgroup and each process takes time, of which there is a second. */
static void test_account_of_many_groups(void)
{
    struct tree tree;
    struct procfs proc;
    struct limits limits;
    struct group_account account;
    char name[64], pids[64];

    if (!make_host(&tree, false, "0::/pod\n"))
        return;
    tree_write(&tree, "v2/pod/memory.current", "67108864\n");
    tree_write(&tree, "v2/pod/memory.stat", "anon 20971520\n");
    tree_write(&tree, "v2/pod/cgroup.procs", "42\n50\n");
    tree_write(&tree, "proc/42/status", "VmRSS:\t6144 kB\nRssAnon:\t4096 kB\n");
    tree_write(&tree, "proc/50/status", "VmRSS:\t900 kB\nRssAnon:\t800 kB\n");
    tree_write(&tree, "proc/50/stat", "50 (worker) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 7 0 0");
    for (int i = 0; i < 400; i++) {
        snprintf(name, sizeof name, "v2/pod/side%d/cgroup.procs", i);
        snprintf(pids, sizeof pids, "%d\n%d\n", 1000 + 2 * i, 1001 + 2 * i);
        tree_write(&tree, name, pids);
    }
    if (!open_host(&tree, &proc, &limits))
        return;
    group_account_read(&proc, 42, 0, &account);
    CHECK(account.known && !account.whole && account.kinds[GROUP_PROCESSES] == 16 * MIB);
    CHECK(account.processes > 600 && account.processes < 700);
    CHECK(account.largest[0].pid == 50 && strcmp(account.largest[0].comm, "worker") == 0);
    close_host(&tree, &proc, &limits);
}

static void test_account_of_version_1(void)
{
    struct tree tree;
    struct procfs proc;
    struct limits limits;
    struct group_account account;

    if (!make_host(&tree, true, "4:memory:/app\n0::/\n"))
        return;
    tree_write(&tree, "v1/app/memory.usage_in_bytes", "52428800\n");
    tree_write(&tree, "v1/app/memory.kmem.usage_in_bytes", "3145728\n");
    tree_write(&tree, "v1/app/memory.stat",
               "cache 1\nrss 2\nshmem 3\ntotal_cache 15728640\ntotal_rss 20971520\n"
               "total_shmem 10485760\ntotal_inactive_file 1048576\ntotal_active_file 4194304\n");
    tree_write(&tree, "v1/app/cgroup.procs", "42\n");
    tree_write(&tree, "proc/42/status", "VmRSS:\t6144 kB\nRssAnon:\t5120 kB\n");
    if (!open_host(&tree, &proc, &limits))
        return;
    group_account_read(&proc, 42, 0, &account);
    CHECK(account.known && account.processes == 0);
    CHECK(account.kinds[GROUP_PROCESSES] == 15 * MIB && account.kinds[GROUP_SHARED] == 10 * MIB);
    CHECK(account.kinds[GROUP_FILES] == 4 * MIB && account.kinds[GROUP_KERNEL] == 3 * MIB);
    close_host(&tree, &proc, &limits);
}

int main(void)
{
    test_account_of_version_1();
    test_account_of_version_2();
    test_account_of_many_groups();
    test_numbers();
    test_texts();
    test_paths();
    test_mounts();
    test_version_1();
    test_version_2();
    test_no_limit();
    test_no_group();
    test_zero();
    return check_result();
}
