/* /proc/PID/stat, with any process name. */
#include "fuzz.h"
#include "host/task.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct proc_stat stat, again;
    const char *text = (const char *)data;

    bool good = parse_stat(text, size, &stat);
    expect(memchr(stat.comm, '\0', sizeof stat.comm) != NULL);
    expect(parse_stat(text, size, &again) == good && memcmp(&stat, &again, sizeof stat) == 0);
    expect(!good || (memchr(text, '(', size) && memchr(text, ')', size)));
    return 0;
}
