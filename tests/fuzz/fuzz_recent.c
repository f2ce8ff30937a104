/* jemalloc's list of recent allocations, and the heap profile that is made of it. */
#include "fuzz.h"
#include "jemalloc/faults.h"
#include "profile/heap.h"
#include "run/recent_profile.h"

static void check_event(const struct recent_list *list, const struct recent_event *event)
{
    expect(event->stack == TABLE_NONE || event->stack < list->stack_count);
}

static void check_list(const struct recent_list *list)
{
    for (size_t i = 0; i < list->stack_count; i++) {
        expect(list->stacks[i].depth > 0);
        expect(list->stacks[i].first + (size_t)list->stacks[i].depth <= list->frame_count);
    }
    for (size_t i = 0; i < list->count; i++) {
        check_event(list, &list->records[i].allocation);
        check_event(list, &list->records[i].release);
        expect(!list->records[i].has_release || list->records[i].released);
    }
}

/* Its own profile is one that the tool can read, with the stacks in the same order. */
static void check_profile(const struct recent_list *list)
{
    struct heap_profile profile;
    struct sink sink;
    struct fault fault;

    sink_init(&sink, (size_t)64 << 20);
    expect(recent_profile_make(list, &sink, &fault) == FAULT_NONE);
    expect(heap_parse(&profile, (const char *)sink.bytes, sink.len, &fault) == FAULT_NONE);
    expect(profile.stack_count == list->stack_count && profile.line_count == list->stack_count);
    expect(profile.odd_lines == 0 && !profile.cut_short);
    for (size_t i = 0; i < list->stack_count; i++)
        expect(profile.stacks[i].depth == list->stacks[i].depth);
    heap_free(&profile);
    sink_free(&sink);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct recent_list list;
    struct fault fault;

    if (recent_list_parse(&list, (const char *)data, size, &fault) == FAULT_NONE) {
        check_list(&list);
        check_profile(&list);
    }
    recent_list_free(&list);
    return 0;
}
