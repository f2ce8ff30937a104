#include "host/container.h"
#include "base/text.h"
#include "base/util.h"
#include "host/cgroup.h"
#include "host/namespaces.h"

#include <fcntl.h>
#include <string.h>
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

/*
 * The directories on the host from which engines mount files: docker
 * .../containers/ID/hostname; podman
 * .../overlay-containers/ID/userdata/.containerenv (or vfs-containers); the kubelet
 * .../pods/UID/etc-hosts.
 */
bool container_of_mounts(struct cursor mountinfo, struct container *out)
{
    struct mount_entry mount;

    memset(out, 0, sizeof *out);
    while (mountinfo_next(&mountinfo, &mount)) {
        struct cursor uid = part_after(mount.root, "/pods/");
        const bool of_pod =
            cursor_is(mount.point, "/etc/hosts") || cursor_is(mount.point, "/dev/termination-log");
        if (of_pod && cursor_left(uid) && consists_of(uid, "0123456789abcdef-"))
            (void)cursor_copy(uid, out->pod, sizeof out->pod);
        if (out->engine)
            continue;
        if (cursor_is(mount.point, "/etc/hostname"))
            copy_id(mount.root, "/containers/", "docker", out);
        else if (cursor_is(mount.point, "/run/.containerenv"))
            copy_id(mount.root, "-containers/", "podman", out);
    }
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

enum { POD_UID_MIN = 32, POD_UID_MAX = 36 };

static bool is_hex(char ch)
{
    return (ch >= '0' && ch <= '9') || (ch >= 'a' && ch <= 'f');
}

/*
 * The prefixes of a container's id: in the name of its own cgroup if systemd makes
 * the cgroups (docker-ID.scope), the name of the parent cgroup if the engine does
 * (docker/ID), or before a colon if containerd is configured for systemd but does
 * it itself (kubepods-podUID.slice:cri-containerd:ID). conmon watches a container
 * from outside.
 */
static const struct {
    const char *prefix, *engine;
} engines[] = {
    {"docker", "docker"},
    {"libpod", "podman"},
    {"libpod-payload", "podman"},
    {"libpod_parent", "podman"},
    {"cri-containerd", "containerd"},
    {"nerdctl", "containerd"},
    {"containerd", "containerd"},
    {"crio", "cri-o"},
    {"libpod-conmon", NULL},
    {"crio-conmon", NULL},
};

/* Returns the engine of a prefix; sets *known if the prefix is in the table. */
static const char *engine_of(struct cursor prefix, bool *known)
{
    for (size_t i = 0; i < ARRAY_LEN(engines); i++)
        if (cursor_is(prefix, engines[i].prefix)) {
            *known = true;
            return engines[i].engine;
        }
    *known = false;
    return NULL;
}

const char *container_engine(const char *name)
{
    static const char *const others[] = {"container", "nspawn", "lxc"};

    for (size_t i = 0; i < ARRAY_LEN(engines); i++)
        if (engines[i].engine && strcmp(engines[i].engine, name) == 0)
            return engines[i].engine;
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (strcmp(others[i], name) == 0)
            return others[i];
    return NULL;
}

static struct cursor cut_end(struct cursor name, const char *end)
{
    size_t n = strlen(end);

    if (cursor_left(name) > n && memcmp(name.end - n, end, n) == 0)
        name.end -= n;
    return name;
}

/* Takes the container of a cgroup whose name ends in an id: container engines make such names. */
static bool take_id(struct cursor name, struct cursor parent, struct container *out)
{
    struct cursor id = {name.end, name.end}, before;
    bool known;

    /* The ids of all engines are 64 hexadecimal digits. */
    while (id.at > name.at && is_hex(id.at[-1]))
        id.at--;
    if (cursor_left(id) != CONTAINER_ID_LEN)
        return false;
    before = (struct cursor){name.at, id.at};
    if (cursor_left(before) && strchr("-:", before.end[-1]))
        before.end--;
    const char *colon = memrchr(before.at, ':', cursor_left(before)); /* "slice:engine:ID" */
    if (colon)
        before.at = colon + 1;
    const char *engine = engine_of(cursor_left(before) ? before : parent, &known);
    if (known && !engine)
        return false;
    out->engine = engine ? engine : "container";
    memcpy(out->id, id.at, CONTAINER_ID_LEN);
    out->id[CONTAINER_ID_LEN] = '\0';
    return true;
}

/* Takes a machine's name; systemd writes "\x2d" for a hyphen in the name of a unit. */
static bool take_machine(struct cursor name, const char *engine, struct container *out)
{
    size_t n = 0;

    while (cursor_left(name)) {
        const char *p = name.at;
        bool escaped =
            cursor_left(name) >= 4 && cursor_begins(name, "\\x") && is_hex(p[2]) && is_hex(p[3]);
        char ch = escaped ? (char)(cursor_hex_digit(p[2]) * 16 + cursor_hex_digit(p[3])) : *p;
        if (n == CONTAINER_ID_LEN || !ch)
            return false;
        out->id[n++] = ch;
        name.at += escaped ? 4 : 1;
    }
    out->id[n] = '\0';
    out->engine = n ? engine : NULL;
    return n > 0;
}

/*
 * Takes the container of a cgroup that is named after a machine:
 * systemd-nspawn@NAME.service (a unit of its template); machine-NAME.scope (started
 * by hand and registered with systemd-machined, like virtual machines:
 * machine-qemu\x2d...); lxc.payload.NAME (LXC).
 */
static bool take_named(struct cursor name, struct container *out)
{
    static const struct {
        const char *begin, *end, *engine;
    } forms[] = {
        {"systemd-nspawn@", ".service", "nspawn"},
        {"machine-", ".scope", "nspawn"},
        {"lxc.payload.", "", "lxc"},
    };

    if (cursor_begins(name, "machine-qemu\\x2d"))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        struct cursor inner = cut_end(name, forms[i].end);
        if (cursor_left(name) - cursor_left(inner) == strlen(forms[i].end) &&
            cursor_take_text(&inner, forms[i].begin) && cursor_left(inner))
            return take_machine(inner, forms[i].engine, out);
    }
    return false;
}

