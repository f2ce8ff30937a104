/* base/allowance.c */
#include "base/allowance.h"
#include "base/util.h"
#include "check.h"

static void test_bound(void)
{
    struct allowance allowance = {100, 0, 0, 0};

    CHECK(!allowance_take(&allowance, 101));
    CHECK(allowance_take(&allowance, 60) && allowance_take(&allowance, 40));
    CHECK(!allowance_take(&allowance, 1) && allowance_take(&allowance, 0));
    CHECK(!allowance_take(&allowance, UINT64_MAX));
}

static void test_renewal(void)
{
    struct allowance allowance = {100, 10, 0, 0};

    CHECK(allowance_take(&allowance, 100));
    allowance.taken_at = clock_now() - 3500000000; /* 3.5 seconds ago */
    CHECK(allowance_take(&allowance, 30));
    allowance.taken_at = clock_now() - 1000000000000;
    CHECK(allowance_take(&allowance, 100) && !allowance_take(&allowance, 100));
}

int main(void)
{
    test_bound();
    test_renewal();
    return check_result();
}
