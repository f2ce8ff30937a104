/* A heap profile, MAPPED_LIBRARIES included: a parsed profile is consistent. */
#include "fuzz.h"
#include "profile/heap.h"
#include "profile/symbols/symbols.h"

#include <math.h>

static void check_line(const struct heap_profile *profile, const struct heap_line *line)
{
    struct heap_estimate estimate =
        heap_estimate(profile, line->counts.objects, line->counts.bytes);

    expect(line->stack < profile->stack_count);
    expect(estimate.objects >= 0 && estimate.bytes >= 0);
    expect(!isnan(estimate.bytes_variance) && estimate.bytes_variance >= 0);
}

static void check_stacks(const struct heap_profile *profile)
{
    for (size_t i = 0; i < profile->stack_count; i++) {
        const struct heap_stack *stack = &profile->stacks[i];
        expect(stack->first <= profile->frame_count);
        expect(stack->depth <= profile->frame_count - stack->first);
        expect(stack->depth <= profile->deepest);
    }
    for (size_t i = 0; i < profile->frame_count; i++)
        expect(profile->frames[i] < profile->address_count);
}

static void check_mappings(const struct heap_profile *profile)
{
    for (size_t i = 0; i < profile->mapping_count; i++) {
        expect(profile->mappings[i].start < profile->mappings[i].end);
        expect(profile->mappings[i].path != NULL);
        expect(i == 0 || profile->mappings[i - 1].end <= profile->mappings[i].start);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct heap_profile profile;
    struct fault fault;

    if (heap_parse(&profile, (const char *)data, size, &fault) == FAULT_NONE) {
        expect(profile.period > 0);
        check_stacks(&profile);
        check_mappings(&profile);
        expect(profile.header_at < size);
        for (size_t i = 0; i < profile.name_count; i++)
            expect(*profile.names[i].text &&
                   (i == 0 || profile.names[i - 1].address <= profile.names[i].address));
        for (size_t i = 0; i < profile.line_count; i++)
            check_line(&profile, &profile.lines[i]);
        for (size_t i = 0; i < profile.thread_line_count; i++) {
            check_line(&profile, &profile.thread_lines[i]);
            expect(profile.thread_lines[i].thread < profile.thread_count);
        }
    }
    heap_free(&profile);
    return 0;
}
