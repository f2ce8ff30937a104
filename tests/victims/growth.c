/*
 * A process of which it is known what grows: growth LEDGER ACTOR... [fork ACTOR...]
 *
 * An actor is KIND[,NAME=VALUE]...; each kind allocates in a function of its own:
 *
 *   fifo, lru, random  cache_put     a full cache of `mb`; each step replaces its oldest, its least
 *                                    recently used, or any entry
 *   drain              cache_put     the same, but entries are freed and not replaced
 *   leak               leak_here     keeps an object more in each step
 *   load               load_table    the same, for what is loaded at once
 *   requests           request       256 objects, the oldest of which is replaced
 *   table              table_grow    an array that gets an element and doubles when it is full
 *   buffers            buffer_append 1,000 buffers, one of which gets longer by `size` (realloc)
 *   map                map_more      maps `size` more
 *   shared             share_more    the same, of shared memory
 *   stacks             stack_use     starts a thread that uses `size` of its stack and stays
 *   mortal             worker_leak   starts a thread that leaks 100 objects and ends
 *   quiet              quiet_leak    leaks in a thread that sets thread.prof.active to false
 *   hand               message_new   objects that another thread frees: a queue of `mb`
 *   drift              resize_here   `mb` in all, while sizes change from 512 B to 16 KiB
 *   wave               wave_here     between `mb` and half of it, up and down
 *
 *   mb=N size=N[-M]    the memory in MiB; bytes of an object
 *   rate=N             steps in a second of absolute time: a late machine catches up
 *   after=S until=S    seconds from the start; count=N: no more steps than that
 *   threads=N          N threads share the steps; 0: the first thread, with other actors
 *   apart=1            caches are filled by another stack, as at a start
 *
 * Actors after `fork` run in a child. All caches are full before "ready" is printed; time
 * starts then. LEDGER is kept up to date: for each actor its function, the pid, bytes allocated
 * and bytes freed. The process ends with its stdin.
 */
#include <dlfcn.h>
#include <err.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
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
    PAGE = 4096,
    ACTORS_MAX = 16,
    TICK_NS = 10000000,
    REQUESTS = 256,
    BUFFERS = 1000,
    PER_WORKER = 100,
    HITS = 3, /* of an LRU cache, for each entry that is replaced */
    STACK = 1 << 20,
};

struct ledger_row {
    char function[32];
    uint64_t pid;
    _Atomic uint64_t allocated, freed;
};

struct slot {
    void *object;
    size_t size;
    uint32_t newer, older; /* of an LRU cache */
};

struct actor {
    const struct kind *kind;
    struct ledger_row *row;
    size_t mb, least, most;
    double rate, after, until, count;
    unsigned threads;
    bool in_child, apart, full;
    pthread_mutex_t lock;
    uint64_t done, random;
    struct slot *slots;
    size_t slot_count, next, live;
    uint32_t newest, oldest;
    bool down;
    void *kept;
};

struct kind {
    const char *name, *function;
    void (*prepare)(struct actor *actor);
    void (*step)(struct actor *actor);
    bool (*is_full)(const struct actor *actor); /* steps before that are not counted */
};

static struct ledger_row *ledger;
static struct actor actors[ACTORS_MAX];
static size_t actor_count;
static struct timespec began;
static atomic_bool started;

static uint64_t next_random(struct actor *actor)
{
    actor->random ^= actor->random << 13;
    actor->random ^= actor->random >> 7;
    actor->random ^= actor->random << 17;
    return actor->random;
}

/* Each doubling of the size is equally probable. */
static size_t next_size(struct actor *actor)
{
    double part = (double)(next_random(actor) >> 11) / (double)(1ull << 53);

    if (actor->least == actor->most)
        return actor->least;
    return (size_t)((double)actor->least * pow((double)actor->most / (double)actor->least, part));
}

static void *touched(struct actor *actor, void *object, size_t size)
{
    if (!object)
        err(1, "no memory");
    memset(object, 1, size);
    atomic_fetch_add(&actor->row->allocated, size);
    actor->live += size;
    return object;
}

static void give_back(struct actor *actor, void *object, size_t size)
{
    if (!object)
        return;
    free(object);
    atomic_fetch_add(&actor->row->freed, size);
    actor->live -= size;
}

