#include "run/need.h"
#include "base/units.h"
#include "host/headroom.h"
#include "host/priority.h"
#include "host/task.h"
#include "run/faults.h"

#include <errno.h>

/*
 * Measured on Linux 6.18 as the growth of memory.max_usage_in_bytes of a cgroup v1: 0.75 MiB at
 * most for any call in a process of one thread, also if it has forked, so that each page that is
 * written is copied, or has called mlockall(MCL_FUTURE), so that each page that is mapped is
 * charged. The first call of mallctl counts each arena that threads have used: 41 KiB for each.
 * One that gives back what the run has changed is not the first, and writes a value: to refuse it
 * would leave the target changed.
 */
enum { NEED_CALL = 2 << 20, NEED_OWED = 1 << 20, NEED_THREAD = 64 << 10, NEED_THREADS_MAX = 512 };

static fault_code refuse_need(const struct headroom *headroom, uint64_t wanted, uint64_t swapped,
                              struct fault *fault)
{
    char left[UNITS_TEXT], need[UNITS_TEXT], swap[UNITS_TEXT], of_swap[64] = "";

    if (swapped)
        snprintf(of_swap, sizeof of_swap, ", %s of it for pages that are in swap",
                 units_bytes((double)swapped, swap));
    return fault_set(fault, FAULT_NO_HEADROOM, ENOMEM, "hold",
                     "%s has %s left, and a call may need %s%s", headroom->group,
                     units_bytes((double)headroom->bytes, left), units_bytes((double)wanted, need),
                     of_swap);
}

static uint64_t swapped_bytes(const struct attachment *attachment)
{
    struct proc_status status;

    return process_status(&attachment->proc, target_via(&attachment->target), &status) == 0
               ? status.swap_bytes
               : 0;
}

fault_code need_check(struct attachment *attachment, struct fault *fault)
{
    const pid_t pid = target_via(&attachment->target);
    struct headroom headroom;
    struct proc_stat stat;
    uint64_t threads = NEED_THREADS_MAX, swapped = 0, wanted = NEED_OWED;
    char why[sizeof fault->what];

    /* The tool must get a CPU while a thread is stopped. */
    if (!attachment->caller.owes && !priority_suffices(&attachment->proc, pid, why, sizeof why))
        return fault_set(fault, FAULT_NO_CPU, 0, "hold", "%s", why);
    if (!headroom_read(&attachment->proc, pid, &headroom))
        return FAULT_NONE;
    if (process_stat(&attachment->proc, pid, &stat) == 0 && stat.threads < threads)
        threads = stat.threads;
    if (!attachment->caller.owes) {
        swapped = swapped_bytes(attachment);
        wanted = NEED_CALL + NEED_THREAD * threads + swapped;
    }
    return headroom.bytes >= wanted ? FAULT_NONE : refuse_need(&headroom, wanted, swapped, fault);
}

fault_code need_explain_swapped(const struct attachment *attachment, struct fault *fault)
{
    char left[UNITS_TEXT], swap[UNITS_TEXT];
    struct headroom headroom;

    if (!headroom_read(&attachment->proc, target_via(&attachment->target), &headroom))
        return fault->code; /* the limit is gone */
    return fault_set(
        fault, FAULT_NO_HEADROOM, ENOMEM, "read memory",
        "%s has %s left, and %s of the process is in swap, which a read would bring back",
        headroom.group, units_bytes((double)headroom.bytes, left),
        units_bytes((double)swapped_bytes(attachment), swap));
}
