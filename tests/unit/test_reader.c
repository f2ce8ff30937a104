/* The profile read from memory, for each layout of jemalloc's structures. */
#include "check.h"
#include "jemalloc/faults.h"
#include "jemalloc/reader/heap_text.h"
#include "reader_rig.h"

static struct rig rig;

/* As prof.dump writes the counts, which are unbiased since 5.3.0. */
static const char biased[] = "heap_v2/524288\n"
                             "  t*: 6: 527392 [0: 0]\n"
                             "  t0: 3: 3072 [0: 0]\n"
                             "  t1: 3: 524320 [0: 0] a worker\n"
                             "  t9: 0: 0 [0: 0]\n"
                             "@ 0x5500000200 0x5500001234\n"
                             "  t*: 4: 527360 [0: 0]\n"
                             "  t0: 3: 3072 [0: 0]\n"
                             "  t1: 1: 524288 [0: 0]\n"
                             "@ 0x55000001ff\n"
                             "  t*: 2: 32 [0: 0]\n"
                             "  t1: 2: 32 [0: 0]\n"
                             "\nMAPPED_LIBRARIES:\n";

/* The numbers of jemalloc's formula (prof_data.c, prof_do_unbias), worked out with Python. */
static const char unbiased[] = "heap_v2/524288\n"
                               "  t*: 7: 339 [0: 0]\n"
                               "  t0: 3: 3072 [0: 0]\n"
                               "  t1: 4: 103 [0: 0] a worker\n"
                               "  t9: 0: 0 [0: 0]\n"
                               "@ 0x5500000200 0x5500001234\n"
                               "  t*: 5: 7150 [0: 0]\n"
                               "  t0: 3: 3072 [0: 0]\n"
                               "  t1: 1: 516101 [0: 0]\n"
                               "@ 0x55000001ff\n"
                               "  t*: 2: 32 [0: 0]\n"
                               "  t1: 2: 32 [0: 0]\n"
                               "\nMAPPED_LIBRARIES:\n";

static void report(void)
{
    fprintf(stderr, "%s\n", rig.fault.what);
}

static const char *expected_text(const struct forged_layout *layout)
{
    return layout->unbiased ? unbiased : biased;
}

static void test_layouts(void)
{
    for (size_t i = 0; i < ARRAY_LEN(forged_layouts); i++) {
        const struct forged_layout *layout = &forged_layouts[i];
        fprintf(stderr, "layout of %s\n", layout->version);
        CHECK(rig_sample(&rig, layout));
        if (!CHECK(rig_open_and_read(&rig) == FAULT_NONE))
            report();
        CHECK(rig_text_is(&rig, expected_text(layout)));
        CHECK(rig.reading.stacks == 2 && rig.reading.threads == 3 && !rig.reading.unsettled);
        rig_finish(&rig);
    }
}

/* A stack at the end of a mapping: more program counters than it has cannot be read there. */
static void test_end_of_mapping(void)
{
    for (size_t i = 0; i < ARRAY_LEN(forged_layouts); i++) {
        const struct forged_layout *layout = &forged_layouts[i];
        CHECK(rig_sample(&rig, layout));
        rig.border = rig.forged.stacks[1].at + layout->gctx_bt + 16 + 2 * sizeof(uint64_t);
        CHECK(rig_open_and_read(&rig) == FAULT_NONE);
        CHECK(rig_text_is(&rig, expected_text(layout)));
        rig_finish(&rig);
    }
}

/* A stack whose program counters cannot be read is missing, and counted as such. */
static void test_missing_words(void)
{
    const struct forged_layout *layout = &forged_layouts[0];

    CHECK(rig_sample(&rig, layout));
    CHECK(rig_open(&rig) == FAULT_NONE);
    rig.border = rig.forged.stacks[1].at + layout->gctx_bt + 16 + sizeof(uint64_t);
    CHECK(rig_read(&rig) == FAULT_NONE);
    CHECK(rig.reading.stacks == 1 && rig.reading.unsettled == 1);
    CHECK(!strstr((const char *)rig.sink.bytes, "@ 0x0"));
    rig_finish(&rig);
}

