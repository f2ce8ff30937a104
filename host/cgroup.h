/* The container and the pod of a process, from the names of its control groups. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { CONTAINER_ID_LEN = 64, CONTAINER_PREFIX_MIN = 4, POD_MAX = 40 };

struct container {
    const char *engine; /* static text: "docker", "podman", "cri-o"; NULL: in no container */
    char id[CONTAINER_ID_LEN + 1]; /* hexadecimal digits; of nspawn and lxc the machine's name */
    char pod[POD_MAX]; /* the pod's uid as Kubernetes writes it; "": none, or not to be told */
};

/*
 * Of the text of /proc/PID/cgroup. True if it is in a container or a pod; of
 * nested ones the innermost.
 */
bool cgroup_parse(const char *text, size_t len, struct container *out);

enum { CGROUP_PATH_MAX = 512 };

/*
 * The path of one hierarchy in the text of /proc/PID/cgroup, whose lines are
 * "number:controllers:path"; controller "" is version 2. False if it is not
 * there or above the tool's own cgroup namespace ("/..").
 */
bool cgroup_path(const char *text, const char *controller, char *out, size_t size);

/*
 * Is the process of this text in the container with that id, or in one within
 * it? *out is then that container, without its pod.
 */
bool cgroup_names(const char *text, size_t len, const char *id, struct container *out);

/* Is it in no group that can be seen, in any hierarchy? */
bool cgroup_at_root(const char *text, size_t len);

/* The id in a text that names the engine, too: "docker/ID", "containerd://ID" (kubectl). */
const char *container_id(const char *text);

/*
 * Has the container that id? An engine's id may be shortened, to no less than
 * CONTAINER_PREFIX_MIN digits; a name must be whole.
 */
bool container_is(const struct container *container, const char *id);
