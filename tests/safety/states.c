/*
 * states MODE [NUMBER]: a process in an unusual state.
 *
 * Prints `ready TID [ADDRESS]`. The file `beats` in its directory has two words: rounds done, and
 * what was found wrong.
 */
#include "beats.h"
#include "safety.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { SMALL_STACK = 16384, COROUTINE_STACK = 8192, CANARY = 0x5a };

static char **arguments;
static long number;

static void ready(const void *address)
{
    if (getenv("STATES_AGAIN"))
        return;
    printf("ready %d %ju\n", (int)gettid(), (uintmax_t)(uintptr_t)address);
    fflush(stdout);
}

static void nap(long nanoseconds)
{
    struct timespec span = {0, nanoseconds};

    if (nanosleep(&span, NULL) != 0)
        wrong();
}

static void idle(void)
{
    ready(NULL);
    for (;;) {
        nap(2000000);
        beat();
    }
}

static void *idle_thread(void *unused)
{
    (void)unused;
    idle();
    return NULL;
}

/* Ends after `number` microseconds, or executes another program. */
static void ending(void)
{
    ready(NULL);
    usleep((useconds_t)number);
    exit(0);
}

static void becoming(void)
{
    ready(NULL);
    usleep((useconds_t)number);
    execl("/bin/sleep", "sleep", "0.05", (char *)NULL);
}

static void start(void *(*function)(void *), size_t stack)
{
    pthread_attr_t attr;
    pthread_t thread;

    pthread_attr_init(&attr);
    if (stack)
        pthread_attr_setstacksize(&attr, stack);
    if (pthread_create(&thread, &attr, function, NULL) != 0)
        wrong();
}

static void main_gone(void)
{
    start(idle_thread, 0);
    pthread_exit(NULL);
}

static void small_stack(void)
{
    start(idle_thread, SMALL_STACK);
    for (;;)
        pause();
}

static void fork_loop(void)
{
    ready(NULL);
    for (;;) {
        int status = 0;
        pid_t child = fork();
        if (child == 0)
            _exit(3);
        if (waitpid(child, &status, 0) != child || status != 3 << 8)
            wrong();
        beat();
    }
}

static void vfork_loop(void)
{
    ready(NULL);
    for (;;) {
        int status = 0;
        pid_t child = vfork();
        if (child == 0) {
            usleep(500);
            _exit(3);
        }
        if (waitpid(child, &status, 0) != child || status != 3 << 8)
            wrong();
        beat();
    }
}

static void exec_loop(void)
{
    ready(NULL);
    setenv("STATES_AGAIN", "1", 1);
    beat();
    nap(3000000);
    execv("/proc/self/exe", arguments);
    wrong();
}

static void dlopen_loop(void)
{
    ready(NULL);
    for (;;) {
        void *handle = dlopen("libm.so.6", RTLD_NOW);
        if (!handle)
            handle = dlopen("libz.so.1", RTLD_NOW);
        if (!handle || dlclose(handle) != 0)
            wrong();
        beat();
    }
}

static void *short_thread(void *data)
{
    free(malloc(100 + (size_t)(uintptr_t)data));
    return data;
}

static void churn(void)
{
    ready(NULL);
    for (uintptr_t i = 0;; i++) {
        pthread_t threads[4];
        void *result;
        for (uintptr_t k = 0; k < 4; k++)
            if (pthread_create(&threads[k], NULL, short_thread, (void *)(i + k)) != 0)
                wrong();
        for (uintptr_t k = 0; k < 4; k++)
            if (pthread_join(threads[k], &result) != 0 || result != (void *)(i + k))
                wrong();
        beat();
    }
}

static void *sleeper(void *unused)
{
    (void)unused;
    for (;;)
        pause();
    return NULL;
}

static void many(void)
{
    for (long i = 0; i < number; i++)
        start(sleeper, 65536);
    idle();
}

/* ---- coroutines ---- */

static ucontext_t outside, inside;
static unsigned char *arena;
static size_t arena_below; /* bytes under the coroutine's stack that nobody may write */

static void check_arena(void)
{
    for (size_t i = 0; i < arena_below; i++)
        if (arena[i] != CANARY) {
            wrong();
            memset(arena, CANARY, arena_below);
        }
}

/* Most of the coroutine's stack is in use. */
static void coroutine(void)
{
    unsigned char used[COROUTINE_STACK - 2500];

    memset(used, CANARY, sizeof(used));
    __asm__ volatile("" ::"r"(used) : "memory");
    for (;;) {
        nap(2000000);
        check_arena();
        beat();
    }
}

static void enter_coroutine(void *stack)
{
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = COROUTINE_STACK;
    inside.uc_link = &outside;
    makecontext(&inside, coroutine, 0);
    nap(1); /* binding a symbol needs more stack than the coroutine has */
    ready(arena);
    swapcontext(&outside, &inside);
}

