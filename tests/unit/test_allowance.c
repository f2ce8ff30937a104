/* base/allowance.c */
#include "base/allowance.h"
#include "base/util.h"
#include "check.h"

static void test_bound(void)
{
    struct allowance allowance = {.max = 1000};

    CHECK(allowance_share(&allowance) == 500);
    CHECK(!allowance_take(&allowance, 501) && !allowance_take(&allowance, UINT64_MAX));
    CHECK(allowance_take(&allowance, 500) && allowance_take(&allowance, 250));
    CHECK(allowance_share(&allowance) == 125);
    CHECK(!allowance_take(&allowance, 126) && allowance_take(&allowance, 0));
}

static void test_renewal(void)
{
    struct allowance allowance = {.max = 1000, .per_second = 100, .small = 10};

    CHECK(allowance_take(&allowance, 500) && allowance_take(&allowance, 10));
    allowance.taken_at = clock_now() - 3500000000; /* 3.5 seconds ago */
    CHECK(allowance_share(&allowance) == 400);
    allowance.taken_at = clock_now() - 1000000000000;
    CHECK(allowance_take(&allowance, 500) && !allowance_take(&allowance, 500));
}

/* However many large requests come first, the small ones after them are granted. */
static void test_small(void)
{
    struct allowance allowance = {.max = 1000, .small = 10};
    uint64_t large = 0;
    int small = 0;

    for (int i = 0; i < 1000; i++) {
        uint64_t share = allowance_share(&allowance);
        if (share > allowance.small && allowance_take(&allowance, share))
            large += share;
    }
    CHECK(large > 900 && large <= 1000);
    while (small < 1000 && allowance_take(&allowance, 10))
        small++;
    CHECK(small >= 25 && (uint64_t)small * 10 <= 250 + 1000 - large);
}

int main(void)
{
    test_bound();
    test_renewal();
    test_small();
    return check_result();
}
