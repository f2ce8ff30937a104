#include "host/container_name.h"
#include "base/text.h"
#include "base/util.h"
#include "host/cgroup.h"

#include <string.h>

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

/* Finds the 64 hexadecimal digits at the end of a name; the ids of all engines have that length. */
static bool id_at_end(struct cursor name, struct cursor *id)
{
    *id = (struct cursor){name.end, name.end};
    while (id->at > name.at && is_hex(id->at[-1]))
        id->at--;
    return cursor_left(*id) == CONTAINER_ID_LEN;
}

/* Takes the container of a cgroup whose name ends in an id: container engines make such names. */
static bool take_id(struct cursor name, struct cursor parent, struct container *out)
{
    struct cursor id, before;
    bool known;

    if (!id_at_end(name, &id))
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

/* Called for each component of a path, from the outermost on, until it returns false. */
typedef bool (*group_seen)(struct cursor name, struct cursor parent, void *ctx);

static bool walk_path(struct cursor path, group_seen see, void *ctx)
{
    struct cursor parent = {path.at, path.at}, name;

    for (; cursor_take_part(&path, '/', &name); parent = name)
        if (!see(name, parent, ctx))
            return false;
    return true;
}

static bool see_innermost(struct cursor name, struct cursor parent, void *ctx)
{
    take_pod(name, ctx);
    (void)take_container(name, parent, ctx);
    return true;
}

/*
 * The first path that names a container counts: an engine that uses only some
 * hierarchies leaves the others at "/".
 */
bool container_of_groups(struct cursor groups, struct container *out)
{
    struct cgroup_line line;

    memset(out, 0, sizeof *out);
    while (!out->engine && cgroup_next(&groups, &line))
        (void)walk_path(line.path, see_innermost, out);
    return out->engine || out->pod[0];
}

struct wanted {
    const char *id;
    struct container found;
};

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

/* Returns false, which ends the walk, at the wanted container. */
static bool see_wanted(struct cursor name, struct cursor parent, void *ctx)
{
    struct wanted *wanted = ctx;

    return !take_container(name, parent, &wanted->found) ||
           !container_is(&wanted->found, wanted->id);
}

bool container_in_groups(struct cursor groups, const char *id, struct container *out)
{
    struct wanted wanted = {.id = id};
    struct cgroup_line line;

    while (cgroup_next(&groups, &line))
        if (!walk_path(line.path, see_wanted, &wanted)) {
            *out = wanted.found;
            return true;
        }
    return false;
}
