/* /proc/PID/cgroup: whoever makes groups names them. */
#include "attach/cgroup.h"
#include "fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct container found;
    bool inside = cgroup_parse((const char *)data, size, &found);
    size_t id = strlen(found.id), pod = strlen(found.pod);

    expect(inside == (found.engine || pod));
    expect(id == (found.engine ? CONTAINER_ID_LEN : 0));
    expect(strspn(found.id, "0123456789abcdef") == id);
    expect(strspn(found.pod, "0123456789abcdef-") == pod && pod < POD_MAX);
    return 0;
}