/* The name in the code keeps the compiler from making one function of all. */
#define ALLOCATOR(name)                                                                            \
    static ALLOCATES void *name(struct actor *actor, size_t size)                                  \
    {                                                                                              \
        __asm__ volatile("# " #name);                                                              \
        return touched(actor, malloc(size), size);                                                 \
    }

ALLOCATOR(cache_put)
ALLOCATOR(leak_here)
ALLOCATOR(load_table)
ALLOCATOR(request)
ALLOCATOR(worker_leak)
ALLOCATOR(quiet_leak)
ALLOCATOR(message_new)
ALLOCATOR(resize_here)
ALLOCATOR(wave_here)

/* ---- caches ---- */

static void make_slots(struct actor *actor, size_t count)
{
    actor->slot_count = count;
    actor->slots = calloc(count, sizeof *actor->slots);
    if (!actor->slots)
        err(1, "no memory");
}

static void replace(struct actor *actor, struct slot *slot)
{
    give_back(actor, slot->object, slot->size);
    slot->size = next_size(actor);
    slot->object = cache_put(actor, slot->size);
}

static double mean_size(const struct actor *actor)
{
    double ratio = (double)actor->most / (double)actor->least;

    return ratio > 1 ? (double)(actor->most - actor->least) / log(ratio) : (double)actor->least;
}

static void cache_prepare(struct actor *actor)
{
    make_slots(actor, (size_t)((double)(actor->mb << 20) / mean_size(actor)));
    for (size_t i = 0; i < actor->slot_count; i++) {
        actor->slots[i].newer = (uint32_t)(i + 1);
        actor->slots[i].older = (uint32_t)(i - 1);
    }
    actor->newest = (uint32_t)(actor->slot_count - 1);
}

static bool cache_is_full(const struct actor *actor)
{
    return actor->next >= actor->slot_count;
}

static void fifo_step(struct actor *actor)
{
    replace(actor, &actor->slots[actor->next++ % actor->slot_count]);
}

static void drain_step(struct actor *actor)
{
    struct slot *slot = &actor->slots[actor->next++ % actor->slot_count];

    if (!actor->full) {
        replace(actor, slot);
        return;
    }
    give_back(actor, slot->object, slot->size);
    slot->object = NULL;
}

static void random_step(struct actor *actor)
{
    size_t i = actor->next++;

    if (i >= actor->slot_count)
        i = next_random(actor) % actor->slot_count;
    replace(actor, &actor->slots[i]);
}

static void make_newest(struct actor *actor, uint32_t i)
{
    struct slot *slots = actor->slots;

    if (i == actor->newest)
        return;
    if (i == actor->oldest)
        actor->oldest = slots[i].newer;
    else
        slots[slots[i].older].newer = slots[i].newer;
    slots[slots[i].newer].older = slots[i].older;
    slots[actor->newest].newer = i;
    slots[i].older = actor->newest;
    actor->newest = i;
}

static void lru_step(struct actor *actor)
{
    size_t i = actor->next++;

    if (i >= actor->slot_count) {
        for (int hit = 0; hit < HITS; hit++)
            make_newest(actor, (uint32_t)(next_random(actor) % actor->slot_count));
        i = actor->oldest;
        make_newest(actor, actor->oldest);
    }
    replace(actor, &actor->slots[i]);
}

/* ---- growth ---- */

/* The objects are a list, so that they are lost to nobody but the program. */
static void keep(struct actor *actor, void *object)
{
    *(void **)object = actor->kept;
    actor->kept = object;
}

static void leak_step(struct actor *actor)
{
    keep(actor, leak_here(actor, next_size(actor)));
}

static void load_step(struct actor *actor)
{
    keep(actor, load_table(actor, next_size(actor)));
}

static void request_step(struct actor *actor)
{
    struct slot *slot = &actor->slots[actor->next++ % REQUESTS];

    give_back(actor, slot->object, slot->size);
    slot->size = next_size(actor);
    slot->object = request(actor, slot->size);
}

static void request_prepare(struct actor *actor)
{
    make_slots(actor, REQUESTS);
}

static bool request_is_full(const struct actor *actor)
{
    return actor->next >= REQUESTS;
}

static void resize(struct actor *actor, struct slot *slot, void *object, size_t size)
{
    if (!object)
        err(1, "no memory");
    memset((char *)object + slot->size, 1, size - slot->size);
    atomic_fetch_add(&actor->row->allocated, size);
    atomic_fetch_add(&actor->row->freed, slot->size);
    slot->object = object;
    slot->size = size;
}

static ALLOCATES void table_grow(struct actor *actor, struct slot *slot)
{
    size_t size = slot->size ? 2 * slot->size : actor->mb << 20;

    resize(actor, slot, realloc(slot->object, size), size);
}

static void table_prepare(struct actor *actor)
{
    make_slots(actor, 1);
    table_grow(actor, actor->slots);
    actor->next = actor->slots->size / 2;
}

static void table_step(struct actor *actor)
{
    actor->next += actor->least;
    if (actor->next > actor->slots->size)
        table_grow(actor, actor->slots);
}

static ALLOCATES void buffer_append(struct actor *actor, struct slot *slot)
{
    size_t size = slot->size + actor->least;

    resize(actor, slot, realloc(slot->object, size), size);
}

static void buffers_step(struct actor *actor)
{
    buffer_append(actor, &actor->slots[next_random(actor) % BUFFERS]);
}

static void buffers_prepare(struct actor *actor)
{
    make_slots(actor, BUFFERS);
}

/* ---- outside the allocator ---- */

static ALLOCATES void *map_more(struct actor *actor)
{
    void *at = mmap(NULL, actor->least, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return touched(actor, at != MAP_FAILED ? at : NULL, actor->least);
}

static void map_step(struct actor *actor)
{
    keep(actor, map_more(actor));
}

static ALLOCATES void *share_more(struct actor *actor)
{
    void *at = mmap(NULL, actor->least, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    return touched(actor, at != MAP_FAILED ? at : NULL, actor->least);
}

static void shared_step(struct actor *actor)
{
    keep(actor, share_more(actor));
}

static ALLOCATES void *stack_use(void *context)
{
    struct actor *actor = context;
    char *volatile memory = __builtin_alloca(actor->least);

    memset(memory, 1, actor->least);
    atomic_fetch_add(&actor->row->allocated, actor->least);
    for (;;)
        pause();
    return memory;
}

static void start_thread(void *work(void *), void *context, pthread_t *thread)
{
    pthread_attr_t attributes;

    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    if (pthread_create(thread, &attributes, work, context))
        errx(1, "no thread");
    pthread_attr_destroy(&attributes);
}

static void stacks_step(struct actor *actor)
{
    pthread_t thread;

    start_thread(stack_use, actor, &thread);
}

/* ---- threads ---- */

static void *leak_and_end(void *context)
{
    struct actor *actor = context;

    for (int i = 0; i < PER_WORKER; i++)
        keep(actor, worker_leak(actor, next_size(actor)));
    return NULL;
}

static void mortal_step(struct actor *actor)
{
    pthread_t thread;

    start_thread(leak_and_end, actor, &thread);
    pthread_join(thread, NULL);
}

/* Called in the actor's own thread, since threads=1 is this kind's default. */
static void quiet_step(struct actor *actor)
{
    static _Thread_local bool is_quiet;
    typedef int mallctl_function(const char *, void *, size_t *, void *, size_t);
    mallctl_function *mallctl;
    bool off = false;

    if (!is_quiet) {
        *(void **)&mallctl = dlsym(RTLD_DEFAULT, "mallctl");
        if (mallctl)
            mallctl("thread.prof.active", NULL, NULL, &off, sizeof off);
        is_quiet = true;
    }
    keep(actor, quiet_leak(actor, next_size(actor)));
}

/* Frees what is more than the queue may have. */
static void *consume(void *context)
{
    struct actor *actor = context;
    struct timespec pause = {.tv_nsec = TICK_NS};

    for (;;) {
        pthread_mutex_lock(&actor->lock);
        while (actor->live > actor->mb << 20) {
            struct slot *slot = &actor->slots[actor->oldest++ % actor->slot_count];

            give_back(actor, slot->object, slot->size);
            slot->object = NULL;
        }
        pthread_mutex_unlock(&actor->lock);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

static void hand_step(struct actor *actor)
{
    struct slot *slot = &actor->slots[actor->newest++ % actor->slot_count];

    if (slot->object)
        errx(1, "the queue is full");
    slot->size = next_size(actor);
    slot->object = message_new(actor, slot->size);
}

static void hand_prepare(struct actor *actor)
{
    pthread_t thread;

    make_slots(actor, 4 * (actor->mb << 20) / actor->least);
    start_thread(consume, actor, &thread);
}

static bool has_all(const struct actor *actor)
{
    return actor->live >= actor->mb << 20;
}

/* ---- fragmentation ---- */

static void drift_prepare(struct actor *actor)
{
    make_slots(actor, (actor->mb << 20) / 512);
}

/* When all is full: frees any objects until there is place, and allocates larger ones later. */
static void drift_step(struct actor *actor)
{
    static const size_t sizes[] = {512, 768, 1280, 2048, 3584, 6144, 10240, 16384};
    size_t of_size = actor->slot_count / 8;
    size_t size = sizes[actor->done / of_size % (sizeof sizes / sizeof *sizes)];
    struct slot *slot = &actor->slots[actor->next++ % actor->slot_count];

    while (actor->full && actor->live + size > actor->mb << 20) {
        slot = &actor->slots[next_random(actor) % actor->slot_count];
        give_back(actor, slot->object, slot->size);
        slot->object = NULL;
    }
    if (!slot->object)
        *slot = (struct slot){.object = resize_here(actor, size), .size = size};
}

static void wave_prepare(struct actor *actor)
{
    make_slots(actor, (actor->mb << 20) / actor->least);
}

static void wave_step(struct actor *actor)
{
    size_t most = actor->slot_count * actor->least;
    struct slot *slot;

    if (actor->live >= most || actor->live <= most / 2)
        actor->down = actor->live >= most;
    do
        slot = &actor->slots[next_random(actor) % actor->slot_count];
    while (actor->down != (slot->object != NULL));
    if (actor->down)
        give_back(actor, slot->object, slot->size);
    *slot = (struct slot){.object = actor->down ? NULL : wave_here(actor, actor->least),
                          .size = actor->least};
}

/* ---- the actors ---- */

static const struct kind kinds[] = {
    {"fifo", "cache_put", cache_prepare, fifo_step, cache_is_full},
    {"lru", "cache_put", cache_prepare, lru_step, cache_is_full},
    {"random", "cache_put", cache_prepare, random_step, cache_is_full},
    {"drain", "cache_put", cache_prepare, drain_step, cache_is_full},
    {"leak", "leak_here", NULL, leak_step, NULL},
    {"load", "load_table", NULL, load_step, NULL},
    {"requests", "request", request_prepare, request_step, request_is_full},
    {"table", "table_grow", table_prepare, table_step, NULL},
    {"buffers", "buffer_append", buffers_prepare, buffers_step, NULL},
    {"map", "map_more", NULL, map_step, NULL},
    {"shared", "share_more", NULL, shared_step, NULL},
    {"stacks", "stack_use", NULL, stacks_step, NULL},
    {"mortal", "worker_leak", NULL, mortal_step, NULL},
    {"quiet", "quiet_leak", NULL, quiet_step, NULL},
    {"hand", "message_new", hand_prepare, hand_step, has_all},
    {"drift", "resize_here", drift_prepare, drift_step, has_all},
    {"wave", "wave_here", wave_prepare, wave_step, has_all},
};

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - began.tv_sec) + 1e-9 * (double)(now.tv_nsec - began.tv_nsec);
}

static bool is_full(struct actor *actor)
{
    if (!actor->full)
        actor->full = !actor->kind->is_full || actor->kind->is_full(actor);
    return actor->full;
}

static ALLOCATES void fill_apart(struct actor *actor)
{
    while (!is_full(actor))
        actor->kind->step(actor);
}

static double steps_due(const struct actor *actor)
{
    double now = fmin(seconds(), actor->until) - actor->after;

    return atomic_load(&started) ? fmin(actor->rate * now, actor->count) : 0;
}

/* Makes the steps that are due by now. A cache is filled by the stack that replaces it. */
static void catch_up(struct actor *actor)
{
    unsigned share = actor->threads > 1 ? 64 : UINT_MAX;

    pthread_mutex_lock(&actor->lock);
    if (actor->apart)
        fill_apart(actor);
    for (double due = steps_due(actor); !is_full(actor) || (double)actor->done < due;) {
        actor->done += actor->full;
        actor->kind->step(actor);
        if (--share == 0)
            break; /* other threads do the rest */
    }
    pthread_mutex_unlock(&actor->lock);
}

static void wait_for_tick(struct timespec *next)
{
    next->tv_nsec += TICK_NS;
    if (next->tv_nsec >= 1000000000) {
        next->tv_nsec -= 1000000000;
        next->tv_sec++;
    }
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, next, NULL);
}

static void *act(void *context)
{
    struct timespec next;

    clock_gettime(CLOCK_MONOTONIC, &next);
    for (;;) {
        catch_up(context);
        wait_for_tick(&next);
    }
    return NULL;
}

static bool all_are_full(bool in_child)
{
    bool full = true;

    for (size_t i = 0; i < actor_count; i++) {
        if (actors[i].in_child != in_child)
            continue;
        pthread_mutex_lock(&actors[i].lock);
        full = full && is_full(&actors[i]);
        pthread_mutex_unlock(&actors[i].lock);
    }
    return full;
}

/* Runs the actors of this process. When their memory is full it writes "ready" to the file. */
_Noreturn static void act_all(bool in_child, int ready)
{
    struct timespec next;

    clock_gettime(CLOCK_MONOTONIC, &next);
    for (;;) {
        for (size_t i = 0; i < actor_count; i++)
            if (actors[i].in_child == in_child && !actors[i].threads)
                catch_up(&actors[i]);
        if (!atomic_load(&started) && all_are_full(in_child)) {
            clock_gettime(CLOCK_MONOTONIC, &began);
            atomic_store(&started, true);
            if (write(ready, "ready\n", 6) != 6)
                err(1, "ready");
        }
        wait_for_tick(&next);
    }
}

static void prepare_all(bool in_child)
{
    pthread_t thread;

    for (size_t i = 0; i < actor_count; i++) {
        struct actor *actor = &actors[i];

        if (actor->in_child != in_child)
            continue;
        actor->row->pid = (uint64_t)getpid();
        if (actor->kind->prepare)
            actor->kind->prepare(actor);
        for (unsigned j = 0; j < actor->threads; j++)
            start_thread(act, actor, &thread);
    }
}

static void set(struct actor *actor, const char *word)
{
    double value;
    size_t most;

    if (sscanf(word, "size=%zu-%zu", &actor->least, &most) == 2)
        actor->most = most;
    else if (sscanf(word, "size=%zu", &actor->least) == 1)
        actor->most = actor->least;
    else if (sscanf(word, "mb=%zu", &actor->mb) == 1 || sscanf(word, "rate=%lf", &actor->rate) == 1)
        return;
    else if (sscanf(word, "after=%lf", &value) == 1)
        actor->after = value;
    else if (sscanf(word, "until=%lf", &value) == 1)
        actor->until = value;
    else if (sscanf(word, "count=%lf", &value) == 1)
        actor->count = value;
    else if (sscanf(word, "threads=%lf", &value) == 1)
        actor->threads = (unsigned)value;
    else if (sscanf(word, "apart=%lf", &value) == 1)
        actor->apart = value > 0;
    else
        errx(2, "unknown: %s", word);
}

static void add_actor(char *text, bool in_child)
{
    struct actor *actor = &actors[actor_count];
    char *word = strtok(text, ",");

    if (actor_count == ACTORS_MAX || !word)
        errx(2, "too many actors, or an empty one");
    *actor = (struct actor){
        .row = &ledger[actor_count++],
        .mb = 50,
        .least = 1024,
        .most = 1024,
        .rate = 2000,
        .until = INFINITY,
        .count = INFINITY,
        .in_child = in_child,
        .random = 88172645463325252u ^ (uint64_t)getpid() << 20,
    };
    pthread_mutex_init(&actor->lock, NULL);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, word) == 0)
            actor->kind = &kinds[i];
    if (!actor->kind)
        errx(2, "unknown kind: %s", word);
    actor->threads = actor->kind->step == quiet_step;
    while ((word = strtok(NULL, ",")))
        set(actor, word);
    strcpy(actor->row->function, actor->kind->function);
}

