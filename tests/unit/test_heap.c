/* Heap profiles as text: every form that jemalloc has written, and invalid ones. */
#include "check.h"
#include "elf/image.h"
#include "profile/faults.h"
#include "profile/heap.h"
#include "profile/symbols/symbols.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fault_code parse(struct heap_profile *profile, const char *text)
{
    struct fault fault;
    return heap_parse(profile, text, strlen(text), &fault);
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b) + 1e-12;
}

static const char whole[] = "heap_v2/524288\n"
                            "  t*: 28106: 56637512 [7: 9]\n"
                            "  t0: 2: 3 [0: 0] main thread\n"
                            "  t18446744073709551615: 0: 0 [0: 0]\n"
                            "@ 0x5f1b 0x5f2c 0\n"
                            "  t*: 13: 6688 [1: 2]\n"
                            "  t0: 12: 6496 [1: 2]\n"
                            "  t7: 1: 192 [0: 0]\n"
                            "@ 0x5f2c 0xFFFFFFFFFFFFFFFF\n"
                            "  t*: 1: 16 [0: 0]\n"
                            "\n"
                            "MAPPED_LIBRARIES:\n"
                            "00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/a b\n"
                            "00452000-00453000 r-xp 00052000 08:02 173521 /usr/bin/a b\n"
                            "00653000-00654000 rw-p 00052000 08:02 173521 /usr/bin/a b\n"
                            "7f00-8f00 r-xp 00001000 08:02 5 /lib/x.so (deleted)\n"
                            "9f00-af00 r-xp 00000000 00:00 0\n"
                            "7fff0000-7fff2000 r-xp 00000000 00:00 0 [vdso]\n";

static void test_whole(void)
{
    struct heap_profile profile;

    if (!CHECK(parse(&profile, whole) == FAULT_NONE))
        return;
    CHECK(profile.period == 524288 && profile.sampling == HEAP_POISSON);
    CHECK(profile.header.objects == 28106 && profile.header.total_bytes == 9);
    CHECK(profile.stack_count == 2 && profile.frame_count == 5 && profile.address_count == 4);
    CHECK(profile.stacks[0].depth == 3 && profile.stacks[1].depth == 2 && profile.deepest == 3);
    CHECK(profile.addresses[profile.frames[0]] == 0x5f1b);
    CHECK(profile.addresses[profile.frames[2]] == 0);
    CHECK(profile.frames[1] == profile.frames[3]); /* one address, one place */
    CHECK(profile.addresses[profile.frames[4]] == UINT64_MAX);
    CHECK(profile.line_count == 2 && profile.lines[1].stack == 1);
    CHECK(profile.lines[0].counts.objects == 13 && profile.lines[0].counts.bytes == 6688);
    CHECK(profile.lines[0].counts.total_objects == 1 && profile.lines[0].counts.total_bytes == 2);
    CHECK(profile.accumulates && profile.has_maps && !profile.cut_short && !profile.odd_lines);
    heap_free(&profile);
}

static void test_threads(void)
{
    struct heap_profile profile;

    if (!CHECK(parse(&profile, whole) == FAULT_NONE))
        return;
    CHECK(profile.thread_count == 3 && profile.thread_line_count == 2);
    CHECK(strcmp(profile.threads[0].name, "main thread") == 0);
    CHECK(profile.threads[1].uid == UINT64_MAX && !profile.threads[1].name);
    CHECK(profile.thread_lines[0].thread == 0 && profile.thread_lines[0].counts.bytes == 6496);
    CHECK(profile.threads[profile.thread_lines[1].thread].uid == 7);
    heap_free(&profile);
}

static void test_mappings(void)
{
    struct heap_profile profile;

    if (!CHECK(parse(&profile, whole) == FAULT_NONE))
        return;
    if (CHECK(profile.mapping_count == 4)) {
        const struct heap_mapping *list = profile.mappings;
        CHECK(list[0].start == 0x7f00 && strcmp(list[0].path, "/lib/x.so") == 0);
        CHECK(strcmp(list[0].text, "/lib/x.so (deleted)") == 0);
        CHECK(list[1].start == 0x9f00 && strcmp(list[1].path, "") == 0);
        CHECK(list[2].start == 0x400000 && list[2].end == 0x453000);
        CHECK(strcmp(list[2].path, "/usr/bin/a b") == 0 && list[2].offset == 0);
        CHECK(strcmp(list[3].path, "[vdso]") == 0);
    }
    heap_free(&profile);
}

