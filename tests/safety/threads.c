/*
 * threads MODE: a process with one thread in which a call would do harm.
 *
 * Prints `ready TID`, and answers each line on stdin by a line. The file `beats` in its directory
 * has two words: rounds done, and what was found wrong.
 */
#include "beats.h"
#include "safety.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void nap(long nanoseconds)
{
    struct timespec span = {0, nanoseconds};

    while (nanosleep(&span, &span) != 0)
        ;
}

static void say(const char *text, int number)
{
    printf("%s %d\n", text, number);
    fflush(stdout);
}

/* The next word on stdin; ends with the driver. */
static const char *word(void)
{
    static char line[64];

    if (!fgets(line, sizeof(line), stdin))
        exit(0);
    line[strcspn(line, "\n")] = '\0';
    return line;
}

/* ---- deep: far below frames of the application, or of the allocator ---- */

enum { DEEP_STEPS = 40, DEEP_STEP = 10240, DEEP_BASE = 65536 };
enum runtime { OUTSIDE, INSIDE };

static volatile int wanted, is_at = -1;
static volatile pid_t deep_tid;
static void *volatile in_allocator; /* an address that a call of jemalloc's returns to */
static char *deep_top;
static extent_hooks_t *own_hooks;

static void wait_there(int place)
{
    is_at = place;
    while (wanted == place)
        nap(1000000);
}

static __attribute__((noinline)) void dig(int steps, int place)
{
    volatile char step[DEEP_STEP];

    step[0] = 1;
    if (steps)
        dig(steps - 1, place);
    else
        wait_there(place);
    step[1] = step[0];
}

/* For any caller, the frames from here on are at the same addresses. */
static __attribute__((noinline)) void dig_from_top(int place)
{
    size_t len = (size_t)((char *)__builtin_frame_address(0) - deep_top);
    volatile char *pad = __builtin_alloca(len);

    pad[0] = 1;
    dig(DEEP_STEPS, place);
    pad[1] = pad[0];
}

/* Called by jemalloc while it has locks of the arena. */
static void *hook(extent_hooks_t *hooks, void *address, size_t size, size_t alignment, bool *zero,
                  bool *commit, unsigned arena)
{
    in_allocator = __builtin_return_address(0);
    if (wanted == INSIDE)
        dig_from_top(INSIDE);
    return own_hooks->alloc(hooks, address, size, alignment, zero, commit, arena);
}

static unsigned hooked_arena(void)
{
    static extent_hooks_t hooks;
    extent_hooks_t *address = &hooks;
    size_t len = sizeof(own_hooks);
    unsigned arena = 0;

    if (mallctl("arena.0.extent_hooks", (void *)&own_hooks, &len, NULL, 0) != 0)
        exit(2);
    hooks = *own_hooks;
    hooks.alloc = hook;
    len = sizeof(arena);
    if (mallctl("arenas.create", (void *)&arena, &len, (void *)&address, sizeof(address)) != 0)
        exit(2);
    return arena;
}

static __attribute__((noinline)) void allocate(unsigned arena)
{
    int flags = (int)(MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE);

    if (!mallocx(64 << 20, flags)) /* more than it has cached: it calls the hook */
        wrong();
}

static void *deep_main(void *unused)
{
    unsigned arena = hooked_arena();
    void *volatile stale; /* so that reading the words alone is no proof */

    deep_top = (char *)__builtin_frame_address(0) - DEEP_BASE;
    deep_tid = gettid();
    allocate(arena);
    stale = in_allocator;
    for (;;) {
        if (wanted == INSIDE)
            allocate(arena);
        else
            dig_from_top(OUTSIDE);
        if (stale != in_allocator)
            stale = in_allocator;
        beat();
    }
    return unused;
}

static void deep(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, deep_main, NULL) != 0)
        exit(2);
    while (is_at != OUTSIDE)
        nap(1000000);
    say("ready", deep_tid);
    for (;;) {
        wanted = strcmp(word(), "inside") == 0 ? INSIDE : OUTSIDE;
        while (is_at != wanted)
            nap(1000000);
        say("there", 0);
    }
}

/* ---- cancelled: at any instruction, and in the middle of a call ---- */

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static volatile pid_t cancelled_tid;
static volatile bool cleaned_up, asleep;

static void clean_up(void *unused)
{
    sigset_t now;

    (void)unused;
    cleaned_up = true;
    if (pthread_sigmask(SIG_BLOCK, NULL, &now) != 0 || sigismember(&now, SIGTERM))
        wrong();
    if (pthread_mutex_unlock(&held) != 0)
        wrong();
}

