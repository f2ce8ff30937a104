/* /proc/PID/status. */
#include "fuzz.h"
#include "host/task.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct proc_status status;
    bool good = parse_status((const char *)data, size, &status);

    expect(!good || memmem(data, size, "Name:", 5));
    expect(!status.shadow_stack || memmem(data, size, "shstk", 5));
    expect(status.rss_bytes % 1024 == 0);
    expect(status.ns_pid_count <= NS_PIDS_MAX);
    expect(status.ns_pid_count == 0 || memmem(data, size, "NSpid:", 6));
    return 0;
}