/* Each second mapping continues the one before, also where the list of them moves as it grows. */
static void test_many_mappings(void)
{
    enum { PAIRS = 3000 };
    struct heap_profile profile;
    char *text = malloc(PAIRS * 2 * 64 + 256);
    size_t len = (size_t)sprintf(text, "heap_v2/524288\n  t*: 0: 0 [0: 0]\n\nMAPPED_LIBRARIES:\n");
    struct fault fault;

    for (unsigned i = 0; i < PAIRS; i++) {
        const unsigned at = 0x1000000 + i * 0x3000;
        len += (size_t)sprintf(text + len,
                               "%x-%x r-xp 00000000 08:01 7 /lib/%u.so\n"
                               "%x-%x r-xp 00001000 08:01 7 /lib/%u.so\n",
                               at, at + 0x1000, i, at + 0x1000, at + 0x2000, i);
    }
    CHECK(heap_parse(&profile, text, len, &fault) == FAULT_NONE);
    if (CHECK(profile.mapping_count == PAIRS))
        for (unsigned i = 0; i < PAIRS; i++)
            CHECK(profile.mappings[i].end - profile.mappings[i].start == 0x2000);
    heap_free(&profile);
    free(text);
}

/* Overlapping lines cannot be maps; each address still has one mapping. */
static void test_odd_mappings(void)
{
    struct heap_profile profile;

    if (!CHECK(parse(&profile, "heap_v2/1\n\nMAPPED_LIBRARIES:\n"
                               "3000-5000 r-xp 00000000 08:02 1 /b\n"
                               "1000-4000 r-xp 00000000 08:02 1 /a\n"
                               "not a mapping\n"
                               "9000-8000 r-xp 00000000 08:02 1 /c\n"
                               "4000-6000 r-xp 00000000 08:02 1 /d") == FAULT_NONE))
        return;
    for (size_t i = 1; i < profile.mapping_count; i++)
        CHECK(profile.mappings[i - 1].end <= profile.mappings[i].start);
    CHECK(profile.mapping_count >= 1 && profile.mappings[0].start == 0x1000);
    CHECK(profile.odd_maps == 5 - profile.mapping_count);
    heap_free(&profile);
    if (!CHECK(parse(&profile, "heap_v2/1\n\nMAPPED_LIBRARIES:\n"
                               "build=/home/me\n\n"
                               "1000-2000 r-xp 00000000 08:02 1 $build/a.so\n"
                               "3000-4000 r--p 00000000 08:02 1 $build/a.so\n"
                               "5000-6000 r-xp 00000000 00:00 0 [vdso]\n"
                               "7000-8000 rwxp 00000000 00:00 0 \n"
                               "8000-9000 r-xp 00000000 00:01 7 /memfd:jit (deleted)\n"
                               "build-id: 0123456789abcdef /b\n") == FAULT_NONE))
        return;
    CHECK(profile.mapping_count == 4 && profile.odd_maps == 3 && profile.odd_lines == 0);
    heap_free(&profile);
}

static void test_old_forms(void)
{
    static const struct {
        const char *text;
        enum heap_sampling sampling;
        uint64_t period;
    } rows[] = {
        {"heap profile:   28: 4526080 [  1: 2] @ heap_v2/524288\n", HEAP_POISSON, 524288},
        {"heap profile:   28: 4526080 [  1: 2] @ heapz_v2/1048576\n", HEAP_POISSON, 1048576},
        {"heap profile:   28: 4526080 [  1: 2] @ heap/1048576\n", HEAP_UNIFORM, 524288},
        {"heap profile:   28: 4526080 [  1: 2] @ heapprofile\n", HEAP_EXACT, 1},
        {"heap profile:   28: 4526080 [  1: 2]\n", HEAP_EXACT, 1},
        {"heap_v2/1\n", HEAP_EXACT, 1},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct heap_profile profile;
        if (CHECK(parse(&profile, rows[i].text) == FAULT_NONE))
            CHECK(profile.sampling == rows[i].sampling && profile.period == rows[i].period);
        heap_free(&profile);
    }
}

static void test_old_stacks(void)
{
    struct heap_profile profile;

    if (!CHECK(parse(&profile, "heap profile:   28: 4526080 [  1: 2] @ heap_v2/524288\r\n"
                               "  28: 4526080 [  1: 2] @ 0x7f1 0x55d0\r\n"
                               "   1:       8 [ 30:  4] @\n") == FAULT_NONE))
        return;
    CHECK(profile.stack_count == 2 && profile.line_count == 2 && profile.odd_lines == 0);
    CHECK(profile.stacks[0].depth == 2 && profile.stacks[1].depth == 0);
    CHECK(profile.lines[0].counts.bytes == 4526080 && profile.lines[1].counts.total_objects == 30);
    heap_free(&profile);
}

