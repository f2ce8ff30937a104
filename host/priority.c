#include "host/priority.h"
#include "base/util.h"
#include "host/cgroup.h"
#include "host/inroot.h"
#include "host/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { NICE_LOWEST = -20, QUOTA_PART = 10 /* a tenth of a CPU */ };

/*
 * Returns the priority of a real-time thread; 0: it is none, or has ended. SCHED_DEADLINE, which
 * has no priorities, is above them all.
 */
static int realtime_of(pid_t tid)
{
    int policy = sched_getscheduler(tid);
    struct sched_param param;

    if (policy < 0)
        return 0;
    policy &= ~SCHED_RESET_ON_FORK;
    if (policy == SCHED_DEADLINE)
        return sched_get_priority_max(SCHED_FIFO);
    if ((policy != SCHED_FIFO && policy != SCHED_RR) || sched_getparam(tid, &param))
        return 0;
    return param.sched_priority;
}

/* PRIO_PROCESS is one thread only (setpriority(2), "C library/kernel differences"). */
static int nice_of(pid_t tid)
{
    errno = 0;
    int value = getpriority(PRIO_PROCESS, (id_t)tid);
    return errno ? 0 : value;
}

bool priority_raise(struct priority *priority, pid_t tid)
{
    const int its = realtime_of(tid);
    struct sched_param param = {.sched_priority = its};

    *priority = (struct priority){.policy = sched_getscheduler(0), .nice = nice_of(0)};
    if (realtime_of(0))
        return true;
    if (param.sched_priority < sched_get_priority_max(SCHED_FIFO))
        param.sched_priority++;
    priority->raised = sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param) == 0;
    priority->nicest = !priority->raised && setpriority(PRIO_PROCESS, 0, NICE_LOWEST) == 0;
    return priority->raised || its == 0;
}

void priority_restore(struct priority *priority)
{
    const struct sched_param ordinary = {.sched_priority = 0};

    /* Without CAP_SYS_NICE, that flag stays (kernel/sched/syscalls.c, __sched_setscheduler). */
    if (priority->raised && sched_setscheduler(0, priority->policy, &ordinary))
        (void)sched_setscheduler(0, priority->policy | SCHED_RESET_ON_FORK, &ordinary);
    if (priority->nicest)
        (void)setpriority(PRIO_PROCESS, 0, priority->nice);
    *priority = (struct priority){.raised = false};
}

/* Reads two numbers, "max" as UINT64_MAX (kernel/sched/core.c, cpu_max_show). */
static bool read_pair(const struct procfs *proc, int group, const char *file, uint64_t out[2])
{
    char text[64];
    ssize_t n = group_file_read(proc, group, file, text, sizeof text);
    struct cursor all = cursor_of(text, n > 0 ? (size_t)n : 0);

    out[0] = out[1] = UINT64_MAX;
    if (cursor_take_text(&all, "max") || cursor_take_text(&all, "-1"))
        return true;
    if (!cursor_take_decimal(&all, &out[0]))
        return false;
    cursor_skip_blanks(&all);
    (void)cursor_take_decimal(&all, &out[1]);
    return true;
}

/* The smallest share is 2 in v1 (cpu.shares), and 1 in v2, or 0 with cpu.idle (cpu.weight). */
static bool group_starves(const struct procfs *proc, enum cgroup_tree tree,
                          const struct cgroup_dir *dir, char *why, size_t size)
{
    const bool v2 = tree == CGROUP_V2;
    const char *share = v2 ? "cpu.weight" : "cpu.shares";
    AUTO_CLOSE int group = cgroup_dir_name(proc, dir);
    uint64_t shares[2], quota[2], period[2];

    if (group < 0)
        return false;
    if (read_pair(proc, group, share, shares) && shares[0] <= (v2 ? 1 : 2))
        return snprintf(why, size, "%s has %s %d", dir->path, share, (int)shares[0]) > 0;
    if (!read_pair(proc, group, v2 ? "cpu.max" : "cpu.cfs_quota_us", quota))
        return false;
    if (!v2 && read_pair(proc, group, "cpu.cfs_period_us", period))
        quota[1] = period[0];
    return quota[0] < quota[1] / QUOTA_PART &&
           snprintf(why, size, "%s has less than a tenth of a CPU", dir->path) > 0;
}

static bool groups_starve(const struct procfs *proc, char *why, size_t size)
{
    static const enum cgroup_tree trees[] = {CGROUP_V1_CPU, CGROUP_V2};
    struct cgroup_dir dir;

    for (size_t i = 0; i < ARRAY_LEN(trees); i++) {
        if (!cgroup_dir_find(proc, PROC_SELF, trees[i], &dir))
            continue;
        do
            if (group_starves(proc, trees[i], &dir, why, size))
                return true;
        while (cgroup_dir_parent(&dir));
    }
    return false;
}

bool priority_suffices(const struct procfs *proc, pid_t pid, char *why, size_t size)
{
    struct priority tried;
    const bool outranked = !priority_raise(&tried, pid), first = realtime_of(0) > 0;
    int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK, own = nice_of(0), its = nice_of(pid);

    priority_restore(&tried);
    if (first)
        return true;
    if (outranked)
        snprintf(why, size, "no real-time priority, which the process has");
    else if (policy == SCHED_IDLE)
        snprintf(why, size, "SCHED_IDLE");
    else if (own > 0)
        snprintf(why, size, "nice value %d", own);
    else if (own > its)
        snprintf(why, size, "nice value %d, and %d of the process", own, its);
    else
        return !groups_starve(proc, why, size);
    return false;
}

void cpu_pin_begin(struct cpu_pin *pin)
{
    int own = sched_getcpu();
    cpu_set_t only;

    pin->kept = false;
    if (own < 0 || own >= CPU_SETSIZE || sched_getaffinity(0, sizeof pin->former, &pin->former))
        return;
    CPU_ZERO(&only);
    CPU_SET((size_t)own, &only);
    pin->kept = sched_setaffinity(0, sizeof only, &only) == 0;
}

void cpu_pin_end(const struct cpu_pin *pin)
{
    if (pin->kept)
        (void)sched_setaffinity(0, sizeof pin->former, &pin->former);
}

void oom_score_volunteer(void)
{
    AUTO_CLOSE int fd = -1;
    struct procfs proc;

    if (procfs_open(&proc, "/proc") == 0)
        fd = procfs_openf(&proc, O_WRONLY, "self/oom_score_adj");
    if (fd >= 0 && write(fd, "1000", 4) != 4)
        util_close(&fd);
    procfs_close(&proc);
}
