/* The free space of slabs, shared out to stacks. */
#include "check.h"
#include "profile/stack_text.h"
#include "profile/waste.h"
#include "stub_symbols.h"

#include <math.h>
#include <string.h>

#define MAPS "\nMAPPED_LIBRARIES:\n1000-2000 r-xp 00000000 08:02 1 /bin/app\n"

static const struct stub_symbol app[] = {
    {0x1100, 0x1200, {{"keep", "keep", "/src/a.c", 10, 1}}},
    {0x1200, 0x1300, {{"churn", "churn", "/src/b.c", 20, 1}}},
    {0x1300, 0x1400, {{"large", "large", "/src/c.c", 30, 1}}},
    {0, 0, {{0}}},
};

struct made {
    struct heap_profile profile;
    struct symbols *symbols;
    struct samples samples;
    struct waste waste;
};

static bool make(struct made *made, const char *text, const struct waste_class *classes,
                 size_t count)
{
    struct samples_options options = {0};
    struct symbols_options none = {0};

    memset(made, 0, sizeof *made);
    stub_next = app;
    return heap_parse(&made->profile, text, strlen(text), NULL) == FAULT_NONE &&
           (made->symbols = locations_symbols(&made->profile, &none)) &&
           samples_build(&made->samples, &options, &made->profile, made->symbols, NULL, NULL) &&
           waste_make(&made->waste, classes, count, &made->samples);
}

static void unmake(struct made *made)
{
    waste_free(&made->waste);
    samples_free(&made->samples);
    symbols_free(made->symbols);
    heap_free(&made->profile);
}

static const char *name_of(const struct made *made, const struct waste_row *row)
{
    struct stack_walk walk = {0};

    if (row->sample == TABLE_NONE)
        return "";
    return stack_walk_next(&walk, &made->samples, &made->samples.list[row->sample])->function->name;
}

static bool row_is(const struct made *made, size_t number, const char *name, uint64_t size,
                   double least, double most)
{
    const struct waste_row *row = &made->waste.rows[number];

    return number < made->waste.count && strcmp(name_of(made, row), name) == 0 &&
           made->waste.classes[row->class].size == size && (double)row->bytes >= least &&
           (double)row->bytes <= most;
}

static uint64_t sum(const struct waste *waste)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < waste->count; i++)
        bytes += waste->rows[i].bytes;
    return bytes;
}

static void test_bytes(void)
{
    struct waste_class class = {.size = 48, .objects = 10, .slabs = 2, .per_slab = 256};

    CHECK(waste_bytes(&class) == (512 - 10) * 48);
    class.objects = 512;
    CHECK(waste_bytes(&class) == 0);
    class.objects = 513; /* not read at one instant */
    CHECK(waste_bytes(&class) == 0);
    class = (struct waste_class){.size = 48, .slabs = UINT64_MAX, .per_slab = 2};
    CHECK(waste_bytes(&class) == UINT64_MAX);
    class = (struct waste_class){.size = UINT64_MAX, .slabs = 3, .per_slab = 2};
    CHECK(waste_bytes(&class) == UINT64_MAX);
    class = (struct waste_class){.size = 0, .slabs = 3, .per_slab = 2};
    CHECK(waste_bytes(&class) == 0);
}

/* 1000 samples of 48 bytes, of which one byte in 4096 was sampled, are some 85,800 objects. */
#define PERIOD "heap_v2/4096\n"

