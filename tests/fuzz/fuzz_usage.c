/* /proc/PID/smaps_rollup, smaps and status: memory use. */
#include "fuzz.h"
#include "host/limits.h"
#include "host/resident.h"
#include "host/task.h"

#include <string.h>

static uint64_t add_up(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* The parts add up, whatever the text claims. */
static void parse_parts(const char *text, size_t size)
{
    static const remote_addr pointers[] = {0x1000, 0x7f0000800000, UINT64_MAX};
    struct group_events events = {0};
    struct resident_parts parts;
    struct resident resident;
    bool good = resident_parts_parse(text, size, pointers, 3, &parts);
    uint64_t sum = add_up(add_up(parts.heap, parts.stacks), parts.anonymous);

    sum = add_up(sum, add_up(add_up(parts.written, parts.files), parts.shared));
    sum = add_up(sum, parts.devices);
    expect(sum == parts.rss || parts.rss == UINT64_MAX);
    expect(good == (parts.mappings > 0) && parts.thread_stacks <= parts.mappings);
    expect(resident_parse(text, size, &resident) == (resident.rss > 0) || resident.rss == 0);
    expect(group_events_parse(text, size, &events) == events.known);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct proc_usage usage;
    bool good = parse_usage((const char *)data, size, &usage);

    expect(!good || memmem(data, size, "Rss:", 4) || memmem(data, size, "VmRSS:", 6));
    expect(good || usage.rss == 0);
    expect(usage.rss % 1024 == 0 || usage.rss == UINT64_MAX);
    parse_parts((const char *)data, size);
    return 0;
}
