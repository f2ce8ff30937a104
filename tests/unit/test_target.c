/* The identity of a target, with recorded files and with real processes. */
#include "attach/faults.h"
#include "attach/target.h"
#include "attach/target_paths.h"
#include "check.h"
#include "proc_text.h"
#include "tree.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static struct tree tree;
static struct procfs proc;

static const struct stat_line ordinary = {NO_PID, "a) b", 'S', 1, 0x400000, 1, 2, 1000, 0};

static void write_stat(const struct stat_line *line)
{
    char text[2048];

    stat_text(line, text, sizeof text);
    CHECK(tree_write(&tree, "5000000/stat", text));
}

static void write_status(int tgid)
{
    char text[256];

    snprintf(text, sizeof text, "Name:\ta) b\nTgid:\t%d\nPid:\t5000000\nUid:\t7\t8\t9\t9\n", tgid);
    CHECK(tree_write(&tree, "5000000/status", text));
}

static void record_ordinary(void)
{
    write_stat(&ordinary);
    write_status(NO_PID);
}

static fault_code open_result(struct fault *fault)
{
    struct target target;
    fault_code rc = target_open(&target, &proc, NO_PID, fault);

    CHECK(rc == FAULT_NONE || rc == fault->code);
    target_close(&target);
    return rc;
}

static void test_ordinary(void)
{
    struct target target;

    record_ordinary();
    CHECK(target_open(&target, &proc, NO_PID, NULL) == FAULT_NONE);
    CHECK(target.pid == NO_PID && target.pidfd == -1 && target.proc == &proc);
    CHECK(target.stat.start == 1000 && strcmp(target.stat.comm, "a) b") == 0);
    CHECK(target.status.uid == 7 && target.status.euid == 8);
    CHECK(target_check(&target, NULL) == FAULT_NONE);
    target_close(&target);
    target_close(&target);
}

static void test_missing(void)
{
    struct target target;
    struct fault fault = {0};

    CHECK(target_open(&target, &proc, NO_PID + 1, &fault) == FAULT_GONE);
    CHECK(fault.code == FAULT_GONE && strstr(fault.what, "5000001"));
    target_close(&target);
}

static void test_states(void)
{
    static const struct {
        char state;
        fault_code code;
    } rows[] = {{'Z', FAULT_ZOMBIE}, {'X', FAULT_ZOMBIE}, {'R', FAULT_NONE}, {'D', FAULT_NONE},
                {'T', FAULT_NONE},   {'t', FAULT_NONE},   {'I', FAULT_NONE}};
    struct fault fault = {0};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct stat_line line = ordinary;
        line.state = rows[i].state;
        write_stat(&line);
        CHECK(open_result(&fault) == rows[i].code);
    }
}

static void test_kernel_thread(void)
{
    struct stat_line line = ordinary;
    struct fault fault = {0};

    line.flags = 0x208040;
    write_stat(&line);
    CHECK(open_result(&fault) == FAULT_KERNEL_THREAD);
    CHECK(strstr(fault.what, "a) b"));
}

/* /proc/TID exists for every thread, though no listing shows it. */
static void test_plain_thread(void)
{
    struct fault fault = {0};

    write_stat(&ordinary);
    write_status(4711);
    CHECK(open_result(&fault) == FAULT_GONE);
    CHECK(strstr(fault.what, "thread of process 4711"));
}

static void test_unusable_files(void)
{
    struct fault fault = {0};
    char name[TREE_PATH_MAX];

    record_ordinary();
    unlink(tree_name(&tree, "5000000/status", name));
    CHECK(open_result(&fault) == FAULT_GONE);
    CHECK(tree_write(&tree, "5000000/stat", "garbage\n"));
    CHECK(open_result(&fault) == FAULT_INTERNAL);
    CHECK(tree_write(&tree, "5000000/stat", ""));
    CHECK(open_result(&fault) == FAULT_INTERNAL);
    unlink(tree_name(&tree, "5000000/stat", name));
    CHECK(mkdir(name, 0755) == 0);
    CHECK(open_result(&fault) == FAULT_DENIED);
    CHECK(rmdir(name) == 0);
    CHECK(open_result(&fault) == FAULT_GONE);
}

/* The state of an opened target. */
static void test_check(void)
{
    struct stat_line line = ordinary;
    struct target target;
    struct fault fault = {0};
    char name[TREE_PATH_MAX];

    record_ordinary();
    CHECK(target_open(&target, &proc, NO_PID, NULL) == FAULT_NONE);
    line.start++;
    write_stat(&line);
    CHECK(target_check(&target, &fault) == FAULT_REUSED && fault.code == FAULT_REUSED);
    line.state = 'Z'; /* another process's end is not its end */
    write_stat(&line);
    CHECK(target_check(&target, &fault) == FAULT_REUSED);
    line = ordinary;
    line.state = 'Z';
    write_stat(&line);
    CHECK(target_check(&target, &fault) == FAULT_ZOMBIE);
    write_stat(&ordinary);
    CHECK(target_check(&target, &fault) == FAULT_NONE);
    unlink(tree_name(&tree, "5000000/stat", name));
    CHECK(target_check(&target, &fault) == FAULT_GONE);
    target_close(&target);
}

