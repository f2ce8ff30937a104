/* Growth by stack: order, sums, rates, cuts, and the calls of a row. */
#include "check.h"
#include "profile/stack_text.h"
#include "profile/views/growth.h"
#include "stub_symbols.h"

#include <math.h>
#include <string.h>

#define MAPS "\nMAPPED_LIBRARIES:\n1000-2000 r-xp 00000000 08:02 1 /bin/app\n"

static const struct stub_symbol app[] = {
    {0x1100, 0x1200, {{"main", "main", "/src/main.c", 10, 1}}},
    {0x1200, 0x1300, {{"parse\x1b", "parse", "/src/parse.c", 20, 1}}},
    {0x1300,
     0x1400,
     {{"grow", "grow", "/src/list.h", 5, 1}, {"load", "load", "/src/load.c", 30, 1}}},
    {0x1400, 0x1500, {{"deep", "deep", NULL, 0, 0}}},
    {0, 0, {{0}}},
};

static const char before[] = "heap_v2/1\n"
                             "@ 0x1201 0x1101\n t*: 1: 50 [0: 0]\n"
                             "@ 0x1101\n t*: 1: 7 [0: 0]\n"
                             "@ 0x1401\n t*: 3: 30 [0: 0]\n" MAPS;
static const char now[] = "heap_v2/1\n"
                          "@ 0x1301 0x1101\n t*: 2: 100 [0: 0]\n"
                          "@ 0x1201 0x1101\n t*: 1: 200 [0: 0]\n"
                          "@ 0x1401\n t*: 3: 30 [0: 0]\n"
                          "@ 0x1401 0x1101\n t*: 1: 1 [0: 0]\n" MAPS;

struct made {
    struct heap_profile profile, base;
    struct symbols *symbols, *base_symbols;
    struct samples samples;
};

static bool make(struct made *made, const char *text, const char *base)
{
    struct samples_options options = {0};
    struct symbols_options none = {0};

    memset(made, 0, sizeof *made);
    stub_next = app;
    return heap_parse(&made->profile, text, strlen(text), NULL) == FAULT_NONE &&
           heap_parse(&made->base, base, strlen(base), NULL) == FAULT_NONE &&
           (made->symbols = locations_symbols(&made->profile, &none)) &&
           (made->base_symbols = locations_symbols(&made->base, &none)) &&
           samples_build(&made->samples, &options, &made->profile, made->symbols, &made->base,
                         made->base_symbols);
}

static void unmake(struct made *made)
{
    samples_free(&made->samples);
    symbols_free(made->symbols);
    symbols_free(made->base_symbols);
    heap_free(&made->profile);
    heap_free(&made->base);
}

static bool row_is(const struct growth_row *row, int64_t bytes, int64_t objects, double rate)
{
    return row->bytes == bytes && row->objects == objects && fabs(row->bytes_per_s - rate) < 1e-9 &&
           row->error == 0 && !row->within;
}

/* The stack that has not changed has no row. */
static void test_rows(void)
{
    struct growth growth;
    struct made made;

    if (CHECK(make(&made, now, before)) && CHECK(growth_make(&growth, &made.samples, 4))) {
        CHECK(growth.count == 4 && growth.grown == 251 && growth.shrunk == -7);
        CHECK(growth.error == 0 && growth.seconds == 4);
        CHECK(row_is(&growth.rows[0], 150, 0, 37.5));
        CHECK(row_is(&growth.rows[1], 100, 2, 25));
        CHECK(row_is(&growth.rows[2], 1, 1, 0.25));
        CHECK(row_is(&growth.rows[3], -7, -1, -1.75));
        growth_free(&growth);
        CHECK(!growth.rows);
    }
    unmake(&made);
}

static void test_shown(void)
{
    struct display display = {.value = VALUE_BYTES, .least = 0.005};
    struct growth growth;
    struct made made;

    if (CHECK(make(&made, now, before)) && CHECK(growth_make(&growth, &made.samples, 0))) {
        CHECK(growth.rows[0].bytes_per_s == 0);
        CHECK(growth_shown(&growth, &display) == 2); /* 1 of 251 is too small */
        display.rows = 1;
        CHECK(growth_shown(&growth, &display) == 1);
        display.rows = 0;
        display.least = 0; /* --rows 0 */
        CHECK(growth_shown(&growth, &display) == 4);
        growth_free(&growth);
    }
    unmake(&made);
}

static void test_calls(void)
{
    static const struct {
        const char *name;
        unsigned line;
    } wanted[] = {{"grow", 5}, {"load", 30}, {"main", 10}};
    const struct stack_call *call;
    struct stack_walk walk = {0};
    struct growth growth;
    struct made made;

    if (CHECK(make(&made, now, before)) && CHECK(growth_make(&growth, &made.samples, 0))) {
        const struct sample *sample = &made.samples.list[growth.rows[1].sample];
        for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
            call = stack_walk_next(&walk, &made.samples, sample);
            if (!CHECK(call != NULL))
                break;
            CHECK(strcmp(call->function->name, wanted[i].name) == 0 &&
                  call->line == wanted[i].line);
        }
        CHECK(!stack_walk_next(&walk, &made.samples, sample));
        growth_free(&growth);
    }
    unmake(&made);
}

