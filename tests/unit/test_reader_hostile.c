/* Memory that is no profile, or one that never stands still: refused or counted, never believed. */
#include "check.h"
#include "jemalloc/faults.h"
#include "reader_rig.h"

static struct rig rig;
static const struct forged_layout *layout;

/* The text of the sample's first stack, and of its second one, alone. */
#define FIRST                                                                                      \
    "@ 0x5500000200 0x5500001234\n"                                                                \
    "  t*: 4: 527360 [0: 0]\n"                                                                     \
    "  t0: 3: 3072 [0: 0]\n"                                                                       \
    "  t1: 1: 524288 [0: 0]\n"
#define SECOND                                                                                     \
    "@ 0x55000001ff\n"                                                                             \
    "  t*: 2: 32 [0: 0]\n"                                                                         \
    "  t1: 2: 32 [0: 0]\n"
#define TITLE "\nMAPPED_LIBRARIES:\n"

static const char only_first[] = "heap_v2/524288\n"
                                 "  t*: 4: 527360 [0: 0]\n"
                                 "  t0: 3: 3072 [0: 0]\n"
                                 "  t1: 1: 524288 [0: 0] a worker\n"
                                 "  t9: 0: 0 [0: 0]\n" FIRST TITLE,
                  only_second[] = "heap_v2/524288\n"
                                  "  t*: 2: 32 [0: 0]\n"
                                  "  t0: 0: 0 [0: 0]\n"
                                  "  t1: 2: 32 [0: 0] a worker\n"
                                  "  t9: 0: 0 [0: 0]\n" SECOND TITLE;

enum { IN_SECOND, IN_FIRST, IN_OLD }; /* stacks, in the order in which rig_sample makes them */

static remote_addr stack_at(size_t nth)
{
    return rig.forged.stacks[nth].at;
}

/* The address of the counts of a thread for a stack, in the order of rig_sample. */
static remote_addr count_at(size_t nth)
{
    return rig.forged.counts[nth].at;
}

static void put(remote_addr at, uint64_t value)
{
    forged_put(&rig.forged, at, value);
}

/* Opens the sample while it is sound. The layout is one of 4 counts, whose numbers are simple. */
static bool open_sample(void)
{
    layout = &forged_layouts[3];
    return rig_sample(&rig, layout) && rig_open(&rig) == FAULT_NONE;
}

/* Reads what a test has damaged: the text is as expected, and the rest is counted as missing. */
static bool reads_as(const char *expected, size_t unsettled)
{
    const size_t limit = rig.reads + 10000;
    bool good = rig_read(&rig) == FAULT_NONE && rig_text_is(&rig, expected) &&
                rig.reading.unsettled == unsettled && rig.reads < limit;

    if (!good)
        fprintf(stderr, "unsettled %zu, %zu reads, %s\n", rig.reading.unsettled, rig.reads,
                rig.fault.what);
    rig_finish(&rig);
    return good;
}

static bool refuses(enum unreadable_reason reason)
{
    bool good = rig_read(&rig) == FAULT_UNREADABLE && rig.fault.reason == (int)reason;

    if (!good)
        fprintf(stderr, "%d, %d: %s\n", rig.fault.code, rig.fault.reason, rig.fault.what);
    rig_finish(&rig);
    return good;
}

/* ---- one stack ---- */

static void test_cycle(void)
{
    CHECK(open_sample());
    put(count_at(0) + layout->tctx_link, count_at(0));
    CHECK(reads_as(only_second, 1));
    CHECK(open_sample());
    put(count_at(0) + layout->tctx_link + 8, count_at(1) | 1);
    put(count_at(1) + layout->tctx_link, count_at(0));
    CHECK(reads_as(only_second, 1));
}

static void test_back_pointers(void)
{
    CHECK(open_sample());
    put(count_at(1) + layout->tctx_gctx, stack_at(IN_SECOND));
    CHECK(reads_as(only_second, 1));
    CHECK(open_sample()); /* a tree with the counts of another stack */
    put(stack_at(IN_FIRST) + layout->gctx_tctxs, count_at(2));
    CHECK(reads_as(only_second, 1));
    CHECK(open_sample());
    put(stack_at(IN_SECOND) + layout->gctx_bt, stack_at(IN_FIRST) + layout->gctx_bt + 16);
    CHECK(reads_as(only_first, 1));
}

