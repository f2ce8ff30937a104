#include "host/priority.h"

#include <errno.h>
#include <sched.h>
#include <sys/resource.h>

enum { NICE_FIRST = -20 };

/* PRIO_PROCESS and 0 is the calling thread only (setpriority(2), "C library/kernel differences").
 */
void priority_raise(struct priority *priority)
{
    errno = 0;
    *priority = (struct priority){.ordinary = sched_getscheduler(0) == SCHED_OTHER,
                                  .nice = getpriority(PRIO_PROCESS, 0)};
    priority->first =
        priority->ordinary && errno == 0 && setpriority(PRIO_PROCESS, 0, NICE_FIRST) == 0;
}

void priority_hurry(const struct priority *priority, bool on)
{
    const struct sched_param lowest = {.sched_priority = sched_get_priority_min(SCHED_FIFO)};
    const struct sched_param ordinary = {.sched_priority = 0};

    if (priority->ordinary)
        (void)sched_setscheduler(0, on ? SCHED_FIFO | SCHED_RESET_ON_FORK : SCHED_OTHER,
                                 on ? &lowest : &ordinary);
}

void priority_above(struct priority *priority, pid_t tid)
{
    int policy = sched_getscheduler(tid) & ~SCHED_RESET_ON_FORK;
    struct sched_param param;

    *priority = (struct priority){.ordinary = false};
    if ((policy != SCHED_FIFO && policy != SCHED_RR) || sched_getparam(tid, &param) ||
        sched_getscheduler(0) != SCHED_OTHER)
        return;
    if (param.sched_priority < sched_get_priority_max(SCHED_FIFO))
        param.sched_priority++;
    priority->ordinary = sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param) == 0;
}

void priority_restore(struct priority *priority)
{
    priority_hurry(priority, false);
    if (priority->first)
        (void)setpriority(PRIO_PROCESS, 0, priority->nice);
    *priority = (struct priority){.ordinary = false};
}