/* A process that was selected earlier: the same, or none. */
static void test_pinned(void)
{
    struct stat_line line = ordinary;
    struct target target;
    struct fault fault = {0};
    struct target_pin pin = {NO_PID, TARGET_NO_START, -1};

    record_ordinary();
    CHECK(target_open_pinned(&target, &proc, &pin, &fault) == FAULT_REUSED); /* there was none */
    target_close(&target);
    CHECK(target_open(&target, &proc, NO_PID, NULL) == FAULT_NONE);
    pin = target_take_pin(&target);
    target_close(&target);
    CHECK(pin.pid == NO_PID && pin.start == 1000 && pin.pidfd == -1);
    CHECK(target_open_pinned(&target, &proc, &pin, &fault) == FAULT_NONE);
    target_close(&target);
    line.start++;
    write_stat(&line);
    CHECK(target_open_pinned(&target, &proc, &pin, &fault) == FAULT_REUSED);
    CHECK(fault.code == FAULT_REUSED && strstr(fault.what, "5000000"));
    target_close(&target);
    record_ordinary();
    target_pin_close(&pin);
    target_pin_close(&pin);
}

/* All pids used up within one clock tick: the start time is equal, the pidfd is not. */
static void test_pinned_same_tick(struct procfs *real)
{
    struct target target;
    struct target_pin pin;
    struct fault fault = {0};
    pid_t pid = fork();

    if (pid == 0) {
        pause();
        _exit(0);
    }
    CHECK(target_open(&target, real, pid, &fault) == FAULT_NONE);
    pin = target_take_pin(&target);
    target_close(&target);
    CHECK(pin.pidfd >= 0);
    CHECK(target_open_pinned(&target, real, &pin, &fault) == FAULT_NONE);
    target_close(&target);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    CHECK(target_open_pinned(&target, real, &pin, &fault) == FAULT_GONE);
    target_close(&target);
    pin.pid = NO_PID; /* the process that has the pid now, with the same start time */
    pin.start = ordinary.start;
    record_ordinary();
    CHECK(target_open_pinned(&target, &proc, &pin, &fault) == FAULT_REUSED);
    target_close(&target);
    target_pin_close(&pin);
}

static void test_own_root(void)
{
    struct target target = {.proc = &proc, .pid = NO_PID, .pidfd = -1};
    char path[64];

    CHECK(!target_has_own_root(&target)); /* nothing to compare: like the tool itself */
    CHECK(tree_link(&tree, "self/ns/mnt", "mnt:[1]"));
    CHECK(tree_link(&tree, "5000000/ns/mnt", "mnt:[1]"));
    CHECK(tree_link(&tree, "5000000/root", "/"));
    CHECK(!target_has_own_root(&target));
    target_path_from_here(&target, "/a/b", path, sizeof path);
    CHECK(strcmp(path, "/a/b") == 0);
    CHECK(tree_link(&tree, "5000000/root", tree.path)); /* chroot */
    CHECK(target_has_own_root(&target));
    CHECK(tree_link(&tree, "5000000/root", "/"));
    CHECK(tree_link(&tree, "5000000/ns/mnt", "mnt:[2]"));
    CHECK(target_has_own_root(&target));
    target_path_from_here(&target, "/a/b", path, sizeof path);
    CHECK(strcmp(path, "/proc/5000000/root/a/b") == 0);
    target_path_from_here(&target, "/a/b", path, 8);
    CHECK(strcmp(path, "/proc/5") == 0);
}

/* The file at a path as the target sees it: in its own root, or from its own directory. */
static void test_stat(void)
{
    const struct target target = {.proc = &proc, .pid = NO_PID, .pidfd = -1};
    struct stat st, expected;
    char path[TREE_PATH_MAX];

    CHECK(tree_write(&tree, "root/dir/file", "12345"));
    CHECK(tree_write(&tree, "outside", "1"));
    CHECK(tree_link(&tree, "root/dir/out", "../../../outside"));
    CHECK(tree_link(&tree, "root/dir/absolute", "/dir/file"));
    CHECK(tree_link(&tree, "5000000/root", tree_name(&tree, "root", path)));
    CHECK(tree_link(&tree, "5000000/cwd", tree_name(&tree, "root/dir", path)));
    CHECK(stat(tree_name(&tree, "root/dir/file", path), &expected) == 0);
    CHECK(target_stat(&target, "/dir/file", &st) == 0 && st.st_ino == expected.st_ino);
    CHECK(target_stat(&target, "file", &st) == 0 && st.st_ino == expected.st_ino);
    CHECK(target_stat(&target, "/dir/absolute", &st) == 0 && st.st_ino == expected.st_ino);
    CHECK(target_stat(&target, "/dir/out", &st) == -ENOENT);
    CHECK(target_stat(&target, "/../outside", &st) == -ENOENT);
    CHECK(target_stat(&target, "/file", &st) == -ENOENT);
}

