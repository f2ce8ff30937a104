#include "host/container.h"
#include "base/text.h"
#include "base/util.h"
#include "host/cgroup.h"
#include "host/namespaces.h"

#include <sys/stat.h>

/* Returns the part of a path between `name` and the next slash; empty if name is not in it. */
static struct cursor part_after(struct cursor path, const char *name)
{
    struct cursor part = {path.at, path.at};

    if (cursor_find(&path, name))
        (void)cursor_take_part(&path, '/', &part);
    return part;
}

static bool consists_of(struct cursor text, const char *letters)
{
    for (; text.at < text.end; text.at++)
        if (!memchr(letters, *text.at, strlen(letters)))
            return false;
    return true;
}

static void copy_id(struct cursor path, const char *directory, const char *engine,
                    struct container *out)
{
    struct cursor id = part_after(path, directory);

    if (cursor_left(id) == CONTAINER_ID_LEN && consists_of(id, "0123456789abcdef") &&
        cursor_copy(id, out->id, sizeof out->id))
        out->engine = engine;
}

static void copy_pod(struct cursor path, struct container *out)
{
    struct cursor uid = part_after(path, "/pods/");

    if (cursor_left(uid) && consists_of(uid, "0123456789abcdef-"))
        (void)cursor_copy(uid, out->pod, sizeof out->pod);
}

/*
 * The directories on the host from which engines mount files: docker
 * .../containers/ID/hostname; podman
 * .../overlay-containers/ID/userdata/.containerenv (or vfs-containers); the kubelet
 * .../pods/UID/etc-hosts.
 */
static void see_mount(const struct mount_entry *mount, struct container *out)
{
    if (cursor_is(mount->point, "/etc/hosts") || cursor_is(mount->point, "/dev/termination-log"))
        copy_pod(mount->root, out);
    if (out->engine)
        return;
    if (cursor_is(mount->point, "/etc/hostname"))
        copy_id(mount->root, "/containers/", "docker", out);
    else if (cursor_is(mount->point, "/run/.containerenv"))
        copy_id(mount->root, "-containers/", "podman", out);
}

bool container_of_mounts(struct cursor mountinfo, struct container *out)
{
    struct mount_entry mount;

    memset(out, 0, sizeof *out);
    while (mountinfo_next(&mountinfo, &mount))
        see_mount(&mount, out);
    if (out->pod[0]) { /* the mounts are those of the pod's first container */
        out->engine = NULL;
        out->id[0] = '\0';
    }
    return out->engine || out->pod[0];
}

static bool read_mounts(const struct procfs *proc, pid_t pid, struct container *out)
{
    AUTO_FREE char *mountinfo = NULL;
    struct cursor text;

    return (pid == PROC_SELF || namespaces_vouch_for_mounts(proc, pid)) &&
           mountinfo_read(proc, pid, &mountinfo, &text) && container_of_mounts(text, out);
}

bool container_read(const struct procfs *proc, pid_t pid, struct container *out)
{
    AUTO_FREE char *cgroups = NULL;
    struct cursor text;

    memset(out, 0, sizeof *out);
    if (!cgroup_read(proc, pid, &cgroups, &text))
        return false;
    return container_of_groups(text, out) || (cgroup_at_root(text) && read_mounts(proc, pid, out));
}

/* Looks only where the tool itself sees the cgroups: a process chooses what it mounts. */
static uid_t owner_of_group(const struct procfs *proc, pid_t pid, const char *id)
{
    static const enum cgroup_tree trees[] = {CGROUP_V2, CGROUP_V1_MEMORY, CGROUP_V1_FREEZER};
    struct cgroup_dir dir, group = {.path = ""};
    struct stat st;

    for (size_t i = 0; i < ARRAY_LEN(trees) && !group.path[0]; i++) {
        if (!cgroup_dir_find(proc, pid, trees[i], &dir) || dir.through != PROC_SELF)
            continue;
        do
            if (strstr(text_base_name(dir.path), id))
                group = dir; /* the outermost is the container's */
        while (cgroup_dir_parent(&dir));
    }
    AUTO_CLOSE int fd = group.path[0] ? cgroup_dir_name(proc, &group) : -1;
    return fd >= 0 && fstat(fd, &st) == 0 ? st.st_uid : CONTAINER_NO_OWNER;
}

bool container_has(const struct procfs *proc, pid_t pid, const char *id, struct container *out)
{
    AUTO_FREE char *cgroups = NULL;
    struct cursor text;

    if (!cgroup_read(proc, pid, &cgroups, &text))
        return false;
    if (container_in_groups(text, id, out)) {
        out->owner = owner_of_group(proc, pid, out->id);
        return true;
    }
    return cgroup_at_root(text) && read_mounts(proc, pid, out) && container_is(out, id);
}
