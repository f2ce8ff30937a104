#include "jemalloc/extents/counted.h"
#include "base/util.h"
#include "jemalloc/extents/totals.h"

#include <string.h>

fault_code counted_read(struct extents *extents, const struct reader_source *source, uint64_t limit,
                        struct counted *counted, struct fault *fault)
{
    const uint64_t began = clock_now();
    struct extent_totals totals;
    fault_code rc = totals_read(extents, limit, &totals, fault);

    (void)source;
    *counted = (struct counted){.at_ns = began + (clock_now() - began) / 2};
    if (rc != FAULT_NONE)
        return rc;
    for (unsigned i = 0; i < totals.classes.count; i++) {
        const struct class_total read = totals_of_class(&totals, i);
        counted->gauges.allocated += totals_estimate(&totals, read.bytes);
        counted->between += totals_estimate(&totals, read.free);
    }
    counted->known = 1u << CTL_ALLOCATED;
    counted->share = totals.pass.share;
    counted->unsettled = totals.pass.unsettled;
    return FAULT_NONE;
}