static bool writes(const struct made *made, struct display *display, double seconds,
                   const char *wanted)
{
    struct growth growth;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    bool good = out && growth_make(&growth, &made->samples, seconds);

    if (good) {
        growth_write(&growth, &made->samples, display, true, out);
        growth_free(&growth);
    }
    good = out && fclose(out) == 0 && good && strcmp(text, wanted) == 0;
    if (!good)
        fprintf(stderr, "%s", text);
    free(text);
    return good;
}

/* Names come from the target: nothing in them acts on a terminal. */
static void test_table(void)
{
    struct display display = {.value = VALUE_BYTES, .rows = 2};
    struct made made;

    if (CHECK(make(&made, now, before)))
        CHECK(
            writes(&made, &display, 4,
                   "     growth          interval (95 %)          rate trend, and the stack below\n"
                   "     +150 B                    exact       +38 B/s grows\n"
                   "            parse? (parse.c:20)\n"
                   "            main (main.c:10)\n"
                   "     +100 B                    exact       +25 B/s grows\n"
                   "            grow (list.h:5)\n"
                   "            load (load.c:30)\n"
                   "            main (main.c:10)\n"
                   "       -6 B in 2 more stacks (--rows 0 shows all)\n"));
    unmake(&made);
    if (CHECK(make(&made, before, before)))
        CHECK(writes(&made, &display, 4, "no sampled stack has changed\n"));
    unmake(&made);
}

/* With sampling growth has an error, and growth below it is marked. */
static void test_error(void)
{
    static const char sampled[] = "heap_v2/1000\n@ 0x1201\n t*: 10: 20000 [0: 0]\n" MAPS;
    static const char one_less[] = "heap_v2/1000\n@ 0x1201\n t*: 9: 18000 [0: 0]\n" MAPS;
    static const char none[] = "heap_v2/1000\n" MAPS;
    struct growth growth;
    struct made made;

    if (CHECK(make(&made, sampled, one_less)) && CHECK(growth_make(&growth, &made.samples, 1))) {
        CHECK(growth.rows[0].error > (double)growth.rows[0].bytes && growth.rows[0].within);
        CHECK(growth.error == growth.rows[0].error);
        growth_free(&growth);
    }
    unmake(&made);
    if (CHECK(make(&made, sampled, none)) && CHECK(growth_make(&growth, &made.samples, 1))) {
        CHECK(growth.rows[0].error > 0 && !growth.rows[0].within);
        growth_free(&growth);
    }
    unmake(&made);
}

static bool answers(const struct made *made, struct growth *growth, const char *wanted)
{
    struct display display = {.value = VALUE_BYTES};
    struct growth_answer answer;
    char text[512];

    growth_answer_choose(&answer, growth, &made->samples);
    growth_answer_text(&answer, growth, &made->samples, &display, text, sizeof text);
    if (strcmp(text, wanted) != 0)
        fprintf(stderr, "%s\n", text);
    return strcmp(text, wanted) == 0;
}

/* The innermost call may be a wrapper: its caller is named, too. */
static void test_answer(void)
{
    struct growth growth;
    struct made made;

    if (CHECK(make(&made, now, before)) && CHECK(growth_make(&growth, &made.samples, 4))) {
        growth.rows[0].trend.verdict = TREND_UNCLEAR;
        CHECK(answers(&made, &growth,
                      "leaking: grow (list.h:5) <- load (load.c:30) grows by 25 B/s (exact), 100 B "
                      "in 4 s; so does 1 more stack"));
        growth.rows[1].trend = (struct trend){
            .bytes = 100, .low = 90, .high = 110, .verdict = TREND_STOPPED, .stopped = 1};
        growth.rows[2].trend.verdict = TREND_STOPPED;
        CHECK(answers(&made, &growth,
                      "no longer growing: grow (list.h:5) <- load (load.c:30) grew by 100 B (90 B "
                      "to 110 B), until 3 s ago; so did 1 more stack"));
        growth.rows[1].trend.verdict = growth.rows[2].trend.verdict = TREND_UNCLEAR;
        growth.rows[0].trend.high = 160;
        CHECK(answers(&made, &growth,
                      "nothing grows beyond the sampling error: growth of one stack by up to 160 B "
                      "would not be seen"));
        growth_free(&growth);
    }
    unmake(&made);
}

int main(void)
{
    test_rows();
    test_answer();
    test_shown();
    test_calls();
    test_table();
    test_error();
    return check_result();
}
