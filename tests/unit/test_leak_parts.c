/* The parts of leak's answer, from verdicts and pages that are made up. */
#include "check.h"
#include "run/explain/heap_kind.h"
#include "run/leak/parts.h"

#include <string.h>

enum { CLASSES = 3, LOOKS = 21, STACKS = 3, MIB = 1 << 20 };

struct scene {
    struct classes classes;
    uint64_t bytes[LOOKS][CLASSES_MAX];
    struct verdict_stack stacks[STACKS];
    struct verdict_class grown[CLASSES];
    struct verdict verdict;
    struct samples samples;
    struct leak leak;
    struct parts parts;
};

/* 21 looks, a second apart; the first class has the bytes, in MiB, at each; so does the RSS. */
static void make_scene(struct scene *scene, const double mib[LOOKS])
{
    struct looks *looks = &scene->leak.looks;

    memset(scene, 0, sizeof *scene);
    scene->classes = (struct classes){.bins = CLASSES, .count = CLASSES};
    for (unsigned i = 0; i < CLASSES; i++)
        scene->classes.list[i].size = (uint64_t)512 << i;
    looks->classes = &scene->classes;
    looks->count = LOOKS;
    for (size_t i = 0; i < LOOKS; i++) {
        scene->bytes[i][0] = (uint64_t)(mib[i] * MIB);
        looks->list[i] = (struct look){.at_ns = (i + 1) * 1000000000,
                                       .rss = 100 * MIB + scene->bytes[i][0],
                                       .bytes = scene->bytes[i]};
    }
    scene->verdict = (struct verdict){.seconds = LOOKS - 1,
                                      .growth = (mib[LOOKS - 1] - mib[0]) * MIB,
                                      .stacks = scene->stacks,
                                      .classes = scene->grown};
    scene->grown[0].growth = scene->verdict.growth;
    scene->samples.count = STACKS;
    looks->live = (struct live *)scene; /* never read */
    scene->leak.grows = true;
    scene->leak.grow.pages.map.page = 4096;
    scene->leak.grow.after.usage.rss = 100 * MIB;
}

static const double rising[LOOKS] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10,
                                     11, 12, 13, 14, 15, 16, 17, 18, 19, 20},
                    stopped[LOOKS] = {0,  4,  8,  12, 16, 20, 20, 20, 20, 20, 20,
                                      20, 20, 20, 20, 20, 20, 20, 20, 20, 20},
                    swinging[LOOKS] = {0, 9, 0, 9, 0, 9, 0, 9, 0, 9, 0,
                                       9, 0, 9, 0, 9, 0, 9, 0, 9, 1},
                    level[LOOKS] = {0};

static const struct part *make_objects(struct scene *scene, enum verdict_kind kind)
{
    scene->verdict.kind = kind;
    parts_of_objects(&scene->parts, &scene->leak, &scene->verdict, &scene->samples);
    return scene->parts.list;
}

static void test_one_class(void)
{
    struct scene scene;
    const struct part *part;

    make_scene(&scene, rising);
    scene.grown[0].grows = scene.grown[0].explained = true;
    scene.stacks[1] = (struct verdict_stack){.low = 18 * MIB, .high = 21 * MIB, .grows = true};
    part = make_objects(&scene, VERDICT_GROWS);
    CHECK(scene.parts.count == 1);
    CHECK(part->kind == PART_OBJECTS);
    CHECK(part->state == PART_GROWS);
    CHECK(part->size == 512);
    CHECK(part->bytes == 20 * MIB);
    CHECK(part->stack_count == 1 && part->stacks[0].sample == 1);
}

/* No amount of one size is that of a stack with several. */
static void test_several_classes(void)
{
    struct scene scene;
    const struct part *part;

    make_scene(&scene, rising);
    scene.verdict.growth = 30 * MIB;
    scene.grown[0] = (struct verdict_class){.growth = 20 * MIB, .grows = true, .explained = true};
    scene.grown[1] = (struct verdict_class){.growth = 10 * MIB, .grows = true, .explained = true};
    scene.stacks[0] =
        (struct verdict_stack){.low = 25 * MIB, .high = 31 * MIB, .grows = true, .class = 0};
    part = make_objects(&scene, VERDICT_GROWS);
    CHECK(scene.parts.count == 1);
    CHECK(part->size == 0);
    CHECK(part->bytes == 30 * MIB);
    CHECK(part->state == PART_GROWS);
}

/* The whole has each of its classes already. */
static void test_whole_and_classes(void)
{
    struct scene scene;
    const struct part *part;

    make_scene(&scene, rising);
    scene.verdict.growth = 30 * MIB;
    scene.verdict.leading = VERDICT_ALL_CLASSES;
    for (unsigned i = 0; i < CLASSES; i++)
        scene.grown[i] = (struct verdict_class){.growth = 10 * MIB, .grows = true};
    scene.samples.count = 0;
    part = make_objects(&scene, VERDICT_CLASSES);
    CHECK(scene.parts.count == 1);
    CHECK(part->size == 0 && part->bytes == 30 * MIB);
}

