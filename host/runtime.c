#include "host/runtime.h"
#include "base/util.h"
#include "host/cgroup.h"
#include "host/container_name.h"

#include <fcntl.h>
#include <string.h>

enum { ENVIRON_LIMIT = 4 << 20 };

/* Returns the value of a variable in an environment; NULL if it is not set. */
static const char *find_variable(const char *text, ssize_t len, const char *name)
{
    size_t n = strlen(name);

    for (ssize_t at = 0; at < len; at += (ssize_t)strlen(text + at) + 1)
        if (strncmp(text + at, name, n) == 0 && text[at + (ssize_t)n] == '=')
            return text + at + n + 1;
    return NULL;
}

static bool exists_in_root(const struct procfs *proc, const char *path)
{
    AUTO_CLOSE int fd = procfs_openf(proc, O_PATH, "self/root%s", path);

    return fd >= 0;
}

enum runtime runtime_of_engine(const char *engine)
{
    if (!engine)
        return RUNTIME_NONE;
    if (strcmp(engine, "docker") == 0)
        return RUNTIME_DOCKER;
    return strcmp(engine, "podman") == 0 ? RUNTIME_PODMAN : RUNTIME_OTHER;
}

static enum runtime runtime_of_cgroups(const struct procfs *proc)
{
    AUTO_FREE char *cgroups = NULL;
    struct container container;
    struct cursor text;

    if (!cgroup_read(proc, PROC_SELF, &cgroups, &text) || !container_of_groups(text, &container))
        return RUNTIME_NONE;
    if (container.pod[0])
        return RUNTIME_KUBERNETES;
    return runtime_of_engine(container.engine);
}

enum runtime runtime_of_tool(const struct procfs *proc)
{
    AUTO_FREE char *text = NULL;
    ssize_t n = procfs_slurp(proc, &text, ENVIRON_LIMIT, "self/environ");
    const char *container = find_variable(text, n, "container"); /* systemd's convention */
    enum runtime place = runtime_of_cgroups(proc);

    if (find_variable(text, n, "KUBERNETES_SERVICE_HOST"))
        return RUNTIME_KUBERNETES;
    if (place != RUNTIME_NONE)
        return place;
    if (exists_in_root(proc, "/.dockerenv"))
        return RUNTIME_DOCKER;
    if (exists_in_root(proc, "/run/.containerenv") ||
        (container && strcmp(container, "podman") == 0))
        return RUNTIME_PODMAN;
    return container && *container ? RUNTIME_OTHER : RUNTIME_NONE;
}
