/*
 * Verdicts on programs that a simulation makes, object by object: caches, requests, leaks, and
 * what a tool sees of them. No innocent stack is ever accused; the guilty one is named, or "one
 * of" is said where nothing can decide. The numbers are random, but always the same ones.
 */
#include "base/list.h"
#include "base/table.h"
#include "base/util.h"
#include "check.h"
#include "profile/steady.h"
#include "profile/verdict.h"

#include <math.h>
#include <string.h>

enum { ACTORS = 4, LOOKS = 128, TICKS_PER_S = 50, KIB = 1024, MIB = 1 << 20, NOBODY = -1 };

static const double PERIOD = 524288;
static const uint64_t sizes[] = {64, 128, 256, 512, 1 << 10, 2 << 10, 4 << 10, 64 << 10, 4 << 20};
enum { S64, S128, S256, S512, S1K, S2K, S4K, S64K, S4M };

static uint64_t state = 88172645463325252u;

/* xorshift64: between 0 and 1. */
static double next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return ((double)(state >> 11) + 0.5) / 9007199254740992.0;
}

static size_t below(size_t count)
{
    return (size_t)(next_random() * (double)count);
}

/* ---- programs ---- */

enum actor_kind { NO_ACTOR, FIFO, LRU, RANDOM, REQUESTS, LEAK, STEPS, REALLOC, POOL };

/* One stack that allocates. */
struct actor {
    enum actor_kind kind;
    unsigned class, classes;   /* objects are of so many classes from this one on */
    double bytes, bytes_per_s; /* REQUESTS: in use on average; POOL: what is left is freed */
    double life;               /* STEPS: seconds between them; LEAK: until it stops; 0: never */
};

struct scene {
    const char *name;
    struct actor actors[ACTORS];
    int guilty;
    bool warm;               /* sampling was on for all objects */
    double from;             /* seconds of a window that decides; 0: none here */
    enum verdict_kind until; /* before */
};

struct object {
    int32_t sample; /* -1: not sampled */
    uint16_t class;
    uint32_t used; /* LRU */
};

struct stock {
    struct object *list;
    size_t count, capacity, next;
    double due;
};

struct sample {
    struct verdict_object object;
    bool alive, seen;
};

static struct world {
    const struct scene *scene;
    struct stock stocks[ACTORS];
    struct sample *samples;
    size_t sample_count, sample_capacity;
    uint64_t objects[ARRAY_LEN(sizes)];
    double grown[ACTORS]; /* bytes, net, since the first look */
    double seconds, until_sample;
    bool samples_on;
    uint32_t clock;
} world;

static struct object allocate(unsigned actor, const struct actor *as)
{
    struct object object = {.sample = -1, .used = ++world.clock};

    object.class = (uint16_t)(as->class + (as->classes > 1 ? below(as->classes) : 0));
    world.objects[object.class]++;
    world.grown[actor] += (double)sizes[object.class];
    world.until_sample -= (double)sizes[object.class];
    if (!world.samples_on || world.until_sample > 0)
        return object;
    world.until_sample = -PERIOD * log(next_random());
    if (!LIST_GROW(world.samples, world.sample_capacity, world.sample_count))
        abort();
    object.sample = (int32_t)world.sample_count;
    world.samples[world.sample_count++] =
        (struct sample){.object = {.start = world.clock,
                                   .birth = (uint64_t)((world.seconds + 100) * 1e9) + 1,
                                   .class = object.class,
                                   .stack = actor},
                        .alive = true};
    return object;
}

static void release(unsigned actor, const struct object *object)
{
    world.objects[object->class]--;
    world.grown[actor] -= (double)sizes[object->class];
    if (object->sample >= 0)
        world.samples[object->sample].alive = false;
}

static void add(unsigned actor)
{
    struct stock *stock = &world.stocks[actor];

    if (!LIST_GROW(stock->list, stock->capacity, stock->count))
        abort();
    stock->list[stock->count++] = allocate(actor, &world.scene->actors[actor]);
}

static void drop(unsigned actor, size_t which)
{
    struct stock *stock = &world.stocks[actor];

    release(actor, &stock->list[which]);
    stock->list[which] = stock->list[--stock->count];
}

