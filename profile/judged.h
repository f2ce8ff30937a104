/*
 * Trends that more is known of than samples show. Samples of a stack rise when sampled objects
 * replace those that no sample knows: no stack grows unless exact counts of live objects say so,
 * or, where they cannot be read, the growth of the whole.
 */
#pragma once

#include "profile/samples.h"
#include "profile/verdict.h"

/* Makes the stacks of objects those of samples; of_stack: see samples_build_series. */
void judged_objects(struct verdict_object *objects, size_t count, const uint32_t *of_stack,
                    size_t stack_count);

/* Bounds the trend of one stack of a verdict. */
void judged_trend(struct trend *trend, const struct verdict *verdict, size_t stack);

/*
 * Bounds the trends by a verdict on the samples of a comparison, as stacks. Amounts before become
 * those that agree with the trends: they have what was not sampled then.
 */
void judged_by_verdict(struct samples *samples, const struct verdict *verdict);

/* Bounds them by the growth of the whole, as far as each is not what all others may have. */
void judged_by_total(struct samples *samples, const struct verdict_total *total);
