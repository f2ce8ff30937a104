/*
 * peculiar MODE [NUMBER]: a process in which one thread differs from the others.
 *
 * Prints `ready TID [NUMBER]` with that thread's id. It is the one that has used the least
 * processor time, so that it is the first choice of whoever looks at that alone. The file `beats`
 * in its directory has two words: rounds that it has done, and what was found wrong.
 */
#include "beats.h"
#include "safety.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Not in the headers of older C libraries. */
enum { SET_DISPATCH = 59, DISPATCH_ON = 1, SELECTOR_ALLOW = 0, SELECTOR_BLOCK = 1 };
enum { HIGHEST_NR = 600, MAIN_BURNS_MS = 120, WORKER_BURNS_MS = 30 };

#define LOAD(field)    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, (action))
#define FORBID(nr)     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 1), RETURN(SECCOMP_RET_KILL_PROCESS)

static long number;
static volatile pid_t worker;
static volatile int bell[2];

static void skip(const char *what)
{
    printf("skip %s: %s\n", what, strerror(errno));
    fflush(stdout);
    exit(0);
}

static void ready(long value)
{
    printf("ready %d %ld\n", (int)worker, value);
    fflush(stdout);
}

static void nap(long nanoseconds)
{
    struct timespec span = {0, nanoseconds};

    if (nanosleep(&span, NULL) != 0 && errno != EINTR)
        wrong();
}

static void burn(int milliseconds)
{
    struct timespec used;
    long end = milliseconds * 1000000L;

    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    while (used.tv_sec == 0 && used.tv_nsec < end);
}

static void start(void *(*function)(void *))
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, function, NULL) != 0)
        skip("pthread_create");
    while (!worker)
        nap(1000000);
}

static void sleep_for_good(void)
{
    for (;;)
        pause();
}

static void beat_for_good(void)
{
    for (;;) {
        nap(2000000);
        beat();
    }
}

/* ---- seccomp ---- */

/* Executable memory and unknown numbers kill; `files`: opening one kills as well. */
static void filter(bool files)
{
    struct sock_filter code[] = {
        LOAD(nr),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, HIGHEST_NR, 0, 1),
        RETURN(SECCOMP_RET_KILL_PROCESS),
        FORBID(files ? SYS_open : HIGHEST_NR),
        FORBID(files ? SYS_openat : HIGHEST_NR),
        FORBID(files ? SYS_creat : HIGHEST_NR),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 1, 0),
        RETURN(SECCOMP_RET_ALLOW),
        LOAD(args[2]),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
        RETURN(SECCOMP_RET_KILL_PROCESS),
        RETURN(SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(code) / sizeof(*code), code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        skip("seccomp");
}

static void *filtered_main(void *unused)
{
    burn(WORKER_BURNS_MS);
    filter(true);
    worker = gettid();
    beat_for_good();
    return unused;
}

static void filtered(void)
{
    burn(MAIN_BURNS_MS);
    start(filtered_main);
    ready(0);
    sleep_for_good();
}

/* All have a filter, the worker has one more. */
static void filtered_more(void)
{
    filter(false);
    filtered();
}

/* The opposite: the first thread has a filter that the worker lacks. */
static void *free_main(void *unused)
{
    burn(MAIN_BURNS_MS);
    worker = gettid();
    beat_for_good();
    return unused;
}

static void filtered_first(void)
{
    start(free_main);
    burn(WORKER_BURNS_MS);
    filter(true);
    ready(0);
    sleep_for_good();
}

/* The only thread, without a filter until `number` microseconds have passed. */
static void filtered_late(void)
{
    worker = gettid();
    ready(0);
    usleep((useconds_t)number);
    filter(false);
    beat_for_good();
}

/* Only read(2), write(2), _exit(2) and sigreturn(2): not even rt_sigreturn(2). */
static void *strict_main(void *unused)
{
    char byte;

    burn(WORKER_BURNS_MS);
    worker = gettid();
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
        worker = -1;
    for (;;) {
        ssize_t n = read(bell[0], &byte, 1);
        if (n == 1)
            beat();
        else
            wrong();
    }
    return unused;
}

static void ring_for_good(void)
{
    for (;;) {
        nap(2000000);
        if (write(bell[1], "x", 1) != 1)
            wrong();
    }
}

static void strict(void)
{
    if (pipe((int *)bell) != 0)
        skip("pipe");
    burn(MAIN_BURNS_MS);
    start(strict_main);
    if (worker < 0)
        skip("seccomp");
    ready(0);
    ring_for_good();
}

/* ---- syscall user dispatch ---- */

static volatile char selector = SELECTOR_ALLOW;
static volatile int expected; /* system calls that the thread makes to have them dispatched */

static void dispatched(int signal)
{
    (void)signal;
    selector = SELECTOR_ALLOW;
    if (expected > 0)
        expected--;
    else
        wrong(); /* a system call that the program did not make */
}

