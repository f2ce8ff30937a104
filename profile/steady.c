#include "profile/steady.h"

#include <math.h>

static const double STUDENT_RATE = 0.0005, RANK_RATE = 0.001;
/* Of the noise of counts, whose increments take each other back: 2 standard deviations, root 2. */
static const double NOISE_WIDTH = 2.8;
/* The last third of the time must have so much of the mean rate, or the growth has stopped. */
static const double TAIL_TIME = 1.0 / 3, TAIL_RATE = 0.2;
static const double ONCE_SHARE = 0.8, ONCE_OF_NEXT = 4;

/* ---- critical values ---- */

/* Returns what Student's t exceeds with this probability (Abramowitz and Stegun 26.7.3, 26.7.4). */
static double student_quantile(double rate, size_t freedom)
{
    double low = 0, high = 1e6;

    for (unsigned i = 0; i < 80; i++) {
        double middle = (low + high) / 2, theta = atan(middle / sqrt((double)freedom)),
               cosine = cos(theta), sum = 0;
        bool odd = freedom % 2;
        double term = odd ? cosine : 1;
        for (size_t j = odd ? 1 : 0; j + 1 < freedom; j += 2) {
            sum += term;
            term *= cosine * cosine * (double)(j + 1) / (double)(j + 2);
        }
        sum *= sin(theta);
        if ((1 - (odd ? 2 / M_PI * (theta + sum) : sum)) / 2 > rate)
            low = middle;
        else
            high = middle;
    }
    return high;
}

struct steady_rule steady_rule_make(size_t increments, double tests)
{
    struct steady_rule rule = {.increments = increments, .student = INFINITY};

    if (increments >= 2)
        rule.student = student_quantile(STUDENT_RATE / tests, increments - 1);
    /* Counts the ways to each sum of ranks as Wilcoxon does, for one increment more each time. */
    double ways[STEADY_RANKED * (STEADY_RANKED + 1) / 2 + 1] = {1};
    rule.ranked[0] = INFINITY;
    for (size_t n = 1; n <= STEADY_RANKED; n++) {
        size_t most = n * (n + 1) / 2, least = most + 1;
        double all = ldexp(1, (int)n), tail = 0;
        for (size_t i = most; i >= n; i--)
            ways[i] += ways[i - n];
        while (least > 0 && tail + ways[least - 1] <= RANK_RATE / tests * all)
            tail += ways[--least];
        rule.ranked[n] = least > most ? INFINITY : (double)least;
    }
    return rule;
}

/* ---- one series ---- */

/* The rank of an increment among those that are not 0: ties share theirs. */
static double find_rank(const double *increments, size_t count, double increment)
{
    double less = 0, same = 0;

    for (size_t i = 0; i < count; i++) {
        less += increments[i] != 0 && fabs(increments[i]) < fabs(increment);
        same += fabs(increments[i]) == fabs(increment);
    }
    return less + (same + 1) / 2;
}

/* A t test fails where a CPU stalls: one increment is then of several looks. */
static bool ranks_grow(const struct steady_rule *rule, const double *increments)
{
    double sum = 0;
    size_t moved = 0;

    for (size_t i = 0; i < rule->increments; i++) {
        moved += increments[i] != 0;
        if (increments[i] > 0)
            sum += find_rank(increments, rule->increments, increments[i]);
    }
    return moved <= STEADY_RANKED && sum >= rule->ranked[moved];
}

struct steady steady_of(const struct steady_rule *rule, const double *seconds, const double *values,
                        double floor, double *increments)
{
    size_t count = rule->increments;
    struct steady steady = {.change = values[count] - values[0], .error = INFINITY, .noise = floor};

    for (size_t i = 0; i < count; i++)
        increments[i] = values[i + 1] - values[i];
    if (count < 2)
        return steady;
    /* The increments are divided by their own times, since looks come late under load. */
    double time = seconds[count] - seconds[0], mean = steady.change / time, square = 0,
           covariance = 0, before = 0, each = time / (double)count;
    for (size_t i = 0; i < count; i++) {
        double off = increments[i] / (seconds[i + 1] - seconds[i]) - mean;
        square += off * off;
        covariance += i ? before * off : 0;
        before = off;
    }
    steady.deviation = sqrt(square / (double)(count - 1)) * sqrt((double)count) * each;
    steady.noise = NOISE_WIDTH * sqrt(fmax(0, -covariance / (double)(count - 1))) * each;
    steady.error = rule->student * steady.deviation;
    steady.noise = fmax(steady.noise, floor);
    steady.error = fmax(steady.error, floor);
    if (steady.error > steady.change && steady.change > steady.noise &&
        ranks_grow(rule, increments))
        steady.error = steady.noise;
    /* Has it stopped? Says so of a series whose growth is significant for the time before alone. */
    size_t from = count - 1;
    while (from > 0 && seconds[count] - seconds[from] < TAIL_TIME * time)
        from--;
    bool stopped = (values[count] - values[from]) * time <
                   TAIL_RATE * steady.change * (seconds[count] - seconds[from]);
    steady.grows = steady.change > steady.error && steady.change > steady.noise && !stopped;
    double next = 0;
    for (size_t i = 0; i < count; i++)
        steady.rises += fmax(0, increments[i]);
    for (size_t i = 0; i < count; i++)
        if (increments[i] > steady.step) {
            steady.step = increments[i];
            steady.stepped = i;
        }
    for (size_t i = 0; i < count; i++)
        if (i != steady.stepped)
            next = fmax(next, fabs(increments[i]));
    steady.once = steady.change > 0 && steady.step >= ONCE_SHARE * steady.change &&
                  steady.step >= ONCE_OF_NEXT * next && steady.stepped + 1 < count;
    return steady;
}
