#include "jemalloc/tsd/layout.h"
#include "base/util.h"

#define V VERSION_NUMBER

static const struct tsd_states states_4 = {4, 1, 1, 0, 0xff, 3};
static const struct tsd_states states_5_0_0 = {1, 0, 1, 4, 0xff, 4};
static const struct tsd_states states_5_0 = {1, 0, 1, 5, 2, 5}; /* and since 5.3.1-43 */
static const struct tsd_states states_5_2 = {1, 0, 2, 6, 3, 6};

/* prof_tdata_s: up to 5.1.0-74, to 5.2.1-75, to 5.3.0-56, and since 5.3.0-58. */
#define TDATA_WITH_WAIT                                                                            \
    .tdata_table = 64, .tdata_active = 132, .tdata_expired = 33, .tdata_wait = 120
#define TDATA_WITH_PRNG                                                                            \
    .tdata_table = 64, .tdata_active = 124, .tdata_expired = 33, .tdata_wait = TSD_NONE
#define TDATA_SMALL                                                                                \
    .tdata_table = 64, .tdata_active = 116, .tdata_expired = 33, .tdata_wait = TSD_NONE
#define TDATA_NAME_INSIDE                                                                          \
    .tdata_table = 48, .tdata_active = 116, .tdata_expired = 118, .tdata_wait = TSD_NONE

/* Since 5.2.1-367: tdata, then prng_state and san words, then the arenas. */
#define SEARCHED(tdata_at, iarena_at)                                                              \
    .searched = true, .has_limits = true, .has_dalloc_events = true, .tcache = TSD_NONE,           \
    .state = TSD_NONE, .counters = TSD_NONE, .rtree = TSD_NONE, .events = 8, .tdata = (tdata_at),  \
    .iarena = (iarena_at), .arena = (iarena_at) + 8, .size = (iarena_at) + 16

/* Since 5.3.0-299: the array of events has a member for each event that is built in. */
#define EVENTS(words, wait_at)                                                                     \
    SEARCHED(40 + 8 * (words) + 16, 40 + 8 * (words) + 48), .wait = (wait_at), TDATA_NAME_INSIDE

/* With profiling and statistics, without statistics, without profiling, without both. */
#define EVENTS_BUILT(commit, values, all, no_stats, no_prof, none)                                 \
    {commit, .states = (values), EVENTS(all, 40)},                                                 \
        {commit, .states = (values), EVENTS(no_stats, 40)},                                        \
        {commit, .states = (values), EVENTS(no_prof, TSD_NONE)},                                   \
    {                                                                                              \
        commit, .states = (values), EVENTS(none, TSD_NONE)                                         \
    }
#define SINCE(version, commit) .first = (version), .commits = (commit)

/* From 5.2.1-70 to 5.2.1-361 the events are behind rtree. */
#define BEHIND_RTREE(rtree_at, wait_at, tdata_at)                                                  \
    .states = &states_5_2, .has_limits = true, .state = 0, .counters = 8, .rtree = (rtree_at),     \
    .events = (rtree_at) + TSD_RTREE_BYTES, .wait = (wait_at), .tdata = (tdata_at),                \
    .iarena = (tdata_at) + 16, .arena = (tdata_at) + 24, .size = (tdata_at) + 32,                  \
    .tcache = TSD_NONE, TDATA_SMALL

/* From 5.0.0 to 5.2.1-67: the counters, what belongs to sampling, rtree, the arenas. */
#define BEFORE_RTREE(counters_at, tdata_at)                                                        \
    .state = 0, .counters = (counters_at), .tdata = (tdata_at), .rtree = (tdata_at) + 8,           \
    .iarena = (tdata_at) + 8 + TSD_RTREE_BYTES, .arena = (tdata_at) + 16 + TSD_RTREE_BYTES,        \
    .size = (tdata_at) + 24 + TSD_RTREE_BYTES, .events = TSD_NONE, .tcache = TSD_NONE,             \
    .has_tdata_states = true

