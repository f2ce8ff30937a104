/*
 * A program with threads that allocate on request.
 *
 *   allocator [--threads N] [--off N] [--busy] [--named] [--close-stderr] [--chatty] [--filter]
 *
 * Each worker allocates once and sleeps, or with --busy goes on allocating. The
 * first --off workers get their profiling data while prof.thread_active_init is false.
 * --chatty: one more thread writes the numbers from 0 to stderr, a line
 * each. --filter: under a seccomp filter that refuses executable memory.
 *
 * Reads commands from stdin, one a line, and answers each with a line "ok" or
 * "error":
 *
 *   work N              each worker allocates N blocks and keeps the last ones
 *   stats OPTIONS FILE  writes malloc_stats_print(OPTIONS) to FILE; - means no option
 *   message             sets a malloc_message that writes to file descriptor 2
 *   active 0|1          writes prof.active
 *   dump FILE           calls prof.dump for FILE
 *   clear               each worker frees its blocks
 *   more N              allocates one block of N bytes, at least 8, and keeps it
 *   comb N BYTES        allocates N blocks and frees every second one
 *   gauges FILE         writes epoch, and what stats.* say then to FILE, a line each
 *   arena 1|0           makes an arena for its own blocks; destroys it, with these
 *   control NAME        calls mallctl with that name alone
 *   leave               the workers end
 *   counters FILE       writes of each worker: its thread, and what thread.allocated,
 *                       thread.deallocated and thread.arena say in it, a line each
 *
 * Ends at the end of stdin, or with its parent. PREFIX is the prefix of the
 * jemalloc that it is linked with; without PREFIX it uses the preloaded one.
 */
#include "filter.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#ifdef PREFIX
#define JE(name) JOIN(PREFIX, name)
#define WEAK
void *JE(malloc)(size_t size);
void JE(free)(void *block);
#else
#define JE(name) name
#define WEAK     __attribute__((weak))
#endif

WEAK int JE(mallctl)(const char *name, void *oldp, size_t *oldlenp, void *newp, size_t newlen);
WEAK void JE(malloc_stats_print)(void (*write)(void *, const char *), void *ctx, const char *opts);
extern WEAK void (*JE(malloc_message))(void *ctx, const char *text);

enum { WORKERS_MAX = 512, KEPT = 64, BLOCK = 900 };

struct worker {
    pthread_t thread;
    sem_t begin, done;
    unsigned long count; /* 0: free the blocks that are kept */
    unsigned index;
    pid_t tid;
    uint64_t allocated, deallocated;
    unsigned arena;
    void *kept[KEPT];
};

static struct worker workers[WORKERS_MAX];
static unsigned worker_count = 4, off_count;
static bool busy, named, chatty, filtered;

static void allocate(struct worker *worker, unsigned long count)
{
    for (unsigned long i = 0; i < count; i++) {
        void **slot = &worker->kept[i % KEPT];
        JE(free)(*slot);
        *slot = JE(malloc)(BLOCK + i % 100);
        *(volatile char *)*slot = 1;
    }
}

enum { LEAVE = 1 << 30, COUNTERS }; /* counts that end a worker, and that read its counters */

static void read_counters(struct worker *worker)
{
    size_t size = sizeof(worker->allocated), small = sizeof(worker->arena);

    worker->tid = gettid();
    JE(mallctl)("thread.arena", &worker->arena, &small, NULL, 0);
    JE(mallctl)("thread.allocated", &worker->allocated, &size, NULL, 0);
    JE(mallctl)("thread.deallocated", &worker->deallocated, &size, NULL, 0);
}

static void clear(struct worker *worker)
{
    for (size_t i = 0; i < KEPT; i++) {
        JE(free)(worker->kept[i]);
        worker->kept[i] = NULL;
    }
}

