#include "host/mountinfo.h"
#include "base/util.h"

enum { MOUNTINFO_MAX = 16 << 20 };

/*
 * "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue"
 * (proc_pid_mountinfo(5)): id, parent, device, root, mount point, options, any number of optional
 * fields, a hyphen, type, source, options of the file system.
 */
static bool take_entry(struct cursor line, struct mount_entry *out)
{
    struct cursor fields[6], field;

    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (!cursor_take_part(&line, ' ', &fields[i]))
            return false;
    do {
        if (!cursor_take_part(&line, ' ', &field))
            return false;
    } while (!cursor_is(field, "-"));
    out->root = fields[3];
    out->point = fields[4];
    if (!cursor_take_part(&line, ' ', &out->type) || !cursor_take_part(&line, ' ', &field))
        return false;
    out->options = line;
    return true;
}

bool mountinfo_next(struct cursor *text, struct mount_entry *out)
{
    struct cursor line;

    while (cursor_take_line(text, &line))
        if (take_entry(line, out))
            return true;
    return false;
}

static bool is_octal(char ch)
{
    return ch >= '0' && ch <= '7';
}

/* Takes one byte, which may be escaped. */
static unsigned take_byte(struct cursor *part)
{
    const char *p = part->at;

    if (*p == '\\' && cursor_left(*part) > 3 && is_octal(p[1]) && is_octal(p[2]) &&
        is_octal(p[3])) {
        part->at += 4;
        return (unsigned)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0'));
    }
    part->at++;
    return (unsigned char)*p;
}

bool mountinfo_unescape(struct cursor part, char *out, size_t size)
{
    size_t n = 0;

    while (cursor_left(part) > 0) {
        unsigned ch = take_byte(&part);
        if (n + 1 >= size || ch == 0 || ch > 255)
            return false;
        out[n++] = (char)ch;
    }
    out[n] = '\0';
    return true;
}

bool mountinfo_read(const struct procfs *proc, pid_t pid, char **out, struct cursor *text)
{
    char name[PROC_NAME_MAX];
    ssize_t n = procfs_slurp(proc, out, MOUNTINFO_MAX, "%s/mountinfo", procfs_name(pid, name));

    *text = cursor_of(*out, n > 0 ? (size_t)n : 0);
    return n > 0;
}
