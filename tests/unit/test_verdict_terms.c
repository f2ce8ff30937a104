/*
 * Each term of a verdict, on numbers that are made for it: in units of the period, which a sample
 * of a small object stands for. Over 30 s, a look each 2 s.
 */
#include "base/table.h"
#include "base/util.h"
#include "check.h"
#include "profile/steady.h"
#include "profile/verdict.h"

#include <math.h>
#include <string.h>

enum { LOOKS = 16, CLASSES = 24, STACKS = 4, OBJECTS = 1000, UNIT = 524288 };

enum { LEAK, OTHER, THIRD, TURNING };

static struct made {
    uint64_t sizes[CLASSES], objects[LOOKS][CLASSES], bytes[LOOKS][CLASSES];
    struct verdict_look looks[LOOKS];
    struct verdict_object list[OBJECTS];
    struct verdict_input input;
} made;

/* Each class has 100 units that are older than the sampling. */
static void begin(void)
{
    memset(&made, 0, sizeof made);
    for (size_t i = 0; i < CLASSES; i++)
        made.sizes[i] = 64 + 16 * i;
    for (size_t i = 0; i < LOOKS; i++) {
        for (size_t j = 0; j < CLASSES; j++)
            made.bytes[i][j] = 100 * UNIT;
        made.looks[i] = (struct verdict_look){2.0 * (double)i, made.objects[i], made.bytes[i]};
    }
    made.input = (struct verdict_input){.sizes = made.sizes,
                                        .class_count = CLASSES,
                                        .period = UNIT,
                                        .looks = made.looks,
                                        .look_count = LOOKS,
                                        .objects = made.list,
                                        .stack_count = STACKS,
                                        .began_ns = 1000000000};
}

/* By so many units in the whole time. */
static void grow(size_t class, double units)
{
    for (size_t i = 0; i < LOOKS; i++)
        made.bytes[i][class] += (uint64_t)(int64_t)(units * UNIT * made.looks[i].seconds / 30);
}

static void add(uint32_t stack, uint32_t class, uint32_t first, uint32_t last)
{
    static uint64_t start;
    struct verdict_object *object = &made.list[made.input.object_count++];

    *object = (struct verdict_object){.start = start += 4096, .class = class, .stack = stack};
    object->first = first;
    object->last = last;
    object->birth = first ? made.input.began_ns + 2000000000u * (uint64_t)first - 1000 : 500;
}

/* In the window, and alive; most of them late, so that none is one of a cohort. */
static void bear(uint32_t stack, uint32_t class, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        add(stack, class, 1 + i % (LOOKS - 1), LOOKS - 1);
}

static void kill(uint32_t stack, uint32_t class, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        add(stack, class, 0, i % (LOOKS - 1));
}

static struct verdict judge(void)
{
    struct verdict verdict;

    CHECK(verdict_make(&verdict, &made.input));
    return verdict;
}

static double units(double bytes)
{
    return bytes / UNIT;
}

/* A bound that is positive, but a small part of the growth, names nobody. */
static void test_share(void)
{
    struct verdict verdict;

    begin();
    grow(0, 40);
    bear(LEAK, 0, 17);
    bear(OTHER, 0, 10);
    verdict = judge();
    CHECK(verdict.stacks[LEAK].grows && !verdict.stacks[OTHER].grows);
    CHECK(verdict.stacks[OTHER].low > 0 && units(verdict.stacks[OTHER].low) < 8);
    verdict_free(&verdict);
}

/* What increments take back from each other is not counted as the stack's. */
static void test_noise(void)
{
    struct verdict verdict;

    begin();
    grow(0, 60);
    bear(LEAK, 0, 60);
    for (size_t i = 1; i < LOOKS; i += 2)
        made.bytes[i][0] += 2 * UNIT;
    verdict = judge();
    CHECK(verdict.stacks[LEAK].grows && units(verdict.classes[0].error) > 2);
    CHECK(units(verdict.stacks[LEAK].low) < 62 - 4 - 6.9);
    verdict_free(&verdict);
}

