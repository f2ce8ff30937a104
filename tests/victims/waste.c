/*
 * A process of which it is known where its memory is: waste SCENE [NAME=VALUE]...
 *
 *   one        session_new  objects of 256 bytes, of which one in eight stays
 *   four       session_new  the same with four sizes, a quarter of the bytes each
 *   stacks     item_new     the same as `one`; the survivors are of 40 stacks
 *   ended      worker_new   the same in 16 threads that have ended
 *   large      block_new    objects of 80 KiB to 1 MiB, of which one in eight stays
 *   untouched  buffer_new   objects of 1 MiB, of which a page is touched
 *   busy       cache_add    nothing is freed
 *   map, shared, file, stacks_used   memory outside the heap: map_region, share_region,
 *              file_region, stack_region
 *   growing    map_region   2.5 MiB are mapped in each second
 *   noise                   1 MiB is mapped and unmapped again, about twice in a second
 *
 *   mb=N    MiB that the scene allocates at first; cache=N: MiB of cache_add beside it, in use
 *   noise=1 adds that of the scene `noise`
 *
 * "ready" is printed when all is done. For each line of its stdin it prints one line of JSON:
 * what it has in use by its own ledger, by function and in all (bytes that malloc_usable_size
 * gives), and what jemalloc counts, if it has it. After a line "purge" it then returns jemalloc's
 * free pages, and says how much of its RSS was given back. It ends with its stdin.
 */
#include <dlfcn.h>
#include <err.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define ALLOCATES __attribute__((noinline))

enum {
    KIB = 1 << 10,
    MIB = 1 << 20,
    PAGE = 4096,
    KEPT = 8, /* one object of so many stays */
    STACKS = 40,
    WORKERS = 16,
    STACK = 256 * KIB, /* of which so much is used by a thread of stacks_used */
    NOISE_NS = 500000000,
    GROWTH = 128 * KIB,
    GROWTH_NS = 50000000,
};

struct sums {
    const char *function;
    _Atomic uint64_t in_use, outside;
};

typedef void *allocate_function(size_t size, unsigned path);

static int (*mallctl)(const char *, void *, size_t *, void *, size_t);
static struct sums sums[16];

static struct sums *sums_of(const char *function)
{
    struct sums *row = sums;

    while (row->function && strcmp(row->function, function) != 0)
        row++;
    row->function = function;
    return row;
}

/* ---- who allocates ---- */

