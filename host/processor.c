#include "host/processor.h"

void processor_keep(struct processor *processor)
{
    int own = sched_getcpu();
    cpu_set_t only;

    processor->kept = false;
    if (own < 0 || own >= CPU_SETSIZE ||
        sched_getaffinity(0, sizeof processor->former, &processor->former))
        return;
    CPU_ZERO(&only);
    CPU_SET((size_t)own, &only);
    processor->kept = sched_setaffinity(0, sizeof only, &only) == 0;
}

void processor_release(const struct processor *processor)
{
    if (processor->kept)
        (void)sched_setaffinity(0, sizeof processor->former, &processor->former);
}
