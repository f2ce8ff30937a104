#include "attach/cgroup.h"
#include "attach/util.h"

#include <stdio.h>
#include <string.h>

enum { CGROUP_TEXT_MAX = 64 << 10, POD_UID_MIN = 32, POD_UID_MAX = 36 };

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

static void take_container(struct span name, struct span parent, struct container *out)
{
    struct span id, before;
    bool known;

    name = cut_end(name, ".scope");
    if (!id_at_end(name, &id))
        return;
    before = (struct span){name.text, name.len - id.len};
    if (before.len && strchr("-:", before.text[before.len - 1]))
        before.len--;
    const char *colon = memrchr(before.text, ':', before.len); /* "slice:engine:ID" */
    if (colon)
        before = (struct span){colon + 1, (size_t)(before.text + before.len - colon - 1)};
    const char *engine = engine_of(before.len ? before : parent, &known);
    if (known && !engine)
        return;
    out->engine = engine ? engine : "container";
    memcpy(out->id, id.text, CONTAINER_ID_LEN);
    out->id[CONTAINER_ID_LEN] = '\0';
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

static void take_path(struct span path, struct container *out)
{
    struct span parent = {path.text, 0};
    const char *end = path.text + path.len;

    for (const char *p = path.text; p < end;) {
        const char *slash = memchr(p, '/', (size_t)(end - p));
        struct span name = {p, (size_t)((slash ? slash : end) - p)};
        take_pod(name, out);
        take_container(name, parent, out);
        parent = name;
        p = slash ? slash + 1 : end;
    }
}

/*
 * "hierarchy:controllers:path" (kernel/cgroup/cgroup.c, proc_cgroup_show). An
 * engine that uses only some hierarchies leaves the others at "/": the first
 * path that names a container counts.
 */
bool cgroup_parse(const char *text, size_t len, struct container *out)
{
    const char *end = text + len;

    memset(out, 0, sizeof *out);
    while (text < end) {
        const char *eol = memchr(text, '\n', (size_t)(end - text));
        const char *line_end = eol ? eol : end;
        const char *colon = memchr(text, ':', (size_t)(line_end - text));
        if (colon)
            colon = memchr(colon + 1, ':', (size_t)(line_end - colon - 1));
        if (colon)
            take_path((struct span){colon + 1, (size_t)(line_end - colon - 1)}, out);
        if (out->engine)
            return true;
        text = line_end + 1;
    }
    return out->pod[0] != '\0';
}

bool cgroup_read(const struct procfs *proc, pid_t pid, struct container *out)
{
    AUTO_FREE char *text = NULL;
    ssize_t n = procfs_slurp(proc, &text, CGROUP_TEXT_MAX, "%d/cgroup", (int)pid);

    memset(out, 0, sizeof *out);
    return n > 0 && cgroup_parse(text, (size_t)n, out);
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
        snprintf(out, size, "%s", path);
        return strncmp(out, "/..", 3) != 0;
    }
    return false;
}
