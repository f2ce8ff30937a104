#include "base/interruptions.h"
#include "base/util.h"

static const volatile sig_atomic_t none;
static const volatile sig_atomic_t *count = &none;
static uint64_t end = UINT64_MAX;

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
