#include "run/explain/rise.h"

#include <math.h>

#define SECOND_NS    1e9
#define YEARS_TEN_NS (10 * 365.0 * 86400 * SECOND_NS)

enum { POINTS_LEAST = 3 };

static const double EVEN = 0.8; /* of the rate of the other half */

void rise_add(struct rise_points *points, uint64_t time_ns, uint64_t bytes)
{
    size_t kept = 0;

    points->time_ns[points->count] = time_ns;
    points->bytes[points->count++] = bytes;
    if (points->count < RISE_POINTS)
        return;
    for (size_t i = 0; i < points->count; i += 2, kept++) {
        points->time_ns[kept] = points->time_ns[i];
        points->bytes[kept] = points->bytes[i];
    }
    points->count = kept;
}

/*
 * A growth is steady if a third of the intervals have a part of it, little is given back, and it
 * goes on: the last third of the time has not less than a tenth of it.
 */
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
        return down > 4 * up ? RISE_FALLING : RISE_SWINGING;
    if (change < RISE_LEAST)
        return RISE_NONE;
    if (up <= 4 * down)
        return RISE_SWINGING;
    const size_t last = points->count - 1;
    const int64_t lately = (int64_t)(points->bytes[last] - points->bytes[last - last / 3]);
    return 3 * ups >= last && (last < 3 || 10 * lately >= change) ? RISE_GROWING : RISE_STEP;
}

static double rate_between(const struct rise_points *points, size_t from, size_t to)
{
    return ((double)points->bytes[to] - (double)points->bytes[from]) /
           fmax((double)(points->time_ns[to] - points->time_ns[from]), 1);
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
    const double first = rate_between(points, 0, last / 2),
                 second = rate_between(points, last / 2, last);
    rise.uneven = fmin(first, second) < EVEN * fmax(first, second);
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
