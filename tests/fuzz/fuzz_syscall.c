/* /proc/PID/task/TID/syscall. */
#include "fuzz.h"
#include "host/task.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct proc_syscall call;
    bool good = parse_syscall((const char *)data, size, &call);

    expect(good || !call.asleep);
    expect(call.nr >= -1);
    return 0;
}