static void test_unreadable(void)
{
    static const uint64_t addresses[] = {8, RIG_DATA + RIG_BYTES - 8, UINT64_C(1) << 63,
                                         UINT64_MAX - 7};

    for (size_t i = 0; i < ARRAY_LEN(addresses); i++) {
        CHECK(open_sample());
        put(stack_at(IN_FIRST) + layout->gctx_tctxs, addresses[i]);
        CHECK(reads_as(only_second, 1));
        CHECK(open_sample());
        put(count_at(2) + layout->tctx_link + 8, addresses[i]);
        CHECK(reads_as(only_first, 1));
    }
}

static void test_depth(void)
{
    static const uint32_t lengths[] = {(1 << 16) + 1, UINT32_MAX};

    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        CHECK(open_sample());
        forged_put32(&rig.forged, stack_at(IN_FIRST) + layout->gctx_bt + 8, lengths[i]);
        CHECK(reads_as(only_second, 1));
    }
}

/* No call at all is a stack, as prof.dump writes it: its counts are not lost. */
static void test_no_calls(void)
{
    static const char text[] = "heap_v2/524288\n"
                               "  t*: 6: 527392 [0: 0]\n"
                               "  t0: 3: 3072 [0: 0]\n"
                               "  t1: 3: 524320 [0: 0] a worker\n"
                               "  t9: 0: 0 [0: 0]\n"
                               "@\n"
                               "  t*: 4: 527360 [0: 0]\n"
                               "  t0: 3: 3072 [0: 0]\n"
                               "  t1: 1: 524288 [0: 0]\n"
                               "@ 0x55000001ff\n"
                               "  t*: 2: 32 [0: 0]\n"
                               "  t1: 2: 32 [0: 0]\n"
                               "\nMAPPED_LIBRARIES:\n";

    CHECK(open_sample());
    forged_put32(&rig.forged, stack_at(IN_FIRST) + layout->gctx_bt + 8, 0);
    CHECK(reads_as(text, 0));
}

/* A list of 100 nodes in the right order is no balanced tree. */
static void test_height(void)
{
    remote_addr last = 0;

    CHECK(open_sample());
    for (uint64_t uid = 100; uid > 0; uid--) {
        remote_addr at = forged_take(&rig.forged, layout->tctx_size);
        memcpy(forged_at(&rig.forged, at), forged_at(&rig.forged, count_at(2)), layout->tctx_size);
        put(at + layout->tctx_uid, uid);
        put(at + layout->tctx_link + 8, last);
        last = at;
    }
    put(stack_at(IN_SECOND) + layout->gctx_tctxs, last);
    CHECK(reads_as(only_first, 1));
}

static void test_state(void)
{
    CHECK(open_sample());
    forged_put32(&rig.forged, count_at(0) + layout->tctx_state, 4);
    CHECK(reads_as(only_second, 1));
}

/* ---- changes between two reads ---- */

static remote_addr restless; /* a word that each read of it changes */

static void change_it(struct rig *changed, remote_addr addr, size_t len)
{
    if (restless >= addr && restless - addr < len)
        forged_put(&changed->forged, restless, forged_get(&changed->forged, restless) + 1);
}

static void test_changing(void)
{
    CHECK(open_sample());
    restless = count_at(1) + layout->tctx_cnts;
    rig.before = change_it;
    CHECK(reads_as(only_second, 1));
    CHECK(open_sample());
    restless = stack_at(IN_SECOND) + layout->gctx_bt + 16;
    rig.before = change_it;
    CHECK(reads_as(only_first, 1));
}

static void change_all(struct rig *changed, remote_addr addr, size_t len)
{
    for (size_t i = 0; i < changed->forged.count_count; i++) {
        restless = count_at(i) + layout->tctx_cnts;
        change_it(changed, addr, len);
    }
}

