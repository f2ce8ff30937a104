#include "jemalloc/tsd/place.h"
#include "inject/refs.h"
#include "jemalloc/reader/layout.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    THREADS_LOOKED_AT = 16,
    BLOCK_MAX = 1 << 20, /* bytes of a block that are searched */
    READS_MAX = 1 << 14,
    TRIES_MAX = 1 << 12,
    ATTEMPTS = 8,           /* reads, as threads change their data */
    PAUSE_NS = 125000,      /* half of the one after the first; doubles with each */
    SCORE_MIN = 4,          /* of all threads together */
    INTERVAL_MAX = 4 << 20, /* bytes from one event to the next (TE_MAX_INTERVAL) */
    COUNTERS_FAR = 4096,    /* limit of the distance of the counters from the tsd */
    LEAF_KEY_BITS = 20,     /* zero in each key of the radix tree */
    ARENA_ALIGNED = 16,
    ARENAS_MAX = 4096,
    REENTRANCY_MAX = 16,
    BOUND_MAX = 1 << 20, /* threads */
    TCACHE_STATES = 3,   /* values that are no pointer (4.x, tcache.h) */
    TDATA_BYTES = 144,
};

/* Points of evidence of one thread; REFUTED: it cannot be one. */
enum {
    REFUTED = -1,
    SCORE_ARENA = 1,
    SCORE_TCACHE = 1,
    SCORE_OLD_ARENA = 2,
    SCORE_TREE = 3,
    SCORE_SLEEPS = 3,
    SCORE_EVENTS = 4,
    SCORE_TDATA = 4,
    SCORE_RANDOM = 1,
    SCORE_UNUSED = 1,
    SCORE_VERSION = 1, /* for a layout of the version */
};

/* ---- the layouts ---- */

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