static size_t choose_victim(struct stock *stock, enum actor_kind kind)
{
    size_t victim = below(stock->count);

    if (kind == FIFO)
        return stock->next++ % stock->count;
    for (unsigned i = 0; kind == LRU && i < 8; i++) {
        size_t other = below(stock->count);
        stock->list[below(stock->count)].used = ++world.clock; /* a hit */
        if (stock->list[other].used < stock->list[victim].used)
            victim = other;
    }
    return victim;
}

static double mean_size(const struct actor *as)
{
    double sum = 0;

    for (unsigned i = 0; i < (as->classes > 1 ? as->classes : 1); i++)
        sum += (double)sizes[as->class + i];
    return sum / (as->classes > 1 ? as->classes : 1);
}

/* So many events of this mean, in one tick: nearly regular, or at random. */
static size_t events(struct stock *stock, double mean, bool random)
{
    double count = floor(stock->due += random ? -mean * log(next_random()) : mean);

    stock->due -= count;
    return (size_t)count;
}

static void act(unsigned actor)
{
    const struct actor *as = &world.scene->actors[actor];
    struct stock *stock = &world.stocks[actor];
    double size = mean_size(as), tick = 1.0 / TICKS_PER_S;
    bool stopped = as->kind == LEAK && as->life > 0 && world.seconds > as->life;
    size_t count = stopped ? 0 : events(stock, as->bytes_per_s / size * tick, as->kind == REQUESTS);

    if (as->kind == STEPS)
        count =
            fmod(world.seconds, as->life) < tick ? (size_t)(as->bytes_per_s * as->life / size) : 0;
    if (as->kind == REALLOC) /* after 7 s, to the class that is larger */
        count = fabs(world.seconds - 7) < tick / 2;
    for (size_t i = 0; i < count; i++) {
        if (as->kind >= FIFO && as->kind <= RANDOM) {
            size_t victim = choose_victim(stock, as->kind);
            release(actor, &stock->list[victim]);
            stock->list[victim] = allocate(actor, as);
        } else if (as->kind == POOL) {
            if (stock->count)
                drop(actor, stock->count - 1);
        } else {
            add(actor);
        }
    }
    for (size_t i = 0; as->kind == REQUESTS && i < count; i++)
        if (next_random() * as->bytes < size * (double)stock->count)
            drop(actor, below(stock->count));
}

static void begin(const struct scene *scene)
{
    for (unsigned i = 0; i < ACTORS; i++)
        world.stocks[i].count = world.stocks[i].next = 0;
    world.scene = scene;
    world.sample_count = 0;
    world.clock = 0;
    memset(world.objects, 0, sizeof world.objects);
    world.until_sample = -PERIOD * log(next_random());
    world.seconds = -1;
    world.samples_on = scene->warm;
    for (unsigned i = 0; i < ACTORS; i++)
        for (double full = 0; full < scene->actors[i].bytes; full += mean_size(&scene->actors[i]))
            add(i);
    world.samples_on = true;
    memset(world.grown, 0, sizeof world.grown);
}

/* ---- looks ---- */

static struct tool {
    uint64_t objects[LOOKS][ARRAY_LEN(sizes)], bytes[LOOKS][ARRAY_LEN(sizes)];
    struct verdict_look looks[LOOKS];
    struct verdict_object *seen;
    size_t look_count, seen_count, seen_capacity;
    double noise; /* objects of a class in caches of threads */
    bool late, no_births, no_samples, threads_unsampled;
} tool;

static void look(void)
{
    size_t number = tool.look_count++;

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        double noise = world.objects[i] && sizes[i] <= 4096 ? tool.noise * next_random() : 0;
        tool.objects[number][i] = world.objects[i] + (uint64_t)noise;
        tool.bytes[number][i] = tool.objects[number][i] * sizes[i];
    }
    tool.looks[number] =
        (struct verdict_look){world.seconds, tool.objects[number], tool.bytes[number]};
    for (size_t i = 0; i < world.sample_count; i++) {
        struct sample *sample = &world.samples[i];
        if (!sample->alive)
            continue;
        if (!sample->seen)
            sample->object.first = (uint32_t)number;
        sample->object.last = (uint32_t)number;
        sample->seen = true;
    }
}

