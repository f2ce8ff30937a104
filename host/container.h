/* The container and the pod of a process: from the names of its cgroups, else from its mounts. */
#pragma once

#include "base/cursor.h"
#include "host/procfs.h"

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
 * Finds the container of a process; PROC_SELF: of the tool. False if it is in no
 * container and no pod.
 *
 * A process with its own cgroup namespace hides the names of its cgroups from
 * readers in the same namespace, such as a tool in the same container: each path is
 * "/". But engines mount files over /etc/hostname and others, from a directory with
 * the id in its name. Only in that case are the mounts read, because there may be
 * thousands, and only where an unprivileged process cannot have made them
 * (namespaces_vouch_for_mounts).
 */
bool container_read(const struct procfs *proc, pid_t pid, struct container *out);

/*
 * True if the process is in the container with that id (container_is), or in one within it. A user
 * to whom a cgroup is delegated can make one with any name below it: *out has the owner of the
 * cgroup's directory. Engines that run as root make cgroups of root.
 */
bool container_has(const struct procfs *proc, pid_t pid, const char *id, struct container *out);

/* Finds the container in the text of /proc/PID/mountinfo. False if it shows no container or pod. */
bool container_of_mounts(struct cursor mountinfo, struct container *out);

/* ---- from the names of cgroups ---- */

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

/* ---- the tool's own: the way to give the tool a right depends on its kind ---- */

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
