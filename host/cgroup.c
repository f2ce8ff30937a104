#include "host/cgroup.h"
#include "base/util.h"

#include <stdio.h>
#include <string.h>

enum { POD_UID_MIN = 32, POD_UID_MAX = 36 };

struct span {
    const char *text;
    size_t len;
};

static bool span_is(struct span span, const char *text)
{
    return span.len == strlen(text) && memcmp(span.text, text, span.len) == 0;
}

static bool is_hex(char ch)
{
    return (ch >= '0' && ch <= '9') || (ch >= 'a' && ch <= 'f');
}

/*
 * What stands before a container's id: in the name of its own group where
 * systemd makes the groups (docker-ID.scope), as a group of its own where the
 * engine does (docker/ID), or before a colon where containerd was told one and
 * does the other (kubepods-podUID.slice:cri-containerd:ID). conmon watches a
 * container from outside.
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

/* The engine of a prefix; *known says whether it is in the table. */
static const char *engine_of(struct span prefix, bool *known)
{
    for (size_t i = 0; i < ARRAY_LEN(engines); i++)
        if (span_is(prefix, engines[i].prefix)) {
            *known = true;
            return engines[i].engine;
        }
    *known = false;
    return NULL;
}

static struct span cut_end(struct span name, const char *end)
{
    size_t n = strlen(end);

    if (name.len > n && memcmp(name.text + name.len - n, end, n) == 0)
        name.len -= n;
    return name;
}

/* The 64 hexadecimal digits that a name ends in; all engines make ids of that length. */
static bool id_at_end(struct span name, struct span *id)
{
    size_t digits = 0;

    while (digits < name.len && is_hex(name.text[name.len - digits - 1]))
        digits++;
    *id = (struct span){name.text + name.len - digits, digits};
    return digits == CONTAINER_ID_LEN;
}

/* A group whose name ends in an id: the engines of containers make it. */
static bool take_id(struct span name, struct span parent, struct container *out)
{
    struct span id, before;
    bool known;

    if (!id_at_end(name, &id))
        return false;
    before = (struct span){name.text, name.len - id.len};
    if (before.len && strchr("-:", before.text[before.len - 1]))
        before.len--;
    const char *colon = memrchr(before.text, ':', before.len); /* "slice:engine:ID" */
    if (colon)
        before = (struct span){colon + 1, (size_t)(before.text + before.len - colon - 1)};
    const char *engine = engine_of(before.len ? before : parent, &known);
    if (known && !engine)
        return false;
    out->engine = engine ? engine : "container";
    memcpy(out->id, id.text, CONTAINER_ID_LEN);
    out->id[CONTAINER_ID_LEN] = '\0';
    return true;
}

static int hex_value(char ch)
{
    return ch <= '9' ? ch - '0' : ch - 'a' + 10;
}

/* A machine's name; systemd writes "\x2d" for a hyphen in the name of a unit. */
static bool take_machine(struct span name, const char *engine, struct container *out)
{
    size_t n = 0;

    for (const char *p = name.text, *end = p + name.len; p < end;) {
        bool escaped = end - p >= 4 && memcmp(p, "\\x", 2) == 0 && is_hex(p[2]) && is_hex(p[3]);
        char ch = escaped ? (char)(hex_value(p[2]) * 16 + hex_value(p[3])) : *p;
        if (n == CONTAINER_ID_LEN || !ch)
            return false;
        out->id[n++] = ch;
        p += escaped ? 4 : 1;
    }
    out->id[n] = '\0';
    out->engine = n ? engine : NULL;
    return n > 0;
}

/*
 * systemd-nspawn@NAME.service (a unit of its template) or machine-NAME.scope
 * (started by hand, registered with systemd-machined, as a virtual machine's
 * is, too: machine-qemu\x2d...); lxc.payload.NAME of LXC.
 */
static bool take_named(struct span name, struct container *out)
{
    static const struct {
        const char *begin, *end, *engine;
    } forms[] = {
        {"systemd-nspawn@", ".service", "nspawn"},
        {"machine-", ".scope", "nspawn"},
        {"lxc.payload.", "", "lxc"},
    };
    static const char qemu[] = "machine-qemu\\x2d";

    if (name.len >= sizeof qemu - 1 && memcmp(name.text, qemu, sizeof qemu - 1) == 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        size_t begin = strlen(forms[i].begin);
        struct span inner = cut_end(name, forms[i].end);
        if (name.len - inner.len != strlen(forms[i].end) || inner.len <= begin ||
            memcmp(inner.text, forms[i].begin, begin) != 0)
            continue;
        return take_machine((struct span){inner.text + begin, inner.len - begin}, forms[i].engine,
                            out);
    }
    return false;
}

/* False, and *out as it was, if the group is no container's. */
static bool take_container(struct span name, struct span parent, struct container *out)
{
    struct container found = *out;
    bool taken = take_id(cut_end(name, ".scope"), parent, &found) || take_named(name, &found);

    if (taken)
        *out = found;
    return taken;
}

