#include "run/explain/rise.h"

#include <math.h>

#define SECOND_NS    1e9
#define YEARS_TEN_NS (10 * 365.0 * 86400 * SECOND_NS)

enum { POINTS_LEAST = 3 };

void rise_add(struct rise_points *points, uint64_t time_ns, uint64_t bytes)
{
    if (points->count == RISE_POINTS)
        return;
    points->time_ns[points->count] = time_ns;
    points->bytes[points->count++] = bytes;
}

/* A growth is steady if a third of the intervals have a part of it, and little is given back. */
static enum rise_state classify_rise(const struct rise_points *points, int64_t change)
{
    double up = 0, down = 0; /* bytes between neighbours */
    size_t ups = 0;

    for (size_t i = 1; i < points->count; i++) {
        double move = (double)points->bytes[i] - (double)points->bytes[i - 1];
        ups += move > 0;
        *(move > 0 ? &up : &down) += fabs(move);
    }
    if (change <= -RISE_LEAST)
        return down > 4 * up ? RISE_FALLING : RISE_NONE;
    if (change < RISE_LEAST || up <= 4 * down)
        return RISE_NONE;
    return 3 * ups >= points->count - 1 ? RISE_GROWING : RISE_STEP;
}

struct rise rise_judge(const struct rise_points *points)
{
    struct rise rise = {.state = RISE_UNKNOWN};
    size_t last;

    if (points->count < POINTS_LEAST)
        return rise;
    last = points->count - 1;
    if (points->time_ns[last] <= points->time_ns[0])
        return rise;
    rise.ns = points->time_ns[last] - points->time_ns[0];
    rise.change = (int64_t)(points->bytes[last] - points->bytes[0]);
    rise.per_second = (double)rise.change / ((double)rise.ns / SECOND_NS);
    rise.state = classify_rise(points, rise.change);
    return rise;
}

bool rise_time_left(uint64_t free, double per_second, uint64_t *ns)
{
    double time;

    *ns = 0;
    if (!(per_second > 0))
        return false;
    time = (double)free / per_second * SECOND_NS;
    if (!(time < YEARS_TEN_NS))
        return false;
    *ns = (uint64_t)time;
    return true;
}
