/* The list of a target's threads. */
#include "attach/faults.h"
#include "attach/target.h"
#include "check.h"
#include "proc_text.h"
#include "tree.h"

static struct tree tree;
static struct procfs proc;
static struct target target = {.proc = &proc, .pid = 4242, .pidfd = -1};

static void write_thread(int tid, const char *comm, char state, int cpu)
{
    const struct stat_line line = {tid, comm, state, 1, 64, 10, (unsigned)tid, 1000, cpu};
    char text[2048], name[64];

    stat_text(&line, text, sizeof text);
    snprintf(name, sizeof name, "4242/task/%d/stat", tid);
    CHECK(tree_write(&tree, name, text));
}

static const struct thread *find(const struct threads *threads, pid_t tid)
{
    for (size_t i = 0; i < threads->count; i++)
        if (threads->list[i].tid == tid)
            return &threads->list[i];
    return NULL;
}

static void test_none(void)
{
    struct threads threads;
    struct fault fault = {0};
    char name[TREE_PATH_MAX];

    CHECK(threads_list(&threads, &target, &fault) == FAULT_GONE && fault.code == FAULT_GONE);
    CHECK(tree_write(&tree, "4242/task/x", ""));
    CHECK(threads_list(&threads, &target, &fault) == FAULT_GONE);
    CHECK(threads.list == NULL && threads.count == 0);
    unlink(tree_name(&tree, "4242/task/x", name));
}

/* Threads that end during the read, and entries that are not threads, are left out. */
static void test_list(void)
{
    struct threads threads;
    const struct thread *thread;

    write_thread(4242, "main", 'S', 1);
    write_thread(4243, "bg) R 1", 'R', 2);
    write_thread(4244, "gone", 'Z', 0);
    write_thread(4245, "gone", 'X', 0);
    CHECK(tree_write(&tree, "4242/task/4246/comm", "no stat\n"));
    CHECK(tree_write(&tree, "4242/task/4247/stat", "garbage\n"));
    CHECK(tree_write(&tree, "4242/task/0/stat", "0 (a) S 1\n"));
    if (!CHECK(threads_list(&threads, &target, NULL) == FAULT_NONE))
        return;
    CHECK(threads.count == 2);
    thread = find(&threads, 4242);
    CHECK(thread && thread->state == 'S' && thread->cpu == 1 && thread->cpu_ticks == 4252);
    CHECK(thread && strcmp(thread->comm, "main") == 0);
    thread = find(&threads, 4243);
    CHECK(thread && thread->state == 'R' && thread->cpu == 2);
    CHECK(thread && strcmp(thread->comm, "bg) R 1") == 0);
    threads_free(&threads);
    CHECK(threads.list == NULL && threads.count == 0);
}

static void test_refresh(void)
{
    struct thread thread = {.tid = 4243};

    write_thread(4243, "0123456789abcdefghij", 'D', 7);
    CHECK(thread_refresh(&thread, &target));
    CHECK(thread.tid == 4243 && thread.state == 'D' && thread.cpu == 7);
    CHECK(strcmp(thread.comm, "0123456789abcde") == 0);
    write_thread(4243, "a", 'Z', 7);
    CHECK(!thread_refresh(&thread, &target));
    thread.tid = 9999;
    CHECK(!thread_refresh(&thread, &target));
}

static void test_many(void)
{
    struct threads threads;

    for (int tid = 10000; tid < 10300; tid++)
        write_thread(tid, "worker", 'S', 0);
    if (!CHECK(threads_list(&threads, &target, NULL) == FAULT_NONE))
        return;
    CHECK(threads.count == 301);
    for (int tid = 10000; tid < 10300; tid++)
        CHECK(find(&threads, tid) != NULL);
    threads_free(&threads);
}

int main(void)
{
    if (!CHECK(tree_make(&tree)) || !CHECK(procfs_open(&proc, tree.path) == 0))
        return check_result();
    test_none();
    test_list();
    test_refresh();
    test_many();
    procfs_close(&proc);
    tree_remove(&tree);
    return check_result();
}
