#include "cli/interrupt.h"
#include "cli/message.h"

#include <stddef.h>
#include <unistd.h>

static volatile sig_atomic_t signals_seen;

static void on_signal(int signo)
{
    (void)signo;
    if (++signals_seen > 1)
        _exit(EXIT_INTERRUPTED);
}

void interrupt_init(void)
{
    struct sigaction action = {.sa_handler = on_signal}; /* without SA_RESTART */
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
}

const volatile sig_atomic_t *interrupt_flag(void)
{
    return &signals_seen;
}