/* The name in the code keeps the compiler from making one function of all. */
#define ALLOCATOR(name)                                                                            \
    static ALLOCATES void *name(size_t size, unsigned path)                                        \
    {                                                                                              \
        void *object = malloc(size);                                                               \
                                                                                                   \
        __asm__ volatile("# " #name ::"r"(path));                                                  \
        if (!object)                                                                               \
            err(1, "no memory");                                                                   \
        return object;                                                                             \
    }

ALLOCATOR(session_new)
ALLOCATOR(item_leaf)
ALLOCATOR(worker_new)
ALLOCATOR(block_new)
ALLOCATOR(buffer_new)
ALLOCATOR(cache_add)

static ALLOCATES void *item_odd(size_t size, unsigned path);

/* Each bit of path below its highest one is a call of item_new or of item_odd. */
static ALLOCATES void *item_new(size_t size, unsigned path)
{
    void *volatile object;

    if (path <= 1)
        object = item_leaf(size, path);
    else
        object = path & 1 ? item_odd(size, path >> 1) : item_new(size, path >> 1);
    return object;
}

static ALLOCATES void *item_odd(size_t size, unsigned path)
{
    void *volatile object;

    if (path <= 1)
        object = item_leaf(size, path);
    else
        object = path & 1 ? item_odd(size, path >> 1) : item_new(size, path >> 1);
    return object;
}

/* ---- waste ---- */

static size_t next_size(const size_t *sizes, size_t count, uint64_t done, uint64_t bytes)
{
    return sizes[count * done / bytes];
}

/*
 * Allocates so many bytes, the sizes one after the other, and frees all but one object in
 * `kept`, any of those: slabs have survivors of their own number each.
 */
static void fill(allocate_function *allocate, const char *function, uint64_t bytes,
                 const size_t *sizes, size_t count, unsigned kept, unsigned stacks)
{
    size_t most = bytes / sizes[0] + count + 1, made = 0;
    void **objects = mmap(NULL, most * sizeof *objects, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sums *row = sums_of(function);
    uint64_t random = 88172645463325252u;

    if (objects == MAP_FAILED)
        err(1, "no memory");
    for (uint64_t done = 0; done < bytes && made < most; made++) {
        size_t size = next_size(sizes, count, done, bytes);

        objects[made] = allocate(size, STACKS + (unsigned)(made / kept) % stacks);
        memset(objects[made], 1, size);
        done += size;
    }
    for (size_t i = 0; i < made; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        if (kept > 1 && (random >> 20) % kept)
            free(objects[i]);
        else
            atomic_fetch_add(&row->in_use, malloc_usable_size(objects[i]));
    }
    munmap(objects, most * sizeof *objects);
    if (mallctl)
        mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
}

static const size_t one_size[] = {256}, four_sizes[] = {64, 320, 1024, 3072},
                    block_sizes[] = {80 * KIB, 160 * KIB, 448 * KIB, MIB}, cache_sizes[] = {2048},
                    worker_sizes[] = {192};

static pthread_barrier_t all_filled;

static void *work(void *bytes)
{
    fill(worker_new, "worker_new", *(uint64_t *)bytes, worker_sizes, 1, KEPT, 1);
    pthread_barrier_wait(&all_filled);
    return NULL;
}

static pthread_t start_thread(void *start(void *), void *context, size_t stack)
{
    pthread_attr_t attributes;
    pthread_t thread;

    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack + 64 * KIB);
    if (pthread_create(&thread, &attributes, start, context))
        errx(1, "no thread");
    pthread_attr_destroy(&attributes);
    return thread;
}

static void one(uint64_t bytes)
{
    fill(session_new, "session_new", bytes, one_size, 1, KEPT, 1);
}

static void four(uint64_t bytes)
{
    fill(session_new, "session_new", bytes, four_sizes, 4, KEPT, 1);
}

static void stacks(uint64_t bytes)
{
    fill(item_new, "item_new", bytes, one_size, 1, KEPT, STACKS);
}

/* None ends before all have filled, so that each has an arena as far as there are some. */
static void ended(uint64_t bytes)
{
    pthread_t threads[WORKERS];
    uint64_t part = bytes / WORKERS;

    sums_of("worker_new");
    pthread_barrier_init(&all_filled, NULL, WORKERS);
    for (int i = 0; i < WORKERS; i++)
        threads[i] = start_thread(work, &part, STACK);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
}

static void large(uint64_t bytes)
{
    fill(block_new, "block_new", bytes, block_sizes, 4, KEPT, 1);
}

static void busy(uint64_t bytes)
{
    fill(cache_add, "cache_add", bytes, cache_sizes, 1, 1, 1);
}

static void untouched(uint64_t bytes)
{
    struct sums *row = sums_of("buffer_new");

    for (uint64_t done = 0; done < bytes; done += MIB) {
        char *object = buffer_new(MIB, 0);

        memset(object, 1, PAGE);
        atomic_fetch_add(&row->in_use, malloc_usable_size(object));
    }
}

/* ---- outside the heap ---- */

static void region(const char *function, uint64_t bytes, int flags, int fd)
{
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);

    if (at == MAP_FAILED)
        err(1, "%s", function);
    memset(at, 1, bytes);
    atomic_fetch_add(&sums_of(function)->outside, bytes);
}

