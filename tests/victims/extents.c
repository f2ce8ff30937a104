/*
 * An application whose extent hooks take a lock of the application.
 *
 *   extents LOG ARENA LOCK
 *
 * ARENA: "own", an arena that it has created; "zero", arena 0; "second", arena
 * 1, which is automatic if opt.narenas is 2 or more; "one", as "own" with only
 * one own function; "copy", jemalloc's functions in a set in its own memory;
 * "none", jemalloc's set; "later", the same, until SIGUSR1 gives arena 0 the hooks.
 * LOCK: "held", the only thread sleeps with that lock; "free", without it.
 *
 * The arena has unused dirty pages. The program writes two numbers to LOG again
 * and again: how often the thread woke up, and how often a hook has run since
 * the thread started to sleep. Ends with its parent.
 */
#include <fcntl.h>
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { BLOCKS = 16, BLOCK = 1 << 18 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static extent_hooks_t *theirs; /* jemalloc's */
static unsigned long ran;
static volatile sig_atomic_t later;

static void be_later(int signal)
{
    (void)signal;
    later = 1;
}

static void enter(void)
{
    pthread_mutex_lock(&lock);
    ran++;
}

static bool leave(bool result)
{
    pthread_mutex_unlock(&lock);
    return result;
}

static void *take(extent_hooks_t *hooks, void *at, size_t size, size_t alignment, bool *zero,
                  bool *commit, unsigned arena)
{
    (void)hooks;
    enter();
    at = theirs->alloc(theirs, at, size, alignment, zero, commit, arena);
    leave(true);
    return at;
}

static bool give(extent_hooks_t *hooks, void *at, size_t size, bool committed, unsigned arena)
{
    (void)hooks;
    enter();
    return leave(theirs->dalloc ? theirs->dalloc(theirs, at, size, committed, arena) : true);
}

static bool purge_lazy(extent_hooks_t *hooks, void *at, size_t size, size_t offset, size_t len,
                       unsigned arena)
{
    (void)hooks;
    enter();
    return leave(theirs->purge_lazy ? theirs->purge_lazy(theirs, at, size, offset, len, arena)
                                    : true);
}

static bool purge_forced(extent_hooks_t *hooks, void *at, size_t size, size_t offset, size_t len,
                         unsigned arena)
{
    (void)hooks;
    enter();
    return leave(theirs->purge_forced ? theirs->purge_forced(theirs, at, size, offset, len, arena)
                                      : true);
}

static unsigned make_arena(const char *which)
{
    unsigned arena = strcmp(which, "second") == 0;
    size_t len = sizeof arena;

    if (strcmp(which, "zero") != 0 && !arena &&
        mallctl("arenas.create", &arena, &len, NULL, 0) != 0)
        exit(2);
    return arena;
}

static void install(unsigned arena, const char *which)
{
    static extent_hooks_t hooks, *installed = &hooks;
    size_t len = sizeof theirs;
    char name[64];

    snprintf(name, sizeof name, "arena.%u.extent_hooks", arena);
    if (mallctl(name, &theirs, &len, NULL, 0) != 0)
        exit(2);
    hooks = *theirs;
    if (strcmp(which, "none") == 0 || strcmp(which, "later") == 0)
        return;
    if (strcmp(which, "one") == 0) {
        hooks.purge_forced = purge_forced;
    } else if (strcmp(which, "copy") != 0) {
        hooks.alloc = take;
        hooks.dalloc = give;
        hooks.purge_lazy = purge_lazy;
        hooks.purge_forced = purge_forced;
    }
    if (mallctl(name, NULL, NULL, &installed, sizeof installed) != 0)
        exit(2);
}

/* Dirty pages, in runs that cannot be merged. */
static void fill(unsigned arena)
{
    int flags = MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE;
    char *blocks[BLOCKS];

    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = mallocx(BLOCK, flags);
        if (!blocks[i])
            exit(2);
        memset(blocks[i], 1, BLOCK);
    }
    for (int i = 0; i < BLOCKS; i += 2)
        dallocx(blocks[i], flags);
}

int main(int argc, char **argv)
{
    char line[64];
    unsigned arena;
    bool held;
    int log;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc != 4)
        return 2;
    held = strcmp(argv[3], "held") == 0;
    arena = make_arena(argv[2]);
    install(arena, argv[2]);
    fill(arena);
    log = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (log < 0)
        return 2;
    ran = 0;
    signal(SIGUSR1, be_later);
    if (held)
        pthread_mutex_lock(&lock);
    for (unsigned long i = 0;; i++) { /* nothing after this allocates */
        if (later)
            install(0, "zero");
        later = 0;
        int n = snprintf(line, sizeof line, "%20lu %20lu\n", i, ran);
        if (pwrite(log, line, (size_t)n, 0) != n)
            return 1;
        usleep(10000);
    }
}
