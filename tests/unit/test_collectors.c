/* A collector that stops the world is refused; other programs that handle its signals are not. */
#include "check.h"
#include "inject/faults.h"
#include "inject/stoppers.h"
#include "own.h"

#include <signal.h>
#include <string.h>

#define BIT(signal) (1ull << ((signal)-1))

static struct own own;

static fault_code refuse(uint64_t caught, struct fault *fault)
{
    own.target.status.sig_caught = caught;
    return collectors_refuse(&own.modules, &own.target, &own.memory, fault);
}

int main(void)
{
    struct fault fault;

    if (CHECK(own_open(&own))) {
        CHECK(refuse(0, &fault) == FAULT_NONE);
        CHECK(refuse(BIT(SIGUSR1) | BIT(SIGUSR2) | BIT(34) | BIT(35), &fault) == FAULT_NONE);
        CHECK(refuse(BIT(SIGPWR), &fault) == FAULT_NONE);
        /* This program contains the text that identifies libgc, too. */
        CHECK(refuse(BIT(SIGPWR) | BIT(SIGXCPU), &fault) == FAULT_UNSUPPORTED);
        CHECK(strstr(fault.what, "uses libgc"));
    }
    own_close(&own);
    return check_result();
}