static void test_shared(void)
{
    /* The profile says 3 to 1, and jemalloc counts about as many objects. */
    static const char text[] = PERIOD "@ 0x1101\n t*: 3000: 144000 [0: 0]\n"
                                      "@ 0x1201\n t*: 1000: 48000 [0: 0]\n" MAPS;
    const struct waste_class classes[] = {
        {.size = 32, .objects = 5, .slabs = 1, .per_slab = 128},
        {.size = 48, .objects = 341000, .slabs = 341000, .per_slab = 256},
    };
    struct made made;

    if (CHECK(make(&made, text, classes, 2))) {
        const uint64_t whole = 341000ull * 255 * 48, small = 123 * 32;
        CHECK(made.waste.count == 3 && made.waste.bytes == whole + small);
        CHECK(sum(&made.waste) == made.waste.bytes && made.waste.unknown == small);
        CHECK(row_is(&made, 0, "keep", 48, 0.749 * (double)whole, 0.751 * (double)whole));
        CHECK(row_is(&made, 1, "churn", 48, 0.249 * (double)whole, 0.251 * (double)whole));
        CHECK(row_is(&made, 2, "", 32, (double)small, (double)small));
        CHECK(made.waste.rows[2].objects == 5 && made.waste.rows[2].error == 0);
        CHECK(!made.waste.rows[0].mixed && made.waste.has_profile);
        /* Two standard deviations of a share of 3/4 among 4000 samples: 1.4 %. */
        CHECK(made.waste.rows[0].error > 0.012 * (double)whole);
        CHECK(made.waste.rows[0].error < 0.016 * (double)whole);
    }
    unmake(&made);
}

/* Most objects were allocated before sampling began. */
static void test_rest(void)
{
    static const char text[] = PERIOD "@ 0x1101\n t*: 1000: 48000 [0: 0]\n" MAPS;
    const struct waste_class class = {
        .size = 48, .objects = 848000, .slabs = 9000, .per_slab = 256};
    const double whole = (9000.0 * 256 - 848000) * 48;
    struct made made;

    if (CHECK(make(&made, text, &class, 1))) {
        CHECK(row_is(&made, 0, "", 48, 0.89 * whole, 0.91 * whole));
        CHECK(row_is(&made, 1, "keep", 48, 0.09 * whole, 0.11 * whole));
        CHECK(made.waste.count == 2 && sum(&made.waste) == (uint64_t)whole);
        CHECK(made.waste.unknown == made.waste.rows[0].bytes);
        CHECK(fabs(made.waste.rows[0].objects + made.waste.rows[1].objects - 848000) < 1);
    }
    unmake(&made);
}

/* The mean of 60 is of no class: 3/4 of the objects have 64 bytes, if all are in these two. */
static void test_mixed(void)
{
    static const char text[] = PERIOD "@ 0x1101\n t*: 1000: 60000 [0: 0]\n" MAPS;
    const struct waste_class classes[] = {
        {.size = 64, .objects = 1, .slabs = 100, .per_slab = 64},
        {.size = 48, .objects = 1, .slabs = 100, .per_slab = 256},
    };
    struct made made;

    if (CHECK(make(&made, text, classes, 2)) && CHECK(made.waste.count == 2)) {
        const struct waste_row *rows = made.waste.rows;
        CHECK(rows[0].class == 1 && rows[1].class == 0 && rows[0].mixed && rows[1].mixed);
        CHECK(rows[0].bytes == 25599ull * 48 && rows[1].bytes == 6399ull * 64);
        CHECK(fabs(rows[1].objects / rows[0].objects - 3) < 0.05);
    }
    unmake(&made);
}

/* A mean is rounded: 47 and 49 are of the class of 48. Two addresses of one line are one row. */
static void test_near(void)
{
    static const char text[] = PERIOD "@ 0x1101\n t*: 100: 4799 [0: 0]\n"
                                      "@ 0x1111\n t*: 100: 4920 [0: 0]\n" MAPS;
    const struct waste_class classes[] = {
        {.size = 32, .objects = 0, .slabs = 0, .per_slab = 128},
        {.size = 48, .objects = 10, .slabs = 10, .per_slab = 256},
        {.size = 64, .objects = 0, .slabs = 0, .per_slab = 64},
    };
    struct made made;

    if (CHECK(make(&made, text, classes, 3)) && CHECK(made.waste.count == 1)) {
        CHECK(row_is(&made, 0, "keep", 48, 2550 * 48, 2550 * 48));
        CHECK(!made.waste.rows[0].mixed && made.waste.rows[0].error == 0); /* all of it is theirs */
        CHECK(made.waste.rows[0].objects > 16000);
    }
    unmake(&made);
}

