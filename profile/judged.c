#include "profile/judged.h"

#include <math.h>

/* As in profile/verdict.c: errors at 0.1 %, and the share of a growth that counts. */
static const double Z = 3.09, NONE = 6.908, SHARE = 0.2;

void judged_objects(struct verdict_object *objects, size_t count, const uint32_t *of_stack,
                    size_t stack_count)
{
    for (size_t i = 0; i < count; i++)
        objects[i].stack = objects[i].stack < stack_count ? of_stack[objects[i].stack] : TABLE_NONE;
}

static int64_t to_amount(double value)
{
    return value < -9e18 ? INT64_MIN + 1 : value > 9e18 ? INT64_MAX : llrint(value);
}

/* No amount is negative: what has grown by more than the samples show is more now, too. */
static void set_growth(struct amount *amount, double growth)
{
    amount->base = to_amount((double)amount->now - growth);
    if (amount->base >= 0)
        return;
    amount->now = to_amount(growth);
    amount->base = 0;
}

/* Makes the amounts before those from which it has grown as the trend says. */
static void settle_base(struct samples *samples, size_t number)
{
    const struct trend *trend = &samples->trends[number];
    if (trend->verdict == TREND_SHRINKS)
        return;
    struct amount *bytes = &samples->list[number].values[VALUE_BYTES],
                  *objects = &samples->list[number].values[VALUE_OBJECTS];
    double size = objects->now > 0 && bytes->now > 0 ? (double)bytes->now / (double)objects->now
                                                     : fmax(1, (double)samples->list[number].size),
           quantile = trend_error(1, samples->tests),
           least = trend->verdict == TREND_GROWS ? 0 : pow(fabs(trend->bytes) / quantile, 2);

    set_growth(bytes, trend->bytes);
    set_growth(objects, trend->bytes / size);
    bytes->variance = fmax(trend->variance, least);
    objects->variance = bytes->variance / (size * size);
}

/* Takes back what samples alone claim. most: bytes that it can have grown by. */
static void take_back(struct trend *trend, double most, bool candidate)
{
    bool rises = trend->verdict == TREND_GROWS || trend->verdict == TREND_STOPPED;

    if (trend->verdict == TREND_SHRINKS)
        return;
    trend->verdict = candidate                    ? TREND_CANDIDATE
                     : rises && trend->low > most ? TREND_REPLACED
                                                  : TREND_UNCLEAR;
    trend->low = fmin(0, trend->low);
    trend->high = fmax(0, fmin(trend->high, most));
    if (candidate)
        trend->high = most;
    trend->bytes = fmax(trend->low, fmin(trend->high, trend->bytes));
}

void judged_trend(struct trend *trend, const struct verdict *verdict, size_t number)
{
    const struct verdict_stack *stack = &verdict->stacks[number];
    bool known = verdict->kind != VERDICT_TOO_SHORT;
    double error = (stack->high - stack->low) / 2 / trend_error(1, 1);

    if (stack->grows) {
        trend->verdict = TREND_GROWS;
        trend->low = stack->low;
        trend->high = stack->high;
        trend->bytes = stack->estimate;
        trend->variance = error * error;
    } else {
        if (!known) /* nothing bounds it: what it has grown by may be above what goes on */
            trend->high = fmax(trend->high, trend->bytes);
        take_back(trend, known ? stack->high : fmax(0, trend->high),
                  stack->candidate && verdict->kind == VERDICT_ONE_OF);
    }
    trend->per_second = verdict->seconds > 0 ? trend->bytes / verdict->seconds : 0;
}

void judged_by_verdict(struct samples *samples, const struct verdict *verdict)
{
    if (!samples->compares)
        return;
    samples->evidence = EVIDENCE_COUNTS;
    for (size_t i = 0; i < samples->count; i++) {
        judged_trend(&samples->trends[i], verdict, i);
        settle_base(samples, i);
    }
}

void judged_by_total(struct samples *samples, const struct verdict_total *total)
{
    double sum = 0, variance = 0, none = NONE * (double)samples->period;

    if (!samples->compares)
        return;
    samples->evidence = EVIDENCE_TOTAL;
    for (size_t i = 0; i < samples->count; i++) {
        sum += samples->trends[i].bytes;
        variance += samples->trends[i].variance;
    }
    for (size_t i = 0; i < samples->count; i++) {
        struct trend *trend = &samples->trends[i];
        double others = sum - trend->bytes + Z * sqrt(fmax(0, variance - trend->variance)) + none,
               low = total->growth - total->error - others;
        if (total->kind == VERDICT_GROWS && trend->verdict == TREND_GROWS && low > 0 &&
            low > SHARE * total->growth) {
            trend->high = fmin(trend->high, total->bound);
            trend->low = fmin(fmin(trend->low, low), trend->high);
            trend->bytes = fmax(trend->low, fmin(trend->high, trend->bytes));
        } else {
            double most = total->bound;
            if (total->kind == VERDICT_TOO_SHORT)
                most = trend->high = fmax(trend->high, trend->bytes);
            take_back(trend, fmax(0, fmin(most, trend->high)),
                      total->kind == VERDICT_GROWS && trend->verdict == TREND_GROWS);
        }
        settle_base(samples, i);
    }
}
