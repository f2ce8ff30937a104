/* /proc/PID/cgroup and mountinfo: their names are chosen by those who make cgroups and mounts. */
#include "fuzz.h"
#include "host/container.h"

#include <string.h>

/* The id of an engine, or the name of a machine. */
static void expect_container(const struct container *found)
{
    size_t id = strlen(found->id), pod = strlen(found->pod);

    expect(id <= CONTAINER_ID_LEN && (id > 0) == (found->engine != NULL));
    expect(!found->engine || strcmp(found->engine, "nspawn") == 0 ||
           strcmp(found->engine, "lxc") == 0 ||
           (id == CONTAINER_ID_LEN && strspn(found->id, "0123456789abcdef") == id));
    expect(pod < POD_MAX && strspn(found->pod, "0123456789abcdef-") == pod);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cursor text = cursor_of((const char *)data, size);
    struct container found, same;

    expect(container_of_groups(text, &found) == (found.engine || found.pod[0]));
    expect_container(&found);
    /* May differ: the name of an inner machine may begin with an outer engine's id. */
    if (found.engine)
        expect(container_in_groups(text, found.id, &same) && container_is(&same, found.id));
    expect(container_of_mounts(text, &found) == (found.engine || found.pod[0]));
    expect_container(&found);
    return 0;
}