static void *cancelled_main(void *type)
{
    volatile uint64_t rounds = 0;

    free(malloc(100));
    pthread_mutex_lock(&held);
    pthread_cleanup_push(clean_up, NULL);
    cancelled_tid = gettid();
    pthread_setcanceltype(*(int *)type, NULL);
    for (;;) {
        rounds++;
        if (asleep)
            pause();
        if (*(int *)type == PTHREAD_CANCEL_DEFERRED && rounds % 65536 == 0)
            pthread_testcancel();
    }
    pthread_cleanup_pop(0);
    return NULL;
}

/* Until somebody reads the FIFO, every other dump waits for its lock. */
static void *dump_main(void *unused)
{
    const char *path = "fifo";

    if (mallctl("prof.dump", NULL, NULL, (void *)&path, sizeof(path)) != 0)
        wrong();
    return unused;
}

/* Without call frame information the cleanup is skipped, and the mutex stays locked. */
static void cancelled(int type)
{
    pthread_t thread, dump;
    void *result = NULL;
    sigset_t none, now;

    if (pthread_create(&thread, NULL, cancelled_main, &type) != 0)
        exit(2);
    while (!cancelled_tid)
        nap(1000000);
    if (mkfifo("fifo", 0600) != 0 || pthread_create(&dump, NULL, dump_main, NULL) != 0)
        exit(2);
    nap(100000000);
    say("ready", cancelled_tid);
    while (strcmp(word(), "cancel") == 0) {
        pthread_cancel(thread);
        say("asked", 0);
    }
    if (pthread_join(thread, &result) != 0 || result != PTHREAD_CANCELED || !cleaned_up)
        wrong();
    if (pthread_mutex_trylock(&held) != 0)
        wrong();
    sigemptyset(&none);
    pthread_sigmask(SIG_BLOCK, &none, &now);
    say("over", (int)sigismember(&now, SIGTERM));
    for (;;) {
        nap(2000000);
        beat();
    }
}

static void cancelled_at_once(void)
{
    cancelled(PTHREAD_CANCEL_ASYNCHRONOUS);
}

/* In a cancellation point, during which glibc before 2.37 makes it asynchronously cancelable. */
static void cancelled_asleep(void)
{
    asleep = true;
    cancelled(PTHREAD_CANCEL_DEFERRED);
}

static void cancelled_deferred(void)
{
    cancelled(PTHREAD_CANCEL_DEFERRED);
}

/* ---- signalled: it waits for a signal, which comes in the middle of a call ---- */

static volatile pid_t signalled_tid;
static volatile bool taken;

static void take(int number)
{
    (void)number;
    taken = true;
}

/* In a cancellation point. A signal taken anywhere else is never seen. */
static void *signalled_main(void *unused)
{
    free(malloc(100));
    signalled_tid = gettid();
    while (!taken)
        pause();
    return unused;
}

static void signalled(void)
{
    pthread_t thread, dump;

    signal(SIGUSR1, take);
    if (mkfifo("fifo", 0600) != 0 || pthread_create(&thread, NULL, signalled_main, NULL) != 0 ||
        pthread_create(&dump, NULL, dump_main, NULL) != 0)
        exit(2);
    nap(100000000);
    say("ready", signalled_tid);
    word();
    pthread_kill(thread, SIGUSR1);
    say("sent", 0);
    pthread_join(thread, NULL);
    for (;;) {
        nap(2000000);
        beat();
    }
}

/* ---- last_round: in the last destructors of thread-specific data ---- */

static pthread_key_t key;
static volatile pid_t ending_tid;
static volatile bool may_end, has_allocated;

/* Sets the value again, so that it is called in the last round too. */
static void destroy(void *value)
{
    const int round = (int)(intptr_t)value;

    if (round < PTHREAD_DESTRUCTOR_ITERATIONS) {
        pthread_setspecific(key, (void *)(intptr_t)(round + 1));
        return;
    }
    ending_tid = gettid();
    while (!may_end)
        nap(1000000);
}

static void *ending_main(void *unused)
{
    void *volatile block = has_allocated ? malloc(100) : NULL;

    free(block);
    pthread_setspecific(key, (void *)1);
    return unused;
}

/* Another thread on the stack of the ended one sets every byte of it. */
static void *overwriting_main(void *unused)
{
    volatile char room[262144];

    for (size_t i = 0; i < sizeof(room); i++)
        room[i] = 0x5a;
    free(malloc(100));
    return unused;
}

