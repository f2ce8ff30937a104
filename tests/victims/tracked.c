/*
 * A process that knows each of its objects: which of its functions allocated it, of which size.
 * Prints "ready", and then answers each line on its stdin by "ok":
 *
 *   grow SITE COUNT SIZE    the function of that number (below 8) allocates objects
 *   resize SITE SIZE        reallocates all of them
 *   shrink SITE COUNT       frees the oldest
 *   churn THREADS SIZE      each thread allocates and frees a thousand objects, and then sleeps
 *   spin THREADS SIZE       the same for ever
 *   quiet COUNT SIZE        a thread with thread.prof.active false allocates objects, and sleeps
 *   switch                  the main thread has thread.prof.active false from now on
 *   active 0|1              writes prof.active
 *   dump FILE               calls prof.dump for FILE
 *   where FILE              writes the objects, in the order of their birth: address, size,
 * function sites FILE              writes the address of each function work                    does
 * nothing
 *
 * Its own list is in memory that jemalloc does not know. Ends at the end of stdin, or with its
 * parent. PREFIX is the prefix of the jemalloc that it is linked with; without PREFIX it uses the
 * preloaded one.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#ifdef PREFIX
#define JE(name) JOIN(PREFIX, name)
#define WEAK
void *JE(malloc)(size_t size);
void *JE(realloc)(void *block, size_t size);
void JE(free)(void *block);
#else
#define JE(name) name
#define WEAK     __attribute__((weak))
#endif

WEAK int JE(mallctl)(const char *name, void *oldp, size_t *oldlenp, void *newp, size_t newlen);

enum { SITES = 8, OBJECTS_MAX = 4 << 20, CHURNED = 1000 };

static struct object {
    unsigned char *at; /* NULL: freed */
    uint32_t size, site;
} * objects;
static size_t object_count;

static void fail(const char *why)
{
    dprintf(2, "%s\n", why);
    abort();
}

/* Each site is a function of its own: the number keeps them from being merged. */
#define SITE(n)                                                                                    \
    __attribute__((noinline)) static void *site_##n(void *old, size_t size)                        \
    {                                                                                              \
        volatile int number = n;                                                                   \
        void *block = old ? JE(realloc)(old, size) : JE(malloc)(size);                             \
        if (!block || number != n)                                                                 \
            fail("no memory");                                                                     \
        return block;                                                                              \
    }

SITE(0)
SITE(1)
SITE(2)
SITE(3)
SITE(4)
SITE(5)
SITE(6)
SITE(7)

static void *(*const sites[SITES])(void *old, size_t size) = {site_0, site_1, site_2, site_3,
                                                              site_4, site_5, site_6, site_7};

static void grow(unsigned site, size_t count, size_t size)
{
    for (size_t i = 0; i < count && object_count < OBJECTS_MAX; i++) {
        unsigned char *block = sites[site](NULL, size);
        *block = 1;
        objects[object_count++] = (struct object){block, (uint32_t)size, site};
    }
}

static void resize(unsigned site, size_t size)
{
    for (size_t i = 0; i < object_count; i++)
        if (objects[i].at && objects[i].site == site) {
            objects[i].at = sites[site](objects[i].at, size);
            objects[i].size = (uint32_t)size;
        }
}

static void shrink(unsigned site, size_t count)
{
    for (size_t i = 0; i < object_count && count; i++)
        if (objects[i].at && objects[i].site == site) {
            JE(free)(objects[i].at);
            objects[i].at = NULL;
            count--;
        }
}

/* ---- threads ---- */

static size_t churn_size, quiet_count, quiet_size;
static pthread_barrier_t done;

static void *churn(void *unused)
{
    void *blocks[16] = {NULL};

    for (size_t i = 0; i < CHURNED; i++) {
        JE(free)(blocks[i % 16]);
        blocks[i % 16] = sites[7](NULL, churn_size);
    }
    for (size_t i = 0; i < 16; i++)
        JE(free)(blocks[i]);
    pthread_barrier_wait(&done);
    for (;;)
        pause();
    return unused;
}

static void *spin(void *unused)
{
    void *blocks[16] = {NULL};

    pthread_barrier_wait(&done);
    for (size_t i = 0;; i++) {
        JE(free)(blocks[i % 16]);
        blocks[i % 16] = sites[5](NULL, churn_size + i % 3 * 200);
    }
    return unused;
}

static void set_bool(const char *name, bool value)
{
    if (!JE(mallctl) || JE(mallctl)(name, NULL, NULL, &value, sizeof value) != 0)
        fail(name);
}

static void *quiet(void *unused)
{
    set_bool("thread.prof.active", false);
    grow(6, quiet_count, quiet_size);
    pthread_barrier_wait(&done);
    for (;;)
        pause();
    return unused;
}

static void start(void *(*run)(void *), unsigned threads)
{
    pthread_t thread;

    pthread_barrier_init(&done, NULL, threads + 1);
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&thread, NULL, run, NULL) != 0)
            fail("pthread_create");
    pthread_barrier_wait(&done);
}

/* ---- commands ---- */

static void write_where(const char *path)
{
    int out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (out < 0)
        fail(path);
    for (size_t i = 0; i < object_count; i++)
        if (objects[i].at)
            dprintf(out, "%lu %u %u\n", (unsigned long)(uintptr_t)objects[i].at, objects[i].size,
                    objects[i].site);
    close(out);
}

static void write_sites(const char *path)
{
    int out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (out < 0)
        fail(path);
    for (size_t i = 0; i < SITES; i++)
        dprintf(out, "%lu\n", (unsigned long)(uintptr_t)sites[i]);
    close(out);
}

static void dump(const char *path)
{
    if (!JE(mallctl) || JE(mallctl)("prof.dump", NULL, NULL, &path, sizeof path) != 0)
        fail("prof.dump");
}

static void obey(const char *line)
{
    unsigned site, number;
    size_t count, size;
    char path[4096];

    if (sscanf(line, "grow %u %zu %zu", &site, &count, &size) == 3 && site < SITES)
        grow(site, count, size);
    else if (sscanf(line, "resize %u %zu", &site, &size) == 2)
        resize(site, size);
    else if (sscanf(line, "shrink %u %zu", &site, &count) == 2)
        shrink(site, count);
    else if (sscanf(line, "churn %u %zu", &number, &churn_size) == 2)
        start(churn, number);
    else if (sscanf(line, "spin %u %zu", &number, &churn_size) == 2)
        start(spin, number);
    else if (sscanf(line, "quiet %zu %zu", &quiet_count, &quiet_size) == 2)
        start(quiet, 1);
    else if (strncmp(line, "switch", 6) == 0)
        set_bool("thread.prof.active", false);
    else if (sscanf(line, "active %u", &number) == 1)
        set_bool("prof.active", number != 0);
    else if (sscanf(line, "dump %4095s", path) == 1)
        dump(path);
    else if (sscanf(line, "where %4095s", path) == 1)
        write_where(path);
    else if (sscanf(line, "sites %4095s", path) == 1)
        write_sites(path);
    else if (strncmp(line, "work", 4) != 0)
        fail(line);
}

int main(void)
{
    char line[4200];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    objects = mmap(NULL, OBJECTS_MAX * sizeof *objects, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (objects == MAP_FAILED)
        return 2;
    grow(0, 1, 1); /* the first call initializes jemalloc */
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        obey(line);
        puts("ok");
        fflush(stdout);
    }
    return 0;
}
