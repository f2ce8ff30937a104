#include "run/pause.h"
#include "run/interrupt.h"

enum { SECOND_NS = 1000000000 };

static bool has_ended(const struct pause *pause)
{
    struct fault fault;

    return pause->target && target_check(pause->target, &fault) != FAULT_NONE;
}

/*
 * Waits once: until the time, or the next tick if there is a tick function or a
 * target without pidfd. True if one of `also` has ended the wait.
 */
static bool wait_once(const struct pause *pause, uint64_t now, const sigset_t *let_in)
{
    uint64_t step = pause->tick_ns ? pause->tick_ns : SECOND_NS;
    uint64_t left = now < pause->until ? pause->until - now : 0;
    bool by_hand = pause->target && pause->target->pidfd < 0;
    nfds_t also = pause->also_count < PAUSE_ALSO ? pause->also_count : PAUSE_ALSO;
    struct pollfd all[1 + PAUSE_ALSO] = {{pause->target ? pause->target->pidfd : -1, POLLIN, 0}};
    struct timespec timeout;
    bool woken = false;

    if ((pause->tick || pause->over || by_hand) && left > step)
        left = step;
    timeout.tv_sec = (time_t)(left / SECOND_NS);
    timeout.tv_nsec = (long)(left % SECOND_NS);
    for (nfds_t i = 0; i < also; i++)
        all[1 + i] = (struct pollfd){pause->also[i].fd, pause->also[i].events, 0};
    bool any = ppoll(all, 1 + also, &timeout, let_in) > 0;
    for (nfds_t i = 0; i < also; i++) {
        pause->also[i].revents = any ? all[1 + i].revents : 0;
        woken |= pause->also[i].revents != 0;
    }
    return woken;
}

enum pause_end pause_until(const struct pause *pause)
{
    enum pause_end end = PAUSE_OVER;
    sigset_t former;

    interrupt_block(&former);
    for (;;) {
        uint64_t now = clock_now();
        if (pause->interrupted && *pause->interrupted)
            end = PAUSE_INTERRUPTED;
        else if (has_ended(pause))
            end = PAUSE_ENDED;
        bool over = now >= pause->until;
        if (end != PAUSE_OVER || (over && !pause->also_count))
            break;
        if (pause->tick && !over)
            pause->tick(pause->ctx);
        if (pause->over && !over && pause->over(pause->ctx))
            break;
        if (wait_once(pause, now, &former) || over)
            break;
    }
    sigprocmask(SIG_SETMASK, &former, NULL);
    return end;
}