/* Looks that come late, and one that comes too soon after another. */
static void test_times(void)
{
    static const double seconds[] = {0, 1.2, 2.4, 3.6, 4.8, 6, 12};
    struct verdict verdict;

    begin();
    for (size_t i = 0; i < ARRAY_LEN(seconds); i++)
        made.looks[i].seconds = seconds[i];
    made.input.look_count = ARRAY_LEN(seconds);
    grow(0, 60);
    verdict = judge();
    CHECK(verdict.classes[0].grows);
    verdict_free(&verdict);
    begin();
    made.looks[LOOKS - 1].seconds = 28.5;
    grow(0, 60);
    verdict = judge();
    CHECK(verdict.seconds == 28.5 && fabs(units(verdict.growth) - 57) < 0.01);
    verdict_free(&verdict);
}

/* It leaks in four sizes, and has no sample yet of one of them. */
static void test_growing(void)
{
    struct verdict verdict;

    begin();
    for (uint32_t class = 0; class < 4; class ++) {
        grow(class, 6);
        bear(LEAK, class, class < 3 ? 6 : 0);
    }
    bear(LEAK, 5, 2); /* which does not grow, and is another's */
    bear(OTHER, 5, 100);
    verdict = judge();
    CHECK(verdict.stacks[LEAK].grows && units(verdict.stacks[LEAK].low) > 15);
    CHECK(units(verdict.stacks[LEAK].high) > 23.9 && units(verdict.stacks[LEAK].high) < 40);
    verdict_free(&verdict);
    begin();
    for (uint32_t class = 0; class < 4; class ++)
        grow(class, 6);
    bear(LEAK, 0, 10);
    verdict = judge();
    CHECK(verdict.stacks[LEAK].low <= verdict.stacks[LEAK].high);
    CHECK(units(verdict.stacks[LEAK].high) < 13); /* its class, and one sample's worth of others */
    verdict_free(&verdict);
}

/* It also grows in a class in which another shrinks, which does not change. */
static void test_both(void)
{
    struct verdict verdict;

    begin();
    grow(0, 10);
    grow(2, 6);
    bear(LEAK, 0, 10);
    bear(LEAK, 1, 10);
    kill(OTHER, 1, 9);
    verdict = judge();
    CHECK(verdict.stacks[LEAK].grows && units(verdict.stacks[LEAK].low) > 10);
    verdict_free(&verdict);
}

/* One of its two sizes is also that of a busy cache. */
static void test_clear(void)
{
    struct verdict verdict;

    begin();
    grow(0, 2);
    grow(1, 12);
    bear(OTHER, 0, 100);
    bear(LEAK, 0, 2);
    bear(LEAK, 1, 12);
    verdict = judge();
    CHECK(verdict.stacks[LEAK].grows && !verdict.stacks[OTHER].grows);
    CHECK(units(verdict.stacks[OTHER].high) < 20); /* what it can have of all that grows */
    verdict_free(&verdict);
}

/* Many classes are asked: chance makes one of them rise so. */
static void test_tests(void)
{
    static const double pattern[] = {2, 2, -0.2};
    struct verdict verdict;

    for (int many = 0; many < 2; many++) {
        double sum = 0;
        begin();
        for (size_t i = 0; i < LOOKS; i++) {
            made.bytes[i][0] += (uint64_t)(sum * UNIT);
            sum += pattern[i % ARRAY_LEN(pattern)];
            for (size_t j = 2; many && j < CLASSES; j++)
                made.bytes[i][j] -= i == LOOKS - 1 ? UNIT : 0;
        }
        verdict = judge();
        CHECK(verdict.classes[0].grows == !many);
        verdict_free(&verdict);
    }
}

