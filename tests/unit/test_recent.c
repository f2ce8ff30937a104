/* jemalloc's list of recent allocations: its text, and the heap profile that is made of it. */
#include "check.h"
#include "jemalloc/faults.h"
#include "jemalloc/recent_list.h"
#include "profile/heap.h"
#include "run/recent_profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static fault_code parse_len(struct recent_list *list, const char *text, size_t len,
                            struct fault *fault)
{
    char *copy = malloc(len ? len : 1); /* no NUL behind it */
    fault_code rc = recent_list_parse(list, memcpy(copy, text, len), len, fault);

    free(copy);
    return rc;
}

static fault_code parse(struct recent_list *list, const char *text)
{
    struct fault fault;

    return parse_len(list, text, strlen(text), &fault);
}

#define HEAD "{\"sample_interval\":1024,\"recent_alloc_max\":3,\"recent_alloc\":["
#define FIRST                                                                                      \
    "{\"size\":100,\"usize\":112,\"released\":false,\"alloc_thread_uid\":0,"                       \
    "\"alloc_time\":22916100335212,\"alloc_trace\":[\"0x7fee46053e30\",\"0x7fee46054401\"]}"
#define SECOND                                                                                     \
    "{\"size\":20000,\"usize\":20480,\"released\":true,\"alloc_thread_uid\":7,"                    \
    "\"alloc_thread_name\":\"a\"b\\c\",\"alloc_time\":5,\"alloc_trace\":[\"0x1\",\"0x2\"],"        \
    "\"dalloc_thread_uid\":18446744073709551615,\"dalloc_thread_name\":\"\",\"dalloc_time\":7,"    \
    "\"dalloc_trace\":[\"0x7fee46053e30\",\"0x7fee46054401\"]}"
#define THIRD                                                                                      \
    "{\"size\":1,\"usize\":8,\"released\":true,\"alloc_thread_uid\":7,\"alloc_time\":5,"           \
    "\"alloc_trace\":[]}"
static const char whole[] = HEAD FIRST "," SECOND "," THIRD "]}\n";

static void test_whole(void)
{
    struct recent_list list;

    CHECK(parse(&list, whole) == FAULT_NONE);
    CHECK(list.period == 1024 && list.max == 3 && list.count == 3);
    CHECK(list.stack_count == 2 && list.frame_count == 4); /* a stack occurs twice */

    const struct recent_record *first = &list.records[0], *second = &list.records[1];
    CHECK(first->size == 100 && first->usable == 112 && !first->released && !first->has_release);
    CHECK(first->allocation.time_ns == 22916100335212 && !first->allocation.thread.name);
    CHECK(first->allocation.stack == 0 && list.stacks[0].depth == 2);
    CHECK(list.frames[0] == 0x7fee46053e30 && list.frames[1] == 0x7fee46054401);

    CHECK(second->released && second->has_release && second->release.time_ns == 7);
    CHECK(strcmp(second->allocation.thread.name, "a\"b\\c") == 0);
    CHECK(strcmp(second->release.thread.name, "") == 0);
    CHECK(second->release.thread.uid == UINT64_MAX);
    CHECK(second->allocation.stack == 1 && second->release.stack == 0);

    CHECK(list.records[2].released && !list.records[2].has_release);
    CHECK(list.records[2].allocation.stack == TABLE_NONE);
    recent_list_free(&list);

    CHECK(parse(&list, "{\"sample_interval\":1,\"recent_alloc_max\":-1,\"recent_alloc\":[]}") ==
          FAULT_NONE);
    CHECK(list.max == -1 && list.count == 0);
    recent_list_free(&list);
}

/* Members that a later version may add, anywhere. */
static void test_unknown_members(void)
{
    struct recent_list list;

    CHECK(parse(&list, "{\"new\":{\"a\":[1,-2.5e3,null,\"x\\\"}\"],\"b\":{}},\"recent_alloc\":["
                       "{\"tags\":[[],{}],\"size\":1,\"alloc_cpu\":3,\"dalloc_cpu\":[4]}]}") ==
          FAULT_NONE);
    CHECK(list.count == 1 && list.records[0].size == 1 && !list.records[0].has_release);
    recent_list_free(&list);
}

