#include "host/cpu_pin.h"

void cpu_pin_begin(struct cpu_pin *pin)
{
    int own = sched_getcpu();
    cpu_set_t only;

    pin->kept = false;
    if (own < 0 || own >= CPU_SETSIZE || sched_getaffinity(0, sizeof pin->former, &pin->former))
        return;
    CPU_ZERO(&only);
    CPU_SET((size_t)own, &only);
    pin->kept = sched_setaffinity(0, sizeof only, &only) == 0;
}

void cpu_pin_end(const struct cpu_pin *pin)
{
    if (pin->kept)
        (void)sched_setaffinity(0, sizeof pin->former, &pin->former);
}