/* The samples of the time before the first look begin as it does: sampling was just switched on. */
static void watch(const struct scene *scene, double window, double step)
{
    double next = 0, late;

    begin(scene);
    tool.look_count = 0;
    for (world.seconds = 0; world.seconds < window + 4 && tool.look_count < LOOKS;
         world.seconds += 1.0 / TICKS_PER_S) {
        if (world.seconds >= next - 1e-9) {
            look();
            if (world.seconds >= window - 1e-6)
                break;
            late = tool.late && next_random() < 0.3 ? 0.03 + 3.47 * next_random() : 0;
            next = fmax(world.seconds + 0.03, step * (double)tool.look_count + late);
        }
        for (unsigned i = 0; i < ACTORS; i++)
            if (scene->actors[i].kind)
                act(i);
    }
}

static bool judge(struct verdict *verdict)
{
    struct verdict_input input = {.sizes = sizes,
                                  .class_count = ARRAY_LEN(sizes),
                                  .period = tool.no_samples ? 0 : PERIOD,
                                  .looks = tool.looks,
                                  .look_count = tool.look_count,
                                  .stack_count = tool.no_samples ? 0 : ACTORS,
                                  .from_start = world.scene->warm,
                                  .threads_unsampled = tool.threads_unsampled,
                                  .began_ns = tool.no_births ? 0 : (uint64_t)(100 * 1e9)};

    tool.seen_count = 0;
    for (size_t i = 0; i < world.sample_count && !tool.no_samples; i++)
        if (world.samples[i].seen) {
            if (!LIST_GROW(tool.seen, tool.seen_capacity, tool.seen_count))
                abort();
            tool.seen[tool.seen_count++] = world.samples[i].object;
        }
    input.objects = tool.seen;
    input.object_count = tool.seen_count;
    return CHECK(verdict_make(verdict, &input));
}

/* ---- outcomes ---- */

struct outcome {
    unsigned right, unclear, wrong, covered;
};

/* The leak beside it may have no sample yet: the verdict then says that as well. */
static bool is_wrong(const struct scene *scene, const struct verdict *verdict)
{
    int guilty = scene->guilty;

    for (int i = 0; i < ACTORS; i++)
        if (i != guilty && verdict->stacks[i].grows)
            return true;
    if (guilty == NOBODY)
        return verdict->kind >= VERDICT_CLASSES;
    if (verdict->kind == VERDICT_NOTHING)
        return verdict->bound < world.grown[guilty];
    return verdict->kind == VERDICT_ONE_OF && !verdict->stacks[guilty].candidate &&
           !verdict->unseen;
}

static void note(struct outcome *outcome, const struct scene *scene, const struct verdict *verdict)
{
    double true_growth = scene->guilty >= 0 ? world.grown[scene->guilty] : 0,
           noise = 2 * tool.noise * (double)sizes[S2K];
    const struct verdict_stack *stack = &verdict->stacks[scene->guilty >= 0 ? scene->guilty : 0];

    if (is_wrong(scene, verdict)) {
        outcome->wrong++;
    } else if (scene->guilty >= 0 ? stack->grows : verdict->kind == VERDICT_NOTHING) {
        outcome->right++;
        outcome->covered += scene->guilty < 0 || (stack->low <= true_growth + noise &&
                                                  true_growth <= stack->high + noise);
    } else {
        outcome->unclear++;
        CHECK(scene->from == 0 || verdict->seconds >= scene->from ||
              verdict->kind == scene->until || verdict->kind <= VERDICT_ONCE);
    }
    for (int i = 0; i < ACTORS; i++) {
        CHECK(verdict->stacks[i].low <= verdict->stacks[i].high);
        CHECK(!verdict->stacks[i].grows || verdict->stacks[i].low > 0);
        CHECK(!verdict->stacks[i].grows || verdict->kind == VERDICT_GROWS);
    }
}

static struct outcome run_scene(const struct scene *scene, double window, unsigned runs)
{
    struct outcome outcome = {0};
    struct verdict verdict;

    for (unsigned i = 0; i < runs; i++) {
        watch(scene, window, fmax(2, window / 15));
        if (judge(&verdict))
            note(&outcome, scene, &verdict);
        verdict_free(&verdict);
    }
    return outcome;
}

/* ---- scenes ---- */

