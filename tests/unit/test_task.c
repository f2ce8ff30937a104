/* stat and status of processes and threads, from recorded files; the errors of each. */
#include "check.h"
#include "host/task.h"
#include "proc_text.h"
#include "tree.h"

#include <errno.h>

static struct tree tree;
static struct procfs proc;

static void record(const char *task, int pid)
{
    struct stat_line line = {pid, "a) b", 'S', 1, 0, 1, 2, 1000, 0};
    char name[64], text[2048];

    stat_text(&line, text, sizeof text);
    snprintf(name, sizeof name, "%s/stat", task);
    CHECK(tree_write(&tree, name, text));
    snprintf(text, sizeof text, "Name:\ta\nPid:\t%d\nTgid:\t%d\nVmLck:\t 3 kB\nVmSwap:\t 5 kB\n",
             pid, pid);
    snprintf(name, sizeof name, "%s/status", task);
    CHECK(tree_write(&tree, name, text));
}

static void test_tasks(void)
{
    struct proc_stat stat;
    struct proc_status status;

    record("42", 42);
    record("42/task/43", 43);
    record("self", 44);
    record("self/task/45", 45);
    CHECK(process_stat(&proc, 42, &stat) == 0 && stat.pid == 42);
    CHECK(thread_stat(&proc, 42, 43, &stat) == 0 && stat.pid == 43);
    CHECK(process_stat(&proc, PROC_SELF, &stat) == 0 && stat.pid == 44);
    CHECK(thread_stat(&proc, PROC_SELF, 45, &stat) == 0 && stat.pid == 45);
    CHECK(process_status(&proc, 42, &status) == 0 && status.tgid == 42);
    CHECK(thread_status(&proc, 42, 43, &status) == 0 && status.tgid == 43);
    CHECK(process_status(&proc, PROC_SELF, &status) == 0 && status.tgid == 44);
    CHECK(status.locked_bytes == 3 * 1024 && status.swap_bytes == 5 * 1024);
    CHECK(thread_status(&proc, PROC_SELF, 45, &status) == 0 && status.tgid == 45);
}

static void test_errors(void)
{
    struct proc_stat stat;
    struct proc_status status;

    CHECK(process_stat(&proc, 41, &stat) == -ENOENT);
    CHECK(process_stat(&proc, 0, &stat) == -ENOENT); /* 0 is nobody, and not the tool */
    CHECK(thread_stat(&proc, 42, 0, &stat) == -ENOENT);
    CHECK(process_status(&proc, 41, &status) == -ENOENT);
    CHECK(thread_status(&proc, 42, 44, &status) == -ENOENT);
    tree_write(&tree, "42/stat", "42 (a) S 1\n");
    tree_write(&tree, "42/status", "Tgid:\t42\n");
    CHECK(process_stat(&proc, 42, &stat) == -EBADMSG);
    CHECK(process_status(&proc, 42, &status) == -EBADMSG);
    tree_write(&tree, "42/stat", "");
    tree_write(&tree, "42/status", "");
    CHECK(process_stat(&proc, 42, &stat) == -EBADMSG);
    CHECK(process_status(&proc, 42, &status) == -EBADMSG);
}

/* The line of groups precedes the decisive ones, and may have 65,536 numbers. */
static void test_many_groups(void)
{
    enum { GROUPS = 65536, SIZE = GROUPS * 11 + 64 };
    struct proc_status status;
    char *text = malloc(SIZE);
    size_t len = 0;

    if (!CHECK(text != NULL))
        return;
    len += (size_t)snprintf(text, SIZE, "Name:\ta\nGroups:\t");
    for (int i = 0; i < GROUPS; i++)
        len += (size_t)snprintf(text + len, SIZE - len, "4294967294 ");
    snprintf(text + len, SIZE - len, "\nSeccomp:\t2\n");
    CHECK(tree_write(&tree, "42/status", text));
    CHECK(process_status(&proc, 42, &status) == 0 && status.seccomp == STATUS_SECCOMP_FILTER);
    free(text);
}

static void test_directories(void)
{
    struct task_dir dir;

    CHECK(tree_write(&tree, "12a/stat", "") && tree_write(&tree, "meminfo", ""));
    CHECK(task_dir_of_processes(&dir, &proc) == 0 && task_dir_next(&dir) == 42);
    CHECK(task_dir_next(&dir) == 0 && task_dir_next(&dir) == 0);
    task_dir_close(&dir);
    CHECK(task_dir_of_threads(&dir, &proc, 42) == 0 && task_dir_next(&dir) == 43);
    CHECK(task_dir_next(&dir) == 0);
    task_dir_close(&dir);
    CHECK(task_dir_of_threads(&dir, &proc, 41) == -ENOENT && task_dir_next(&dir) == 0);
    task_dir_close(&dir);
}

int main(void)
{
    if (!CHECK(tree_make(&tree)) || !CHECK(procfs_open(&proc, tree.path) == 0))
        return check_result();
    test_tasks();
    test_errors();
    test_many_groups();
    test_directories();
    procfs_close(&proc);
    tree_remove(&tree);
    return check_result();
}
