/* The container and the pod of a process, from the names of its cgroups. */
#pragma once

#include "base/cursor.h"

#include <sys/types.h>

#define CONTAINER_NO_OWNER ((uid_t)-1)

enum { CONTAINER_ID_LEN = 64, CONTAINER_PREFIX_MIN = 4, POD_MAX = 40 };

struct container {
    const char *engine; /* static text: "docker", "podman", "cri-o"; NULL: in no container */
    char id[CONTAINER_ID_LEN + 1]; /* hexadecimal digits; for nspawn and lxc the machine's name */
    char pod[POD_MAX]; /* the pod's uid in the form of Kubernetes; "": none, or unknown */
    uid_t owner;       /* of container_has: who made its cgroup; CONTAINER_NO_OWNER: unknown */
};

/*
 * Finds the container in the text of /proc/PID/cgroup, the innermost if they are
 * nested. False if the process is in no container and no pod.
 */
bool container_of_groups(struct cursor groups, struct container *out);

/*
 * True if the process with these cgroups is in the container with that id, or in
 * one nested in it. Fills *out with that container, without its pod.
 */
bool container_in_groups(struct cursor groups, const char *id, struct container *out);

/* Returns the static text of an engine that equals this one; NULL: there is no such engine. */
const char *container_engine(const char *name);

/*
 * Returns the id in a text that may name the engine, too: "docker/ID",
 * "containerd://ID" (kubectl).
 */
const char *container_id(const char *text);

/*
 * True if the container has that id. An engine's id may be shortened to no less
 * than CONTAINER_PREFIX_MIN digits; a machine's name must be complete.
 */
bool container_is(const struct container *container, const char *id);