static void coroutine_main(void)
{
    enter_coroutine(
        mmap(NULL, COROUTINE_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

static void *coroutine_thread(void *stack)
{
    enter_coroutine(stack);
    return NULL;
}

/*
 * One mapping: canaries, the coroutine's stack, and the thread's own stack above or below them. The
 * mapping alone does not show which stack is which.
 */
static void in_arena(bool above)
{
    const size_t own = 262144, canaries = 65536;
    unsigned char *map = mmap(NULL, own + canaries + COROUTINE_STACK, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_t attr;
    pthread_t thread;

    arena = above ? map + own : map;
    arena_below = canaries;
    memset(arena, CANARY, canaries);
    pthread_attr_init(&attr);
    pthread_attr_setstack(&attr, above ? map : map + canaries + COROUTINE_STACK, own);
    if (pthread_create(&thread, &attr, coroutine_thread, arena + canaries) != 0)
        wrong();
    for (;;)
        pause();
}

static void coroutine_above(void)
{
    in_arena(true);
}

static void coroutine_below(void)
{
    in_arena(false);
}

/* ---- a thread that the C library does not know: no system call of it goes through libc ---- */

static int raw_main(void *unused)
{
    struct timespec span = {0, 2000000};

    (void)unused;
    for (;;) {
        long result;
        __asm__ volatile("syscall"
                         : "=a"(result)
                         : "a"(SYS_nanosleep), "D"(&span), "S"(0)
                         : "rcx", "r11", "memory");
        if (result != 0)
            wrong();
        beat();
    }
    return 0;
}

static void raw_clone(void)
{
    const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                      CLONE_SYSVSEM | CLONE_SETTLS;
    const size_t size = 65536;
    static uint64_t no_tls[512];
    char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int tid = clone(raw_main, stack + size, flags, NULL, NULL, no_tls, NULL);

    printf("ready %d 0\n", tid);
    fflush(stdout);
    for (;;)
        pause();
}

/* ---- cancellation ---- */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static volatile bool past_gate, cancelled;
static volatile pid_t waiter;

static void cleanup(void *unused)
{
    (void)unused;
    cancelled = true;
    if (!past_gate)
        wrong(); /* in code that is not a cancellation point */
}

/* Waits for a mutex, which is not a cancellation point, with the cancellation pending. */
static void *cancelled_main(void *unused)
{
    (void)unused;
    pthread_cleanup_push(cleanup, NULL);
    waiter = gettid();
    pthread_mutex_lock(&gate);
    past_gate = true;
    pthread_mutex_unlock(&gate);
    pthread_testcancel();
    wrong(); /* the cancellation is lost */
    pthread_cleanup_pop(0);
    return NULL;
}

/* At a line on stdin the thread continues; then the cancellation must end it. */
static void cancel(void)
{
    pthread_t thread;
    void *result;
    char line[16];

    pthread_mutex_lock(&gate);
    if (pthread_create(&thread, NULL, cancelled_main, NULL) != 0)
        wrong();
    usleep(50000); /* it waits for the mutex; its earlier calls are cancellation points */
    if (!number)
        pthread_cancel(thread);
    printf("ready %d 0\n", (int)waiter);
    fflush(stdout);
    if (!fgets(line, sizeof(line), stdin))
        exit(1);
    if (number)
        pthread_cancel(thread);
    pthread_mutex_unlock(&gate);
    pthread_join(thread, &result);
    if (result != PTHREAD_CANCELED || !cancelled)
        wrong();
    beat();
    printf("cancelled\n");
    fflush(stdout);
    idle();
}

/* ---- credentials: each change sends a signal to every thread ---- */

static void set_ids(void)
{
    start(sleeper, 0);
    start(sleeper, 0);
    ready(NULL);
    for (;;) {
        if (setresuid((uid_t)-1, (uid_t)-1, geteuid()) != 0)
            wrong();
        beat();
        usleep(200);
    }
}

/* ---- long calls ---- */

/* Takes the lock for dumps until somebody reads the other end. */
static void *dump_main(void *unused)
{
    const char *path = "fifo";

    if (mallctl("prof.dump", NULL, NULL, (void *)&path, sizeof(path)) != 0)
        wrong();
    return unused;
}

static void dump_to_fifo(void)
{
    if (mkfifo("fifo", 0600) != 0)
        wrong();
    start(dump_main, 0);
    usleep(50000);
    idle();
}

/* The only thread waits, and no signal and no tracer can wake it. */
static void vfork_long(void)
{
    ready(NULL);
    for (;;) {
        pid_t child = vfork();
        if (child == 0) {
            usleep((useconds_t)number);
            _exit(0);
        }
        waitpid(child, NULL, 0);
        beat();
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} modes[] = {
    {"idle", idle},
    {"ending", ending},
    {"becoming", becoming},
    {"main_gone", main_gone},
    {"small_stack", small_stack},
    {"fork_loop", fork_loop},
    {"vfork_loop", vfork_loop},
    {"exec_loop", exec_loop},
    {"dlopen_loop", dlopen_loop},
    {"churn", churn},
    {"many", many},
    {"coroutine_main", coroutine_main},
    {"coroutine_above", coroutine_above},
    {"coroutine_below", coroutine_below},
    {"raw_clone", raw_clone},
    {"cancel", cancel},
    {"set_ids", set_ids},
    {"dump_to_fifo", dump_to_fifo},
    {"vfork_long", vfork_long},
};

int main(int argc, char **argv)
{
    safety_begin();
    arguments = argv;
    number = argc > 2 ? atol(argv[2]) : 0;
    if (argc < 2 || !map_beats())
        return 2;
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
        if (!strcmp(modes[i].name, argv[1]))
            modes[i].run();
    return 2;
}