static void map_ledger(const char *path)
{
    size_t size = ACTORS_MAX * sizeof *ledger;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0 || ftruncate(fd, (off_t)size) != 0)
        err(1, "%s", path);
    ledger = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (ledger == MAP_FAILED)
        err(1, "%s", path);
    close(fd);
}

/* The child is ready before the parent begins. */
static void start_child(void)
{
    int pipes[2];
    char byte;

    if (pipe(pipes) != 0)
        err(1, "pipe");
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prepare_all(true);
        act_all(true, pipes[1]);
    }
    close(pipes[1]);
    if (read(pipes[0], &byte, 1) != 1)
        errx(1, "the child does not start");
}

static void *end_with_stdin(void *unused)
{
    char byte;

    while (read(STDIN_FILENO, &byte, 1) == 1) {
    }
    _exit(0);
    return unused;
}

int main(int argc, char **argv)
{
    bool in_child = false;
    pthread_t thread;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc < 3)
        errx(2, "usage: growth LEDGER ACTOR... [fork ACTOR...]");
    map_ledger(argv[1]);
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "fork") != 0)
            add_actor(argv[i], in_child);
        else
            in_child = true;
    }
    if (in_child)
        start_child();
    prepare_all(false);
    start_thread(end_with_stdin, NULL, &thread);
    act_all(false, STDOUT_FILENO);
}
