#include "base/allowance.h"
#include "base/util.h"

uint64_t allowance_left(struct allowance *allowance)
{
    uint64_t now = clock_now(), seconds = (now - allowance->taken_at) / 1000000000;
    uint64_t renewed = allowance->per_second * seconds;

    if (seconds) {
        allowance->taken -= renewed < allowance->taken ? renewed : allowance->taken;
        allowance->taken_at = now;
    }
    return allowance->max - allowance->taken;
}

bool allowance_take(struct allowance *allowance, uint64_t amount)
{
    if (amount > allowance_left(allowance))
        return false;
    allowance->taken += amount;
    return true;
}
