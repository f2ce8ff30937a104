/* Where the tool itself runs: what has to be done to give it a right depends on it. */
#pragma once

#include "host/procfs.h"

enum runtime {
    RUNTIME_NONE,
    RUNTIME_DOCKER,
    RUNTIME_PODMAN,
    RUNTIME_KUBERNETES,
    RUNTIME_OTHER, /* in one of another engine */
};

/*
 * By what the engines leave behind: KUBERNETES_SERVICE_HOST in the environment,
 * /.dockerenv, /run/.containerenv, $container, the names of control groups.
 */
enum runtime runtime_of_tool(const struct procfs *proc);