static void test_no_profile(void)
{
    static const char *const texts[] = {
        "",
        "heap_v2",
        "heap_v2/\n",
        "heap_v2/0\n",
        "heap_v2/x\n",
        "heap_v2/1",
        "heap_v2/1 more\n",
        "\n",
        "heap_v1/1\n",
        "heap profile: 1: 2\n",
        "heap_v2/99999999999999999999\n",
        "\x1f\x8b\x08",
        "heap profile: 1: 1 [1: 1] @ other/3\n",
    };

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct heap_profile profile;
        CHECK(parse(&profile, texts[i]) == FAULT_PROFILE);
        heap_free(&profile);
    }
}

/* Names of the file, build-ids behind the maps, and what editors and jemalloc add. */
static void test_additions(void)
{
    static const char text[] =
        "\xef\xbb\xbf<jemalloc>: Leak\r\n--- symbol\nbinary=/bin/app\n"
        "0x2 main<00000000000011b2>\n0x1 f--g\n0x3 0x3\n0x4\n---\n"
        "--- heap\nheap_v2/1 \r\n@ 0x2 0x1 \r\n  t*: 1: 8 [0: 0]\t\r\n\r\n"
        " MAPPED_LIBRARIES: \r\n1-5 r-xp 0 08:02 77 /bin/app \r\n"
        "# build-id 1 00fF\n# build-id 1 12\n# build-id 9 12\n# build-id 1 1\n";
    struct heap_profile profile;

    if (CHECK(parse(&profile, text) == FAULT_NONE)) {
        CHECK(profile.name_count == 2 && profile.names[0].address == 1);
        CHECK(strcmp(profile.names[0].text, "f--g") == 0);
        CHECK(strcmp(profile.names[1].text, "main") == 0);
        CHECK(strncmp(text + profile.header_at, "heap_v2/1 ", 10) == 0);
        CHECK(profile.mapping_count == 1 && strcmp(profile.mappings[0].path, "/bin/app") == 0);
        CHECK(profile.mappings[0].inode == 77 && profile.mappings[0].build_id);
        CHECK(profile.mappings[0].build_id->len == 2 &&
              memcmp(profile.mappings[0].build_id->bytes, "\0\xff", 2) == 0);
        CHECK(!profile.odd_lines && !profile.odd_maps && !profile.cut_short && !profile.maps_cut);
    }
    heap_free(&profile);
}

/* Lines that are not understood are skipped, counted, and do not affect others. */
static void test_odd_lines(void)
{
    struct heap_profile profile;

    if (!CHECK(parse(&profile, "heap_v2/524288\n"
                               "  t*: 1: 2 [0: 0\n"
                               "@ 0x1 0xzz 0x3\n"
                               "  t*: 99999999999999999999: 1 [0: 0]\n"
                               "  t*: 1: 5 [0: 0]\n"
                               "rubbish\n"
                               "@ 0x11112222333344445\n") == FAULT_NONE))
        return;
    CHECK(profile.odd_lines == 5);
    CHECK(profile.stack_count == 2 && profile.stacks[0].depth == 1);
    CHECK(profile.line_count == 1 && profile.lines[0].counts.bytes == 5);
    CHECK(!profile.has_maps);
    heap_free(&profile);
}

/* "t*: 1: 50" may have been "t*: 1: 5000": a line without its end does not count. */
static void test_cut_short(void)
{
    struct heap_profile profile;

    if (!CHECK(parse(&profile, "heap_v2/1\n@ 0x1\n  t*: 1: 8 [0: 0]\n@ 0x1\n t*: 1: 50 [0: 0]") ==
               FAULT_NONE))
        return;
    CHECK(profile.cut_short && profile.line_count == 1);
    heap_free(&profile);
}

/* A stack of the largest depth that jemalloc keeps was probably deeper. */
static void test_depth(void)
{
    static const uint32_t depths[] = {127, 128, 300};

    for (size_t i = 0; i < ARRAY_LEN(depths); i++) {
        char text[8192] = "heap_v2/1\n@ 0x1\n  t*: 1: 8 [0: 0]\n@";
        struct heap_profile profile;
        for (uint32_t j = 0; j < depths[i]; j++)
            snprintf(text + strlen(text), sizeof text - strlen(text), " 0x%x", j + 1);
        snprintf(text + strlen(text), sizeof text - strlen(text), "\n  t*: 1: 8 [0: 0]\n");
        if (CHECK(parse(&profile, text) == FAULT_NONE) && CHECK(profile.stack_count == 2)) {
            CHECK(profile.stacks[1].depth == depths[i] && profile.deepest == depths[i]);
            CHECK(!heap_stack_cut(&profile, &profile.stacks[0]));
            CHECK(heap_stack_cut(&profile, &profile.stacks[1]) == (depths[i] >= 128));
        }
        heap_free(&profile);
    }
}

