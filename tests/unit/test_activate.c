/* Activation: the versions that need it, and the random sample counts. */
#include "check.h"
#include "jemalloc/activate.h"

#include <math.h>

static void test_versions(void)
{
    CHECK(activation_needed("5.2.0-0-gb0b3e49a54ec29e32636f4577d9d5a896d67fd20"));
    CHECK(activation_needed("5.2.1-0-gea6b3e973b477b8061e0076bb257dbd7f3faa756"));
    CHECK(activation_needed("5.2.1-0-g0"));
    CHECK(!activation_needed("5.1.0-0-g61efbda7098de6fe64c362d309824864308c36d4"));
    CHECK(!activation_needed("5.1.0-88-g0") && activation_needed("5.1.0-89-g0"));
    CHECK(activation_needed("5.2.1-20-g0") && !activation_needed("5.2.1-21-g0"));
    CHECK(activation_possible("0.0.0-0-g0") && activation_possible("5.2.1-0-g0") &&
          !activation_possible("5.2.1-21-g0") && !activation_possible("5.3.0-0-g0"));
    CHECK(!activation_needed("5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c"));
    CHECK(!activation_needed("0.0.0-0-g0000000000000000000000000000000000000000"));
    CHECK(!activation_needed("") && !activation_needed("5.2"));
}

static void test_asleep(void)
{
    CHECK(activation_is_asleep(INT64_MAX) && activation_is_asleep(INT64_MAX - (1ll << 60)));
    CHECK(!activation_is_asleep(0) && !activation_is_asleep(-1) &&
          !activation_is_asleep(INT64_MIN));
    CHECK(!activation_is_asleep((1ll << 62) - 1) && !activation_is_asleep(1 << 19));
}

static uint64_t next_random(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* An exponential distribution has a mean equal to its deviation: 200,000 draws are within 1 %. */
static void test_mean(uint64_t lg_sample)
{
    enum { DRAWS = 200000 };
    const double wanted = ldexp(1, (int)lg_sample);
    uint64_t seed = lg_sample;
    double sum = 0;

    for (int i = 0; i < DRAWS; i++)
        sum += (double)activation_draw(lg_sample, next_random(&seed));
    CHECK(fabs(sum / DRAWS / wanted - 1) < 0.01);
}

static void test_borders(void)
{
    CHECK(activation_draw(0, 12345) == 0);
    for (uint64_t lg_sample = 1; lg_sample < 70; lg_sample++) {
        CHECK(!activation_is_asleep((int64_t)activation_draw(lg_sample, 0)));
        CHECK(!activation_is_asleep((int64_t)activation_draw(lg_sample, UINT64_MAX)));
        CHECK(activation_draw(lg_sample, UINT64_MAX) >= 1);
    }
    CHECK(!activation_is_asleep((int64_t)activation_draw(UINT64_MAX, 0)));
}

int main(void)
{
    test_versions();
    test_asleep();
    test_mean(12);
    test_mean(19);
    test_borders();
    return check_result();
}