size_t tsd_layouts_of(struct version version, const struct tsd_layout **first)
{
    size_t n = 0, at = 0;

    while (at < tsd_layout_count &&
           !version_since(version, tsd_layouts[at].first, tsd_layouts[at].commits))
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

/* ---- the proof of one thread ---- */

#define COUNT_MAX   (UINT64_C(1) << 56)
#define ADDRESS_MAX (UINT64_C(1) << 56)

static bool is_heap(const struct tsd_search *search, remote_addr addr, size_t align)
{
    const struct vma *vma;

    if (!addr || addr % align)
        return false;
    vma = modules_vma_at(search->modules, addr);
    return vma && vma->prot & MAP_WRITE && vma->module < 0;
}

struct tsd_bytes {
    const struct tsd_search *search;
    const struct tsd_place *place;
    const unsigned char *at;
    size_t *reads_left; /* of what it points to; NULL: no limit */
};

/* Reads what a tsd points to. Without a limit, a hostile block could have a million pointers. */
static bool read_pointed(const struct tsd_bytes *tsd, remote_addr addr, void *buf, size_t len)
{
    if (tsd->reads_left && *tsd->reads_left == 0)
        return false;
    if (tsd->reads_left)
        --*tsd->reads_left;
    return memory_read(tsd->search->memory, addr, buf, len);
}

static uint64_t word_at(const struct tsd_bytes *tsd, size_t offset)
{
    return reader_word(tsd->at, offset);
}

static uint32_t state_of(const struct tsd_bytes *tsd)
{
    uint32_t wide;

    if (tsd->place->layout->states->size == 1)
        return tsd->at[tsd->place->state];
    memcpy(&wide, tsd->at + tsd->place->state, sizeof wide);
    return wide;
}

static bool is_nominal(const struct tsd_bytes *tsd)
{
    const struct tsd_states *states = tsd->place->layout->states;
    uint32_t state = state_of(tsd);

    return state >= states->nominal_first && state <= states->nominal_last;
}

/* Its table has two functions of this jemalloc (ckh.h). */
static bool is_profiling_data(const struct tsd_bytes *tsd, remote_addr addr,
                              unsigned char bytes[TDATA_BYTES])
{
    const struct tsd_layout *layout = tsd->place->layout;
    const struct module *module = &tsd->search->instance->module;
    struct reader_table table;

    if (!is_heap(tsd->search, addr, 16) || !read_pointed(tsd, addr, bytes, TDATA_BYTES))
        return false;
    memcpy(&table, bytes + layout->tdata_table, sizeof table);
    return module_has_code(module, table.hash) && module_has_code(module, table.compare) &&
           table.hash != table.compare && table.cells && table.lg_now <= READER_LG_BUCKETS_MAX &&
           bytes[layout->tdata_active] <= 1 && bytes[layout->tdata_expired] <= 1;
}

static int score_tdata(const struct tsd_bytes *tsd)
{
    const struct tsd_layout *layout = tsd->place->layout;
    uint64_t tdata = word_at(tsd, layout->tdata);
    unsigned char bytes[TDATA_BYTES];

    if (!tdata && layout->searched)
        return word_at(tsd, layout->tdata + 8u) ? SCORE_RANDOM : 0; /* prng_state, if seeded */
    if (!tdata || (layout->has_tdata_states && tdata <= 2 && !is_nominal(tsd)))
        return 0;
    return is_profiling_data(tsd, tdata, bytes) ? SCORE_TDATA : REFUTED;
}

/* Pairs of a key, 1 if the pair is empty, and a leaf. */
static int score_tree(const struct tsd_bytes *tsd)
{
    size_t used = 0;

    if (tsd->place->rtree == TSD_NONE)
        return 0;
    for (size_t at = 0; at < TSD_RTREE_BYTES; at += 16) {
        uint64_t key = word_at(tsd, tsd->place->rtree + at);
        uint64_t leaf = word_at(tsd, tsd->place->rtree + at + 8);
        if (key <= 1) {
            if (leaf)
                return REFUTED;
            continue;
        }
        if (key % (1u << LEAF_KEY_BITS) || !is_heap(tsd->search, leaf, 8))
            return REFUTED;
        used++;
    }
    return used ? SCORE_TREE : 0;
}

/* The arenas and, up to 4.5, the cache. */
static int score_arenas(const struct tsd_bytes *tsd)
{
    const struct tsd_layout *layout = tsd->place->layout;
    uint64_t arena = word_at(tsd, layout->arena);
    uint64_t internal = layout->iarena == TSD_NONE ? 0 : word_at(tsd, layout->iarena);
    uint64_t tcache = layout->tcache == TSD_NONE ? 0 : word_at(tsd, layout->tcache);
    bool is_old = layout->states->size > 1;
    uint32_t head[2] = {0};
    int score = arena ? SCORE_ARENA : 0;

    if ((arena && !is_heap(tsd->search, arena, ARENA_ALIGNED)) ||
        (internal && !is_heap(tsd->search, internal, ARENA_ALIGNED)))
        return REFUTED;
    /* A thread that has allocated is bound to an arena; since 5.0 to one for its own data, too. */
    if (word_at(tsd, tsd->place->counters) && (!arena || (!internal && !is_old)))
        return REFUTED;
    /* Up to 4.5 an arena begins with its number, and how many threads are bound to it. */
    if (is_old && arena && read_pointed(tsd, arena, head, sizeof head) && head[0] < ARENAS_MAX &&
        head[1] - 1 < BOUND_MAX)
        score += SCORE_OLD_ARENA;
    if (tcache <= TCACHE_STATES)
        return score;
    return is_heap(tsd->search, tcache, 8) ? score + SCORE_TCACHE : REFUTED;
}

static int score_wait(const struct tsd_bytes *tsd)
{
    const struct tsd_layout *layout = tsd->place->layout;

    if (layout->wait == TSD_NONE)
        return 0;
    uint64_t wait = word_at(tsd, layout->wait);
    if (layout->may_sleep && tsd_wait_sleeps(wait))
        return wait <= INT64_MAX ? SCORE_SLEEPS : 0; /* below zero for a moment */
    return wait < COUNT_MAX ? 0 : REFUTED;
}

static bool is_interval(const struct tsd_bytes *tsd, size_t events)
{
    return word_at(tsd, events + 8) - word_at(tsd, events) - 1 < INTERVAL_MAX;
}

/* True if a counter is between its last and its next event, and has that limit, or none. */
static bool is_between(const struct tsd_bytes *tsd, size_t counter, size_t events)
{
    uint64_t count = word_at(tsd, counter), limit = word_at(tsd, counter + 8);
    uint64_t last = word_at(tsd, events), next = word_at(tsd, events + 8);

    return is_interval(tsd, events) && count - last <= next - last && (limit == next || limit == 0);
}

/* While a thread passes an event, its counter is beyond the next one (thread_event.c). */
static int score_events(const struct tsd_bytes *tsd)
{
    const struct tsd_layout *layout = tsd->place->layout;
    size_t counters = tsd->place->counters;
    bool frees = layout->has_dalloc_events;

    if (!layout->has_limits)
        return 0;
    if (!is_interval(tsd, layout->events) || (frees && !is_interval(tsd, layout->events + 16u)))
        return REFUTED;
    if (!is_between(tsd, counters, layout->events) ||
        (frees && !is_between(tsd, counters + 16, layout->events + 16u)))
        return 0;
    return word_at(tsd, counters + 8) ? SCORE_EVENTS : 0;
}

static size_t deallocated_at(const struct tsd_place *place)
{
    return place->counters + (place->layout->has_limits ? 16 : 8);
}

static int score_thread(const struct tsd_bytes *tsd)
{
    int (*const parts[])(const struct tsd_bytes *) = {score_wait, score_events, score_tree,
                                                      score_arenas, score_tdata};
    const struct tsd_layout *layout = tsd->place->layout;
    const struct tsd_states *states = layout->states;
    uint32_t state = state_of(tsd);
    uint64_t allocated = word_at(tsd, tsd->place->counters);
    uint64_t deallocated = word_at(tsd, deallocated_at(tsd->place));
    int sum = 0;

    if (state > states->last || allocated >= COUNT_MAX || deallocated >= COUNT_MAX)
        return REFUTED;
    if (state == states->uninitialized) { /* a thread that has not called jemalloc */
        bool is_unused = !allocated && !deallocated && !word_at(tsd, layout->tdata) &&
                         !word_at(tsd, layout->arena);
        return is_unused ? SCORE_UNUSED : REFUTED;
    }
    if (state == states->minimal)
        return 0;
    /* Since 5.0, the state of the fast path implies that the thread has a cache (tsd.c). */
    if (states->size == 1 && state == states->nominal_first &&
        tsd->at[layout->searched ? 0 : 1] != 1)
        return REFUTED;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        int part = parts[i](tsd);
        if (part == REFUTED)
            return REFUTED;
        sum += part;
    }
    return sum;
}