/* Numbers of jeprof's AdjustSamples and of pprof's scaleHeapSample (cppbench.heap.string). */
static void test_estimates(void)
{
    struct heap_profile profile = {.sampling = HEAP_POISSON, .period = 524288};
    static const struct {
        uint64_t objects, bytes;
        double expected_objects, expected_bytes;
    } rows[] = {{1, 9216, 57, 528909}, {1, 144, 3641, 524360}, {7, 7 * 16384, 227, 3727658}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct heap_estimate estimate = heap_estimate(&profile, rows[i].objects, rows[i].bytes);
        CHECK(floor(estimate.objects) == rows[i].expected_objects);
        CHECK(floor(estimate.bytes) == rows[i].expected_bytes);
        CHECK(estimate.bytes_variance > 0 && estimate.objects_variance > 0);
    }
    struct heap_estimate none = heap_estimate(&profile, 0, 0);
    CHECK(none.objects == 0 && none.bytes == 0 && none.bytes_variance == 0);
    struct heap_estimate odd = heap_estimate(&profile, 3, 0);
    CHECK(odd.objects == 3 && odd.bytes == 0);
}

/* For n samples of z bytes, each seen with probability p: n z^2 (1 - p) / p^2. */
static void test_variance(void)
{
    struct heap_profile profile = {.sampling = HEAP_POISSON, .period = 1000};
    double p = 1 - exp(-2);
    struct heap_estimate estimate = heap_estimate(&profile, 10, 20000);

    CHECK(near(estimate.bytes_variance, 10 * 2000.0 * 2000 * (1 - p) / (p * p)));
    CHECK(near(estimate.objects_variance, 10 * (1 - p) / (p * p)));
    profile.sampling = HEAP_EXACT;
    estimate = heap_estimate(&profile, 10, 20000);
    CHECK(estimate.objects == 10 && estimate.bytes == 20000 && estimate.bytes_variance == 0);
    profile.sampling = HEAP_UNIFORM;
    estimate = heap_estimate(&profile, 10, 1000);
    CHECK(near(estimate.objects, 100) && near(estimate.bytes, 10000));
    estimate = heap_estimate(&profile, 10, 20000);
    CHECK(near(estimate.objects, 10) && near(estimate.bytes, 20000));
}

enum { LONG_STACKS = 40000, LONG_DEPTH = 20 };

/* A text of 10 MB: its addresses, of all lengths, are used again and again. */
static char *long_text(size_t *len)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, len);

    fputs("heap_v2/1\n", out);
    for (uint64_t i = 0; i < LONG_STACKS; i++) {
        fputs("@", out);
        for (uint64_t j = 0; j < LONG_DEPTH; j++)
            fprintf(out, " %#llx", (unsigned long long)((i * j % 5000 + 1) << j));
        fprintf(out, "\n t*: 1: %llu [0: 0]\n", (unsigned long long)i + 1);
    }
    fclose(out);
    return text;
}

struct passing {
    const char *next;
    size_t len;
};

/* Whoever owns the text may do with the part what he likes. */
static void overwrite(void *ctx, const char *part, size_t len)
{
    struct passing *passing = ctx;

    CHECK(part == passing->next);
    memset((char *)part, '@', len);
    passing->next = part + len;
    passing->len += len;
}

static void test_passed(void)
{
    struct heap_profile profile;
    size_t len, different = 0;
    char *text = long_text(&len);
    struct passing passing = {.next = text};
    const struct heap_reader reader = {overwrite, &passing};

    if (CHECK(heap_parse_once(&profile, text, len, true, &reader, NULL) == FAULT_NONE)) {
        CHECK(passing.len > len / 2 && passing.len <= len);
        CHECK(profile.stack_count == LONG_STACKS && profile.line_count == LONG_STACKS);
        for (size_t i = 0; i < LONG_STACKS * (size_t)LONG_DEPTH; i++) {
            uint64_t stack = i / LONG_DEPTH, frame = i % LONG_DEPTH;
            different += profile.addresses[profile.frames[i]] != (stack * frame % 5000 + 1)
                                                                     << frame;
        }
        CHECK(different == 0 && profile.odd_lines == 0);
        CHECK(profile.lines[LONG_STACKS - 1].counts.bytes == LONG_STACKS);
        for (size_t i = 1; i < profile.address_count; i++)
            for (size_t j = i > 50 ? i - 50 : 0; j < i; j++)
                different += profile.addresses[i] == profile.addresses[j];
        CHECK(different == 0);
    }
    heap_free(&profile);
    free(text);
}

int main(void)
{
    test_passed();
    test_whole();
    test_threads();
    test_mappings();
    test_many_mappings();
    test_odd_mappings();
    test_old_forms();
    test_old_stacks();
    test_no_profile();
    test_additions();
    test_odd_lines();
    test_cut_short();
    test_depth();
    test_estimates();
    test_variance();
    return check_result();
}