/* 4 MiB/s are replaced in caches, 8 MiB/s in requests. */
#define CACHE(kind_, mib, class_, count)                                                           \
    {                                                                                              \
        kind_, class_, count, (mib) * (double)MIB, 4 * MIB, 0                                      \
    }
#define REQUEST(class_, count)                                                                     \
    {                                                                                              \
        REQUESTS, class_, count, MIB, 8 * MIB, 0                                                   \
    }
#define GROWING(class_, count, kib)                                                                \
    {                                                                                              \
        LEAK, class_, count, 0, (kib) * (double)KIB, 0                                             \
    }
#define STEP(class_, kib, seconds)                                                                 \
    {                                                                                              \
        STEPS, class_, 1, 0, (kib) * (double)KIB, seconds                                          \
    }
#define COLD(kind_, mib) CACHE(kind_, mib, S1K, 1)

static const struct scene scenes[] = {
    {"FIFO 200 MB, cold", {COLD(FIFO, 200)}, NOBODY, false, 20, VERDICT_UNSTEADY},
    {"FIFO 50 MB, cold", {COLD(FIFO, 50)}, NOBODY, false, 20, VERDICT_UNSTEADY},
    {"FIFO 5 MB, cold", {COLD(FIFO, 5)}, NOBODY, false, 20, VERDICT_UNSTEADY},
    {"LRU 50 MB, cold", {COLD(LRU, 50)}, NOBODY, false, 20, VERDICT_UNSTEADY},
    {"random 50 MB, cold", {COLD(RANDOM, 50)}, NOBODY, false, 20, VERDICT_UNSTEADY},
    {"FIFO 50 MB, 7 sizes", {CACHE(FIFO, 50, S64, 7)}, NOBODY, false, 30, VERDICT_UNSTEADY},
    {"random, 7 sizes, warm", {CACHE(RANDOM, 50, S64, 7)}, NOBODY, true, 30, VERDICT_UNSTEADY},
    {"FIFO 50 MB, warm", {COLD(FIFO, 50)}, NOBODY, true, 20, VERDICT_UNSTEADY},
    {"requests", {REQUEST(S64, 7)}, NOBODY, false, 20, VERDICT_UNSTEADY},
    {"cache, requests", {COLD(FIFO, 200), REQUEST(S64, 7)}, NOBODY, false, 20, VERDICT_UNSTEADY},
    {"memory goes to another",
     {{POOL, S1K, 1, 50 * MIB, 400 * KIB, 0}, GROWING(S1K, 1, 400)},
     NOBODY,
     false,
     20,
     VERDICT_UNSTEADY},
    {"leak", {GROWING(S512, 1, 400)}, 0, false, 20, VERDICT_ONE_OF},
    {"leak, cold FIFO", {COLD(FIFO, 200), GROWING(S512, 1, 400)}, 1, false, 20, VERDICT_ONE_OF},
    {"leak of 1/100, cold FIFO",
     {COLD(FIFO, 200), GROWING(S512, 1, 40)},
     1,
     false,
     200,
     VERDICT_ONE_OF},
    {"leak, cold LRU, requests",
     {COLD(LRU, 50), GROWING(S512, 1, 400), REQUEST(S64, 7)},
     1,
     false,
     20,
     VERDICT_ONE_OF},
    {"same size, FIFO 200 MB",
     {COLD(FIFO, 200), GROWING(S1K, 1, 400)},
     1,
     false,
     200,
     VERDICT_ONE_OF},
    {"same size, FIFO 20 MB", {COLD(FIFO, 20), GROWING(S1K, 1, 400)}, 1, false, 30, VERDICT_ONE_OF},
    {"same size, 20 MB, warm", {COLD(FIFO, 20), GROWING(S1K, 1, 400)}, 1, true, 30, VERDICT_ONE_OF},
    {"same size, 200 MB, warm",
     {COLD(FIFO, 200), GROWING(S1K, 1, 400)},
     1,
     true,
     30,
     VERDICT_ONE_OF},
    {"same size, LRU 5 MB", {COLD(LRU, 5), GROWING(S1K, 1, 400)}, 1, false, 60, VERDICT_ONE_OF},
    {"7 sizes, FIFO 50 MB", {COLD(FIFO, 50), GROWING(S64, 7, 400)}, 1, false, 60, VERDICT_ONE_OF},
    {"leak of 4 MiB", {COLD(FIFO, 50), GROWING(S4M, 1, 4096)}, 1, false, 30, VERDICT_ONE_OF},
    {"same size, requests", {REQUEST(S1K, 1), GROWING(S1K, 1, 400)}, 1, false, 30, VERDICT_ONE_OF},
    {"leak that stops", {{LEAK, S512, 1, 0, 800 * KIB, 5}}, NOBODY, false, 200, VERDICT_ONCE},
    {"steps, each 2 s", {STEP(S512, 800, 2), COLD(FIFO, 50)}, 0, false, 60, VERDICT_ONE_OF},
    {"steps, each 7 s", {STEP(S512, 800, 7), COLD(FIFO, 50)}, 0, false, 200, VERDICT_ONE_OF},
    {"one realloc", {{REALLOC, S4M, 1, 0, 0, 0}, COLD(FIFO, 50)}, NOBODY, false, 200, VERDICT_ONCE},
};