/* ---- all threads ---- */

struct block_copy {
    remote_addr at;
    unsigned char *bytes;
};

struct place_search {
    const struct tsd_search *search;
    struct tls_block block;
    struct block_copy copies[THREADS_LOOKED_AT];
    size_t count;
    size_t len; /* of each copy */
    struct tsd_place best;
    int score;                     /* of the best one */
    int bonus;                     /* for a layout of the version */
    size_t reads_left, tries_left; /* in this attempt: of pointers, of counters */
    bool ambiguous;
};

/* A running thread may change its data during the read: one of eight may not fit. */
static void try_place(struct place_search *all, const struct tsd_place *place)
{
    const int64_t offset = all->block.distance + (int64_t)(place->at + place->counters);
    const struct tsd_place *best = &all->best;
    size_t refuted = 0;
    int sum = 0, used = 0;

    for (size_t i = 0; i < all->count && refuted <= all->count / 8; i++) {
        const struct tsd_bytes tsd = {all->search, place, all->copies[i].bytes + place->at,
                                      &all->reads_left};
        int score = score_thread(&tsd);
        refuted += score == REFUTED;
        sum += score == REFUTED ? 0 : score;
        used += score > SCORE_UNUSED ? score : 0;
    }
    if (refuted > all->count / 8 || used < SCORE_MIN)
        return;

    sum += all->bonus;
    if (sum < all->score || (all->search->offset && offset != all->search->offset))
        return;
    if (sum == all->score) {
        /* Builds that differ by configuration can look alike before the first sample. */
        bool same_meaning = place->at + place->counters == best->at + best->counters &&
                            place->layout->events == best->layout->events &&
                            (place->layout->wait == best->layout->wait || !all->search->samples);
        all->ambiguous |= !same_meaning;
        return;
    }
    all->best = *place;
    all->score = sum;
    all->ambiguous = false;
}

