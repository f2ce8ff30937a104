/* The container of a process: from its cgroups, else from its mounts. */
#pragma once

#include "host/container_name.h"
#include "host/procfs.h"

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