/* A relative path that leads out of the working directory: found, or refused, but not "absent". */
static void test_stat_upwards(void)
{
    const struct target target = {.proc = &proc, .pid = NO_PID, .pidfd = -1};
    struct stat st;
    int rc;

    CHECK(tree_write(&tree, "root/beside", "1234567"));
    rc = target_stat(&target, "../beside", &st);
    CHECK(rc == -EXDEV || (rc == 0 && st.st_size == 7));
    CHECK(tree_link(&tree, "root/dir/up", "/beside"));
    rc = target_stat(&target, "up", &st);
    CHECK(rc == -EXDEV || (rc == 0 && st.st_size == 7));
}

static void test_limits(void)
{
    static const char head[] = "Limit                     Soft Limit           Hard Limit   "
                               "        Units     \n"
                               "Max cpu time              60                   unlimited    "
                               "        seconds   \n";
    const struct target target = {.proc = &proc, .pid = NO_PID, .pidfd = -1};
    char text[512];

    CHECK(target_file_size_limit(&target) == UINT64_MAX);
    snprintf(text, sizeof text,
             "%sMax file size             1048576              unlimited    "
             "        bytes     \n",
             head);
    CHECK(tree_write(&tree, "5000000/limits", text));
    CHECK(target_file_size_limit(&target) == 1048576);
    snprintf(text, sizeof text,
             "%sMax file size             unlimited            1048576      "
             "        bytes     \n",
             head);
    CHECK(tree_write(&tree, "5000000/limits", text));
    CHECK(target_file_size_limit(&target) == UINT64_MAX);
    CHECK(tree_write(&tree, "5000000/limits", head));
    CHECK(target_file_size_limit(&target) == UINT64_MAX);
    CHECK(tree_write(&tree, "5000000/limits", "Max file size             0          0\n"));
    CHECK(target_file_size_limit(&target) == 0);
}

/* A real process, which ends. */
static void test_real(struct procfs *real)
{
    struct target target;
    struct fault fault = {0};
    pid_t pid = fork();

    if (pid == 0) {
        pause();
        _exit(0);
    }
    CHECK(target_open(&target, real, pid, &fault) == FAULT_NONE);
    CHECK(target.pidfd >= 0 && target.stat.pid == pid && target.stat.ppid == getpid());
    CHECK(target_check(&target, &fault) == FAULT_NONE);
    CHECK(!target_has_own_root(&target));
    CHECK(target_look_end(&target, pid) == TARGET_LIVES);
    kill(pid, SIGKILL);
    CHECK(target_look_end(&target, pid) == TARGET_ENDS); /* at once: no wait for its end */
    siginfo_t info;
    waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
    fault_code rc = target_check(&target, &fault);
    CHECK(rc == FAULT_GONE || rc == FAULT_ZOMBIE);
    waitpid(pid, NULL, 0);
    CHECK(target_check(&target, &fault) == FAULT_GONE);
    target_close(&target);
    CHECK(target_open(&target, real, pid, &fault) == FAULT_GONE);
    target_close(&target);
}

static void *tell_tid(void *tid)
{
    *(pid_t *)tid = (pid_t)syscall(SYS_gettid);
    return NULL;
}

/* A thread that has ended, of a process that continues. */
static void test_thread_end(struct procfs *real)
{
    struct target target;
    struct fault fault = {0};
    pthread_t thread;
    pid_t tid;

    CHECK(target_open(&target, real, getpid(), &fault) == FAULT_NONE);
    if (CHECK(pthread_create(&thread, NULL, tell_tid, &tid) == 0)) {
        pthread_join(thread, NULL);
        while (syscall(SYS_tgkill, getpid(), tid, 0) == 0) /* the kernel is a little later */
            continue;
        CHECK(target_look_end(&target, tid) == TARGET_THREAD_ENDS);
    }
    target_close(&target);
}

static void *open_thread(void *real)
{
    struct target target;
    struct fault fault = {0};

    CHECK(target_open(&target, real, (pid_t)syscall(SYS_gettid), &fault) == FAULT_GONE);
    CHECK(strstr(fault.what, "is a thread of process"));
    target_close(&target);
    return NULL;
}

static void test_real_thread(struct procfs *real)
{
    pthread_t thread;

    if (CHECK(pthread_create(&thread, NULL, open_thread, real) == 0))
        pthread_join(thread, NULL);
}

int main(void)
{
    struct procfs real;

    if (!CHECK(tree_make(&tree)) || !CHECK(procfs_open(&proc, tree.path) == 0) ||
        !CHECK(procfs_open(&real, "/proc") == 0))
        return check_result();
    test_ordinary();
    test_missing();
    test_states();
    test_kernel_thread();
    test_plain_thread();
    test_unusable_files();
    test_check();
    test_pinned();
    test_pinned_same_tick(&real);
    test_own_root();
    test_stat();
    test_stat_upwards();
    test_limits();
    test_real(&real);
    test_thread_end(&real);
    test_real_thread(&real);
    procfs_close(&real);
    procfs_close(&proc);
    tree_remove(&tree);
    return check_result();
}
