#include "base/allowance.h"
#include "base/util.h"

static void renew_taken(uint64_t *taken, uint64_t renewed)
{
    *taken -= renewed < *taken ? renewed : *taken;
}

static void renew(struct allowance *allowance)
{
    uint64_t now = clock_now(), seconds = (now - allowance->taken_at) / 1000000000;

    if (!seconds)
        return;
    renew_taken(&allowance->taken, allowance->per_second * seconds);
    renew_taken(&allowance->taken_small, allowance->per_second * seconds);
    allowance->taken_at = now;
}

static uint64_t small_share(const struct allowance *allowance)
{
    uint64_t left = allowance->max / ALLOWANCE_RESERVE - allowance->taken_small;

    return left < allowance->small ? left : allowance->small;
}

uint64_t allowance_share(struct allowance *allowance)
{
    renew(allowance);
    uint64_t large = (allowance->max - allowance->taken) / 2, small = small_share(allowance);
    return large > small ? large : small;
}

bool allowance_take(struct allowance *allowance, uint64_t amount)
{
    if (amount > allowance_share(allowance))
        return false;
    if (amount <= small_share(allowance))
        allowance->taken_small += amount;
    else
        allowance->taken += amount;
    return true;
}