/* The last of several options counts; others may end alike. */
static void test_bias_option(void)
{
    CHECK(bias_option("") == FACT_UNKNOWN);
    CHECK(bias_option("prof:true,lg_prof_sample:12") == FACT_UNKNOWN);
    CHECK(bias_option("prof_unbias:false") == FACT_NO);
    CHECK(bias_option("prof_unbias:false,prof:true") == FACT_NO);
    CHECK(bias_option("prof:true,prof_unbias:false,prof_unbias:true") == FACT_YES);
    CHECK(bias_option("no_prof_unbias:false") == FACT_UNKNOWN);
    CHECK(bias_option("prof_unbias:falsehood,prof_unbias:") == FACT_UNKNOWN);
}

static void test_unbias(void)
{
    /* Objects shifted left by 3, bytes, and the numbers printed for a period of 2^19. */
    static const uint64_t rows[][4] = {
        {0, 524800, 0, 0},       {4100, 0, 0, 0},           {4100, 524800, 1, 1024},
        {13, 829411, 1, 516101}, {12313, 2403811, 5, 7150}, {1, UINT64_MAX, 0, UINT64_MAX},
    };
    uint64_t objects, bytes;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        heap_text_unbias(rows[i][0], rows[i][1], 19, &objects, &bytes);
        if (!CHECK(objects == rows[i][2] && bytes == rows[i][3]))
            fprintf(stderr, "row %zu: %llu, %llu\n", i, (unsigned long long)objects,
                    (unsigned long long)bytes);
    }
}

/* Freed objects too (opt.prof_accum): a stack of which nothing is left has a count of its own. */
static void test_accum(void)
{
    static const uint64_t words[] = {RIG_CODE + 0x10};
    static const char text[] = "heap_v2/524288\n"
                               "  t*: 0: 0 [7: 700]\n"
                               "  t3: 0: 0 [7: 700]\n"
                               "@ 0x5500000010\n"
                               "  t*: 0: 0 [7: 700]\n"
                               "  t3: 0: 0 [7: 700]\n"
                               "\nMAPPED_LIBRARIES:\n";

    CHECK(rig_begin(&rig, &forged_layouts[2]));
    forged_thread(&rig.forged, 3, 0, NULL, false);
    forged_stack(&rig.forged, words, 1);
    forged_count(&rig.forged, &(struct forged_count){
                                  .all_objects = 7, .all_bytes = 700, .state = FORGED_NOMINAL});
    CHECK(rig_end(&rig) && rig_open_and_read(&rig) == FAULT_NONE && rig_text_is(&rig, text));
    rig_finish(&rig);
}

/* A stack without addresses, which prof.dump orders before all others. */
static void test_no_stack(void)
{
    static const uint64_t words[] = {RIG_CODE + 0x10};
    static const char text[] = "heap_v2/524288\n"
                               "  t*: 5: 80 [0: 0]\n"
                               "  t3: 5: 80 [0: 0]\n"
                               "@\n"
                               "  t*: 2: 32 [0: 0]\n"
                               "  t3: 2: 32 [0: 0]\n"
                               "@ 0x5500000010\n"
                               "  t*: 3: 48 [0: 0]\n"
                               "  t3: 3: 48 [0: 0]\n"
                               "\nMAPPED_LIBRARIES:\n";

    for (size_t i = 0; i < ARRAY_LEN(forged_layouts); i++) {
        if (forged_layouts[i].unbiased)
            continue;
        CHECK(rig_begin(&rig, &forged_layouts[i]));
        forged_thread(&rig.forged, 3, 0, NULL, false);
        forged_stack(&rig.forged, words, 1);
        forged_stack(&rig.forged, words, 0);
        rig_count(&rig, 0, 0, 3, 16, 0, 0);
        rig_count(&rig, 1, 0, 2, 16, 0, 0);
        CHECK(rig_end(&rig) && rig_open_and_read(&rig) == FAULT_NONE && rig_text_is(&rig, text));
        rig_finish(&rig);
    }
}

