#include "base/interruptions.h"

static const volatile sig_atomic_t none;
static const volatile sig_atomic_t *count = &none;

void interruptions_count_in(const volatile sig_atomic_t *counter)
{
    count = counter;
}

sig_atomic_t interruptions(void)
{
    return *count;
}