static bool may_be_pointer(uint64_t word)
{
    return word % 16 == 0 && word < ADDRESS_MAX;
}

/*
 * Tries all counters behind a tsd: in one thread, they must be between its events. Threads whose
 * events are set show where the counters may be.
 */
static void try_searched(struct place_search *all, struct tsd_place *place)
{
    const struct tsd_layout *layout = place->layout;
    const size_t first = (layout->size + TSD_RTREE_BYTES + 8u + 7) & ~(size_t)7;

    for (size_t i = 0; i < all->count && all->tries_left; i++) {
        const struct tsd_bytes tsd = {all->search, place, all->copies[i].bytes + place->at, NULL};
        const size_t left = all->len - (size_t)place->at;

        /* What is quickly seen of the members that precede the counters. */
        if (tsd.at[0] > 1 || tsd.at[1] > REENTRANCY_MAX || !is_interval(&tsd, layout->events) ||
            !is_interval(&tsd, layout->events + 16u) ||
            !may_be_pointer(word_at(&tsd, layout->tdata)) ||
            !may_be_pointer(word_at(&tsd, layout->arena)) ||
            !may_be_pointer(word_at(&tsd, layout->iarena)) || score_wait(&tsd) == REFUTED)
            continue;

        all->tries_left--;
        for (size_t at = first; at < COUNTERS_FAR && at + 32 <= left; at += 8) {
            if ((!word_at(&tsd, at) && !word_at(&tsd, at + 8)) || /* as anywhere */
                !is_between(&tsd, at, layout->events) ||
                !is_between(&tsd, at + 16, layout->events + 16u))
                continue;
            place->counters = (uint32_t)at;
            place->state = (uint32_t)at - 8;
            place->rtree = (uint32_t)at - 8 - TSD_RTREE_BYTES;
            place->size = (uint32_t)at + 32;
            try_place(all, place);
        }
    }
}

static void try_layout(struct place_search *all, const struct tsd_layout *layout)
{
    if (all->search->samples && layout->wait == TSD_NONE && layout->tdata_wait == TSD_NONE)
        return;
    for (uint64_t at = 0; at + layout->size <= all->len; at += 8) {
        struct tsd_place place = {.layout = layout,
                                  .block = all->block,
                                  .at = at,
                                  .state = layout->state,
                                  .counters = layout->counters,
                                  .rtree = layout->rtree,
                                  .size = layout->size};
        if (layout->searched)
            try_searched(all, &place);
        else
            try_place(all, &place);
    }
}

/* ---- the copies ---- */

static void free_copies(struct place_search *all)
{
    for (size_t i = 0; i < all->count; i++)
        free(all->copies[i].bytes);
    all->count = 0;
}

/* Threads from all parts of the list, the first one included. */
static bool take_copies(struct place_search *all)
{
    const struct thread_pointers *pointers = all->search->pointers;
    struct memory *memory = all->search->memory;
    size_t count = pointers->count < THREADS_LOOKED_AT ? pointers->count : THREADS_LOOKED_AT;

    free_copies(all);
    for (size_t i = 0; i < count; i++) {
        const remote_addr pointer = pointers->list[i * (pointers->count / count)].pointer;
        const remote_addr at = tls_of_thread(&all->block, pointer, memory);
        unsigned char *bytes;

        if (!at)
            continue;
        bytes = malloc(all->len);
        if (!bytes)
            return false;
        if (memory_read(memory, at, bytes, all->len))
            all->copies[all->count++] = (struct block_copy){at, bytes};
        else
            free(bytes);
    }
    return all->count > 0;
}

static bool is_of_version(const struct place_search *all, const struct tsd_layout *layout)
{
    const struct tsd_layout *known = NULL;
    size_t count = tsd_layouts_of(all->search->version, &known);

    return count && layout >= known && layout < known + count;
}

/*
 * A layout of the version is taken as soon as it is the best one, another only if it is
 * so twice: the right one may have been refuted by threads that changed their data.
 */
