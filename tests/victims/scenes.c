/*
 * A service whose memory grows or only seems to, at known stacks:
 *
 *   scenes SCENE SEED STEPS PREFIX
 *
 * It allocates, and writes a heap profile to PREFIX.0; then STEPS times it works for one step and
 * writes PREFIX.1, and so on. SCENE:
 *
 *   leak    1.2 GiB are old; `serve` keeps 1 MiB more in each step
 *   churn   1.2 GiB at `serve`, of which 5 % are freed and allocated again in each step
 *   both    as leak, and 32 MiB of the memory of `serve` are replaced, 3 % of them in each step
 *   cache   1.2 GiB at `serve` are old; `fill` keeps 4 MiB more in each step of the first half
 *
 * In each scene `turn_0` to `turn_9` hold 4 to 80 MiB, of which 1 to 100 % are replaced in each
 * step. Objects have 4 KiB and are never touched, so that all this needs little memory.
 */
#include <err.h>
#include <jemalloc/jemalloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#define CALLER __attribute__((noinline))

enum { OBJECT = 4096, MIB = (1 << 20) / OBJECT, OLD = 1229 * MIB, TURNS = 10 };

/* Objects of one stack; those from `fixed` on are replaced at random. */
struct pool {
    void **objects;
    size_t count, fixed;
    unsigned per_mille; /* replaced in each step */
};

typedef void *maker(void);

static uint64_t state;
static void *volatile last;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Not a tail call: the caller stays in the stack. */
#define MAKER(name)                                                                                \
    static CALLER void *name(void)                                                                 \
    {                                                                                              \
        last = malloc(OBJECT);                                                                     \
        if (!last)                                                                                 \
            err(1, "malloc");                                                                      \
        __asm__ volatile("" ::: "memory");                                                         \
        return last;                                                                               \
    }

MAKER(serve)
MAKER(fill)
MAKER(turn_0)
MAKER(turn_1)
MAKER(turn_2)
MAKER(turn_3)
MAKER(turn_4)
MAKER(turn_5)
MAKER(turn_6)
MAKER(turn_7)
MAKER(turn_8)
MAKER(turn_9)

static maker *const turns[TURNS] = {turn_0, turn_1, turn_2, turn_3, turn_4,
                                    turn_5, turn_6, turn_7, turn_8, turn_9};
static const unsigned turn_mib[TURNS] = {4, 8, 12, 16, 24, 32, 40, 50, 64, 80};
static const unsigned turn_per_mille[TURNS] = {1000, 10, 300, 30, 100, 600, 20, 200, 1000, 50};

/* The lists of the pools are no part of the scene: they are allocated before sampling. */
static void make_pool(struct pool *pool, size_t most)
{
    *pool = (struct pool){.objects = calloc(most, sizeof *pool->objects)};
    if (!pool->objects)
        err(1, "calloc");
}

/* Each object has the same chance, so that lifetimes are exponential. */
static void free_some(struct pool *pool)
{
    for (size_t i = pool->fixed; i < pool->count; i++)
        if (next_random() % 1000 < pool->per_mille) {
            free(pool->objects[i]);
            pool->objects[i] = NULL;
        }
}

/* New objects and those that take the place of freed ones have the same stack. */
static CALLER void fill_pool(struct pool *pool, maker *make)
{
    for (size_t i = 0; i < pool->count; i++)
        if (!pool->objects[i])
            pool->objects[i] = make();
}

static void write_profile(const char *prefix, unsigned step)
{
    char path[4096];
    const char *name = path;

    snprintf(path, sizeof path, "%s.%u", prefix, step);
    if (mallctl("prof.dump", NULL, NULL, (void *)&name, sizeof name))
        errx(1, "prof.dump to %s failed", path);
}

static bool is_scene(const char *scene, const char *name)
{
    return strcmp(scene, name) == 0;
}

static CALLER void do_step(struct pool *served, struct pool *cache, struct pool *others)
{
    free_some(served);
    fill_pool(served, serve);
    fill_pool(cache, fill);
    for (unsigned i = 0; i < TURNS; i++) {
        free_some(&others[i]);
        fill_pool(&others[i], turns[i]);
    }
}

int main(int argc, char **argv)
{
    struct pool served, cache, others[TURNS];
    const char *scene = argc == 5 ? argv[1] : "";
    unsigned steps = argc == 5 ? (unsigned)atoi(argv[3]) : 0;
    bool on = true;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!steps || steps > 64)
        errx(2, "usage: scenes SCENE SEED STEPS PREFIX");
    state = 88172645463325252u ^ (uint64_t)atoi(argv[2]) << 20;
    make_pool(&served, OLD + (steps + 1) * MIB);
    make_pool(&cache, 4 * steps * MIB);
    for (unsigned i = 0; i < TURNS; i++)
        make_pool(&others[i], turn_mib[i] * MIB);
    if (mallctl("prof.active", NULL, NULL, &on, sizeof on))
        errx(1, "prof.active");
    served.count = OLD;
    served.fixed = is_scene(scene, "churn") ? 0 : OLD - 32 * MIB;
    served.per_mille = is_scene(scene, "churn") ? 50 : is_scene(scene, "both") ? 30 : 0;
    for (unsigned i = 0; i < TURNS; i++) {
        others[i].count = turn_mib[i] * MIB;
        others[i].per_mille = turn_per_mille[i];
    }
    for (unsigned i = 0; i <= steps; i++) {
        do_step(&served, &cache, others);
        write_profile(argv[4], i);
        served.count += is_scene(scene, "leak") || is_scene(scene, "both") ? MIB : 0;
        cache.count += is_scene(scene, "cache") && i < steps / 2 ? 4 * MIB : 0;
    }
    return 0;
}
