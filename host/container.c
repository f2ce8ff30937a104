#include "host/container.h"
#include "base/util.h"

#include <string.h>

enum { CGROUP_TEXT_MAX = 64 << 10, MOUNTINFO_MAX = 4 << 20 };

struct word {
    const char *text;
    size_t len;
};

/* The next blank-separated word of a line. */
static struct word take_word(struct word *line)
{
    const char *blank = memchr(line->text, ' ', line->len);
    struct word word = {line->text, blank ? (size_t)(blank - line->text) : line->len};

    line->text += word.len + (blank != NULL);
    line->len -= word.len + (blank != NULL);
    return word;
}

static bool word_is(struct word word, const char *text)
{
    return word.len == strlen(text) && memcmp(word.text, text, word.len) == 0;
}

/* What stands behind `name` in a path, up to the next slash; empty: it is not in it. */
static struct word behind(struct word path, const char *name)
{
    const char *at = memmem(path.text, path.len, name, strlen(name));
    struct word rest = {path.text, 0};

    if (!at)
        return rest;
    rest.text = at + strlen(name);
    rest.len = (size_t)(path.text + path.len - rest.text);
    const char *slash = memchr(rest.text, '/', rest.len);
    if (slash)
        rest.len = (size_t)(slash - rest.text);
    return rest;
}

static bool consists_of(struct word word, const char *letters)
{
    for (size_t i = 0; i < word.len; i++)
        if (!memchr(letters, word.text[i], strlen(letters)))
            return false;
    return true;
}

static bool is_id(struct word word)
{
    return word.len == CONTAINER_ID_LEN && consists_of(word, "0123456789abcdef");
}

static bool take_id(struct word path, const char *directory, const char *engine,
                    struct container *out)
{
    struct word id = behind(path, directory);

    if (!is_id(id))
        return false;
    out->engine = engine;
    memcpy(out->id, id.text, id.len);
    out->id[id.len] = '\0';
    return true;
}

/*
 * What engines mount, by the directory on their side: docker
 * .../containers/ID/hostname; podman .../overlay-containers/ID/userdata/
 * .containerenv (or vfs-containers); the kubelet .../pods/UID/etc-hosts.
 */
static void take_mount(struct word root, struct word point, struct container *out)
{
    if (word_is(point, "/etc/hosts") || word_is(point, "/dev/termination-log")) {
        struct word uid = behind(root, "/pods/");
        if (uid.len && uid.len < POD_MAX && consists_of(uid, "0123456789abcdef-")) {
            memcpy(out->pod, uid.text, uid.len);
            out->pod[uid.len] = '\0';
        }
    }
    if (out->engine)
        return;
    if (word_is(point, "/etc/hostname"))
        (void)take_id(root, "/containers/", "docker", out);
    else if (word_is(point, "/run/.containerenv"))
        (void)take_id(root, "-containers/", "podman", out);
}

/*
 * "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue"
 * (proc_pid_mountinfo(5)): the root within the file system, then the mount point.
 */
bool mountinfo_container(const char *text, size_t len, struct container *out)
{
    struct word rest = {text, len};

    memset(out, 0, sizeof *out);
    while (rest.len) {
        const char *eol = memchr(rest.text, '\n', rest.len);
        struct word line = {rest.text, eol ? (size_t)(eol - rest.text) : rest.len};
        rest.text += line.len + (eol != NULL);
        rest.len -= line.len + (eol != NULL);
        for (int i = 0; i < 3; i++) /* id, parent, device */
            (void)take_word(&line);
        struct word root = take_word(&line);
        take_mount(root, take_word(&line), out);
    }
    if (out->pod[0]) { /* what is mounted then is that of the pod's first container */
        out->engine = NULL;
        out->id[0] = '\0';
    }
    return out->engine || out->pod[0];
}

static bool read_mountinfo(const struct procfs *proc, pid_t pid, struct container *out)
{
    AUTO_FREE char *text = NULL;
    ssize_t n = procfs_slurp(proc, &text, MOUNTINFO_MAX, "%d/mountinfo", (int)pid);

    return n > 0 && mountinfo_container(text, (size_t)n, out);
}

bool container_read(const struct procfs *proc, pid_t pid, struct container *out)
{
    AUTO_FREE char *text = NULL;
    ssize_t n = procfs_slurp(proc, &text, CGROUP_TEXT_MAX, "%d/cgroup", (int)pid);

    memset(out, 0, sizeof *out);
    if (n > 0 && cgroup_parse(text, (size_t)n, out))
        return true;
    return n > 0 && cgroup_at_root(text, (size_t)n) && read_mountinfo(proc, pid, out);
}

bool container_has(const struct procfs *proc, pid_t pid, const char *id, struct container *out)
{
    AUTO_FREE char *text = NULL;
    ssize_t n = procfs_slurp(proc, &text, CGROUP_TEXT_MAX, "%d/cgroup", (int)pid);

    if (n > 0 && cgroup_names(text, (size_t)n, id, out))
        return true;
    return n > 0 && cgroup_at_root(text, (size_t)n) && read_mountinfo(proc, pid, out) &&
           container_is(out, id);
}