/* Exact counts; counts as caches of threads leave them, looks that come late; no births. */
enum ways { EXACT, DISTURBED, BIRTHLESS, WAYS };

static void set_way(enum ways way)
{
    static const double noise[WAYS] = {[DISTURBED] = 200, [BIRTHLESS] = 200};

    tool.noise = noise[way];
    tool.late = way == DISTURBED;
    tool.no_births = way == BIRTHLESS;
}

/* All but 1 in 20 are right where the window decides; wrong is none of all. */
static void test_scenes(unsigned runs)
{
    static const double windows[] = {10, 20, 30, 60};
    unsigned right = 0, all = 0, covered = 0;

    for (enum ways way = EXACT; way < WAYS; way++)
        for (size_t i = 0; i < ARRAY_LEN(scenes); i++) {
            printf("%-26s", scenes[i].name);
            set_way(way);
            for (size_t j = 0; j < ARRAY_LEN(windows); j++) {
                struct outcome got = run_scene(&scenes[i], windows[j], runs);
                printf("  %3.0f s %3u/%u/%u", windows[j], got.right, got.unclear, got.wrong);
                CHECK(got.wrong == 0);
                covered += got.right - got.covered;
                if (windows[j] < scenes[i].from)
                    continue;
                right += got.right;
                all += runs;
                CHECK(runs < 20 || got.right >= runs - runs / 20);
            }
            printf("\n");
        }
    printf("decided %u of %u, not within the bounds %u\n", right, all, covered);
    CHECK(all > 0 && right >= all - all / 20 && covered <= all / 20);
}

/* The first window in which it is named, in steps of 5 s; the prediction is of the one given. */
static double find_named(const struct scene *scene, double until, double from, double *predicted)
{
    struct verdict verdict;

    *predicted = -1;
    for (double window = from; window <= until; window += 5) {
        watch(scene, window, fmax(2, window / 15));
        bool good = judge(&verdict), named = good && verdict.stacks[scene->guilty].grows;
        if (good && *predicted < 0 && verdict.leading < ARRAY_LEN(sizes) &&
            verdict.classes[verdict.leading].wait_s >= 0)
            *predicted = window + verdict.classes[verdict.leading].wait_s;
        verdict_free(&verdict);
        if (named)
            return window;
    }
    return INFINITY;
}

/* How long it takes to tell two stacks of one size apart is about what the verdict says. */
static void test_wait(void)
{
    static const struct scene caches[] = {
        {"20 MB", {COLD(FIFO, 20), GROWING(S1K, 1, 400)}, 1, false, 0, VERDICT_ONE_OF},
        {"50 MB", {COLD(FIFO, 50), GROWING(S1K, 1, 400)}, 1, false, 0, VERDICT_ONE_OF},
        {"200 MB", {COLD(FIFO, 200), GROWING(S1K, 1, 400)}, 1, false, 0, VERDICT_ONE_OF},
    };
    double predicted, named;

    set_way(EXACT);
    for (size_t i = 0; i < ARRAY_LEN(caches); i++)
        for (unsigned run = 0; run < 3; run++) {
            named = find_named(&caches[i], 200, 10, &predicted);
            printf("FIFO %s: named after %.0f s, predicted %.0f s\n", caches[i].name, named,
                   predicted);
            CHECK(predicted > 0 && named < 1.7 * predicted && predicted < 2.5 * named);
        }
}

