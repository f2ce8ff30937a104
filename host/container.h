/* The container of a process: by its control groups, else by what is mounted in it. */
#pragma once

#include "host/cgroup.h"
#include "host/procfs.h"

/*
 * With a cgroup namespace of its own a process hides the names of its groups from
 * those in the same one, such as a tool in the same container: all are at "/".
 * But engines mount files of their own over /etc/hostname and others, from a
 * directory with the id. Mounts are read only then: there may be thousands.
 */
bool container_read(const struct procfs *proc, pid_t pid, struct container *out);

/* Is the process in the container with that id (container_is), or in one within it? */
bool container_has(const struct procfs *proc, pid_t pid, const char *id, struct container *out);

/* Of the text of /proc/PID/mountinfo; false if it does not tell a container or a pod. */
bool mountinfo_container(const char *text, size_t len, struct container *out);
