/* Where the tool itself runs: what has to be done to give it a right depends on it. */
#pragma once

#include "host/procfs.h"

enum place {
    PLACE_HOST,
    PLACE_DOCKER,
    PLACE_PODMAN,
    PLACE_KUBERNETES,
    PLACE_CONTAINER, /* in one of another engine */
};

/*
 * By what the engines leave behind: KUBERNETES_SERVICE_HOST in the environment,
 * /.dockerenv, /run/.containerenv, $container, the names of control groups.
 */
enum place place_of_tool(const struct procfs *proc);
