/* Selecting processes: names, trees, cgroups, containers, over a recorded /proc. */
#include "check.h"
#include "host/faults.h"
#include "host/processes.h"
#include "host/selector.h"
#include "proc_text.h"
#include "tree.h"

#define ID  "4f1c2d3e5a6b7c8d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f"
#define ID2 "4f1cffff5566778899aabbccddeeff00112233445566778899aabbccddeeff00"

static struct tree tree;
static struct procfs proc;
static char groups[TREE_PATH_MAX];

/* A process of the recorded /proc; NULL: it has none of that. */
static void record(int pid, int ppid, const char *comm, const char *argv0, const char *exe,
                   const char *cgroup)
{
    const struct stat_line line = {pid, comm, 'S', ppid, 0x400000, 1, 2, 1000, 0};
    char name[64], text[2048];

    stat_text(&line, text, sizeof text);
    snprintf(name, sizeof name, "%d/stat", pid);
    CHECK(tree_write(&tree, name, text));
    snprintf(name, sizeof name, "%d/cmdline", pid);
    CHECK(tree_write_bytes(&tree, name, argv0 ? argv0 : "", argv0 ? strlen(argv0) + 1 : 0));
    snprintf(name, sizeof name, "%d/cgroup", pid);
    CHECK(tree_write(&tree, name, cgroup ? cgroup : "0::/\n"));
    snprintf(name, sizeof name, "%d/exe", pid);
    if (exe)
        CHECK(tree_link(&tree, name, exe));
}

/*
 * 1 init - 10 sshd - 20 sh - 30 jeattach (the tool)
 *                  - 40 server - 41 server (worker) - 42 sh - 43 server
 *        - 50 a server in a container, 51 another one's
 */
static void record_all(void)
{
    record(1, 0, "init", "/sbin/init", "/sbin/init", NULL);
    record(10, 1, "sshd", "sshd: root", "/usr/sbin/sshd", NULL);
    record(20, 10, "sh", "-sh", "/bin/dash", NULL);
    record(30, 20, "jeattach", "jeattach", "/usr/bin/jeattach", NULL);
    record(40, 10, "server", "/opt/server", "/opt/server", NULL);
    record(41, 40, "server", "server: worker", "/opt/server", NULL);
    record(42, 41, "sh", "sh", "/bin/dash", NULL);
    record(43, 42, "thread-main", "./server", "/opt/server (deleted)", NULL);
    record(50, 1, "server", "server", "/opt/server", "0::/docker/" ID "\n");
    record(51, 1, "a-long-name-of-", "a-long-name-of-a-program", NULL, "0::/docker/" ID2 "\n");
    CHECK(tree_link(&tree, "self", "30"));
}

static bool name_is(pid_t pid, const char *name)
{
    return selector_name_is(&proc, pid, name);
}

static void test_names(void)
{
    CHECK(name_is(40, "server") && name_is(40, "/opt/server") && !name_is(40, "/server"));
    CHECK(!name_is(40, "serve") && !name_is(40, "server ") && !name_is(40, "opt/server"));
    CHECK(name_is(10, "sshd") && !name_is(10, "ssh"));
    CHECK(name_is(20, "sh") && name_is(20, "dash") && name_is(20, "-sh"));
    /* By its program, which has been replaced, and by argv[0]. */
    CHECK(name_is(43, "server") && name_is(43, "./server") && name_is(43, "thread-main"));
    CHECK(name_is(43, "/opt/server") && !name_is(43, "server (deleted)"));
    /* A comm is cut off at 15 bytes: it must be equal as it is. */
    CHECK(name_is(51, "a-long-name-of-a-program") && name_is(51, "a-long-name-of-"));
    CHECK(!name_is(51, "a-long-name-of-another") && !name_is(51, "a-long-name"));
    CHECK(!name_is(60, "server"));
}

/* The pids that match, as text: "40 41". */
static const char *listed(const struct selector *selector, fault_code expected)
{
    static char text[256];
    struct matches matches;
    struct fault fault = {0};

    text[0] = '\0';
    CHECK(selector_list(selector, &proc, &matches, &fault) == expected);
    CHECK(fault.code == expected);
    for (size_t i = 0; i < matches.processes.count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", i ? " " : "",
                 (int)matches.processes.list[i]);
    matches_free(&matches);
    return text;
}

static bool lists(const struct selector *selector, const char *pids)
{
    const char *got = listed(selector, FAULT_NONE);

    if (strcmp(got, pids) != 0)
        fprintf(stderr, "  got '%s', not '%s'\n", got, pids);
    return strcmp(got, pids) == 0;
}

/* A name never selects the tool, its shell and their ancestors. */
static void test_own(void)
{
    struct selector selector = {0};

    CHECK(lists(&selector, "40 41 42 43 50 51"));
    selector.own_too = true;
    CHECK(lists(&selector, "1 10 20 30 40 41 42 43 50 51"));
    selector = (struct selector){.name = "sh"};
    CHECK(lists(&selector, "42"));
    selector = (struct selector){.name = "jeattach"};
    CHECK(lists(&selector, ""));
}

static void test_trees(void)
{
    const pid_t roots[] = {40}, nested[] = {42, 41}, ancestor[] = {10}, none[] = {60};
    struct selector selector = {.roots = roots, .root_count = 1};

    CHECK(lists(&selector, "40 41 42 43"));
    selector.name = "server";
    CHECK(lists(&selector, "40 41 43"));
    selector = (struct selector){.roots = nested, .root_count = 2};
    CHECK(lists(&selector, "41 42 43"));
    selector = (struct selector){.roots = ancestor, .root_count = 1}; /* named, so it is selected */
    CHECK(lists(&selector, "10 40 41 42 43"));
    selector = (struct selector){.roots = none, .root_count = 1};
    CHECK(lists(&selector, ""));
}