static ALLOCATES void map_region(uint64_t bytes)
{
    region("map_region", bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static ALLOCATES void share_region(uint64_t bytes)
{
    region("share_region", bytes, MAP_SHARED | MAP_ANONYMOUS, -1);
}

static ALLOCATES void file_region(uint64_t bytes)
{
    char path[] = "waste.XXXXXX";
    int fd = mkstemp(path);

    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        err(1, "%s", path);
    unlink(path);
    region("file_region", bytes, MAP_SHARED, fd);
}

static ALLOCATES void *stack_region(void *unused)
{
    char *volatile memory = __builtin_alloca(STACK);

    memset(memory, 1, STACK);
    atomic_fetch_add(&sums_of("stack_region")->outside, STACK);
    for (;;)
        pause();
    return unused;
}

static void stacks_used(uint64_t bytes)
{
    sums_of("stack_region");
    for (uint64_t done = 0; done < bytes; done += STACK)
        start_thread(stack_region, NULL, STACK);
    while (atomic_load(&sums_of("stack_region")->outside) < bytes)
        usleep(1000);
}

static void wait_for(struct timespec *next, long ns)
{
    next->tv_nsec += ns;
    if (next->tv_nsec >= 1000000000) {
        next->tv_nsec -= 1000000000;
        next->tv_sec++;
    }
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, next, NULL);
}

static void *grow(void *unused)
{
    struct timespec next;

    clock_gettime(CLOCK_MONOTONIC, &next);
    for (;;) {
        map_region(GROWTH);
        wait_for(&next, GROWTH_NS);
    }
    return unused;
}

static void *make_noise(void *unused)
{
    struct timespec next;

    clock_gettime(CLOCK_MONOTONIC, &next);
    for (;;) {
        char *at = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (at == MAP_FAILED)
            err(1, "no memory");
        memset(at, 1, MIB);
        wait_for(&next, NOISE_NS);
        munmap(at, MIB);
        wait_for(&next, NOISE_NS);
    }
    return unused;
}

static void growing(uint64_t bytes)
{
    busy(bytes);
    start_thread(grow, NULL, STACK);
}

static void noise(uint64_t bytes)
{
    busy(bytes);
    start_thread(make_noise, NULL, STACK);
}

/* ---- the truth ---- */

static uint64_t count(const char *name)
{
    size_t value = 0, len = sizeof value;
    uint32_t narrow = 0;

    if (mallctl(name, &value, &len, NULL, 0) == 0)
        return value;
    len = sizeof narrow;
    return mallctl(name, &narrow, &len, NULL, 0) == 0 ? narrow : 0;
}

static uint64_t count_of(const char *group, unsigned bin, const char *what)
{
    char name[64];

    snprintf(name, sizeof name, "%s.%u.%s", group, bin, what);
    return count(name);
}

/* 4096 is MALLCTL_ARENAS_ALL. */
static void print_counts(void)
{
    static const char *const names[] = {"allocated", "active", "resident", "metadata"};
    uint64_t epoch = 1, free_in_slabs = 0;
    char name[64];

    mallctl("epoch", NULL, NULL, &epoch, sizeof epoch);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(name, sizeof name, "stats.%s", names[i]);
        printf(", \"%s\": %llu", names[i], (unsigned long long)count(name));
    }
    printf(", \"dirty\": %llu, \"classes\": {",
           (unsigned long long)(PAGE * (count("stats.arenas.4096.pdirty") +
                                        count("stats.arenas.4096.pmuzzy"))));
    for (unsigned bin = 0, bins = (unsigned)count("arenas.nbins"); bin < bins; bin++) {
        uint64_t size = count_of("arenas.bin", bin, "size"),
                 slabs = count_of("stats.arenas.4096.bins", bin, "curslabs"),
                 objects = count_of("stats.arenas.4096.bins", bin, "curregs"),
                 bytes = slabs * count_of("arenas.bin", bin, "slab_size") - objects * size;

        printf("%s\"%llu\": %llu", bin ? ", " : "", (unsigned long long)size,
               (unsigned long long)bytes);
        free_in_slabs += bytes;
    }
    printf("}, \"free_in_slabs\": %llu", (unsigned long long)free_in_slabs);
}

static uint64_t resident(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (!file || fscanf(file, "%*u %lu", &pages) != 1)
        err(1, "statm");
    fclose(file);
    return PAGE * (uint64_t)pages;
}

static void purge(void)
{
    uint64_t before = resident();

    mallctl("arena.4096.purge", NULL, NULL, NULL, 0);
    printf(", \"returned\": %lld", (long long)(before - resident()));
}

static void print_truth(bool purges)
{
    uint64_t in_use = 0, outside = 0;

    printf("{\"functions\": {");
    for (struct sums *row = sums; row->function; row++) {
        printf("%s\"%s\": %llu", row == sums ? "" : ", ", row->function,
               (unsigned long long)(row->in_use + row->outside));
        in_use += row->in_use;
        outside += row->outside;
    }
    printf("}, \"in_use\": %llu, \"outside\": %llu", (unsigned long long)in_use,
           (unsigned long long)outside);
    if (mallctl)
        print_counts();
    if (mallctl && purges)
        purge();
    puts("}");
    fflush(stdout);
}

static const struct scene {
    const char *name;
    void (*make)(uint64_t bytes);
} scenes[] = {
    {"one", one},
    {"four", four},
    {"stacks", stacks},
    {"ended", ended},
    {"large", large},
    {"untouched", untouched},
    {"busy", busy},
    {"map", map_region},
    {"shared", share_region},
    {"file", file_region},
    {"stacks_used", stacks_used},
    {"growing", growing},
    {"noise", noise},
};

int main(int argc, char **argv)
{
    uint64_t mb = 96, cache = 16;
    bool is_noisy = false;
    char line[64];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    *(void **)&mallctl = dlsym(RTLD_DEFAULT, "mallctl");
    if (argc < 2)
        errx(2, "usage: waste SCENE [NAME=VALUE]...");
    for (int i = 2; i < argc; i++) {
        unsigned long value = strtoul(argv[i] + strcspn(argv[i], "0123456789"), NULL, 10);

        if (strncmp(argv[i], "mb=", 3) == 0)
            mb = value;
        else if (strncmp(argv[i], "cache=", 6) == 0)
            cache = value;
        else if (strncmp(argv[i], "noise=", 6) == 0)
            is_noisy = value;
        else
            errx(2, "unknown: %s", argv[i]);
    }
    busy(cache * MIB);
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        if (strcmp(scenes[i].name, argv[1]) == 0)
            scenes[i].make(mb * MIB);
    if (is_noisy)
        start_thread(make_noise, NULL, STACK);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin))
        print_truth(strcmp(line, "purge\n") == 0);
    return 0;
}
