#include "base/interruptions.h"
#include "base/util.h"

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
