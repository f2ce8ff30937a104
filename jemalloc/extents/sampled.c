#include "jemalloc/extents/sampled.h"
#include "base/util.h"

#define V VERSION_NUMBER

/*
 * Since 5.1.0-58 the time comes first (b664bd79), and since 5.2.1-636 the size that was asked
 * for is behind it (afa489c3).
 */
static const struct sampled_layout layouts[] = {
    {V(5, 2, 1), 636, .birth = 0, .asked = 1, .tctx = 2},
    {V(5, 1, 0), 58, .birth = 0, .asked = -1, .tctx = 1},
    {V(5, 0, 0), 0, .birth = -1, .asked = -1, .tctx = 0},
};

/* In a build for debugging since 5.3 the time has a second word (NSTIME_MAGIC). */
#define TIME_MAGIC UINT32_C(0xb8a9ce37)

const struct sampled_layout *sampled_layout_of(struct version version)
{
    for (size_t i = 0; i < ARRAY_LEN(layouts); i++)
        if (version.number > layouts[i].first ||
            (version.number == layouts[i].first && version.commits >= layouts[i].commits))
            return &layouts[i];
    return NULL;
}

/*
 * No request of a large class is as small as the class before: the object was a small one, and
 * was freed (arena_prof_demote). That also leaves out objects that are aligned to more than a
 * page, and smaller than that class.
 */
static void judge_large(struct sampled *sampled, const struct classes *classes, unsigned class,
                        const uint64_t *asked)
{
    sampled->is_stale = asked && *asked <= classes->list[class - 1].size;
    sampled->is_doubtful = true;
}

bool sampled_take(struct sampled *sampled, const struct sampled_layout *layout,
                  const struct classes *classes, const struct extent *extent)
{
    const unsigned more = layout->asked > 0 && (uint32_t)extent->words[1] == TIME_MAGIC;
    const uint64_t *asked =
        layout->asked > 0 ? &extent->words[(unsigned)layout->asked + more] : NULL;

    *sampled = (struct sampled){.tctx = extent->words[(unsigned)layout->tctx + more]};
    if (extent->slab || sampled->tctx <= 1 || sampled->tctx % 8)
        return false;
    if (layout->birth >= 0)
        sampled->birth = extent->words[layout->birth];
    if (extent->class >= classes->bins)
        judge_large(sampled, classes, extent->class, asked);
    return true;
}