/* The digits and separators at p: "_" stands for "-" in the names of systemd's slices. */
static size_t uid_copy(const char *p, const char *end, char *out)
{
    size_t n = 0;

    while (p + n < end && n < POD_UID_MAX && (is_hex(p[n]) || p[n] == '-' || p[n] == '_')) {
        out[n] = p[n] == '_' ? '-' : p[n];
        n++;
    }
    out[n] = '\0';
    return n;
}

/*
 * "pod" and the uid (32 hexadecimal digits for a static pod, else 36 bytes with
 * hyphens), at the start of a name or behind a hyphen.
 */
static void take_pod(struct span name, struct container *out)
{
    const char *end = name.text + name.len;
    char uid[POD_MAX];

    for (const char *p = name.text; (p = memmem(p, (size_t)(end - p), "pod", 3)); p += 3) {
        if (p > name.text && p[-1] != '-')
            continue;
        size_t n = uid_copy(p + 3, end, uid);
        if (n != POD_UID_MIN && n != POD_UID_MAX)
            continue;
        memcpy(out->pod, uid, n + 1);
        return;
    }
}

/* Calls see for each name of a path, from the outermost; until it returns false. */
typedef bool (*group_seen)(struct span name, struct span parent, void *ctx);

static bool walk_path(struct span path, group_seen see, void *ctx)
{
    struct span parent = {path.text, 0};
    const char *end = path.text + path.len;

    for (const char *p = path.text; p < end;) {
        const char *slash = memchr(p, '/', (size_t)(end - p));
        struct span name = {p, (size_t)((slash ? slash : end) - p)};
        if (!see(name, parent, ctx))
            return false;
        parent = name;
        p = slash ? slash + 1 : end;
    }
    return true;
}

/* Takes the next path off the text: "hierarchy:controllers:path" (proc_cgroup_show). */
static bool take_path(struct span *rest, struct span *path)
{
    while (rest->len) {
        const char *eol = memchr(rest->text, '\n', rest->len);
        size_t n = eol ? (size_t)(eol - rest->text) : rest->len;
        const char *line = rest->text, *colon = memchr(line, ':', n);
        rest->text += n + (eol != NULL);
        rest->len -= n + (eol != NULL);
        if (colon)
            colon = memchr(colon + 1, ':', (size_t)(line + n - colon - 1));
        if (!colon)
            continue;
        *path = (struct span){colon + 1, (size_t)(line + n - colon - 1)};
        return true;
    }
    return false;
}

static bool see_innermost(struct span name, struct span parent, void *ctx)
{
    take_pod(name, ctx);
    (void)take_container(name, parent, ctx);
    return true;
}

/*
 * An engine that uses only some hierarchies leaves the others at "/": the first
 * path that names a container counts.
 */
bool cgroup_parse(const char *text, size_t len, struct container *out)
{
    struct span rest = {text, len}, path;

    memset(out, 0, sizeof *out);
    while (!out->engine && take_path(&rest, &path))
        (void)walk_path(path, see_innermost, out);
    return out->engine || out->pod[0];
}

struct wanted {
    const char *id;
    struct container found;
};

bool cgroup_at_root(const char *text, size_t len)
{
    struct span rest = {text, len}, path;
    bool at_root = false;

    while (take_path(&rest, &path)) {
        if (!span_is(path, "/"))
            return false;
        at_root = true;
    }
    return at_root;
}

const char *container_id(const char *text)
{
    const char *slash = strrchr(text, '/');

    return slash ? slash + 1 : text;
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

/* False, which ends the walk, at the container that is looked for. */
static bool see_wanted(struct span name, struct span parent, void *ctx)
{
    struct wanted *wanted = ctx;

    return !take_container(name, parent, &wanted->found) ||
           !container_is(&wanted->found, wanted->id);
}

bool cgroup_names(const char *text, size_t len, const char *id, struct container *out)
{
    struct span rest = {text, len}, path;
    struct wanted wanted = {.id = id};

    while (take_path(&rest, &path))
        if (!walk_path(path, see_wanted, &wanted)) {
            *out = wanted.found;
            return true;
        }
    return false;
}

bool cgroup_path(const char *text, const char *controller, char *out, size_t size)
{
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        char list[128], path[CGROUP_PATH_MAX];
        int number;
        bool v2 = sscanf(line, "%d::%511[^\n]", &number, path) == 2;
        if (!v2 && sscanf(line, "%d:%127[^:\n]:%511[^\n]", &number, list, path) != 3)
            continue;
        if (*controller ? v2 || strcmp(list, controller) != 0 : !v2)
            continue;
        if (strlen(path) == sizeof path - 1) /* cut off: the name of another group */
            return false;
        snprintf(out, size, "%s", path);
        return strncmp(out, "/..", 3) != 0;
    }
    return false;
}
