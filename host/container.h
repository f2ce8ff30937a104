/* The container of a process: by its cgroups, else by what is mounted in it. */
#pragma once

#include "host/container_name.h"
#include "host/procfs.h"

/*
 * Finds the container of a process, PROC_SELF for the tool. False if it is in no container and no
 * pod.
 *
 * With a cgroup namespace of its own a process hides the names of its groups from
 * those in the same one, such as a tool in the same container: all are at "/".
 * But engines mount files over /etc/hostname and others, from a directory with the
 * id. Mounts are read only then: there may be thousands.
 */
bool container_read(const struct procfs *proc, pid_t pid, struct container *out);

/* True if the process is in the container with that id (container_is), or in one within it. */
bool container_has(const struct procfs *proc, pid_t pid, const char *id, struct container *out);

/* Finds the container in the text of /proc/PID/mountinfo. False if it shows no container or pod. */
bool container_of_mounts(struct cursor mountinfo, struct container *out);