/* Nothing of it settles: that is no empty profile. */
static void test_all_changing(void)
{
    CHECK(open_sample());
    rig.before = change_all;
    CHECK(refuses(UNREADABLE_CHANGING));
}

static size_t changes_left; /* the last one leaves a 1 */

static void change_some(struct rig *changed, remote_addr addr, size_t len)
{
    if (changes_left && restless >= addr && restless - addr < len) {
        forged_put(&changed->forged, restless, changes_left--);
    }
}

/* One that settles in the end is complete, with its last value. */
static void test_settles(void)
{
    CHECK(open_sample());
    restless = count_at(1) + layout->tctx_cnts;
    changes_left = 41;
    rig.before = change_some;
    CHECK(rig_read(&rig) == FAULT_NONE && !changes_left && !rig.reading.unsettled);
    CHECK(strstr((char *)rig.sink.bytes, FIRST SECOND) != NULL);
    rig_finish(&rig);
}

/* The table loses its last stack while it is read: one that is freed is not missing. */
static void free_second(struct rig *changed, remote_addr addr, size_t len)
{
    const remote_addr cells = forged_get(&changed->forged, changed->forged.table + 40);

    (void)len;
    if (addr != stack_at(IN_SECOND))
        return;
    memset(forged_at(&changed->forged, stack_at(IN_SECOND)), 0x5a, 128);
    for (remote_addr at = cells; at < cells + 128; at += 16)
        if (forged_get(&changed->forged, at + 8) == stack_at(IN_SECOND))
            put(at, 0);
}

static void test_freed(void)
{
    CHECK(open_sample());
    rig.before = free_second;
    CHECK(rig_read(&rig) == FAULT_NONE && strstr((char *)rig.sink.bytes, FIRST TITLE) != NULL);
    rig_finish(&rig);
}

/* One that is freed and comes back elsewhere is there twice for a moment: the later read counts. */
static void test_repeated(void)
{
    static const uint64_t words[] = {RIG_CODE + 0x10};
    static const char text[] = "heap_v2/524288\n"
                               "  t*: 2: 64 [0: 0]\n"
                               "  t4: 2: 64 [0: 0]\n"
                               "@ 0x5500000010\n"
                               "  t*: 2: 64 [0: 0]\n"
                               "  t4: 2: 64 [0: 0]\n" TITLE;

    CHECK(rig_begin(&rig, &forged_layouts[3]));
    forged_thread(&rig.forged, 4, 0, NULL, false);
    forged_stack(&rig.forged, words, 1);
    forged_stack(&rig.forged, words, 1);
    rig_count(&rig, 0, 0, 1, 32, 0, 0);
    rig_count(&rig, 1, 0, 2, 32, 0, 0);
    CHECK(rig_end(&rig) && rig_open_and_read(&rig) == FAULT_NONE && rig_text_is(&rig, text));
    CHECK(rig.reading.stacks == 1);
    rig_finish(&rig);
}

/* ---- the table ---- */

static remote_addr cells_at(void)
{
    return forged_get(&rig.forged, rig.forged.table + 40);
}

/* A key that is not the stack of its data: one stack less, which is counted. */
static void test_cells(void)
{
    CHECK(open_sample());
    for (remote_addr at = cells_at(); at < cells_at() + 128; at += 16)
        if (forged_get(&rig.forged, at + 8) == stack_at(IN_FIRST))
            put(at, forged_get(&rig.forged, at) + 8);
    CHECK(reads_as(only_second, 1));
}

/* The table counts more stacks than it has, as if one was being moved when the process stopped. */
static void test_table_count(void)
{
    for (int is_still = 0; is_still < 2; is_still++) {
        CHECK(open_sample());
        rig.reader.source.is_still = is_still;
        put(rig.forged.table + 8, 5);
        CHECK(rig_read(&rig) == FAULT_NONE && rig.reading.stacks == 2);
        CHECK(rig.reading.unsettled == 2);
        CHECK(rig_open(&rig) == FAULT_UNREADABLE && rig.fault.reason == UNREADABLE_TABLE);
        rig_finish(&rig);
    }
}

