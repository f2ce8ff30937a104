#include "run/follow.h"
#include "jemalloc/faults.h"
#include "jemalloc/selection.h"
#include "run/pause.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

enum { SECOND_NS = 1000000000 };

fault_code follow_open(struct follow *follow, const struct selector *selector, struct fault *fault)
{
    int err;

    memset(follow, 0, sizeof *follow);
    follow->selector = *selector;
    follow->pin.pidfd = -1;
    err = procfs_open(&follow->proc, "/proc");
    follow->census = err ? NULL : census_new();
    if (!follow->census)
        return fault_set(fault, FAULT_INTERNAL, err ? -err : ENOMEM, "open", "/proc");
    return FAULT_NONE;
}

void follow_close(struct follow *follow)
{
    target_pin_close(&follow->pin);
    if (follow->census)
        census_free(follow->census);
    follow->census = NULL;
    procfs_close(&follow->proc);
}

/*
 * A process may match later: one may be ending or starting, with its cgroup, and one that
 * does not answer may be a stranger's.
 */
static bool may_come(fault_code code)
{
    return fault_is_gone(code) || fault_is_absent(code) || code == FAULT_NO_ANSWER;
}

enum follow_end follow_look(struct follow *follow, size_t *count, struct fault *fault)
{
    struct selection selection = {0};
    fault_code rc = selection_find(&selection, &follow->selector, follow->any_allocator,
                                   &follow->proc, follow->census, NULL, fault);

    *count = rc == FAULT_NONE ? selection.count : 0;
    if (*count == 1) {
        target_pin_close(&follow->pin);
        follow->pin = selection.list[0].pin;
        selection.list[0].pin.pidfd = -1;
        follow->done = false;
    }
    selection_free(&selection);
    if (*count == 1)
        return FOLLOW_FOUND;
    return rc == FAULT_NONE || may_come(rc) ? FOLLOW_WAITING : FOLLOW_FAILED;
}

/* True if the process that was found has ended. */
static bool follow_ended(struct follow *follow)
{
    struct pollfd end = {follow->pin.pidfd, POLLIN, 0};
    struct target target;
    bool ended;

    if (follow->pin.pidfd >= 0)
        return poll(&end, 1, 0) == 1;
    ended = target_open_pinned(&target, &follow->proc, &follow->pin, NULL) != FAULT_NONE;
    target_close(&target);
    return ended;
}

bool follow_wait(struct follow *follow, const volatile sig_atomic_t *interrupted)
{
    struct fault fault;
    size_t count;

    for (;;) {
        struct pause pause = {.until = clock_now() + SECOND_NS, .interrupted = interrupted};
        if ((!follow->done || follow_ended(follow)) &&
            follow_look(follow, &count, &fault) == FOLLOW_FOUND)
            return true;
        if (pause_until(&pause) == PAUSE_INTERRUPTED)
            return false;
    }
}
