/*
 * A process that keeps a known number of objects, of sizes that nothing else in it has: of each
 * size as many, of which each third was freed. Prints "ready", and then answers each line on its
 * stdin by "ok":
 *
 *   where FILE          writes the objects: address, size, 1 if it is kept
 *   stats OPTIONS FILE  writes the output of malloc_stats_print ("-": no options)
 *   churn THREADS       starts threads that allocate and free objects of other sizes for ever
 *   work                does nothing
 *
 * Freed objects are free only without caches (MALLOC_CONF=tcache:false). Ends at the end of
 * stdin, or with its parent. PREFIX is the prefix of the jemalloc that it is linked with; without
 * PREFIX it uses the preloaded one.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
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
void *JE(malloc)(size_t size);
void JE(free)(void *block);
void JE(malloc_stats_print)(void (*write)(void *, const char *), void *ctx, const char *opts);
#else
#define JE(name) name
__attribute__((weak)) void malloc_stats_print(void (*write)(void *, const char *), void *ctx,
                                              const char *opts);
#endif

enum { SIZES = 6, KEPT_MAX = 6000, ROUND = 64 };

/* tests/e2e_extents.py knows these numbers. */
static const struct {
    size_t size, count;
} kinds[SIZES] = {{224, 6000}, {640, 3000}, {3584, 900}, {10240, 300}, {98304, 30}, {3 << 20, 9}};

static unsigned char *blocks[SIZES][KEPT_MAX];

static void keep_all(void)
{
    for (int i = 0; i < SIZES; i++)
        for (size_t k = 0; k < kinds[i].count; k++) {
            blocks[i][k] = JE(malloc)(kinds[i].size);
            if (!blocks[i][k])
                abort();
            memset(blocks[i][k], 1, 16);
        }
    for (int i = 0; i < SIZES; i++)
        for (size_t k = 0; k < kinds[i].count; k += 3)
            JE(free)(blocks[i][k]);
}

/* dprintf(3) allocates nothing. */
static void write_where(int out)
{
    for (int i = 0; i < SIZES; i++)
        for (size_t k = 0; k < kinds[i].count; k++)
            dprintf(out, "%p %zu %d\n", (void *)blocks[i][k], kinds[i].size, k % 3 != 0);
}

static void write_piece(void *ctx, const char *text)
{
    dprintf(*(int *)ctx, "%s", text);
}

static void *churn(void *unused)
{
    void *held[ROUND] = {NULL};

    for (unsigned i = 0;; i++) {
        JE(free)(held[i % ROUND]);
        held[i % ROUND] = JE(malloc)(i % 7 == 0 ? 20000 + i % 3 * 30000 : 16 + i % 80);
        if (held[i % ROUND])
            *(volatile unsigned char *)held[i % ROUND] = 1;
    }
    return unused;
}

static void start_churn(int threads)
{
    pthread_t thread;

    for (int i = 0; i < threads; i++)
        if (pthread_create(&thread, NULL, churn, NULL) != 0)
            abort();
}

static void write_file(const char *path, const char *options)
{
    int out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (out < 0)
        abort();
    if (!options)
        write_where(out);
    else if (JE(malloc_stats_print))
        JE(malloc_stats_print)(write_piece, &out, *options == '-' ? "" : options);
    close(out);
}

int main(void)
{
    char line[4200], path[4096], options[64];
    int threads;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    keep_all();
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "where %4095s", path) == 1)
            write_file(path, NULL);
        else if (sscanf(line, "stats %63s %4095s", options, path) == 2)
            write_file(path, options);
        else if (sscanf(line, "churn %d", &threads) == 1)
            start_churn(threads);
        puts("ok");
        fflush(stdout);
    }
    return 0;
}