/* True if it is still on. */
static void be_dispatched(void)
{
    expected = 1;
    selector = SELECTOR_BLOCK;
    syscall(SYS_getppid);
    if (expected != 0)
        wrong();
    selector = SELECTOR_BLOCK;
}

/* The only place whose system calls the kernel makes: 2 ms of sleep. */
__asm__(".text\n"
        "dispatch_allowed:\n"
        "dispatch_nap:\n"
        "  mov $35, %eax\n"
        "  xor %esi, %esi\n"
        "  syscall\n"
        "  ret\n"
        "dispatch_end:\n"
        "  nop\n");
extern const char dispatch_allowed[], dispatch_end[];
extern long dispatch_nap(const struct timespec *span);

static void *dispatch_main(void *unused)
{
    const struct timespec span = {0, 2000000};

    burn(WORKER_BURNS_MS);
    pid_t self = gettid();
    if (prctl(SET_DISPATCH, DISPATCH_ON, dispatch_allowed, dispatch_end - dispatch_allowed,
              &selector) != 0)
        self = -1;
    worker = self;
    for (;;) {
        be_dispatched();
        dispatch_nap(&span);
        beat();
    }
    return unused;
}

static void dispatch(void)
{
    signal(SIGSYS, dispatched);
    burn(MAIN_BURNS_MS);
    start(dispatch_main);
    if (worker < 0)
        skip("syscall user dispatch");
    ready(0);
    sleep_for_good();
}

/* ---- files ---- */

/*
 * A file descriptor table of its own. In the other table every number up to 63 is in use, by a file
 * that could be mistaken for the right one.
 */
static void *files_main(void *unused)
{
    burn(WORKER_BURNS_MS);
    if (unshare(CLONE_FILES) != 0)
        skip("unshare");
    worker = gettid();
    beat_for_good();
    return unused;
}

static void files(void)
{
    burn(MAIN_BURNS_MS);
    start(files_main);
    while (open("decoy", O_RDWR | O_CREAT | O_CLOEXEC, 0600) < 63)
        continue;
    ready(0);
    sleep_for_good();
}

/* A working directory of its own; `number`: also a root, `inner`. */
static void *directory_main(void *unused)
{
    burn(WORKER_BURNS_MS);
    if (unshare(CLONE_FS) != 0)
        skip("unshare");
    if (number ? chroot("inner") != 0 || chdir("/") != 0 : chdir("inner") != 0)
        skip("chroot");
    worker = gettid();
    beat_for_good();
    return unused;
}

/* In `inner` it sees a file system that the others do not. */
static void *mounts_main(void *unused)
{
    burn(WORKER_BURNS_MS);
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", "inner", "tmpfs", 0, NULL) != 0)
        skip("mount");
    worker = gettid();
    beat_for_good();
    return unused;
}

static void with_inner(void *(*function)(void *))
{
    if (mkdir("inner", 0755) != 0)
        skip("mkdir");
    burn(MAIN_BURNS_MS);
    start(function);
    ready(0);
    sleep_for_good();
}

static void directory(void)
{
    with_inner(directory_main);
}

static void mounts(void)
{
    with_inner(mounts_main);
}

/* ---- permission to look ---- */

static bool is_traced(void)
{
    static const char key[] = "TracerPid:\t";
    char name[64], text[4096];

    snprintf(name, sizeof(name), "/proc/self/task/%d/status", (int)worker);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    close(fd);
    text[n < 0 ? 0 : n] = '\0';
    const char *line = strstr(text, key);
    return line && atoi(line + sizeof(key) - 1) != 0;
}

/* While the thread is stopped its own user may not read the process. */
static void *closing_main(void *unused)
{
    for (;;) {
        if (!is_traced())
            continue;
        prctl(PR_SET_DUMPABLE, 0);
        beats[2]++;
        while (is_traced())
            continue;
        prctl(PR_SET_DUMPABLE, 1);
    }
    return unused;
}

static void closing(void)
{
    pthread_t thread;

    worker = gettid();
    if (pthread_create(&thread, NULL, closing_main, NULL) != 0)
        skip("pthread_create");
    ready(0);
    beat_for_good();
}

static const struct {
    const char *name;
    void (*run)(void);
} modes[] = {
    {"filtered", filtered},
    {"filtered_more", filtered_more},
    {"filtered_first", filtered_first},
    {"filtered_late", filtered_late},
    {"strict", strict},
    {"dispatch", dispatch},
    {"files", files},
    {"directory", directory},
    {"mounts", mounts},
    {"closing", closing},
};

int main(int argc, char **argv)
{
    safety_begin();
    number = argc > 2 ? atol(argv[2]) : 0;
    if (argc < 2 || !map_beats())
        return 2;
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
        if (!strcmp(modes[i].name, argv[1]))
            modes[i].run();
    return 2;
}
