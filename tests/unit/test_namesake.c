/* A pid of a container's namespace, and the process that has it there. */
#include "attach/faults.h"
#include "attach/permit.h"
#include "check.h"
#include "host/namespaces.h"
#include "proc_text.h"
#include "tree.h"

static struct tree tree;
static struct procfs proc;

/* A pid that no process of this system has: the lists come from the tree, kill(2) does not. */
enum { WANTED = NO_PID };

static void process(int pid, const char *name, const char *ns_pids, const char *cgroup)
{
    const struct stat_line line = {pid, name, 'S', 1, 64, 1, 1, 500, 0};
    char file[48], text[2048];

    snprintf(file, sizeof file, "%d/status", pid);
    snprintf(text, sizeof text, "Name:\t%s\nNSpid:\t%s\nNSpgid:\t1\t%d\n", name, ns_pids, WANTED);
    CHECK(tree_write(&tree, file, text));
    snprintf(file, sizeof file, "%d/stat", pid);
    stat_text(&line, text, sizeof text);
    CHECK(tree_write(&tree, file, text));
    snprintf(file, sizeof file, "%d/cgroup", pid);
    CHECK(tree_write(&tree, file, cgroup));
}

static void test_none(void)
{
    struct fault fault = {.code = FAULT_GONE};
    struct namesakes found;

    process(10, "init", "10", "");
    process(11, "other", "11\t99", "");
    namesakes_find(&found, &proc, WANTED);
    CHECK(found.count == 0);
    CHECK(permit_explain_gone(&proc, WANTED, &fault) == FAULT_GONE && fault.code == FAULT_GONE);
}

static void test_one(void)
{
    struct fault fault = {.code = FAULT_GONE};
    struct namesakes found;

    process(56789, "redis-server", "56789\t5000000",
            "0::/system.slice/docker-"
            "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope\n");
    namesakes_find(&found, &proc, WANTED);
    CHECK(found.count == 1 && found.here[0] == 56789);
    CHECK(permit_explain_gone(&proc, WANTED, &fault) == FAULT_OTHER_PIDNS);
    CHECK(strcmp(fault.what, "56789 (redis-server, docker 0123456789ab)") == 0);
    CHECK(fault.pid == 56789);
    CHECK(permit_explain_gone(&proc, WANTED, NULL) == FAULT_OTHER_PIDNS);
}

/* Nested ones count as well; of many the first are named. */
static void test_several(void)
{
    struct fault fault = {.code = FAULT_GONE};
    struct namesakes found;

    process(56790, "nested", "56790\t5000000\t1", "");
    CHECK(permit_explain_gone(&proc, WANTED, &fault) == FAULT_OTHER_PIDNS && fault.pid == 0);
    CHECK(strstr(fault.what, "56789 (redis-server") && strstr(fault.what, "56790 (nested)"));
    for (int i = 0; i < 4; i++)
        process(56791 + i, "more", "7\t5000000", "");
    namesakes_find(&found, &proc, WANTED);
    CHECK(found.count == 6);
    permit_explain_gone(&proc, WANTED, &fault);
    CHECK(strlen(fault.what) > 4 && strcmp(fault.what + strlen(fault.what) - 5, ", ...") == 0);
}

/* kill(2) finds it, and this /proc does not show it. */
static void test_hidden(void)
{
    struct fault fault = {.code = FAULT_GONE};

    CHECK(permit_explain_gone(&proc, getpid(), &fault) == FAULT_HIDDEN);
    CHECK(fault.code == FAULT_HIDDEN);
}

int main(void)
{
    if (!CHECK(tree_make(&tree)) || !CHECK(procfs_open(&proc, tree.path) == 0))
        return check_result();
    test_none();
    test_one();
    test_several();
    test_hidden();
    procfs_close(&proc);
    tree_remove(&tree);
    return check_result();
}
