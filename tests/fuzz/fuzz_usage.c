/* /proc/PID/smaps_rollup, smaps and status: memory use. */
#include "fuzz.h"
#include "host/parse.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct proc_usage usage;
    bool good = parse_usage((const char *)data, size, &usage);

    expect(!good || memmem(data, size, "Rss:", 4) || memmem(data, size, "VmRSS:", 6));
    expect(good || usage.rss == 0);
    expect(usage.rss % 1024 == 0 || usage.rss == UINT64_MAX);
    return 0;
}