static void *worker_main(void *data)
{
    struct worker *worker = data;
    char name[16];

    snprintf(name, sizeof(name), "worker-%u", worker->index);
    prctl(PR_SET_NAME, name);
    if (worker->index < off_count) {
        bool active;
        size_t size = sizeof(active);
        JE(mallctl)("thread.prof.active", &active, &size, NULL, 0); /* makes the data */
    }
    if (named) {
        const char *text = name;
        JE(mallctl)("thread.prof.name", NULL, NULL, &text, sizeof(text));
    }
    allocate(worker, 8);
    sem_post(&worker->done);
    for (;;) {
        if (busy) {
            allocate(worker, 500);
            usleep(worker->index % 2 * 500);
            continue;
        }
        while (sem_wait(&worker->begin))
            ;
        if (worker->count == COUNTERS)
            read_counters(worker);
        else if (worker->count && worker->count != LEAVE)
            allocate(worker, worker->count);
        else
            clear(worker);
        sem_post(&worker->done);
        if (worker->count == LEAVE)
            break;
    }
    return NULL;
}

static void *chat_main(void *data)
{
    char line[32];

    prctl(PR_SET_NAME, "chatty");
    for (unsigned long i = 0;; i++) {
        int n = snprintf(line, sizeof(line), "%lu\n", i);
        if (write(STDERR_FILENO, line, (size_t)n) != n)
            abort();
        usleep(20);
    }
    return data;
}

static bool start_chat(void)
{
    pthread_t thread;

    return !chatty || pthread_create(&thread, NULL, chat_main, NULL) == 0;
}

static bool tell_workers(unsigned long count)
{
    if (busy)
        return false;
    for (unsigned i = 0; i < worker_count; i++) {
        workers[i].count = count;
        sem_post(&workers[i].begin);
    }
    for (unsigned i = 0; i < worker_count; i++)
        while (sem_wait(&workers[i].done))
            ;
    return true;
}

/* Static: an allocation of its own would be in the report. */
static char report[32 << 20];
static size_t report_len;

static void append(void *ctx, const char *text)
{
    size_t len = strlen(text), room = sizeof(report) - report_len;

    (void)ctx;
    memcpy(report + report_len, text, len < room ? len : room);
    report_len += len < room ? len : room;
}

static bool print_stats(char *words)
{
    const char *options = strtok(words, " \n"), *path = strtok(NULL, " \n");
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;

    if (fd < 0)
        return false;
    report_len = 0;
    JE(malloc_stats_print)(append, NULL, strcmp(options, "-") == 0 ? "" : options);
    bool whole = write(fd, report, report_len) == (ssize_t)report_len;
    close(fd);
    return whole;
}

static bool print_counters(char *words)
{
    const char *path = strtok(words, " \n");
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;

    if (fd < 0 || !tell_workers(COUNTERS))
        return false;
    for (unsigned i = 0; i < worker_count; i++)
        dprintf(fd, "%d %llu %llu %u\n", (int)workers[i].tid,
                (unsigned long long)workers[i].allocated,
                (unsigned long long)workers[i].deallocated, workers[i].arena);
    close(fd);
    return true;
}

static bool print_gauges(char *words)
{
    static const char *const names[] = {"allocated", "active",   "metadata", "resident",
                                        "mapped",    "retained", "pinned"};
    const char *path = strtok(words, " \n");
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    uint64_t epoch = 1;
    char name[32], text[512];
    size_t len = 0;

    if (fd < 0 || JE(mallctl)("epoch", NULL, NULL, &epoch, sizeof(epoch)))
        return false;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t value, size = sizeof(value);
        snprintf(name, sizeof(name), "stats.%s", names[i]);
        if (JE(mallctl)(name, &value, &size, NULL, 0) == 0)
            len += (size_t)snprintf(text + len, sizeof(text) - len, "%s %zu\n", names[i], value);
    }
    bool whole = write(fd, text, len) == (ssize_t)len; /* dprintf allocates a buffer */
    close(fd);
    return whole;
}

static bool control(char *words)
{
    const char *name = strtok(words, " \n");

    return name && JE(mallctl)(name, NULL, NULL, NULL, 0) == 0;
}

static bool own_arena(bool make)
{
    static unsigned first, arena;
    size_t size = sizeof(arena);
    char name[32];

    if (make)
        return JE(mallctl)("arenas.create", &arena, &size, NULL, 0) == 0 &&
               JE(mallctl)("thread.arena", &first, &size, &arena, sizeof(arena)) == 0;
    snprintf(name, sizeof(name), "arena.%u.destroy", arena);
    JE(mallctl)("thread.tcache.flush", NULL, NULL, NULL, 0);
    return JE(mallctl)("thread.arena", NULL, NULL, &first, sizeof(first)) == 0 &&
           JE(mallctl)(name, NULL, NULL, NULL, 0) == 0;
}