/* Read at a moment at which pids are reused: a circle ends, too. */
static void test_circle(void)
{
    const pid_t roots[] = {40};
    const struct selector selector = {.roots = roots, .root_count = 1};

    record(70, 71, "a", NULL, NULL, NULL);
    record(71, 70, "b", NULL, NULL, NULL);
    CHECK(lists(&selector, "40 41 42 43"));
    CHECK(tree_link(&tree, "self", "70"));
    CHECK(lists(&selector, "40 41 42 43"));
    CHECK(tree_link(&tree, "self", "30"));
    record(70, 1, "a", NULL, NULL, NULL);
    record(71, 1, "b", NULL, NULL, NULL);
}

static void test_containers(void)
{
    struct selector selector = {.container = ID};
    struct matches matches;
    struct fault fault = {0};

    CHECK(lists(&selector, "50"));
    selector.container = "4f1c2";
    CHECK(lists(&selector, "50"));
    selector.name = "server";
    CHECK(lists(&selector, "50"));
    selector.name = "sh";
    CHECK(lists(&selector, ""));
    selector = (struct selector){.container = "4f1c"};
    CHECK(selector_list(&selector, &proc, &matches, &fault) == FAULT_AMBIGUOUS);
    CHECK(strcmp(matches.containers[0].id, ID) == 0 && strcmp(matches.containers[1].id, ID2) == 0);
    matches_free(&matches);
    selector.name = "server"; /* the other one has no process of that name */
    CHECK(lists(&selector, "50"));
}

static void write_group(const char *path, const char *pids)
{
    char name[256];

    snprintf(name, sizeof name, "sys/%s/cgroup.procs", path);
    CHECK(tree_write(&tree, name, pids));
}

static bool group_lists(const char *path, const char *pids)
{
    const struct selector selector = {.cgroup = path, .cgroup_root = groups};

    return lists(&selector, pids);
}

static bool is_no_group(const char *path)
{
    const struct selector selector = {.cgroup = path, .cgroup_root = groups};

    return strcmp(listed(&selector, FAULT_NO_GROUP), "") == 0;
}

/* One hierarchy, mounted at the root (v2). */
static void test_unified(void)
{
    write_group(".", "1\n10\n20\n30\n");
    write_group("system.slice/db.service", "40\n");
    write_group("system.slice/db.service/workers", "");
    write_group("system.slice/db.service/workers/one", "41\n0\n43\n"); /* 0: not visible here */
    write_group("system.slice/web.service", "");
    CHECK(group_lists("system.slice/db.service", "40 41 43"));
    CHECK(group_lists("/system.slice/db.service/", "40 41 43"));
    CHECK(group_lists("system.slice/db.service/workers", "41 43"));
    CHECK(group_lists("system.slice/web.service", ""));
    CHECK(is_no_group("system.slice/nosuch.service"));
    CHECK(is_no_group("system.slice/db.service/cgroup.procs"));
}

/* Nothing leads out of the mount. */
static void test_inside(void)
{
    char name[TREE_PATH_MAX];

    CHECK(tree_write(&tree, "outside/cgroup.procs", "50\n"));
    CHECK(tree_link(&tree, "sys/link", tree_name(&tree, "outside", name)));
    CHECK(tree_link(&tree, "sys/up", "../outside"));
    CHECK(is_no_group("../outside") && is_no_group("link") && is_no_group("up"));
    CHECK(is_no_group("system.slice/../../outside"));
    CHECK(is_no_group(name)); /* a directory, but not of a cgroup file system */
    CHECK(group_lists("../system.slice/web.service/../db.service", "40 41 43"));
}

/* A mount for each hierarchy below the root (v1, hybrid). */
static void test_hierarchies(void)
{
    char name[TREE_PATH_MAX];

    snprintf(groups, sizeof groups, "%s/v1", tree.path);
    CHECK(tree_write(&tree, "v1/memory/cgroup.procs", "1\n10\n40\n"));
    CHECK(tree_write(&tree, "v1/memory/docker/x/cgroup.procs", "41\n"));
    CHECK(tree_write(&tree, "v1/memory/docker/cgroup.procs", ""));
    CHECK(tree_write(&tree, "v1/cpu,cpuacct/cgroup.procs", "1\n"));
    CHECK(tree_write(&tree, "v1/cpu,cpuacct/docker/x/cgroup.procs", "42\n41\n"));
    CHECK(tree_link(&tree, "v1/cpu", "cpu,cpuacct"));
    CHECK(tree_write(&tree, "v1/unified/cgroup.procs", "1\n"));
    CHECK(group_lists("docker/x", "41 42"));
    CHECK(group_lists("memory/docker/x", "41"));
    CHECK(group_lists("cpu/docker/x", "41 42"));
    CHECK(group_lists("/cpu/../memory/docker", "41"));
    CHECK(is_no_group("docker/y"));
    CHECK(is_no_group("nosuch"));
    snprintf(groups, sizeof groups, "%s", tree_name(&tree, "nosuch", name));
    CHECK(is_no_group("docker/x"));
}

int main(void)
{
    if (!CHECK(tree_make(&tree)) || !CHECK(procfs_open(&proc, tree.path) == 0))
        return check_result();
    snprintf(groups, sizeof groups, "%s/sys", tree.path);
    record_all();
    test_names();
    test_own();
    test_trees();
    test_circle();
    test_containers();
    test_unified();
    test_inside();
    test_hierarchies();
    procfs_close(&proc);
    tree_remove(&tree);
    return check_result();
}