static void test_table_size(void)
{
    static const uint32_t sizes[] = {28, 29, 60, 63, 64, UINT32_MAX};

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        CHECK(open_sample());
        forged_put32(&rig.forged, rig.forged.table + 20, sizes[i]);
        const size_t before = rig.reads;
        CHECK(refuses(UNREADABLE_MISSING) && rig.reads - before < 1000);
    }
    CHECK(open_sample());
    put(rig.forged.table + 40, UINT64_MAX - 63);
    CHECK(refuses(UNREADABLE_MISSING));
}

/* Two tables that are both proven: it is unknown which is the profile. */
static void test_two_tables(void)
{
    CHECK(rig_sample(&rig, &forged_layouts[3]));
    memcpy(rig.bytes + 8192, forged_at(&rig.forged, rig.forged.table), FORGED_TABLE);
    CHECK(rig_open(&rig) == FAULT_UNREADABLE && rig.fault.reason == UNREADABLE_TABLE);
    rig_finish(&rig);
}

/* The variables are found by their look if a page between them and the others is missing. */
static void test_missing_page(void)
{
    CHECK(rig_sample(&rig, &forged_layouts[3]));
    rig.hole = RIG_DATA + RIG_SEGMENT / 2;
    CHECK(rig_open_and_read(&rig) == FAULT_NONE && rig.reading.stacks == 2);
    rig_finish(&rig);
}

/* ---- the threads ---- */

static void test_thread_tree(void)
{
    CHECK(open_sample());
    const unsigned link = layout->tdata_link;
    put(rig.forged.threads[0].at + link, rig.forged.threads[0].at);
    CHECK(refuses(UNREADABLE_PROOF));
    CHECK(open_sample());
    put(rig.forged.threads[1].at + link, 8);
    CHECK(refuses(UNREADABLE_PROOF));
    CHECK(open_sample()); /* a thread whose table is not one of jemalloc's */
    put(rig.forged.threads[2].at + layout->tdata_table + 24, RIG_CODE);
    CHECK(refuses(UNREADABLE_PROOF));
    CHECK(open_sample());
    forged_at(&rig.forged, rig.forged.threads[2].at + layout->tdata_expired)[0] = 2;
    CHECK(refuses(UNREADABLE_PROOF));
}

/* Counts of a thread that is in no tree: they are not complete without it. */
static void test_lost_thread(void)
{
    CHECK(open_sample());
    put(count_at(2), RIG_DATA + RIG_SEGMENT + 8);
    CHECK(rig_read(&rig) == FAULT_NONE && rig.reading.unsettled == 1);
    rig_finish(&rig);
}

/* The name of a thread is a part of one line of the profile, and of a terminal. */
static void test_names(void)
{
    static const struct {
        const char *name, *text;
    } rows[] = {
        {"with\tblanks [1: 2]", " with\tblanks [1: 2]"},
        {"two\nlines", ""},
        {"\n  t5: 1: 1 [0: 0]", ""},
        {"\033[2J", ""},
        {"return\r", ""},
        {"bell\a", ""},
        {"delete\177", ""},
        {"\303\251", ""},
        {"\233"
         "31m",
         ""},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char line[128];
        CHECK(rig_begin(&rig, &forged_layouts[3]));
        forged_thread(&rig.forged, 5, 0, rows[i].name, false);
        snprintf(line, sizeof line,
                 "heap_v2/524288\n  t*: 0: 0 [0: 0]\n  t5: 0: 0 [0: 0]%s\n" TITLE, rows[i].text);
        forged_stack(&rig.forged, (uint64_t[]){RIG_CODE + 1}, 1);
        rig_count(&rig, 0, 0, 0, 0, 0, 0);
        CHECK(rig_end(&rig) && rig_open_and_read(&rig) == FAULT_NONE && rig_text_is(&rig, line));
        rig_finish(&rig);
    }
}