/* ---- single verdicts ---- */

static struct verdict judge_one(const struct scene *scene, double window)
{
    struct verdict verdict;

    watch(scene, window, fmax(2, window / 15));
    CHECK(judge(&verdict));
    return verdict;
}

static void test_kinds(void)
{
    static const struct scene leak = {"", {GROWING(S512, 1, 400)}, 0, false, 0, 0},
                              step = {"", {{REALLOC, S4M, 1, 0, 0, 0}}, 0, false, 0, 0},
                              stops = {"", {{LEAK, S512, 1, 0, 800 * KIB, 18}}, 0, false, 0, 0},
                              none = {"", {COLD(FIFO, 5)}, NOBODY, false, 0, 0};
    struct verdict verdict;

    set_way(EXACT);
    verdict = judge_one(&leak, 8);
    CHECK(verdict.kind == VERDICT_TOO_SHORT && verdict.growth > 3e6);
    verdict_free(&verdict);
    verdict = judge_one(&step, 30);
    CHECK(verdict.kind == VERDICT_ONCE && verdict.leading == S4M && verdict.growth == 4 * MIB);
    CHECK(verdict.stacks[0].candidate && !verdict.stacks[0].grows);
    verdict_free(&verdict);
    verdict = judge_one(&stops, 30);
    CHECK(verdict.kind == VERDICT_UNSTEADY && verdict.grows == 0);
    verdict_free(&verdict);
    verdict = judge_one(&none, 30);
    CHECK(verdict.kind == VERDICT_NOTHING && verdict.bound < 16 * KIB);
    verdict_free(&verdict);
    tool.no_samples = true;
    verdict = judge_one(&leak, 30);
    CHECK(verdict.kind == VERDICT_CLASSES && verdict.leading == S512 && verdict.grows == 0);
    CHECK(verdict.classes[S512].grows && verdict.classes[S512].growth == verdict.growth);
    verdict_free(&verdict);
    tool.no_samples = false;
}

/* A thread that does not sample leaks: a class grows by more than its samples can. */
static void test_unsampled(void)
{
    static const struct scene cache = {"", {CACHE(FIFO, 20, S512, 1)}, NOBODY, false, 0, 0};
    struct verdict verdict;

    set_way(EXACT);
    watch(&cache, 30, 2);
    for (size_t i = 0; i < tool.look_count; i++)
        for (size_t class = S512; class <= S1K; class ++) {
            tool.objects[i][class] += (i + 1) << 16;
            tool.bytes[i][class] = tool.objects[i][class] * sizes[class];
        }
    CHECK(judge(&verdict));
    CHECK(verdict.kind == VERDICT_ONE_OF && verdict.grows == 0 && verdict.leading == S1K);
    CHECK(verdict.classes[S512].grows && verdict.classes[S512].unsampled);
    CHECK(verdict.classes[S1K].unsampled && verdict.unseen);
    verdict_free(&verdict);
    static const struct scene leak = {"", {GROWING(S512, 1, 400)}, 0, false, 0, 0};
    tool.threads_unsampled = true;
    verdict = judge_one(&leak, 30);
    CHECK(verdict.kind == VERDICT_ONE_OF && verdict.grows == 0 && verdict.stacks[0].candidate);
    verdict_free(&verdict);
    tool.threads_unsampled = false;
}

/* A class in which both are seen counts for neither; several that grow are one growth. */
static void test_explained(void)
{
    static const struct scene two = {
        "", {GROWING(S512, 1, 400), GROWING(S2K, 1, 800), COLD(FIFO, 20)}, 0, false, 0, 0};
    struct verdict verdict;

    set_way(EXACT);
    verdict = judge_one(&two, 60);
    CHECK(verdict.kind == VERDICT_GROWS && verdict.grows == 2 && verdict.leading == S2K);
    CHECK(verdict.stacks[0].class == S512 && verdict.classes[S512].explained);
    CHECK(verdict.classes[S2K].explained && !verdict.classes[S1K].explained);
    verdict_free(&verdict);
}

