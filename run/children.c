#include "run/children.h"
#include "host/processes.h"
#include "host/task.h"
#include "run/access.h"
#include "run/interrupt.h"

#include <linux/kcmp.h>
#include <sys/syscall.h>

#define SECOND_NS ((uint64_t)1000000000)

void children_await(struct children *children)
{
    const uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK);
    struct timespec now;

    if (!children->awaited) {
        /* As a start time in /proc/PID/stat: since boot, in the tool's time namespace, too. */
        clock_gettime(CLOCK_BOOTTIME, &now);
        children->since = (uint64_t)now.tv_sec * ticks + (uint64_t)now.tv_nsec * ticks / SECOND_NS;
    }
    children->awaited = true;
}

void children_recognise(struct children *children, struct attachment *attachment)
{
    struct prof_state ignored;

    exec_mark_read(&children->mark, &attachment->target, &attachment->memory);
    if (!attachment->byte.at) /* it was switched by a call */
        (void)access_find_byte(attachment, false, &ignored);
    children->active_at = attachment->byte.at;
}

/* True if it stems from the target by fork alone, and prof.active is not known to be false. */
static bool samples_on(const struct children *children, struct attachment *parent,
                       const struct target_pin *pin)
{
    struct target target;
    struct memory memory;
    struct fault ignored;
    unsigned char active = true;
    bool on = false;

    if (target_open_pinned(&target, &parent->proc, pin, &ignored) == FAULT_NONE &&
        syscall(SYS_kcmp, parent->target.pid, pin->pid, KCMP_VM, 0, 0) != 0) {
        memory_open(&memory, &target, &parent->gate);
        if (exec_mark_matches(&children->mark, &memory))
            on = !children->active_at ||
                 !memory_read(&memory, children->active_at, &active, sizeof active) || active;
        memory_close(&memory);
    }
    target_close(&target);
    return on;
}

void children_look(struct children *children, struct attachment *attachment)
{
    struct processes all;
    struct fault ignored;

    if (!children->awaited || !children->mark.random_at ||
        processes_list(&all, &attachment->proc, &ignored) != FAULT_NONE)
        return;
    children->awaited = false;
    for (size_t i = 0; i < all.count && !*interrupt_again_flag(); i++) {
        struct target_pin pin = {.pid = all.list[i], .pidfd = -1};
        struct proc_stat stat;
        if (pin.pid == attachment->target.pid ||
            process_stat(&attachment->proc, pin.pid, &stat) != 0 || stat.start < children->since ||
            stat.stack_start != children->mark.stack_start)
            continue;
        pin.start = stat.start;
        if (!samples_on(children, attachment, &pin))
            continue;
        if (children->count < CHILDREN_LISTED)
            children->first[children->count] = pin.pid;
        children->count++;
    }
    processes_free(&all);
}
