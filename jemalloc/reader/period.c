#include "jemalloc/reader/period.h"

#include <math.h>

enum { WITNESSES_MIN = 3, LG_MAX = 63 };

/*
 * For objects of one size s and a period of R bytes, an object counts 1 / (1 -
 * exp(-s / R)). Objects that are much larger than R count 1, and prove nothing.
 */
static bool period_of(const struct counts *counts, double *lg)
{
    double objects = (double)counts->at[COUNT_OBJECTS];
    double unbiased = (double)counts->at[COUNT_OBJECTS_UNBIASED] / 8;
    double size = (double)counts->at[COUNT_BYTES_UNBIASED] / unbiased;
    double share = objects / unbiased;

    if (!(objects > 0) || !(size > 0) || !(share > 0 && share < 0.9))
        return false;
    *lg = log2(-size / log1p(-share));
    return *lg > -0.4 && *lg < LG_MAX;
}

bool period_find(const struct model *model, unsigned *lg_sample)
{
    size_t votes[LG_MAX + 1] = {0}, all = 0;

    for (size_t i = 0; i < model->tctx_count; i++) {
        double lg;
        if (!period_of(&model->tctxs[i].counts, &lg))
            continue;
        votes[lrint(lg)]++;
        all++;
    }
    for (*lg_sample = 0; *lg_sample <= LG_MAX; ++*lg_sample)
        if (votes[*lg_sample] >= WITNESSES_MIN && votes[*lg_sample] >= all - all / 8)
            return true;
    return false;
}

bool period_is_unbiased(const struct model *model)
{
    bool some = false;

    for (size_t i = 0; i < model->tctx_count; i++) {
        const struct counts *counts = &model->tctxs[i].counts;
        if (counts->at[COUNT_OBJECTS_UNBIASED] || counts->at[COUNT_ALL_OBJECTS_UNBIASED])
            return true;
        some |= counts->at[COUNT_OBJECTS] || counts->at[COUNT_ALL_OBJECTS];
    }
    return !some;
}
