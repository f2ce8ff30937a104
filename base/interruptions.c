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

static bool stays_ignored(int signo)
{
    struct sigaction former;

    return (signo == SIGHUP || signo == SIGINT || signo == SIGQUIT) &&
           sigaction(signo, NULL, &former) == 0 && former.sa_handler == SIG_IGN;
}

void interruptions_handle(void (*handler)(int))
{
    const struct sigaction action = {.sa_handler = handler};
    sigset_t set;

    sigemptyset(&set);
    interruptions_add(&set);
    for (int signo = 1; signo <= SIGRTMAX; signo++)
        if (sigismember(&set, signo) && !stays_ignored(signo))
            sigaction(signo, &action, NULL);
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
