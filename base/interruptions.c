#include "base/interruptions.h"
#include "base/util.h"

#include <errno.h>
#include <string.h>

static const volatile sig_atomic_t none;
static const volatile sig_atomic_t *count = &none;
static uint64_t end = UINT64_MAX;

void interruptions_add(sigset_t *set)
{
    static const int ending[] = {SIGHUP,  SIGINT,    SIGQUIT,   SIGUSR1, SIGUSR2, SIGTERM,
                                 SIGXCPU, SIGSTKFLT, SIGVTALRM, SIGPROF, SIGPOLL, SIGPWR};

    for (size_t i = 0; i < ARRAY_LEN(ending); i++)
        sigaddset(set, ending[i]);
    for (int signo = SIGRTMIN; signo <= SIGRTMAX; signo++)
        sigaddset(set, signo);
}

void interruptions_handle(void (*handler)(int))
{
    const struct sigaction action = {.sa_handler = handler};
    struct sigaction former;
    sigset_t set;

    sigemptyset(&set);
    interruptions_add(&set);
    for (int signo = 1; signo <= SIGRTMAX; signo++) {
        const bool may_stay = signo == SIGHUP || signo == SIGINT || signo == SIGQUIT;
        if (!sigismember(&set, signo) ||
            (may_stay && sigaction(signo, NULL, &former) == 0 && former.sa_handler == SIG_IGN))
            continue;
        sigaction(signo, &action, NULL);
    }
}

void interruptions_count_in(const volatile sig_atomic_t *counter)
{
    count = counter;
}

sig_atomic_t interruptions(void)
{
    return *count;
}

uint64_t interruptions_end_at(uint64_t ns)
{
    uint64_t former = end;

    end = ns;
    return former;
}

bool interruptions_ended(sig_atomic_t begun)
{
    return interruptions() != begun || (end != UINT64_MAX && clock_now() >= end);
}

enum { TICK_NS = 50 * 1000 * 1000 };

static void tick(int signo)
{
    (void)signo; /* its only purpose is to end a system call with EINTR */
}

fault_code deadline_start(struct deadline *deadline, uint64_t timeout,
                          const volatile sig_atomic_t *interrupted, struct fault *fault)
{
    struct sigaction action = {.sa_handler = tick}; /* without SA_RESTART */
    struct itimerspec every = {{0, TICK_NS}, {0, TICK_NS}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};

    memset(deadline, 0, sizeof *deadline);
    deadline->at = clock_now() + timeout;
    deadline->interrupted = interrupted;
    (void)interruptions_end_at(deadline->at);
    if (sigaction(SIGALRM, &action, NULL) ||
        timer_create(CLOCK_MONOTONIC, &event, &deadline->timer))
        return fault_set(fault, FAULT_INTERNAL, errno, "start the deadline timer", "SIGALRM");
    deadline->armed = true;
    if (timer_settime(deadline->timer, 0, &every, NULL))
        return fault_set(fault, FAULT_INTERNAL, errno, "start the deadline timer", "SIGALRM");
    return FAULT_NONE;
}

void deadline_stop(struct deadline *deadline)
{
    if (deadline->armed)
        timer_delete(deadline->timer);
    deadline->armed = false;
    (void)interruptions_end_at(UINT64_MAX);
}

bool deadline_passed(const struct deadline *deadline)
{
    return clock_now() >= deadline->at;
}

bool deadline_interrupted(const struct deadline *deadline)
{
    return deadline->interrupted && *deadline->interrupted;
}

bool deadline_is_over(const struct deadline *deadline)
{
    return deadline_interrupted(deadline) || deadline_passed(deadline);
}
