/*
 * The sample of a heap: each object of a size is equally likely, the samples are shared out by
 * bytes, the estimates and their errors are right, and common beginnings of texts are found.
 * The random numbers are the same in each run.
 */
#include "check.h"
#include "run/peek/peek_draw.h"
#include "run/peek/peek_rows.h"

#include <math.h>
#include <string.h>

enum { SLABS = 40, SLAB_OBJECTS = 16 };

static void draw_begin(struct peek *peek, struct peek_draw *draw, size_t samples, uint64_t seed)
{
    memset(peek, 0, sizeof *peek);
    peek->random = seed;
    *draw = (struct peek_draw){.peek = peek, .samples = samples};
}

/* Of slab number i, every object but those of a pattern is in use. */
static struct extent slab_of(size_t i, uint64_t size)
{
    return (struct extent){.start = 0x10000 * (i + 1),
                           .size = size,
                           .objects = SLAB_OBJECTS,
                           .slab = true,
                           .bitmap = {i % 3 ? 0xff7f : 0x0f0f}};
}

static size_t number_of(const struct peek_sample *sample)
{
    return (sample->addr / 0x10000 - 1) * SLAB_OBJECTS + sample->addr % 0x10000 / 64;
}

/* 4,000 samples of 30 objects: a binomial of each object's hits, within 5 standard deviations. */
static void test_each_object_is_equally_likely(void)
{
    static unsigned hits[SLABS * SLAB_OBJECTS];
    enum { RUNS = 4000, SAMPLES = 30 };
    size_t in_use = 0, wrong = 0;
    struct peek peek;
    struct peek_draw draw;

    for (size_t run = 0; run < RUNS; run++) {
        draw_begin(&peek, &draw, SAMPLES, run);
        for (size_t i = 0; i < SLABS; i++) {
            struct extent extent = slab_of(i, 64);
            peek_draw_offer(&draw, &extent);
        }
        wrong += !peek_draw_choose(&draw) || peek.sample_count != SAMPLES;
        for (size_t i = 0; i < peek.sample_count; i++)
            hits[number_of(&peek.samples[i])]++;
        for (size_t i = 1; i < peek.sample_count; i++)
            wrong += peek.samples[i].addr <= peek.samples[i - 1].addr; /* none twice */
        in_use = peek.classes[0].objects;
        peek_free(&peek);
    }
    double share = (double)SAMPLES / (double)in_use;
    double expected = RUNS * share, deviation = sqrt(RUNS * share * (1 - share));
    for (size_t i = 0; i < SLABS * SLAB_OBJECTS; i++) {
        struct extent extent = slab_of(i / SLAB_OBJECTS, 64);
        if (extent_in_use(&extent, i % SLAB_OBJECTS))
            wrong += fabs(hits[i] - expected) > 5 * deviation;
        else
            wrong += hits[i] != 0;
    }
    CHECK(in_use == 26 * 15 + 14 * 8 && wrong == 0);
}

/* A size of many bytes gets more, a size of few objects all of them, and none is left out. */
static void test_shares(void)
{
    struct peek peek;
    struct peek_draw draw;

    draw_begin(&peek, &draw, 2000, 1);
    for (size_t i = 0; i < 1000; i++)
        for (uint64_t size = 64; size <= 256; size += 192) {
            struct extent extent = slab_of(i + size * 1000, size);
            peek_draw_offer(&draw, &extent);
        }
    for (size_t i = 0; i < 5; i++)
        peek_draw_offer(&draw,
                        &(struct extent){.start = (i + 1) << 40, .size = 1 << 20, .objects = 1});
    if (!CHECK(peek_draw_choose(&draw) && peek.class_count == 3))
        return;
    CHECK(peek.classes[0].size == 64 && peek.classes[1].size == 256);
    CHECK(peek.classes[2].wanted == 5);
    CHECK(peek.sample_count > 1990 && peek.sample_count <= 2000);
    CHECK(peek.classes[1].wanted > 2 * peek.classes[0].wanted && peek.classes[0].wanted > 60);
    peek_free(&peek);
}

/* More sizes than jemalloc has, from a process that lies. */
static void test_too_many_sizes(void)
{
    struct peek peek;
    struct peek_draw draw;

    draw_begin(&peek, &draw, 100, 1);
    for (size_t i = 0; i < 2 * PEEK_CLASSES_MAX; i++)
        CHECK(peek_draw_offer(&draw, &(struct extent){.start = (i + 1) << 20,
                                                      .size = (i * 7919 % 2048 + 1) * 8,
                                                      .objects = 1}));
    CHECK(peek.class_count == PEEK_CLASSES_MAX && peek_draw_choose(&draw));
    CHECK(peek.sample_count <= 100);
    peek_free(&peek);
}

/* ---- rows ---- */