const struct tsd_layout tsd_layouts[] = {
    EVENTS_BUILT(SINCE(V(5, 3, 1), 43), &states_5_0, 14, 12, 13, 11),
    EVENTS_BUILT(SINCE(V(5, 3, 0), 357), &states_5_2, 14, 12, 13, 11),
    EVENTS_BUILT(SINCE(V(5, 3, 0), 300), &states_5_2, 15, 12, 14, 11),
    {SINCE(V(5, 3, 0), 253), .states = &states_5_2, SEARCHED(112, 144), .wait = 56,
     TDATA_NAME_INSIDE},
    {SINCE(V(5, 3, 0), 58), .states = &states_5_2, SEARCHED(104, 136), .wait = 56,
     TDATA_NAME_INSIDE},
    {SINCE(V(5, 2, 1), 784), .states = &states_5_2, SEARCHED(104, 136), .wait = 56, TDATA_SMALL},
    {SINCE(V(5, 2, 1), 423), .states = &states_5_2, SEARCHED(104, 120), .wait = 56, TDATA_SMALL},
    {SINCE(V(5, 2, 1), 367), .states = &states_5_2, SEARCHED(88, 104), .wait = 56, TDATA_SMALL},
    {SINCE(V(5, 2, 1), 186), BEHIND_RTREE(40, 472, 504), .has_dalloc_events = true},
    {SINCE(V(5, 2, 1), 180), BEHIND_RTREE(32, 440, 472)},
    {SINCE(V(5, 2, 1), 70), BEHIND_RTREE(32, 440, 456), .has_tdata_states = true},
    {SINCE(V(5, 1, 0), 75), .states = &states_5_2, BEFORE_RTREE(16, 40), .wait = 32,
     .may_sleep = true, TDATA_WITH_PRNG},
    {SINCE(V(5, 1, 0), 30), .states = &states_5_2, BEFORE_RTREE(16, 32), .wait = TSD_NONE,
     TDATA_WITH_WAIT},
    {SINCE(V(5, 0, 1), 65), .states = &states_5_0, BEFORE_RTREE(16, 32), .wait = TSD_NONE,
     TDATA_WITH_WAIT},
    {SINCE(V(5, 0, 0), 6), .states = &states_5_0, BEFORE_RTREE(8, 24), .wait = TSD_NONE,
     TDATA_WITH_WAIT},
    {SINCE(V(5, 0, 0), 0), .states = &states_5_0_0, BEFORE_RTREE(8, 24), .wait = TSD_NONE,
     TDATA_WITH_WAIT},
    {SINCE(V(4, 1, 0), 53), .states = &states_4, .has_tdata_states = true, .state = 0, .tcache = 8,
     .counters = 16, .tdata = 32, .iarena = 40, .arena = 48, .size = 64, .rtree = TSD_NONE,
     .events = TSD_NONE, .wait = TSD_NONE, TDATA_WITH_WAIT},
    {SINCE(V(4, 0, 0), 0), .states = &states_4, .has_tdata_states = true, .state = 0, .tcache = 8,
     .counters = 16, .tdata = 32, .iarena = TSD_NONE, .arena = 40, .size = 56, .rtree = TSD_NONE,
     .events = TSD_NONE, .wait = TSD_NONE, TDATA_WITH_WAIT},
};
const size_t tsd_layout_count = ARRAY_LEN(tsd_layouts);

static bool is_since(struct version version, const struct tsd_layout *layout)
{
    return version.number > layout->first ||
           (version.number == layout->first && version.commits >= layout->commits);
}

size_t tsd_layouts_of(struct version version, const struct tsd_layout **first)
{
    size_t n = 0, at = 0;

    while (at < tsd_layout_count && !is_since(version, &tsd_layouts[at]))
        at++;
    if (!version.number || at == tsd_layout_count)
        return 0;
    *first = &tsd_layouts[at];
    for (; at + n < tsd_layout_count; n++)
        if (tsd_layouts[at + n].first != (*first)->first ||
            tsd_layouts[at + n].commits != (*first)->commits)
            break;
    return n;
}
