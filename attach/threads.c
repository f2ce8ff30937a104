#include "attach/threads.h"
#include "attach/faults.h"
#include "base/list.h"
#include "host/task.h"

#include <errno.h>
#include <string.h>

bool thread_refresh(struct thread *thread, const struct target *target)
{
    struct proc_stat stat;

    if (thread_stat(target->proc, target->pid, thread->tid, &stat))
        return false;
    thread->state = stat.state;
    thread->cpu = stat.cpu;
    thread->cpu_ticks = stat.cpu_ticks;
    thread->flags = stat.flags;
    memcpy(thread->comm, stat.comm, sizeof thread->comm);
    thread->comm[sizeof thread->comm - 1] = '\0';
    return stat.state != 'Z' && stat.state != 'X';
}

static fault_code read_task_directory(struct threads *threads, const struct target *target,
                                      struct task_dir *dir, struct fault *fault)
{
    size_t capacity = 0;
    pid_t tid;

    while (threads->count < THREADS_MAX && (tid = task_dir_next(dir))) {
        struct thread thread = {.tid = tid};
        if (!thread_refresh(&thread, target))
            continue;
        if (!LIST_GROW(threads->list, capacity, threads->count))
            return fault_set(fault, FAULT_INTERNAL, ENOMEM, "list threads", "%d", target->pid);
        threads->list[threads->count++] = thread;
    }
    if (threads->count == 0)
        return fault_set(fault, FAULT_GONE, 0, "list threads", "%d has no threads left",
                         target->pid);
    return FAULT_NONE;
}

fault_code threads_list(struct threads *threads, const struct target *target, struct fault *fault)
{
    struct task_dir dir;
    int err = task_dir_of_threads(&dir, target->proc, target->pid);
    fault_code rc;

    memset(threads, 0, sizeof *threads);
    if (err)
        return fault_set(fault, FAULT_GONE, -err, "list threads", "%d", target->pid);
    rc = read_task_directory(threads, target, &dir, fault);
    task_dir_close(&dir);
    if (rc != FAULT_NONE)
        threads_free(threads);
    return rc;
}

void threads_free(struct threads *threads)
{
    free(threads->list);
    memset(threads, 0, sizeof *threads);
}

bool thread_read_syscall(const struct thread *thread, const struct target *target,
                         struct proc_syscall *out)
{
    char text[256];
    ssize_t n = procfs_read(target->proc, text, sizeof text, "%d/task/%d/syscall", (int)target->pid,
                            (int)thread->tid);

    *out = (struct proc_syscall){.nr = -1};
    return n > 0 && parse_syscall(text, (size_t)n, out);
}