static void test_total(void)
{
    enum { COUNT = 16 };
    double seconds[COUNT], leak[COUNT], noise[COUNT], step[COUNT], few[COUNT], stalled[COUNT];

    for (unsigned i = 0; i < COUNT; i++) {
        seconds[i] = 2 * i;
        leak[i] = 1e9 + 1e5 * i + 1e4 * next_random();
        noise[i] = 1e9 + 1e6 * next_random();
        step[i] = 1e9 + 1e4 * next_random() + (i > 6 ? 1e8 : 0);
        few[i] = 1e9 + 1e7 * (i / 4);
        stalled[i] = i == 0 ? 1e9 : stalled[i - 1] + (i == 9 ? 2e6 : 1e5);
    }
    CHECK(verdict_of_total(seconds, leak, COUNT).kind == VERDICT_GROWS);
    CHECK(verdict_of_total(seconds, leak, COUNT).bound < 1.6e6);
    CHECK(verdict_of_total(seconds, noise, COUNT).kind <= VERDICT_UNSTEADY);
    CHECK(verdict_of_total(seconds, step, COUNT).kind == VERDICT_ONCE);
    CHECK(verdict_of_total(seconds, few, COUNT).kind == VERDICT_UNSTEADY);
    CHECK(verdict_of_total(seconds, stalled, COUNT).kind == VERDICT_GROWS); /* by ranks */
    CHECK(verdict_of_total(seconds, leak, 5).kind == VERDICT_TOO_SHORT);
    CHECK(verdict_of_total(seconds, leak, 0).kind == VERDICT_TOO_SHORT);
    for (unsigned i = 0; i < COUNT; i++)
        seconds[i] = i < 14 ? i * 0.01 : 2 * i;
    CHECK(verdict_of_total(seconds, leak, COUNT).kind == VERDICT_TOO_SHORT);
}

/* Wilcoxon: the sum of 10 ranks is 55 in 1 of 1,024 cases; of 9, never in 1 of 1,000. */
static void test_rule(void)
{
    struct steady_rule rule = steady_rule_make(15, 1);

    CHECK(fabs(rule.student - 4.140) < 0.001);
    CHECK(fabs(steady_rule_make(6, 1).student - 6.869) < 0.001);
    CHECK(rule.ranked[10] == 55 && isinf(rule.ranked[9]) && rule.ranked[15] == 112);
    CHECK(steady_rule_make(15, 20).student > 5.5 && steady_rule_make(15, 20).ranked[15] > 112);
}

/* Nonsense ends in some verdict; a stack that could not be read is never named. */
static void test_odd(void)
{
    static const struct scene leak = {"", {GROWING(S512, 1, 4096)}, 0, false, 0, 0};
    struct verdict verdict;

    set_way(EXACT);
    watch(&leak, 30, 2);
    for (size_t i = 0; i < world.sample_count; i++)
        world.samples[i].object.stack = TABLE_NONE;
    CHECK(judge(&verdict));
    CHECK(verdict.kind == VERDICT_ONE_OF && verdict.grows == 0 &&
          verdict.classes[S512].growth > 1e8);
    verdict_free(&verdict);
    for (unsigned i = 0; i < 200; i++) {
        watch(&leak, 12, 2);
        for (unsigned j = 0; j < 20; j++) {
            tool.bytes[below(tool.look_count)][below(ARRAY_LEN(sizes))] = below(2) ? ~0ull : 0;
            world.samples[below(world.sample_count)].object.birth = below(2) ? ~0ull : 0;
            tool.looks[below(tool.look_count)].seconds = below(2) ? 0 : 5;
        }
        CHECK(judge(&verdict));
        CHECK(verdict.kind <= VERDICT_GROWS && !isnan(verdict.growth) && !isnan(verdict.bound));
        for (int j = 0; j < ACTORS; j++)
            CHECK(!isnan(verdict.stacks[j].low) && !isnan(verdict.stacks[j].high));
        verdict_free(&verdict);
    }
}

int main(void)
{
    test_rule();
    test_scenes(getenv("JEATTACH_LONG") ? 100 : 2);
    test_wait();
    test_kinds();
    test_unsampled();
    test_explained();
    test_total();
    test_odd();
    for (unsigned i = 0; i < ACTORS; i++)
        free(world.stocks[i].list);
    free(world.samples);
    free(tool.seen);
    return check_result();
}
