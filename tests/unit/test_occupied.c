/* Who may keep the address space locked, as /proc shows it. */
#include "check.h"
#include "inject/occupied.h"
#include "proc_text.h"
#include "tree.h"

#include <pthread.h>
#include <sys/syscall.h>

static struct tree tree;
static struct procfs proc;
static struct target target = {.proc = &proc, .pid = 4242, .pidfd = -1};
static struct occupied found;
static volatile sig_atomic_t interrupted;
static const struct deadline deadline = {.at = UINT64_MAX, .interrupted = &interrupted};

static void write_file(int tid, const char *file, const char *text)
{
    char name[64];

    snprintf(name, sizeof name, "4242/task/%d/%s", tid, file);
    CHECK(tree_write(&tree, name, text));
}

/* nr: the system call in which it waits; -1: a page fault; -2: it runs. */
static void write_thread(int tid, char state, unsigned utime, long nr)
{
    const struct stat_line line = {tid, "worker", state, 1, 64, utime, 900, 1000, 0};
    char text[2048];

    stat_text(&line, text, sizeof text);
    write_file(tid, "stat", text);
    if (nr >= 0)
        snprintf(text, sizeof text, "%ld 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffe0000 0x7f0000001000\n", nr);
    else
        snprintf(text, sizeof text, nr == -1 ? "-1 0x7ffe0000 0x7f0000001000\n" : "running\n");
    write_file(tid, "syscall", text);
    write_file(tid, "status", "Name:\tworker\nTgid:\t4242\nvoluntary_ctxt_switches:\t77\n");
}

static enum occupancy look(void)
{
    occupied_look(&target, &deadline, &found);
    return found.occupancy;
}

static void test_alone(void)
{
    write_thread(4242, 'R', 5, -2);
    CHECK(look() == OCCUPANCY_NONE);
}

static void test_asleep(void)
{
    write_thread(4242, 'S', 5, SYS_futex);
    write_thread(4243, 'S', 5, SYS_munmap);
    CHECK(look() == OCCUPANCY_NONE);
    write_thread(4243, 'D', 5, SYS_fsync);
    CHECK(look() == OCCUPANCY_NONE);
}

/* A thread that gets no CPU has left the kernel, or not: nobody knows. */
static void test_runnable(void)
{
    write_thread(4243, 'R', 5, -2);
    CHECK(look() == OCCUPANCY_NONE);
}

static _Atomic(const char *) worker;

/* Thread 4243 uses CPU time in the kernel until worker is NULL. */
static void *use_kernel_time(void *path)
{
    struct stat_line line = {4243, worker, 'R', 1, 64, 5, 100, 1000, 0};
    int fd = open(path, O_WRONLY);
    char text[1024];

    for (; fd >= 0 && worker; line.stime = line.stime < 999 ? line.stime + 1 : 999) {
        const int len = stat_text(&line, text, sizeof text);
        CHECK(pwrite(fd, text, (size_t)len, 0) == len);
        usleep(1000);
    }
    close(fd);
    return NULL;
}

static enum occupancy look_beside(const char *comm)
{
    char path[TREE_PATH_MAX];
    pthread_t thread;

    worker = comm;
    tree_name(&tree, "4242/task/4243/stat", path);
    if (CHECK(pthread_create(&thread, NULL, use_kernel_time, path) == 0)) {
        usleep(5000);
        look();
        worker = NULL;
        pthread_join(thread, NULL);
    }
    return found.occupancy;
}

static void test_in_the_kernel(void)
{
    CHECK(look_beside("worker") == OCCUPANCY_SHARED && found.tid == 4243 && found.nr == -1);
}

static void test_waiting(void)
{
    static const long waits[] = {SYS_mmap, SYS_munmap, SYS_mprotect, SYS_madvise, SYS_brk, -1};

    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        write_thread(4244, 'D', 5, waits[i]);
        CHECK(look() == OCCUPANCY_WAITED && found.tid == 4244 && found.nr == waits[i]);
    }
    write_thread(4244, 'S', 5, SYS_futex);
}

static void test_interrupted(void)
{
    interrupted = 1;
    CHECK(look() == OCCUPANCY_NONE);
    interrupted = 0;
}

int main(void)
{
    if (!CHECK(tree_make(&tree)) || !CHECK(procfs_open(&proc, tree.path) == 0))
        return check_result();
    test_alone();
    test_asleep();
    test_runnable();
    test_in_the_kernel();
    test_waiting();
    test_interrupted();
    procfs_close(&proc);
    tree_remove(&tree);
    return check_result();
}