/* False, with *out unchanged, if the cgroup does not belong to a container. */
static bool take_container(struct cursor name, struct cursor parent, struct container *out)
{
    struct container found = *out;
    bool taken = take_id(cut_end(name, ".scope"), parent, &found) || take_named(name, &found);

    if (taken)
        *out = found;
    return taken;
}

/*
 * Copies the digits and separators at the start of text. systemd writes "_" for "-"
 * in the names of slices.
 */
static size_t uid_copy(struct cursor text, char *out)
{
    const char *p = text.at;
    size_t n = 0;

    while (p + n < text.end && n < POD_UID_MAX && (is_hex(p[n]) || p[n] == '-' || p[n] == '_')) {
        out[n] = p[n] == '_' ? '-' : p[n];
        n++;
    }
    out[n] = '\0';
    return n;
}

/*
 * Takes the pod from "pod" and its uid at the start of a name or after a hyphen.
 * The uid has 32 hexadecimal digits for a static pod, else 36 bytes with hyphens.
 */
static void take_pod(struct cursor name, struct container *out)
{
    struct cursor rest = name;
    char uid[POD_MAX];

    while (cursor_find(&rest, "pod")) {
        const char *pod = rest.at - 3;
        if (pod > name.at && pod[-1] != '-')
            continue;
        size_t n = uid_copy(rest, uid);
        if (n != POD_UID_MIN && n != POD_UID_MAX)
            continue;
        memcpy(out->pod, uid, n + 1);
        return;
    }
}

/*
 * The first path that names a container counts: an engine that uses only some
 * hierarchies leaves the others at "/".
 */
bool container_of_groups(struct cursor groups, struct container *out)
{
    struct cgroup_line line;

    memset(out, 0, sizeof *out);
    while (!out->engine && cgroup_next(&groups, &line)) {
        struct cursor path = line.path, parent = {path.at, path.at}, name;
        for (; cursor_take_part(&path, '/', &name); parent = name) {
            take_pod(name, out);
            (void)take_container(name, parent, out);
        }
    }
    return out->engine || out->pod[0];
}

const char *container_id(const char *text)
{
    return text_base_name(text);
}

bool container_is(const struct container *container, const char *id)
{
    size_t n = strlen(id);

    if (!container->engine)
        return false;
    if (strspn(container->id, "0123456789abcdef") == CONTAINER_ID_LEN)
        return n >= CONTAINER_PREFIX_MIN && strncmp(container->id, id, n) == 0;
    return strcmp(container->id, id) == 0;
}

bool container_in_groups(struct cursor groups, const char *id, struct container *out)
{
    struct container found = {0};
    struct cgroup_line line;

    while (cgroup_next(&groups, &line)) {
        struct cursor path = line.path, parent = {path.at, path.at}, name;
        for (; cursor_take_part(&path, '/', &name); parent = name)
            if (take_container(name, parent, &found) && container_is(&found, id)) {
                *out = found;
                return true;
            }
    }
    return false;
}

enum { ENVIRON_LIMIT = 4 << 20 };

static bool exists_in_root(const struct procfs *proc, const char *path)
{
    AUTO_CLOSE int fd = procfs_openf(proc, O_PATH, "self/root%s", path);

    return fd >= 0;
}

enum runtime runtime_of_engine(const char *engine)
{
    if (!engine)
        return RUNTIME_NONE;
    if (strcmp(engine, "docker") == 0)
        return RUNTIME_DOCKER;
    return strcmp(engine, "podman") == 0 ? RUNTIME_PODMAN : RUNTIME_OTHER;
}

static enum runtime runtime_of_cgroups(const struct procfs *proc)
{
    AUTO_FREE char *cgroups = NULL;
    struct container container;
    struct cursor text;

    if (!cgroup_read(proc, PROC_SELF, &cgroups, &text) || !container_of_groups(text, &container))
        return RUNTIME_NONE;
    if (container.pod[0])
        return RUNTIME_KUBERNETES;
    return runtime_of_engine(container.engine);
}

enum runtime runtime_of_tool(const struct procfs *proc)
{
    AUTO_FREE char *text = NULL;
    ssize_t n = procfs_slurp(proc, &text, ENVIRON_LIMIT, "self/environ");
    const size_t len = n > 0 ? (size_t)n : 0;
    const char *container = text_variable(text, len, "container"); /* systemd's convention */
    enum runtime place = runtime_of_cgroups(proc);

    if (text_variable(text, len, "KUBERNETES_SERVICE_HOST"))
        return RUNTIME_KUBERNETES;
    if (place != RUNTIME_NONE)
        return place;
    if (exists_in_root(proc, "/.dockerenv"))
        return RUNTIME_DOCKER;
    if (exists_in_root(proc, "/run/.containerenv") ||
        (container && strcmp(container, "podman") == 0))
        return RUNTIME_PODMAN;
    return container && *container ? RUNTIME_OTHER : RUNTIME_NONE;
}
