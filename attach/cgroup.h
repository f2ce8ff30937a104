/* The container and the pod of a process, from the names of its control groups. */
#pragma once

#include "attach/procfs.h"

#include <stdbool.h>

enum { CONTAINER_ID_LEN = 64, POD_MAX = 40 };

struct container {
    const char *engine; /* static text: "docker", "podman", "cri-o"; NULL: in no container */
    char id[CONTAINER_ID_LEN + 1]; /* hexadecimal digits */
    char pod[POD_MAX]; /* the pod's uid as Kubernetes writes it; "": none, or not to be told */
};

/*
 * Of the text of /proc/PID/cgroup. True if it is in a container or a pod; of
 * nested ones the innermost.
 */
bool cgroup_parse(const char *text, size_t len, struct container *out);

/* The same of a process; false also if its file cannot be read. */
bool cgroup_read(const struct procfs *proc, pid_t pid, struct container *out);

enum { CGROUP_PATH_MAX = 512 };

/*
 * The path of one hierarchy in the text of /proc/PID/cgroup, whose lines are
 * "number:controllers:path"; controller "" is version 2. False if it is not
 * there or above the tool's own cgroup namespace ("/..").
 */
bool cgroup_path(const char *text, const char *controller, char *out, size_t size);