/* Large objects are in no slab, nor is an object that was sampled. */
static void test_not_in_slabs(void)
{
    static const char text[] = PERIOD "@ 0x1301\n t*: 100: 2000000 [0: 0]\n"
                                      "@ 0x1201\n t*: 0: 0 [0: 0]\n" MAPS;
    static const char all[] = "heap_v2/1\n@ 0x1101\n t*: 1000: 48000 [0: 0]\n" MAPS;
    const struct waste_class class = {.size = 48, .objects = 500, .slabs = 100, .per_slab = 256};
    struct made made;

    if (CHECK(make(&made, text, &class, 1)) && CHECK(made.waste.count == 1)) {
        CHECK(row_is(&made, 0, "", 48, 25100 * 48, 25100 * 48));
        CHECK(made.waste.unsharable >= 100);
    }
    unmake(&made);
    if (CHECK(make(&made, all, &class, 1)) && CHECK(made.waste.count == 1))
        CHECK(row_is(&made, 0, "", 48, 25100 * 48, 25100 * 48));
    unmake(&made);
}

/* jemalloc's own JSON may say anything: the order of classes, their number, and all numbers. */
static void test_hostile(void)
{
    static const char text[] =
        PERIOD "@ 0x1101\n t*: 3: 144 [0: 0]\n"
               "@ 0x1201\n t*: 18446744073709551615: 18446744073709551615 [0: 0]\n"
               "@ 0x1301\n t*: 1: 18446744073709551615 [0: 0]\n" MAPS;
    const uint64_t values[] = {0, 1, 48, 1000, INT64_MAX, UINT64_MAX - 1, UINT64_MAX};
    enum { VALUES = ARRAY_LEN(values), CLASSES = 5 };
    struct waste_class classes[CLASSES];
    struct made made;
    uint64_t seed = 1;

    for (unsigned round = 0; round < 2000; round++) {
        uint64_t *words = (uint64_t *)classes;
        for (size_t i = 0; i < sizeof classes / (sizeof *words); i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            words[i] = values[(seed >> 33) % VALUES];
        }
        if (CHECK(make(&made, text, classes, CLASSES))) {
            for (size_t i = 0; i < made.waste.count; i++) {
                const struct waste_row *row = &made.waste.rows[i];
                CHECK(row->bytes <= waste_bytes(&classes[row->class]) && row->bytes);
                CHECK(isfinite(row->error) && row->error >= 0 && isfinite(row->objects));
                CHECK(isfinite(row->least) && row->least >= 0 && isfinite(row->most));
                CHECK(i == 0 || made.waste.rows[i - 1].bytes >= row->bytes);
            }
            CHECK(sum(&made.waste) == made.waste.bytes || made.waste.bytes == UINT64_MAX);
        }
        unmake(&made);
    }
}

