/*
 * A process that tries to harm tools that read it.
 *
 *   hostile [--container DIR] [--root DIR] [--wait PATH] [--fault] [--hooks]
 *           [--storm exec|exit|threads|reuse]
 *
 * --container  makes DIR its root in a new mount namespace, and executes /lib/hostile there
 * --root    chroot(2) to DIR
 * --wait    opens a FIFO for writing in a thread, and prints "opened" when it has a reader
 * --fault   maps a seeming library of which one page never arrives (userfaultfd(2))
 * --hooks   has extent hooks (it is started with jemalloc preloaded) in a page that never arrives
 * --storm   executes itself again, ends, or ends its threads, repeatedly; or has a child that
 *           ends, and another one with the same pid, which it prints
 *
 * Prints "ready". Exit code 77, with the reason: the kernel does not support it. Ends with its
 * parent.
 */
#include "nobody.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *text)
{
    puts(text);
    fflush(stdout);
}

static void *wait_for_reader(void *path)
{
    int fd = open(path, O_WRONLY);

    say(fd >= 0 ? "opened" : "failed");
    return NULL;
}

static int skip(const char *what)
{
    printf("%s: %s\n", what, strerror(errno));
    return 77;
}

/* The steps of a container's engine (pivot_root(2), "pivot_root(".", ".")"). */
static int enter_container(const char *root, char **argv)
{
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount(root, root, NULL, MS_BIND, NULL) || chdir(root) ||
        syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH) || chdir("/"))
        return skip("container");
    execv("/lib/hostile", argv);
    return skip("/lib/hostile");
}

/* Nobody serves the page at that address. */
static int leave_unserved(void *at)
{
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range = {.range = {(uintptr_t)at, 4096},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

    if (faults < 0 || ioctl(faults, UFFDIO_API, &api))
        return skip("userfaultfd");
    if (ioctl(faults, UFFDIO_REGISTER, &range))
        return skip("UFFDIO_REGISTER");
    return become_nobody() ? 0 : skip("setresuid");
}

/* A file of one empty page, mapped like a library; nobody serves the page. */
static int map_without_answer(void)
{
    int file = memfd_create("libjemalloc.so.2", 0);
    void *at;

    if (file < 0 || ftruncate(file, 4096))
        return skip("memfd_create");
    at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
    return at == MAP_FAILED ? skip("mmap") : leave_unserved(at);
}

/* The hooks are those of jemalloc, and then their table is gone. */
static int hook_without_answer(void)
{
    static const char name[] = "arena.0.extent_hooks";
    static char buffer[BUFSIZ]; /* so that it allocates nothing any more */
    int (*control)(const char *, void *, size_t *, void *, size_t);
    void *hooks, *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t size = sizeof hooks;

    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    *(void **)&control = dlsym(RTLD_DEFAULT, "mallctl");
    if (at == MAP_FAILED || !control || control(name, &hooks, &size, NULL, 0))
        return skip("mallctl");
    memcpy(at, hooks, 9 * sizeof(void *));
    if (control(name, NULL, NULL, &at, sizeof at) || madvise(at, 4096, MADV_DONTNEED))
        return skip("madvise");
    return leave_unserved(at);
}

/* Forks a child, with that pid if it is not 0 (clone3(2), set_tid). */
static pid_t make_child(pid_t pid)
{
    struct clone_args args = {.exit_signal = SIGCHLD};

    args.set_tid = pid ? (uintptr_t)&pid : 0;
    args.set_tid_size = pid ? 1 : 0;
    return (pid_t)syscall(SYS_clone3, &args, sizeof args);
}

/* Every child lives for a few milliseconds, and all have the pid of the first. */
static int reuse(void)
{
    pid_t pid = 0, child;

    for (;;) {
        child = make_child(pid);
        if (child == 0) {
            usleep(3000);
            _exit(0);
        }
        if (child < 0 && errno != EEXIST) /* another process has got it since */
            return skip("clone3");
        if (child < 0)
            continue;
        if (!pid) {
            printf("ready %d\n", (int)child);
            fflush(stdout);
        }
        pid = child;
        waitpid(child, NULL, 0);
    }
}

static void *end_thread(void *arg)
{
    usleep(500);
    return arg;
}

/* Makes new processes with the same pid, repeatedly. */
static void storm(const char *kind, char **argv)
{
    pthread_t thread;

    if (strcmp(kind, "exec") == 0) {
        usleep(2000);
        execv("/proc/self/exe", argv);
        _exit(1);
    }
    if (strcmp(kind, "reuse") == 0)
        exit(reuse());
    if (strcmp(kind, "exit") == 0) {
        usleep(3000);
        _exit(0);
    }
    for (;;) {
        if (pthread_create(&thread, NULL, end_thread, NULL) == 0)
            pthread_detach(thread);
        usleep(200);
    }
}

int main(int argc, char **argv)
{
    const char *kind = NULL;
    pthread_t thread;
    int code = 0;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc > 2 && strcmp(argv[1], "--container") == 0)
        return enter_container(argv[2], argv + 2);
    for (int i = 1; i < argc; i++) {
        const char *next = argv[i + 1];
        if (strcmp(argv[i], "--root") == 0 && next && (chroot(next) || chdir("/")))
            code = skip("chroot");
        if (strcmp(argv[i], "--wait") == 0 && next)
            pthread_create(&thread, NULL, wait_for_reader, argv[i + 1]);
        if (strcmp(argv[i], "--fault") == 0)
            code = map_without_answer();
        if (strcmp(argv[i], "--hooks") == 0)
            code = hook_without_answer();
        if (strcmp(argv[i], "--storm") == 0)
            kind = next;
    }
    if (code)
        return code;
    if (getenv("COMM"))
        prctl(PR_SET_NAME, getenv("COMM"));
    if (!kind || strcmp(kind, "threads") == 0)
        say("ready");
    if (kind)
        storm(kind, argv);
    for (;;)
        usleep(20000);
}