/* Sampling was on from the start: its own samples suffice. */
static void test_own_samples(void)
{
    struct verdict verdict;

    for (int from_start = 0; from_start < 2; from_start++) {
        begin();
        for (size_t i = 0; i < LOOKS; i++)
            made.bytes[i][0] = 60 * UNIT;
        grow(0, 20);
        bear(LEAK, 0, 20);
        bear(OTHER, 0, 60);
        kill(OTHER, 0, 60);
        made.input.from_start = from_start;
        verdict = judge();
        CHECK(verdict.stacks[LEAK].grows == from_start && !verdict.stacks[OTHER].grows);
        verdict_free(&verdict);
    }
}

/*
 * What others have freed is more for this one; but not of a stack that shrinks for certain, whose
 * place it then takes.
 */
static void test_died(void)
{
    struct verdict verdict;

    begin();
    grow(0, 12);
    bear(LEAK, 0, 27);
    bear(OTHER, 0, 10);
    kill(OTHER, 0, 25);
    verdict = judge();
    CHECK(verdict.stacks[LEAK].grows && verdict.stacks[OTHER].died == 25);
    CHECK(units(verdict.stacks[LEAK].high) > 26); /* as others shrank, more than the class */
    verdict_free(&verdict);
    begin();
    grow(0, 12);
    bear(LEAK, 0, 52);
    kill(OTHER, 0, 40);
    verdict = judge();
    CHECK(!verdict.stacks[LEAK].grows || units(verdict.stacks[LEAK].low) < 12);
    verdict_free(&verdict);
}

/* Counts bound the samples of a cache, and samples those of one that shares a class. */
static void test_above(void)
{
    struct verdict verdict;

    begin();
    bear(LEAK, 0, 100);
    grow(1, 40);
    bear(THIRD, 1, 40);
    bear(OTHER, 1, 2);
    bear(TURNING, 1, 30);
    kill(TURNING, 1, 30);
    verdict = judge();
    CHECK(units(verdict.stacks[TURNING].high) < 30);
    CHECK(units(verdict.stacks[LEAK].high) < 7 && !verdict.stacks[LEAK].grows);
    CHECK(units(verdict.stacks[OTHER].high) < 12);
    verdict_free(&verdict);
}

/* Five sizes grow, and there is a single sample of all: threads that do not sample. */
static void test_unsampled(void)
{
    struct verdict verdict;

    begin();
    for (size_t i = 0; i < 5; i++)
        grow(i, 5);
    bear(OTHER, 0, 1);
    verdict = judge();
    CHECK(verdict.grows == 0 && verdict.kind == VERDICT_ONE_OF);
    verdict_free(&verdict);
    begin();
    grow(0, 30);
    bear(OTHER, 0, 2);
    verdict = judge();
    CHECK(verdict.grows == 0 && verdict.classes[0].unsampled && verdict.unseen);
    verdict_free(&verdict);
}

/* An object that a look has missed is as old as it says. */
static void test_births(void)
{
    struct verdict verdict;

    for (int births = 0; births < 2; births++) {
        begin();
        grow(0, 20);
        for (unsigned i = 0; i < 20; i++) {
            add(OTHER, 0, 3, LOOKS - 1);
            made.list[i].birth = 500;
        }
        made.input.began_ns = births ? made.input.began_ns : 0;
        verdict = judge();
        CHECK(verdict.stacks[OTHER].born == (births ? 0 : 20));
        CHECK(verdict.stacks[OTHER].grows == !births);
        verdict_free(&verdict);
    }
}

/* A pool that is freed once, as a whole, early in the time: what it has allocated since stays. */
static void test_pool(void)
{
    struct verdict verdict;

    begin();
    grow(0, 60);
    for (unsigned i = 0; i < 40; i++)
        add(LEAK, 0, 1, 2);
    bear(LEAK, 0, 60);
    bear(OTHER, 0, 10);
    verdict = judge();
    CHECK(!verdict.stacks[OTHER].grows);
    verdict_free(&verdict);
}