/* 3 of 4 objects are in full slabs: all of those that pin may be of the smaller stack, or none. */
static void test_full_slabs(void)
{
    static const char text[] = PERIOD "@ 0x1101\n t*: 800: 38400 [0: 0]\n"
                                      "@ 0x1201\n t*: 200: 9600 [0: 0]\n" MAPS;
    struct waste_class class = {
        .size = 48, .objects = 85000, .slabs = 1250, .nonfull = 1001, .per_slab = 256};
    struct made made;

    CHECK(fabs(waste_full_part(&class) - 0.75) < 0.001);
    if (CHECK(make(&made, text, &class, 1)) && CHECK(made.waste.count == 2)) {
        const struct waste_row *rows = made.waste.rows;
        const double whole = (double)made.waste.bytes;
        CHECK(row_is(&made, 0, "keep", 48, 0.79 * whole, 0.81 * whole));
        /* 0.2 and 0.8, and two standard deviations of a share of 0.8 among 1000 samples, times 4 */
        CHECK(rows[0].least < 0.2 * whole && rows[0].least > 0.08 * whole);
        CHECK(rows[0].most == whole && rows[1].least == 0);
        CHECK(rows[1].most > 0.8 * whole && rows[1].most < 0.92 * whole);
    }
    unmake(&made);
    class.nonfull = class.slabs;
    CHECK(waste_full_part(&class) == 0);
    if (CHECK(make(&made, text, &class, 1)) && CHECK(made.waste.count == 2))
        for (size_t i = 0; i < 2; i++) {
            const struct waste_row *row = &made.waste.rows[i];
            CHECK(fabs(row->least + row->error - (double)row->bytes) < 10);
            CHECK(fabs(row->most - row->error - (double)row->bytes) < 10);
        }
    unmake(&made);
}

/* jemalloc's own objects keep slabs, too; with so few others no sample is expected. */
static void test_own(void)
{
    static const char text[] = PERIOD "@ 0x1101\n t*: 1000: 2000000 [0: 0]\n" MAPS;
    const struct waste_class classes[] = {
        {.size = 32, .objects = 100, .slabs = 10, .per_slab = 128, .own = 60},
        {.size = 64, .objects = 50, .slabs = 10, .per_slab = 64, .own = 500},
        {.size = 96, .objects = 0, .slabs = 1, .per_slab = 128, .own = 0},
    };
    struct made made;

    if (CHECK(make(&made, text, classes, 3)) && CHECK(made.waste.count == 4)) {
        const uint64_t first = 1180 * 32, second = 590 * 64, third = 128 * 96;
        CHECK(sum(&made.waste) == made.waste.bytes && made.waste.bytes == first + second + third);
        CHECK(row_is(&made, 0, "", 64, (double)second, (double)second) && made.waste.rows[0].own);
        CHECK(row_is(&made, 1, "", 32, 0.59 * (double)first, 0.61 * (double)first));
        CHECK(made.waste.rows[1].own && made.waste.rows[1].objects == 60);
        CHECK(!made.waste.rows[2].own && !made.waste.rows[3].own);
        CHECK(made.waste.own == made.waste.rows[0].bytes + made.waste.rows[1].bytes);
        CHECK(made.waste.unknown == made.waste.bytes - made.waste.own);
        /* 40 of 32 bytes, a byte in 4096 of which is sampled */
        CHECK(fabs(waste_expected(&classes[0], made.waste.rows[2].objects, 4096) - 0.3137) < 0.001);
    }
    unmake(&made);
}

static void test_without_profile(void)
{
    const struct waste_class classes[] = {
        {.size = 48, .objects = 10, .slabs = 10, .per_slab = 256},
        {.size = 64, .objects = 64, .slabs = 1, .per_slab = 64},
        {.size = 96, .objects = 10, .slabs = 100, .per_slab = 128},
    };
    struct waste waste;

    if (CHECK(waste_make(&waste, classes, 3, NULL)) && CHECK(waste.count == 2)) {
        CHECK(waste.rows[0].class == 2 && waste.rows[0].bytes == 12790ull * 96);
        CHECK(waste.rows[1].class == 0 && waste.rows[1].bytes == 2550ull * 48);
        CHECK(waste.unknown == waste.bytes && !waste.has_profile);
    }
    waste_free(&waste);
    CHECK(waste_make(&waste, NULL, 0, NULL) && waste.count == 0 && waste.bytes == 0);
    waste_free(&waste);
}

int main(void)
{
    test_bytes();
    test_shared();
    test_rest();
    test_mixed();
    test_near();
    test_not_in_slabs();
    test_full_slabs();
    test_hostile();
    test_own();
    test_without_profile();
    return check_result();
}