static bool search_repeatedly(struct place_search *all)
{
    struct tsd_place last = {0};

    for (unsigned i = 0; i < ATTEMPTS; i++) {
        if (i) /* a thread that has lost its CPU in the middle of a change needs it again */
            nanosleep(&(struct timespec){.tv_nsec = (long)PAUSE_NS << i}, NULL);
        all->best = (struct tsd_place){0};
        all->score = 0;
        all->ambiguous = false;
        all->reads_left = READS_MAX;
        all->tries_left = TRIES_MAX;
        if (take_copies(all)) {
            for (size_t k = 0; k < tsd_layout_count; k++) {
                all->bonus = is_of_version(all, &tsd_layouts[k]) ? SCORE_VERSION : 0;
                try_layout(all, &tsd_layouts[k]);
            }
        }
        free_copies(all);
        if (all->best.layout && !all->ambiguous &&
            (is_of_version(all, all->best.layout) ||
             (last.layout == all->best.layout && last.at == all->best.at)))
            return true;
        last = all->ambiguous ? (struct tsd_place){0} : all->best;
    }
    return false;
}

bool tsd_place_find(struct tsd_place *place, const struct tsd_search *search, const char **why)
{
    struct place_search all = {.search = search};
    const int64_t offset = search->offset;

    memset(place, 0, sizeof *place);
    *why = "this build has its threads' data in no thread-local storage that is known";
    if (offset < 0) { /* with a known offset, only what is around it is searched */
        int64_t start = offset - COUNTERS_FAR, end = offset + COUNTERS_FAR;
        all.block = (struct tls_block){.model = TLS_AT_DISTANCE,
                                       .distance = start,
                                       .size = (uint64_t)((end < 0 ? end : 0) - start)};
    } else if (!tls_find(&all.block, &search->instance->module, search->memory,
                         &arch_tls_relocations)) {
        return false;
    }
    all.len = all.block.size < BLOCK_MAX ? (size_t)all.block.size : BLOCK_MAX;
    if (all.len < 64)
        return false;
    if (!search_repeatedly(&all)) {
        *why = all.ambiguous ? "several places may be its threads' data"
                             : "its threads' data have no known layout";
        return false;
    }
    *place = all.best;
    return true;
}

/* ---- one thread ---- */

remote_addr tsd_place_of(const struct tsd_place *place, remote_addr pointer, struct memory *memory)
{
    remote_addr block = tls_of_thread(&place->block, pointer, memory);

    return block ? block + place->at : 0;
}

bool tsd_data_take(struct tsd_data *data, const struct tsd_place *place,
                   const struct tsd_search *search, remote_addr addr, const unsigned char *bytes)
{
    const struct tsd_bytes tsd = {search, place, bytes, NULL};
    const struct tsd_layout *layout = place->layout;
    const struct tsd_states *states = layout->states;
    unsigned char tdata[TDATA_BYTES];
    uint32_t state = state_of(&tsd);

    memset(data, 0, sizeof *data);
    if (score_thread(&tsd) == REFUTED)
        return false;
    if (layout->wait != TSD_NONE) {
        data->has_wait = true;
        data->wait = word_at(&tsd, layout->wait);
        data->wait_at = addr + layout->wait;
    }
    data->tdata = word_at(&tsd, layout->tdata);
    if (data->tdata <= 2)
        data->tdata = 0;
    if (data->tdata) {
        if (!is_profiling_data(&tsd, data->tdata, tdata))
            return false;
        data->tdata_active = tdata[layout->tdata_active];
        data->active_at = data->tdata + layout->tdata_active;
    }
    if (data->tdata && layout->tdata_wait != TSD_NONE) {
        data->has_wait = true;
        data->wait = reader_word(tdata, layout->tdata_wait);
        data->wait_at = data->tdata + layout->tdata_wait;
    }

    if (state == states->uninitialized)
        data->condition = TSD_NEW;
    else if (state == states->minimal)
        data->condition = TSD_MINIMAL;
    else
        data->condition = is_nominal(&tsd) ? TSD_NOMINAL : TSD_ENDING;
    data->allocated = word_at(&tsd, place->counters);
    data->deallocated = word_at(&tsd, deallocated_at(place));
    return true;
}