/* Three steps in 30 s: nothing can have grown by much more than they add up to. */
static void test_steps(void)
{
    struct verdict verdict;

    begin();
    for (size_t i = 0; i < LOOKS; i++)
        made.bytes[i][0] += i > 12 ? 9 * UNIT : i > 8 ? 6 * UNIT : i > 3 ? 3 * UNIT : 0;
    bear(LEAK, 0, 9);
    verdict = judge();
    CHECK(verdict.kind == VERDICT_UNSTEADY && units(verdict.growth) == 9);
    CHECK(units(verdict.bound) < 18 && units(verdict.stacks[LEAK].high) < 18);
    verdict_free(&verdict);
}

/*
 * Objects that get another size: those of one class grow, and as many of another are freed. Where
 * sampling began late, none of these may have a sample, and another class alone does not tell.
 */
static void test_moves(void)
{
    struct verdict verdict;

    for (int leaks = 0; leaks < 2; leaks++) {
        begin();
        grow(0, 40);
        grow(1, -40);
        bear(OTHER, 0, 40);
        bear(OTHER, 1, leaks ? 5 : 0);
        grow(2, leaks ? 15 : 0);
        bear(LEAK, 2, leaks ? 15 : 0);
        verdict = judge();
        CHECK(!verdict.stacks[OTHER].grows && verdict.stacks[LEAK].grows == leaks);
        CHECK(verdict.kind == (leaks ? VERDICT_GROWS : VERDICT_NOTHING));
        CHECK(verdict.classes[0].grows && !verdict.stacks[OTHER].candidate);
        verdict_free(&verdict);
    }
    begin(); /* a cache that is emptied beside a leak */
    grow(0, 40);
    grow(1, -90);
    bear(LEAK, 0, 40);
    verdict = judge();
    CHECK(verdict.stacks[LEAK].grows);
    verdict_free(&verdict);
    begin(); /* just as fast, and all of it was sampled */
    memset(made.bytes, 0, sizeof made.bytes);
    for (size_t i = 0; i < LOOKS; i++)
        made.bytes[i][1] = 40 * UNIT;
    grow(0, 40);
    grow(1, -40);
    bear(LEAK, 0, 40);
    kill(OTHER, 1, 40);
    made.input.from_start = true;
    verdict = judge();
    CHECK(verdict.stacks[LEAK].grows && !verdict.stacks[OTHER].grows);
    verdict_free(&verdict);
}

/* Memory that goes up and down hides a growth: of how much, and what watch would show it. */
static void test_unsure(void)
{
    static const double pattern[] = {0, 30, 10, -20, 25, -30, 5};
    double seconds[LOOKS], bytes[LOOKS];

    for (int much = 0; much < 2; much++) {
        begin();
        for (size_t i = 0; i < LOOKS; i++) {
            made.bytes[i][0] +=
                (uint64_t)(int64_t)(pattern[i % ARRAY_LEN(pattern)] * (much ? UNIT : UNIT / 64));
            seconds[i] = made.looks[i].seconds;
            bytes[i] = (double)made.bytes[i][0];
        }
        struct verdict verdict = judge();
        struct verdict_total total = verdict_of_total(seconds, bytes, LOOKS);
        CHECK(verdict.kind == (much ? VERDICT_UNSURE : VERDICT_NOTHING));
        CHECK(total.kind == verdict.kind && total.bound == verdict.bound);
        CHECK((verdict.bound > 30 * 1048576.0) == much &&
              (verdict_watch(verdict.bound) > 30) == much);
        verdict_free(&verdict);
    }
}

int main(void)
{
    test_moves();
    test_unsure();
    test_steps();
    test_share();
    test_noise();
    test_times();
    test_growing();
    test_both();
    test_clear();
    test_tests();
    test_own_samples();
    test_died();
    test_above();
    test_unsampled();
    test_births();
    test_pool();
    return check_result();
}