/* Counts of a stack that prof.dump does not count: not yet in the table of their thread. */
static void test_initializing(void)
{
    static const uint64_t words[] = {RIG_CODE + 0x10};

    CHECK(rig_begin(&rig, &forged_layouts[2]));
    forged_thread(&rig.forged, 3, 0, NULL, false);
    forged_stack(&rig.forged, words, 1);
    forged_count(&rig.forged,
                 &(struct forged_count){.objects = 1, .bytes = 1, .state = FORGED_INITIALIZING});
    CHECK(rig_end(&rig) && rig_open_and_read(&rig) == FAULT_NONE && rig.reading.stacks == 0);
    rig_finish(&rig);
}

static void test_states(void)
{
    CHECK(rig_sample(&rig, &forged_layouts[2]));
    *forged_at(&rig.forged, rig.forged.opt_prof) = 0;
    CHECK(rig_open(&rig) == FAULT_PROF_DISABLED);
    *forged_at(&rig.forged, rig.forged.opt_prof) = 2;
    CHECK(rig_open(&rig) == FAULT_UNREADABLE);
    rig_finish(&rig);
}

/* No thread has sampled yet. */
static void test_empty(void)
{
    for (size_t i = 0; i < ARRAY_LEN(forged_layouts); i++) {
        CHECK(rig_begin(&rig, &forged_layouts[i]) && rig_end(&rig));
        CHECK(rig_open_and_read(&rig) == FAULT_NONE);
        CHECK(rig_text_is(&rig, "heap_v2/524288\n"
                                "  t*: 0: 0 [0: 0]\n"
                                "\nMAPPED_LIBRARIES:\n"));
        rig_finish(&rig);
    }
}

/* The layout is found without a version, or with that of another release. */
static void test_wrong_version(void)
{
    static const char *const versions[] = {"", "0.0.0-0-g0", "5.3.0-0-g0", "4.0.0-0-g0"};

    for (size_t i = 0; i < ARRAY_LEN(forged_layouts); i++)
        for (size_t k = 0; k < ARRAY_LEN(versions); k++) {
            CHECK(rig_sample(&rig, &forged_layouts[i]));
            strcpy(rig.instance.version, versions[k]);
            if (!CHECK(rig_open_and_read(&rig) == FAULT_NONE &&
                       rig_text_is(&rig, expected_text(&forged_layouts[i]))))
                fprintf(stderr, "%s as \"%s\": ", forged_layouts[i].version, versions[k]), report();
            rig_finish(&rig);
        }
}

/* lg_prof_sample was not found: the counts tell it since 5.3.0; no number is made up. */
static void test_period(void)
{
    CHECK(rig_sample(&rig, &forged_layouts[2]));
    rig.instance.globals.lg_sample = 0;
    CHECK(rig_open_and_read(&rig) == FAULT_UNREADABLE && rig.fault.reason == UNREADABLE_PERIOD);
    rig_finish(&rig);
    CHECK(rig_sample(&rig, &forged_layouts[5]));
    rig.instance.globals.lg_sample = 0;
    CHECK(rig_open_and_read(&rig) == FAULT_NONE && rig_text_is(&rig, unbiased));
    rig_finish(&rig);
    CHECK(rig_sample(&rig, &forged_layouts[5]));
    rig.instance.globals.lg_sample = 0;
    for (size_t i = 0; i < rig.forged.count_count; i++) /* as if each was sampled for certain */
        forged_put(&rig.forged, rig.forged.counts[i].at + 40, 8);
    CHECK(rig_open_and_read(&rig) == FAULT_UNREADABLE && rig.fault.reason == UNREADABLE_PERIOD);
    rig_finish(&rig);
}

int main(void)
{
    test_layouts();
    test_end_of_mapping();
    test_missing_words();
    test_bias_option();
    test_unbias();
    test_accum();
    test_no_stack();
    test_initializing();
    test_states();
    test_empty();
    test_wrong_version();
    test_period();
    return check_result();
}