static void test_candidates(void)
{
    struct scene scene;
    const struct part *part;

    make_scene(&scene, rising);
    scene.grown[0].grows = scene.grown[0].unseen = true;
    scene.stacks[0] = (struct verdict_stack){.low = -2, .candidate = true};
    scene.stacks[2] = (struct verdict_stack){.low = -1, .candidate = true};
    part = make_objects(&scene, VERDICT_ONE_OF);
    CHECK(part->state == PART_ONE_OF);
    CHECK(part->stack_count == 2);
    CHECK(part->stacks[0].sample == 2);
    CHECK(part->unseen);
}

/* Threads that do not sample leave no stack to name. */
static void test_unsampled(void)
{
    struct scene scene;

    make_scene(&scene, rising);
    scene.grown[0].grows = scene.grown[0].unsampled = true;
    scene.stacks[0].candidate = true;
    CHECK(make_objects(&scene, VERDICT_ONE_OF)->stack_count == 0);
    CHECK(scene.parts.count == 1);
}

static void test_not_steady(void)
{
    struct scene scene;
    const struct part *part;

    make_scene(&scene, stopped);
    part = make_objects(&scene, VERDICT_NOTHING);
    CHECK(scene.parts.count == 1);
    CHECK(part->state == PART_UNSTEADY);
    CHECK(part->size == 512);
    CHECK(part->since_s == 15);
    make_scene(&scene, swinging);
    make_objects(&scene, VERDICT_NOTHING);
    CHECK(scene.parts.count == 0);
}

static const struct part *make_memory(struct scene *scene, enum grow_kind kind, uint64_t mib,
                                      const struct verdict *verdict)
{
    memset(&scene->parts, 0, sizeof scene->parts);
    memset(scene->leak.grow.sum.parts, 0, sizeof scene->leak.grow.sum.parts);
    scene->leak.grow.sum.parts[kind].gained = mib * MIB / 4096;
    scene->leak.grow.sum.parts[kind].now = mib * MIB / 4096;
    parts_of_memory(&scene->parts, &scene->leak, verdict);
    return scene->parts.list;
}

/* Who touches a mapping has it; of an allocator's pages nobody knows. */
static void test_memory(void)
{
    struct scene scene;

    make_scene(&scene, rising);
    CHECK(make_memory(&scene, GROW_STACKS, 20, NULL)->state == PART_GROWS);
    CHECK(make_memory(&scene, GROW_LIBC, 20, NULL)->state == PART_ONE_OF);
    CHECK(make_memory(&scene, GROW_MAPPED, 20, NULL)->state == PART_ONE_OF);
    CHECK(make_memory(&scene, GROW_MAPPED, 20, &scene.verdict)->state == PART_GROWS);
    scene.leak.grow.heaps = 1u << HEAP_V8; /* a collector's heap */
    CHECK(make_memory(&scene, GROW_MAPPED, 20, &scene.verdict)->state == PART_ONE_OF);
    make_scene(&scene, rising); /* glibc maps no more objects of that size on their own */
    make_memory(&scene, GROW_LIBC, 20, NULL);
    for (unsigned lost = 15; lost <= 20; lost += 5) {
        scene.parts.count = 0;
        scene.leak.grow.sum.parts[GROW_MAPPED].lost = lost * MIB / 4096;
        parts_of_memory(&scene.parts, &scene.leak, NULL);
        CHECK(lost == 15 ? scene.parts.list[0].bytes == 5 * MIB : !scene.parts.count);
    }
    make_scene(&scene, swinging);
    CHECK(make_memory(&scene, GROW_STACKS, 20, NULL)->state == PART_UNSTEADY);
    for (unsigned lost = 19; lost <= 20; lost++) { /* as much was returned elsewhere */
        scene.parts.count = 0;
        scene.leak.grow.sum.parts[GROW_LIBC].lost = lost * MIB / 4096;
        parts_of_memory(&scene.parts, &scene.leak, NULL);
        CHECK(scene.parts.count == (lost == 19));
    }
}

/* Pages of jemalloc's heap: the growth of its objects is a part of its own. */
static void test_heap(void)
{
    struct scene scene;

    make_scene(&scene, rising);
    make_memory(&scene, GROW_JEMALLOC, 20, &scene.verdict);
    CHECK(scene.parts.count == 0 && !parts_have_free_memory(&scene.leak));
    make_scene(&scene, level);
    make_memory(&scene, GROW_JEMALLOC, 1, &scene.verdict); /* it may come and go */
    CHECK(scene.parts.count == 0 && !parts_have_free_memory(&scene.leak));
    make_memory(&scene, GROW_JEMALLOC, 20, &scene.verdict);
    CHECK(scene.parts.count == 1 && parts_have_free_memory(&scene.leak));
    CHECK(scene.parts.list[0].bytes == 20 * MIB);
    scene.leak.looks.list[LOOKS - 1].promoted = 1024; /* sampled objects take 20 KiB each */
    make_memory(&scene, GROW_JEMALLOC, 20, &scene.verdict);
    CHECK(scene.parts.count == 0);
}

int main(void)
{
    test_one_class();
    test_several_classes();
    test_whole_and_classes();
    test_candidates();
    test_unsampled();
    test_not_steady();
    test_memory();
    test_heap();
    return check_result();
}