static bool keep_more(size_t size)
{
    static void *volatile last;
    void **block = JE(malloc)(size);

    if (!block)
        return false;
    *block = last;
    last = block;
    return true;
}

/* The list of the blocks stays, too. */
static bool comb(char *words)
{
    const char *count_text = strtok(words, " \n"), *size_text = strtok(NULL, " \n");
    unsigned long count = count_text ? strtoul(count_text, NULL, 10) : 0;
    size_t size = size_text ? strtoul(size_text, NULL, 10) : 0;
    void **blocks = JE(malloc)((count + 1) * sizeof(*blocks));

    for (unsigned long i = 0; blocks && i < count; i++)
        blocks[i] = JE(malloc)(size);
    for (unsigned long i = 1; blocks && i < count; i += 2)
        JE(free)(blocks[i]);
    return blocks && size > 0;
}

static void own_message(void *ctx, const char *text)
{
    (void)ctx;
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        abort();
}

static bool init_threads(bool active)
{
    return JE(mallctl)("prof.thread_active_init", NULL, NULL, &active, sizeof(active)) == 0;
}

static bool dump(char *words)
{
    const char *path = strtok(words, " \n");

    return path && JE(mallctl)("prof.dump", NULL, NULL, &path, sizeof(path)) == 0;
}

static bool obey(char *line)
{
    bool active = strncmp(line, "active 1", 8) == 0;

    if (strncmp(line, "work ", 5) == 0)
        return tell_workers(strtoul(line + 5, NULL, 10));
    if (strncmp(line, "clear", 5) == 0)
        return tell_workers(0);
    if (strncmp(line, "leave", 5) == 0)
        return tell_workers(LEAVE);
    if (strncmp(line, "more ", 5) == 0)
        return keep_more(strtoul(line + 5, NULL, 10));
    if (strncmp(line, "comb ", 5) == 0)
        return comb(line + 5);
    if (strncmp(line, "stats ", 6) == 0)
        return print_stats(line + 6);
    if (strncmp(line, "counters ", 9) == 0)
        return print_counters(line + 9);
    if (strncmp(line, "gauges ", 7) == 0)
        return print_gauges(line + 7);
    if (strncmp(line, "arena ", 6) == 0)
        return own_arena(line[6] == '1');
    if (strncmp(line, "control ", 8) == 0)
        return control(line + 8);
    if (strncmp(line, "dump ", 5) == 0)
        return dump(line + 5);
    if (strncmp(line, "active ", 7) == 0)
        return JE(mallctl)("prof.active", NULL, NULL, &active, sizeof(active)) == 0;
    if (strncmp(line, "message", 7) == 0) {
        JE(malloc_message) = own_message;
        return true;
    }
    return false;
}

static bool parse(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            worker_count = (unsigned)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--off") == 0 && i + 1 < argc)
            off_count = (unsigned)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--busy") == 0)
            busy = true;
        else if (strcmp(argv[i], "--named") == 0)
            named = true;
        else if (strcmp(argv[i], "--chatty") == 0)
            chatty = true;
        else if (strcmp(argv[i], "--filter") == 0)
            filtered = true;
        else if (strcmp(argv[i], "--close-stderr") == 0)
            close(STDERR_FILENO);
        else
            return false;
    }
    return worker_count <= WORKERS_MAX;
}

int main(int argc, char **argv)
{
    static char line[4096];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!parse(argc, argv) || (filtered && !filter_install("errno")))
        return 2;
    for (unsigned i = 0; i < worker_count; i++) {
        if (off_count && (i == 0 || i == off_count) && !init_threads(i == off_count))
            return 1;
        workers[i].index = i;
        sem_init(&workers[i].begin, 0, 0);
        sem_init(&workers[i].done, 0, 0);
        if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]))
            return 1;
        while (sem_wait(&workers[i].done))
            ;
    }
    if ((off_count && !init_threads(true)) || !start_chat())
        return 1;
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        puts(obey(line) ? "ok" : "error");
        fflush(stdout);
    }
    return 0;
}