/* malloc_snprintf prints a name with its quotes into 256 bytes (emitter.h, emitter_print_value). */
static void test_long_name(void)
{
    static const char head[] = "{\"recent_alloc\":[{\"alloc_thread_name\":\"",
                      tail[] = ",\"alloc_time\":9}]}";
    struct recent_list list;

    for (size_t len = 250; len < 260; len++) {
        char text[512];
        size_t at = sizeof head - 1;
        memcpy(text, head, at);
        memset(text + at, 'n', len);
        memcpy(text + at + len, tail, sizeof tail);
        bool good = parse(&list, text) == FAULT_NONE;
        CHECK(good == (len <= 255));
        CHECK(!good || (list.records[0].allocation.time_ns == 9 &&
                        strlen(list.records[0].allocation.thread.name) == len));
        recent_list_free(&list);
    }
}

/* Every part of the text: nothing is read past its end, and the fault has the position. */
static void test_cut(void)
{
    struct recent_list list;
    struct fault fault;

    for (size_t len = 0; len + 1 < sizeof whole - 1; len++) {
        CHECK(parse_len(&list, whole, len, &fault) == FAULT_RECENT_TEXT);
        recent_list_free(&list);
    }
}

static void test_malformed(void)
{
    static const char *const texts[] = {
        "",
        "x",
        "[]",
        "{",
        "{}x",
        "{\"recent_alloc\":{}}",
        "{\"recent_alloc\":[1]}",
        "{\"recent_alloc\":[{\"size\":-1}]}",
        "{\"recent_alloc\":[{\"size\":18446744073709551616}]}",
        "{\"recent_alloc\":[{\"released\":1}]}",
        "{\"recent_alloc\":[{\"alloc_trace\":[1]}]}",
        "{\"recent_alloc\":[{\"alloc_trace\":[\"1\"]}]}",
        "{\"recent_alloc\":[{\"alloc_trace\":[\"0x\"]}]}",
        "{\"recent_alloc\":[{\"alloc_trace\":[\"0x1g\"]}]}",
        "{\"recent_alloc\":[{\"alloc_trace\":[\"0x1\",]}]}",
        "{\"recent_alloc\":[{\"alloc_thread_name\":\"x\",\"alloc_thread_uid\":1}]}",
        "{\"x\":[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]}",
        "{\"x\":[1,,2]}",
        "{\"x\":}",
        "{\"recent_alloc_max\":9223372036854775808}",
    };
    struct recent_list list;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        CHECK(parse(&list, texts[i]) == FAULT_RECENT_TEXT);
        recent_list_free(&list);
    }
}

static double estimate(const struct heap_profile *profile, const struct heap_line *line, bool all)
{
    const struct heap_counts *counts = &line->counts;
    struct heap_estimate sum =
        all ? heap_estimate(profile, counts->total_objects, counts->total_bytes)
            : heap_estimate(profile, counts->objects, counts->bytes);

    return sum.bytes;
}

/* What one sample of this size stands for, in bytes. */
static double stand(double period, double size)
{
    return size / -expm1(-size / period);
}

/* The stacks keep their numbers; undoing the sampling gives the sum of what the samples stand for.
 */
static void test_profile(void)
{
    struct recent_list list;
    struct heap_profile profile;
    struct sink sink;
    struct fault fault;

    CHECK(parse(&list, whole) == FAULT_NONE);
    sink_init(&sink, 1 << 20);
    CHECK(recent_profile_make(&list, &sink, &fault) == FAULT_NONE);
    CHECK(heap_parse(&profile, (const char *)sink.bytes, sink.len, &fault) == FAULT_NONE);
    CHECK(profile.odd_lines == 0 && profile.period == 1024 && profile.stack_count == 2);
    CHECK(profile.line_count == 2 && profile.accumulates && profile.thread_count == 2);
    CHECK(profile.addresses[profile.frames[profile.stacks[0].first]] == 0x7fee46053e30);
    CHECK(fabs(estimate(&profile, &profile.lines[0], false) - stand(1024, 112)) < 1);
    CHECK(estimate(&profile, &profile.lines[1], false) == 0);
    CHECK(fabs(estimate(&profile, &profile.lines[1], true) - stand(1024, 20480)) < 1);
    CHECK(profile.threads[0].name == NULL);
    heap_free(&profile);
    sink_free(&sink);
    recent_list_free(&list);
}

int main(void)
{
    test_whole();
    test_unknown_members();
    test_long_name();
    test_cut();
    test_malformed();
    test_profile();
    return check_result();
}