/* A name that does not end, one that is nowhere, and one of 16 bytes in the thread's own data. */
static void test_endless_names(void)
{
    CHECK(open_sample());
    memset(rig.bytes + RIG_BYTES - 65536, 'x', 65536);
    put(rig.forged.threads[1].at + layout->tdata_name, RIG_DATA + RIG_BYTES - 65536);
    CHECK(rig_read(&rig) == FAULT_NONE && strstr((char *)rig.sink.bytes, "t1: 3: 524320 [0: 0]\n"));
    put(rig.forged.threads[1].at + layout->tdata_name, UINT64_MAX - 3);
    CHECK(rig_read(&rig) == FAULT_NONE && strstr((char *)rig.sink.bytes, "t1: 3: 524320 [0: 0]\n"));
    rig_finish(&rig);

    layout = &forged_layouts[7];
    CHECK(rig_sample(&rig, layout));
    memset(forged_at(&rig.forged, rig.forged.threads[1].at + layout->tdata_name), 'x', 16);
    CHECK(rig_open_and_read(&rig) == FAULT_NONE &&
          strstr((char *)rig.sink.bytes, "t1: 4: 103 [0: 0]\n"));
    rig_finish(&rig);
}

/* ---- limits ---- */

/* Sums that do not fit into 64 bits, or into a double. */
static void test_sums(void)
{
    for (size_t i = 0; i < ARRAY_LEN(forged_layouts); i++) {
        CHECK(rig_sample(&rig, &forged_layouts[i]) && rig_open(&rig) == FAULT_NONE);
        for (size_t k = 0; k < rig.forged.count_count; k++)
            memset(forged_at(&rig.forged, count_at(k) + forged_layouts[i].tctx_cnts), 0xff, 32);
        CHECK(rig_read(&rig) == FAULT_NONE && rig.reading.stacks == 2);
        rig_finish(&rig);
    }
}

static void test_limit(void)
{
    CHECK(open_sample());
    rig.sink.limit = 100;
    CHECK(reader_read(&rig.reader, &rig.sink, &rig.reading, &rig.fault) == FAULT_TOO_LARGE);
    rig_finish(&rig);
}

static void test_deadline(void)
{
    static const volatile sig_atomic_t interrupted = 1;
    struct deadline deadline = {.at = 1};

    CHECK(rig_sample(&rig, &forged_layouts[3]));
    rig.source.deadline = &deadline;
    CHECK(rig_open(&rig) == FAULT_TOO_LATE);
    deadline = (struct deadline){.at = UINT64_MAX, .interrupted = &interrupted};
    CHECK(rig_open(&rig) == FAULT_INTERRUPTED);
    rig.source.deadline = NULL;
    CHECK(rig_open(&rig) == FAULT_NONE);
    rig.reader.source.deadline = &deadline;
    CHECK(rig_read(&rig) == FAULT_INTERRUPTED);
    deadline = (struct deadline){.at = 1};
    CHECK(rig_read(&rig) == FAULT_TOO_LATE);
    rig_finish(&rig);
}

/* The process ends, after each number of reads. */
static size_t reads_left;

static void end_process(struct rig *ending, remote_addr addr, size_t len)
{
    (void)addr;
    (void)len;
    if (!reads_left || !--reads_left)
        memset(ending->bytes, 0, sizeof ending->bytes);
}

static void test_end(void)
{
    size_t all;

    CHECK(rig_sample(&rig, &forged_layouts[6]) && rig_open_and_read(&rig) == FAULT_NONE);
    all = rig.reads;
    rig_finish(&rig);
    for (size_t i = 0; i < all; i++) {
        CHECK(rig_sample(&rig, &forged_layouts[6]));
        reads_left = i;
        rig.before = end_process;
        rig_open_and_read(&rig);
        rig_finish(&rig);
    }
    CHECK(all > 10);
}

int main(void)
{
    test_cycle();
    test_back_pointers();
    test_unreadable();
    test_depth();
    test_no_calls();
    test_height();
    test_state();
    test_changing();
    test_all_changing();
    test_settles();
    test_freed();
    test_repeated();
    test_cells();
    test_table_count();
    test_table_size();
    test_two_tables();
    test_missing_page();
    test_thread_tree();
    test_lost_thread();
    test_names();
    test_endless_names();
    test_sums();
    test_limit();
    test_deadline();
    test_end();
    return check_result();
}
