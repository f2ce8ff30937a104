/*
 * A program whose backtraces are known: all of them are paths of one binary tree of calls.
 *
 *   paths [--threads N] [--levels N] [--named]
 *
 * The tree has 2^LEVELS leaves. Each thread first keeps one block of each leaf ("ready"); whatever
 * it allocates later has one of these backtraces, too, and the size of a block is that of its
 * place. So no profile has other backtraces, and what is live is known while the workers churn.
 *
 * Reads commands from stdin, one a line, and answers each with a line "ok" or
 * "error":
 *
 *   churn N      the workers exchange N blocks for others, sleep for a moment, and repeat that
 *   rest         the workers stop; then each frees a third of its blocks
 *   brief N      N more threads, one after the other: each keeps the blocks and ends
 *   passing N    the same, but each frees its blocks
 *   dump FILE    prof.dump to FILE, by the main thread
 *   check        "error" if a block has not its own content, or a sleep was interrupted
 *
 * With --named the prof.name of a thread is its number; its name for the kernel is always "path-N".
 * Ends at the end of stdin, or with its parent. PREFIX is the prefix of the jemalloc that it is
 * linked with; without PREFIX it uses the preloaded one. The main thread allocates only when it
 * starts a thread.
 */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
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
void *JE(malloc)(size_t size);
void JE(free)(void *block);
#define WEAK
#else
#define JE(name) name
#define WEAK     __attribute__((weak))
#endif

WEAK int JE(mallctl)(const char *name, void *oldp, size_t *oldlenp, void *newp, size_t newlen);

enum { THREADS_MAX = 256, LEVELS_MAX = 12, KEPT = 1 << LEVELS_MAX };
enum { BRIEF_FROM = 1000, PASSING_FROM = 100000 }; /* numbers of such threads */

/* The head of each block; the rest is filled with the low byte of its path. */
struct block {
    uint32_t size, path;
};

struct thread {
    pthread_t id;
    sem_t begin, done;
    unsigned index;
    bool filled, begun;
    uint64_t random;
    struct block *kept[KEPT];
};

static struct thread threads[THREADS_MAX]; /* the first is main */
static unsigned thread_count = 4, levels = 8, pace = 100;
static bool named;
static atomic_bool churning;
static atomic_uint faults;

/* ---- the tree ---- */

static void *step_left(unsigned path, unsigned level, size_t size);
static void *step_right(unsigned path, unsigned level, size_t size);

/* The bits of a path choose the calls. Inlined: a level is one frame. */
static inline __attribute__((always_inline)) void *descend(unsigned path, unsigned level,
                                                           size_t size)
{
    void *block;

    if (level == 0)
        block = JE(malloc)(size);
    else
        block = (path >> (level - 1) & 1 ? step_right : step_left)(path, level - 1, size);
    __asm__ volatile("" ::: "memory"); /* no tail call: the frame stays */
    return block;
}

__attribute__((noinline)) static void *step_left(unsigned path, unsigned level, size_t size)
{
    return descend(path, level, size);
}

__attribute__((noinline)) static void *step_right(unsigned path, unsigned level, size_t size)
{
    __asm__ volatile("nop"); /* its code differs: the two are not merged */
    return descend(path, level, size);
}

/* ---- blocks ---- */

static uint64_t next_random(struct thread *thread)
{
    uint64_t x = thread->random;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return thread->random = x;
}

static struct block *make_block(unsigned slot, unsigned path)
{
    uint32_t size = 64 + slot * 37 % 1500;
    struct block *block = step_left(path, levels, size);

    if (!block)
        abort();
    memset(block, (int)(path & 0xff), size);
    *block = (struct block){.size = size, .path = path};
    return block;
}

static void check_block(const struct block *block)
{
    const unsigned char *bytes = (const unsigned char *)block;

    for (size_t i = sizeof(*block); i < block->size; i++) {
        if (bytes[i] != (block->path & 0xff)) {
            atomic_fetch_add(&faults, 1);
            return;
        }
    }
}

static void drop(struct block **slot)
{
    if (*slot)
        check_block(*slot);
    JE(free)(*slot);
    *slot = NULL;
}

static unsigned leaf_count(void)
{
    return 1u << levels;
}

/* A third of the blocks goes, that of each third slot. */
static void thin_out(struct thread *thread)
{
    for (unsigned slot = thread->index % 3; slot < leaf_count(); slot += 3)
        drop(&thread->kept[slot]);
}

/*
 * The first time each block, of each path; then some blocks, of any path. Not inlined, and called
 * at one place: a thread has one set of backtraces.
 */
__attribute__((noinline)) static void exchange(struct thread *thread)
{
    unsigned count = thread->filled ? pace : leaf_count();

    for (unsigned i = 0; i < count; i++) {
        uint64_t random = thread->filled ? next_random(thread) : i * (KEPT + 1u);
        unsigned slot = (unsigned)(random % leaf_count());
        unsigned path = (unsigned)(random / KEPT % leaf_count());

        drop(&thread->kept[slot]);
        thread->kept[slot] = make_block(slot, path);
    }
    thread->filled = true;
}

/* ---- threads ---- */