static struct peek_sample text_sample(const char *text)
{
    struct peek_sample sample = {.state = PEEK_JUDGED, .detail = "name"};

    sample.content.kind = CONTENT_TEXT;
    sample.content.word = CONTENT_NO_WORD;
    sample.content.detail = "name";
    sample.shown_len = (uint8_t)strlen(text);
    memcpy(sample.shown, text, strlen(text));
    return sample;
}

static void test_prefixes(void)
{
    struct peek_sample samples[100];
    struct peek_prefix prefixes[PEEK_PREFIXES];
    char text[32];

    for (int i = 0; i < 100; i++) { /* in the order of their bytes */
        snprintf(text, sizeof text, i < 10 ? "a%02d" : i < 40 ? "cache:%02d" : "user:%02d", i);
        samples[i] = text_sample(text);
    }
    CHECK(peek_prefixes_find(samples, 100, prefixes) == 2);
    CHECK(prefixes[0].len == 5 && prefixes[0].hits == 60 && prefixes[0].first == 40);
    CHECK(prefixes[1].len == 6 && prefixes[1].hits == 30 && prefixes[1].first == 10);
    CHECK(peek_prefixes_find(samples, 10, prefixes) == 0); /* one byte in common is not enough */
    CHECK(peek_prefixes_find(samples, 0, prefixes) == 0);
    for (int i = 0; i < 100; i++)
        samples[i] = text_sample("12345678901234567890123456789012");
    CHECK(peek_prefixes_find(samples, 100, prefixes) == 1 && prefixes[0].len == PEEK_SHOWN);
}

static void fill_rows(struct peek *peek, size_t sampled, size_t texts)
{
    peek->sample_count = sampled;
    peek->samples = calloc(sampled, sizeof *peek->samples);
    for (size_t i = 0; i < sampled; i++) {
        peek->samples[i] = text_sample("session");
        if (i >= texts)
            peek->samples[i].content.kind = CONTENT_ZEROS;
        if (i >= texts)
            peek->samples[i].content.detail = NULL;
    }
}

/* 1,000,000 objects, 10,000 samples, 30 % of them text: 300,000, and 1.96 times 4,562. */
static void test_estimates(void)
{
    struct peek peek = {.class_count = 1, .pass.share = 1};

    peek.classes[0] = (struct peek_class){.size = 48, .objects = 1000000};
    fill_rows(&peek, 10000, 3000);
    if (!CHECK(peek_rows_make(&peek) && peek.row_count == 2 && peek.total_count == 2))
        return;
    CHECK(peek.rows[0].kind == CONTENT_ZEROS && peek.rows[0].objects == 700000);
    CHECK(peek.rows[1].kind == CONTENT_TEXT && peek.rows[1].objects == 300000);
    CHECK(fabs(peek.rows[1].objects_error - 8937) < 50);
    CHECK(fabs(peek.rows[1].bytes_error - 48 * peek.rows[1].objects_error) < 1);
    CHECK(peek.objects == 1000000 && peek.bytes == 48e6 && peek.judged == 10000);
    peek_free(&peek);
}

/* Half of the objects were looked at: the other half is uncertain, and the error 0.71 times. */
static void test_half_of_the_objects(void)
{
    struct peek peek = {.class_count = 1, .pass.share = 1};

    peek.classes[0] = (struct peek_class){.size = 48, .objects = 20000};
    fill_rows(&peek, 10000, 3000);
    CHECK(peek_rows_make(&peek) && fabs(peek.rows[1].objects_error - 20000 * 0.00898 * 0.7071) < 2);
    peek_free(&peek);
}

/* All objects were looked at: no error. Half of the memory was: twice as many. */
static void test_whole_and_half(void)
{
    struct peek peek = {.class_count = 1, .pass.share = 1};

    peek.classes[0] = (struct peek_class){.size = 48, .objects = 100};
    fill_rows(&peek, 100, 30);
    CHECK(peek_rows_make(&peek) && peek.rows[0].objects == 70 && peek.rows[0].objects_error == 0);
    peek_free(&peek);
    peek.class_count = 1;
    peek.pass.share = 0.5;
    peek.classes[0] = (struct peek_class){.size = 48, .objects = 100};
    fill_rows(&peek, 100, 30);
    peek.samples[99].state = PEEK_FREED;
    peek.samples[98].state = PEEK_SWAPPED;
    CHECK(peek_rows_make(&peek) && peek.row_count == 3 && peek.objects == 200 && peek.freed == 1);
    CHECK(peek.rows[2].absent && strcmp(peek.rows[2].detail, "swapped out") == 0);
    peek_free(&peek);
}

int main(void)
{
    test_each_object_is_equally_likely();
    test_shares();
    test_too_many_sizes();
    test_prefixes();
    test_estimates();
    test_half_of_the_objects();
    test_whole_and_half();
    return check_result();
}
