/* The kind of container that the tool runs in: the way to give the tool a right depends on it. */
#pragma once

#include "host/procfs.h"

enum runtime {
    RUNTIME_NONE,
    RUNTIME_DOCKER,
    RUNTIME_PODMAN,
    RUNTIME_KUBERNETES,
    RUNTIME_OTHER, /* a container of another engine */
};

/*
 * Recognizes the traces of the engines: KUBERNETES_SERVICE_HOST in the environment,
 * /.dockerenv, /run/.containerenv, $container, the names of cgroups.
 */
enum runtime runtime_of_tool(const struct procfs *proc);

/* The runtime of an engine's name ("docker", of struct container); NULL: RUNTIME_NONE. */
enum runtime runtime_of_engine(const char *engine);