static void take_name(unsigned index)
{
    char name[16];
    const char *text = name;

    snprintf(name, sizeof(name), "path-%u", index);
    prctl(PR_SET_NAME, name);
    snprintf(name, sizeof(name), "%u", index);
    if (named && JE(mallctl)("thread.prof.name", NULL, NULL, &text, sizeof(text)))
        atomic_fetch_add(&faults, 1);
}

static void prepare_thread(struct thread *thread, unsigned index)
{
    thread->index = index;
    thread->filled = thread->begun = false;
    thread->random = (index + 1) * 0x9e3779b97f4a7c15u;
    sem_init(&thread->begin, 0, 0);
    sem_init(&thread->done, 0, 0);
}

static void await_sem(sem_t *sem)
{
    while (sem_wait(sem))
        atomic_fetch_add(&faults, 1); /* interrupted, by a tool that stops it */
}

static void pause_between(struct thread *thread)
{
    if (atomic_load(&churning)) {
        if (usleep(50))
            atomic_fetch_add(&faults, 1);
        return;
    }
    if (thread->begun)
        thin_out(thread);
    sem_post(&thread->done);
    await_sem(&thread->begin);
    thread->begun = true;
}

static void *work(void *data)
{
    struct thread *thread = data;

    take_name(thread->index);
    do {
        exchange(thread);
        if (thread->index < BRIEF_FROM)
            pause_between(thread);
    } while (thread->index < BRIEF_FROM);
    for (unsigned slot = 0; thread->index >= PASSING_FROM && slot < leaf_count(); slot++)
        drop(&thread->kept[slot]);
    return NULL;
}

__attribute__((noinline)) static bool start_thread(struct thread *thread, unsigned index)
{
    prepare_thread(thread, index);
    return pthread_create(&thread->id, NULL, work, thread) == 0;
}

static bool start_workers(void)
{
    for (unsigned i = 1; i <= thread_count; i++) {
        if (!start_thread(&threads[i], i))
            return false;
        await_sem(&threads[i].done);
    }
    return true;
}

/* If their blocks stay, the profile keeps their threads. */
static bool run_briefly(unsigned *index, unsigned count)
{
    static struct thread brief;

    for (unsigned i = 0; i < count; i++) {
        if (!start_thread(&brief, (*index)++) || pthread_join(brief.id, NULL))
            return false;
        memset(brief.kept, 0, sizeof(brief.kept));
    }
    return true;
}

/* ---- commands ---- */

static bool begin_churn(unsigned count)
{
    pace = count;
    atomic_store(&churning, true);
    for (unsigned i = 1; i <= thread_count; i++)
        sem_post(&threads[i].begin);
    return true;
}

static bool end_churn(void)
{
    if (!atomic_exchange(&churning, false))
        return false;
    for (unsigned i = 1; i <= thread_count; i++)
        await_sem(&threads[i].done);
    return true;
}

static bool blocks_are_well(void)
{
    for (unsigned i = 0; !atomic_load(&churning) && i <= thread_count; i++)
        for (unsigned j = 0; j < leaf_count(); j++)
            if (threads[i].kept[j])
                check_block(threads[i].kept[j]);
    return atomic_load(&faults) == 0;
}

static bool dump_profile(char *path)
{
    const char *text = path;

    path[strcspn(path, "\n")] = 0;
    return JE(mallctl)("prof.dump", NULL, NULL, &text, sizeof(text)) == 0;
}

static bool obey(char *line)
{
    static unsigned brief = BRIEF_FROM, passing = PASSING_FROM;

    if (strncmp(line, "churn ", 6) == 0)
        return begin_churn((unsigned)strtoul(line + 6, NULL, 10));
    if (strncmp(line, "brief ", 6) == 0)
        return run_briefly(&brief, (unsigned)strtoul(line + 6, NULL, 10));
    if (strncmp(line, "passing ", 8) == 0)
        return run_briefly(&passing, (unsigned)strtoul(line + 8, NULL, 10));
    if (strncmp(line, "rest", 4) == 0)
        return end_churn();
    if (strncmp(line, "dump ", 5) == 0)
        return dump_profile(line + 5);
    if (strncmp(line, "check", 5) == 0)
        return blocks_are_well();
    return false;
}

static bool parse(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--named") == 0)
            named = true;
        else if (i + 1 == argc)
            return false;
        else if (strcmp(argv[i], "--threads") == 0)
            thread_count = (unsigned)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--levels") == 0)
            levels = (unsigned)strtoul(argv[++i], NULL, 10);
        else
            return false;
    }
    return thread_count < THREADS_MAX && levels <= LEVELS_MAX;
}

int main(int argc, char **argv)
{
    static char line[4096], in[4096], out[4096];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setvbuf(stdin, in, _IOFBF, sizeof(in)); /* stdio allocates nothing */
    setvbuf(stdout, out, _IOFBF, sizeof(out));
    if (!parse(argc, argv))
        return 2;
    prepare_thread(&threads[0], 0);
    take_name(0);
    exchange(&threads[0]);
    if (!start_workers())
        return 1;
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        puts(obey(line) ? "ok" : "error");
        fflush(stdout);
    }
    return 0;
}
