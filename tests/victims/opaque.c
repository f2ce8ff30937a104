/*
 * A program that sleeps in a given place: built by tests/opaque.py without call
 * frame information, with a prefix for jemalloc's functions (PREFIX).
 *
 *   opaque WHERE READY [FIFO]
 *
 * WHERE:
 *   outside    in main
 *   deep       below functions with frames of every kind
 *   called     in a function that malloc_stats_print calls
 *   forever    the same, in one that never returns
 *   misled     the same, above words that look like return addresses of main
 *   handler    in a signal handler that interrupted such a function
 *   dump       in jemalloc's own open(2) of FIFO, for prof.dump
 *   ending     in a destructor of a thread that ends, while main is inside the allocator
 *   busy       nowhere: allocates all the time
 *
 * The stack has been used by the allocator before. Creates READY when it is about to sleep; a line
 * on stdin ends the sleep, and the program, which allocates and frees once more, with code 0.
 * `busy` writes the number of its rounds to READY when the line has come.
 */
#include <alloca.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#ifndef PREFIX
#define PREFIX
#endif
#define JE(name) JOIN(PREFIX, name)
#define APART    __attribute__((noinline, noclone))

void *JE(malloc)(size_t size);
void JE(free)(void *block);
int JE(mallctl)(const char *name, void *oldp, size_t *oldlenp, void *newp, size_t newlen);
void JE(malloc_stats_print)(void (*write)(void *, const char *), void *ctx, const char *opts);

static const char *where, *ready, *fifo;
static volatile int zero;
static volatile bool awake;
static char line[16];

static APART void allocate(void)
{
    void *blocks[200];

    for (size_t i = 0; i < 200; i++) {
        blocks[i] = JE(malloc)(16 + i * 300);
        if (!blocks[i])
            abort();
        memset(blocks[i], 1, 16);
    }
    for (size_t i = 0; i < 200; i++)
        JE(free)(blocks[i]);
}

/* Leaves addresses of the allocator on the stack below every frame that follows. */
static APART int use_stack(int depth)
{
    volatile char room[300];

    room[depth] = (char)depth;
    allocate();
    return depth == 0 ? room[0] : use_stack(depth - 1) + room[depth];
}

static void tell(const char *text)
{
    int fd = open(ready, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (fd < 0 || write(fd, text, strlen(text)) < 0 || close(fd))
        abort();
}

static APART void sleep_here(void)
{
    if (awake)
        return;
    awake = true;
    tell("asleep\n");
    if (read(0, line, sizeof line) < 0)
        abort();
}

/* --- frames of every kind --- */

static APART int below_alloca(size_t size)
{
    volatile char *block = alloca(size);

    block[size - 1] = 1;
    sleep_here();
    return block[size - 1];
}

static APART int below_aligned(int n)
{
    _Alignas(64) volatile char block[512];

    block[n] = 2;
    return below_alloca((size_t)(n + 100 + zero)) + block[n];
}

static APART int below_many(int a, int b, int c, int d)
{
    int x = a * 3, y = b * 5, z = c * 7, w = d * 11;

    for (int i = 0; i <= zero; i++)
        x += below_aligned(i + 3) + y * z - w;
    return x ^ y ^ z ^ w;
}

static APART int below_large(int n)
{
    volatile char block[40000];

    block[n] = 3;
    return below_many(n, zero, 3, 4) + block[n];
}

static APART int below_choice(int n)
{
    int result = below_large(n);

    if (result == 123456)
        abort();
    return result + 1;
}

static int (*volatile first)(int) = below_choice;

/* --- called by the allocator --- */

static void write_and_sleep(void *ctx, const char *text)
{
    (void)ctx;
    (void)text;
    sleep_here();
}

static __attribute__((noreturn)) void write_for_ever(void *ctx, const char *text)
{
    (void)ctx;
    (void)text;
    for (;;) {
        sleep_here();
        if (line[0] == 'x')
            _exit(0);
    }
}

/* Return addresses of main, in the frame of a function that the allocator calls. */
static void *from_main;

static void write_misled(void *ctx, const char *text)
{
    void *volatile decoys[64];

    (void)ctx;
    (void)text;
    for (size_t i = 0; i < 64; i++)
        decoys[i] = from_main;
    sleep_here();
    zero = decoys[5] == from_main ? 0 : 1;
}

static void handle(int number)
{
    (void)number;
    sleep_here();
}

static void write_and_raise(void *ctx, const char *text)
{
    (void)ctx;
    (void)text;
    raise(SIGUSR1);
}

static pthread_t ender;

static void sleep_at_end(void *value)
{
    (void)value;
    sleep_here();
}

/* Its stack has no word of the allocator. */
static void *end_at_once(void *ctx)
{
    static pthread_key_t key;

    if (pthread_key_create(&key, sleep_at_end) || pthread_setspecific(key, &key))
        abort();
    return ctx;
}

static void write_and_join(void *ctx, const char *text)
{
    (void)ctx;
    (void)text;
    if (ender && pthread_join(ender, NULL) == 0)
        ender = 0;
}

static APART void note_caller(void)
{
    from_main = __builtin_return_address(0);
}

static APART int go(void)
{
    if (strcmp(where, "outside") == 0)
        sleep_here();
    else if (strcmp(where, "deep") == 0)
        return first(7) == 12345;
    else if (strcmp(where, "called") == 0)
        JE(malloc_stats_print)(write_and_sleep, NULL, NULL);
    else if (strcmp(where, "forever") == 0)
        JE(malloc_stats_print)(write_for_ever, NULL, NULL);
    else if (strcmp(where, "misled") == 0)
        JE(malloc_stats_print)(write_misled, NULL, NULL);
    else if (strcmp(where, "handler") == 0)
        JE(malloc_stats_print)(write_and_raise, NULL, NULL);
    else if (strcmp(where, "ending") == 0 && pthread_create(&ender, NULL, end_at_once, NULL) == 0)
        JE(malloc_stats_print)(write_and_join, NULL, NULL);
    else if (strcmp(where, "dump") == 0 && fifo) {
        tell("asleep\n");
        return JE(mallctl)("prof.dump", NULL, NULL, &fifo, sizeof fifo);
    }
    return 0;
}

static void *wait_for_line(void *ctx)
{
    if (read(0, line, sizeof line) < 0)
        abort();
    awake = true;
    return ctx;
}

static int be_busy(void)
{
    unsigned long rounds = 0;
    pthread_t thread;
    char text[32];

    if (pthread_create(&thread, NULL, wait_for_line, NULL))
        return 1;
    tell("busy\n");
    for (; !awake; rounds++) {
        allocate();
        if (rounds % 16 == 0)
            usleep(100);
    }
    snprintf(text, sizeof text, "%lu\n", rounds);
    tell(text);
    return pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc < 3)
        return 2;
    where = argv[1];
    ready = argv[2];
    fifo = argc > 3 ? argv[3] : NULL;
    signal(SIGUSR1, handle);
    use_stack(20);
    note_caller();
    int code = strcmp(where, "busy") == 0 ? be_busy() : go();
    allocate();
    return code;
}
