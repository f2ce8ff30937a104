#include "attach/environ.h"
#include "host/task.h"

#include <errno.h>

static ssize_t read_memory_of(const struct proc_stat *stat, struct memory *memory, char **out,
                              size_t limit)
{
    AUTO_FREE char *text = NULL;
    size_t len = stat->env_end - stat->env_start;

    if (!stat->env_start || stat->env_end < stat->env_start)
        return -EACCES; /* the kernel shows 0 to readers who may not trace it */
    if (len > limit)
        return -EFBIG;
    text = malloc(len + 1);
    if (!text)
        return -ENOMEM;
    if (len && !memory_read(memory, stat->env_start, text, len))
        return errno ? -errno : -EFAULT;
    text[len] = '\0';
    *out = steal_ptr(&text);
    return (ssize_t)len;
}

ssize_t environ_read(const struct target *target, struct memory *memory, char **out, size_t limit)
{
    ssize_t n = procfs_slurp(target->proc, out, limit, "%d/environ", (int)target_via(target));
    struct proc_stat stat;

    if (n != -EACCES && n != -EPERM)
        return n;
    n = process_stat(target->proc, target_via(target), &stat);
    if (n < 0)
        return n == -EBADMSG ? -EACCES : n;
    return read_memory_of(&stat, memory, out, limit);
}