static void last_round(void)
{
    pthread_t thread;
    void *result;

    if (pthread_key_create(&key, destroy) != 0 ||
        pthread_create(&thread, NULL, ending_main, NULL) != 0)
        exit(2);
    while (!ending_tid)
        nap(1000000);
    say("ready", ending_tid);
    word();
    may_end = true;
    pthread_join(thread, &result);
    for (int i = 0; i < 8; i++)
        if (pthread_create(&thread, NULL, overwriting_main, NULL) != 0 ||
            pthread_join(thread, &result) != 0)
            wrong();
    say("ended", 0);
    for (;;) {
        free(malloc(1000));
        nap(2000000);
        beat();
    }
}

static void last_round_allocated(void)
{
    has_allocated = true;
    last_round();
}

/* ---- leaving: the thread by which /proc shows the process ends in the middle of a call ---- */

static volatile pid_t beating_tid;

static void *beating_main(void *unused)
{
    free(malloc(100));
    beating_tid = gettid();
    for (;;) {
        nap(2000000);
        beat();
    }
    return unused;
}

static void *leaving_main(void *unused)
{
    while (!beating_tid)
        nap(1000000);
    nap(100000000);
    say("ready", beating_tid);
    word();
    printf("leaving 0\n");
    fflush(stdout);
    return unused;
}

static void leave(bool first_alone)
{
    pthread_t thread;

    if (!first_alone && pthread_create(&thread, NULL, leaving_main, NULL) != 0)
        exit(2);
    if (mkfifo("fifo", 0600) != 0 || pthread_create(&thread, NULL, beating_main, NULL) != 0 ||
        pthread_create(&thread, NULL, dump_main, NULL) != 0)
        exit(2);
    if (first_alone)
        leaving_main(NULL);
    pthread_exit(NULL);
}

/* The first thread. */
static void first_leaves(void)
{
    leave(true);
}

/* The second, when the first has ended long ago. */
static void second_leaves(void)
{
    leave(false);
}

/* ---- deepest: the first thread sleeps deeper in its stack than ever before ---- */

enum { DEEPEST = 512 << 10, DEEPEST_STEP = 4096, LEAST_ROOM = 2048 };

static bool has_limit;
static volatile bool comes_back; /* never */

static uintptr_t stack_bounds(uintptr_t *end)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    uintptr_t start = 0;

    while (maps && fgets(line, sizeof(line), maps))
        if (strstr(line, "[stack]") && sscanf(line, "%lx-%lx", &start, end) == 2)
            break;
    if (maps)
        fclose(maps);
    return start;
}

/* RLIMIT_STACK as small as the stack. */
static void limit_stack(void)
{
    struct rlimit limit;
    uintptr_t end = 0, start = stack_bounds(&end);

    if (!start || getrlimit(RLIMIT_STACK, &limit) != 0)
        exit(2);
    limit.rlim_cur = end - start;
    if (has_limit && setrlimit(RLIMIT_STACK, &limit) != 0)
        exit(2);
}

static __attribute__((noinline)) void beat_there(void)
{
    while (!comes_back) {
        struct timespec span = {0, 2000000};
        syscall(SYS_nanosleep, &span, NULL);
        beat();
    }
}

/* Down to where the mapping below the stack pointer is smaller than any frame. */
static __attribute__((noinline)) void go_deepest(uintptr_t start)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    volatile char *room = __builtin_alloca(here - start - LEAST_ROOM);

    room[0] = 1;
    beat_there();
    room[1] = room[0];
}

static __attribute__((noinline)) void dig_deepest(int steps)
{
    volatile char step[DEEPEST_STEP];
    uintptr_t end;

    step[0] = 1;
    if (steps) {
        dig_deepest(steps - 1);
    } else {
        limit_stack();
        go_deepest(stack_bounds(&end));
    }
    step[1] = step[0];
}

static void deepest(void)
{
    free(malloc(100));
    say("ready", gettid());
    dig_deepest(DEEPEST / DEEPEST_STEP);
}

static void deepest_limited(void)
{
    has_limit = true;
    deepest();
}

static const struct {
    const char *name;
    void (*run)(void);
} modes[] = {
    {"deepest", deepest},
    {"deepest_limited", deepest_limited},
    {"deep", deep},
    {"last_round", last_round},
    {"last_round_allocated", last_round_allocated},
    {"first_leaves", first_leaves},
    {"second_leaves", second_leaves},
    {"cancelled_at_once", cancelled_at_once},
    {"cancelled_asleep", cancelled_asleep},
    {"cancelled_deferred", cancelled_deferred},
    {"signalled", signalled},
};

int main(int argc, char **argv)
{
    safety_begin();
    if (argc < 2 || !map_beats())
        return 2;
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
        if (!strcmp(modes[i].name, argv[1]))
            modes[i].run();
    return 2;
}
