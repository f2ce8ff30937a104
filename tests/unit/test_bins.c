/* The free space in the slabs of a size class. */
#include "check.h"
#include "jemalloc/bins.h"

/* Counts that contradict each other: read while they change, or forged. */
static void test_waste(void)
{
    const struct bin more = {.size = 8, .per_slab = 512, .slabs = 1, .objects = 513};
    const struct bin huge = {.size = 8, .per_slab = UINT64_MAX, .slabs = 2, .objects = 1};

    CHECK(bin_waste(&more) == 0 && bin_waste(&huge) == 0);
}

int main(void)
{
    test_waste();
    return check_result();
}
