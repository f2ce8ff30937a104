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

/* ---- the proof of one thread ---- */

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
    return table.hash >= module->exec_start && table.hash < module->exec_end &&
           table.compare >= module->exec_start && table.compare < module->exec_end &&
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

/* A thread that has allocated is bound to an arena; since 5.0 to one for its own data, too. */
static bool is_bound(const struct tsd_bytes *tsd, uint64_t arena, uint64_t internal)
{
    bool is_old = tsd->place->layout->states->size > 1;

    return (arena && (internal || is_old)) || !word_at(tsd, tsd->place->counters);
}

/* Up to 4.5 an arena begins with its number, and how many threads are bound to it. */
static int score_old_arena(const struct tsd_bytes *tsd)
{
    uint32_t head[2] = {0};
    remote_addr arena = word_at(tsd, tsd->place->layout->arena);

    if (tsd->place->layout->states->size == 1 || !arena ||
        !read_pointed(tsd, arena, head, sizeof head))
        return 0;
    return head[0] < ARENAS_MAX && head[1] - 1 < BOUND_MAX ? SCORE_OLD_ARENA : 0;
}

static int score_tcache(const struct tsd_bytes *tsd)
{
    const struct tsd_layout *layout = tsd->place->layout;
    uint64_t tcache = layout->tcache == TSD_NONE ? 0 : word_at(tsd, layout->tcache);

    if (tcache <= TCACHE_STATES)
        return 0;
    return is_heap(tsd->search, tcache, 8) ? SCORE_TCACHE : REFUTED;
}

static int score_arenas(const struct tsd_bytes *tsd)
{
    const struct tsd_layout *layout = tsd->place->layout;
    uint64_t arena = word_at(tsd, layout->arena);
    uint64_t internal = layout->iarena == TSD_NONE ? 0 : word_at(tsd, layout->iarena);

    if ((arena && !is_heap(tsd->search, arena, ARENA_ALIGNED)) ||
        (internal && !is_heap(tsd->search, internal, ARENA_ALIGNED)) ||
        !is_bound(tsd, arena, internal))
        return REFUTED;
    return arena ? SCORE_ARENA : 0;
}

/* Since 5.0, the state of the fast path implies that the thread has a cache (tsd.c). */
static bool has_cache(const struct tsd_bytes *tsd)
{
    const struct tsd_layout *layout = tsd->place->layout;

    return layout->states->size > 1 || state_of(tsd) != layout->states->nominal_first ||
           tsd->at[layout->searched ? 0 : 1] == 1;
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

static bool counters_possible(const struct tsd_bytes *tsd)
{
    return word_at(tsd, tsd->place->counters) < COUNT_MAX &&
           word_at(tsd, deallocated_at(tsd->place)) < COUNT_MAX;
}

/* A thread that has not called jemalloc. */
static bool is_unused(const struct tsd_bytes *tsd)
{
    const struct tsd_layout *layout = tsd->place->layout;

    return !word_at(tsd, tsd->place->counters) && !word_at(tsd, deallocated_at(tsd->place)) &&
           !word_at(tsd, layout->tdata) && !word_at(tsd, layout->arena);
}

static int score_thread(const struct tsd_bytes *tsd)
{
    int (*const parts[])(const struct tsd_bytes *) = {score_wait,   score_events,    score_tree,
                                                      score_arenas, score_old_arena, score_tcache,
                                                      score_tdata};
    const struct tsd_states *states = tsd->place->layout->states;
    uint32_t state = state_of(tsd);
    int sum = 0;

    if (state > states->last || !counters_possible(tsd))
        return REFUTED;
    if (state == states->uninitialized)
        return is_unused(tsd) ? SCORE_UNUSED : REFUTED;
    if (state == states->minimal)
        return 0;
    if (!has_cache(tsd))
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
    size_t len;     /* of each copy */
    uint64_t first; /* offset of the first byte in the block */
    struct tsd_place best;
    int score;                     /* of the best one */
    int bonus;                     /* for a layout of the version */
    size_t reads_left, tries_left; /* in this attempt: of pointers, of counters */
    bool ambiguous;
};

/* Builds that differ by configuration can look alike before the first sample. */
static bool same_meaning(const struct place_search *all, const struct tsd_place *a,
                         const struct tsd_place *b)
{
    return a->at + a->counters == b->at + b->counters && a->layout->events == b->layout->events &&
           (a->layout->wait == b->layout->wait || !all->search->samples);
}

static void note_tsd_place(struct place_search *all, const struct tsd_place *place, int score)
{
    int64_t offset = all->block.distance + (int64_t)(place->at + place->counters);

    if (score < all->score || (all->search->offset && offset != all->search->offset))
        return;
    if (score == all->score) {
        all->ambiguous |= !same_meaning(all, place, &all->best);
        return;
    }
    all->best = *place;
    all->score = score;
    all->ambiguous = false;
}

/* A running thread may change its data during the read: one of eight may not fit. */
static void try_place(struct place_search *all, const struct tsd_place *place)
{
    size_t refuted = 0;
    int sum = 0, used = 0;

    for (size_t i = 0; i < all->count && refuted <= all->count / 8; i++) {
        const struct tsd_bytes tsd = {
            all->search, place, all->copies[i].bytes + (place->at - all->first), &all->reads_left};
        int score = score_thread(&tsd);
        refuted += score == REFUTED;
        sum += score == REFUTED ? 0 : score;
        used += score > SCORE_UNUSED ? score : 0;
    }
    if (refuted <= all->count / 8 && used >= SCORE_MIN)
        note_tsd_place(all, place, sum + all->bonus);
}

/* Tries all counters behind a tsd: in one thread, they must be between its events. */
static void try_counters(struct place_search *all, struct tsd_place *place,
                         const struct block_copy *copy)
{
    const struct tsd_layout *layout = place->layout;
    const struct tsd_bytes tsd = {all->search, place, copy->bytes + (place->at - all->first), NULL};
    size_t left = all->len - (size_t)(place->at - all->first);
    size_t first = layout->size + TSD_RTREE_BYTES + 8u;

    all->tries_left--;
    for (size_t at = (first + 7) & ~(size_t)7; at < COUNTERS_FAR && at + 32 <= left; at += 8) {
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

static bool may_be_pointer(uint64_t word)
{
    return word % 16 == 0 && word < ADDRESS_MAX;
}

/* What is quickly seen of the members that precede the counters. */
static bool may_precede(const struct tsd_bytes *tsd)
{
    const struct tsd_layout *layout = tsd->place->layout;

    return tsd->at[0] <= 1 && tsd->at[1] <= REENTRANCY_MAX && is_interval(tsd, layout->events) &&
           is_interval(tsd, layout->events + 16u) && may_be_pointer(word_at(tsd, layout->tdata)) &&
           may_be_pointer(word_at(tsd, layout->arena)) &&
           may_be_pointer(word_at(tsd, layout->iarena)) && score_wait(tsd) != REFUTED;
}

/* Threads whose events are set show where the counters may be. */
static void try_searched(struct place_search *all, struct tsd_place *place)
{
    for (size_t i = 0; i < all->count; i++) {
        const struct tsd_bytes tsd = {all->search, place,
                                      all->copies[i].bytes + (place->at - all->first), NULL};
        if (all->tries_left && may_precede(&tsd))
            try_counters(all, place, &all->copies[i]);
    }
}

static void try_layout(struct place_search *all, const struct tsd_layout *layout)
{
    if (all->search->samples && layout->wait == TSD_NONE && layout->tdata_wait == TSD_NONE)
        return;
    for (uint64_t at = 0; at + layout->size <= all->len; at += 8) {
        struct tsd_place place = {.layout = layout,
                                  .block = all->block,
                                  .at = all->first + at,
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

static bool add_copy(struct place_search *all, remote_addr pointer)
{
    struct memory *memory = all->search->memory;
    remote_addr at = tls_of_thread(&all->block, pointer, memory);
    unsigned char *bytes;

    if (!at)
        return true;
    bytes = malloc(all->len);
    if (!bytes || !memory_read(memory, at + all->first, bytes, all->len)) {
        free(bytes);
        return bytes != NULL;
    }
    all->copies[all->count++] = (struct block_copy){at + all->first, bytes};
    return true;
}

/* Threads from all parts of the list, the first one included. */
static bool take_copies(struct place_search *all)
{
    const struct thread_pointers *pointers = all->search->pointers;
    size_t count = pointers->count < THREADS_LOOKED_AT ? pointers->count : THREADS_LOOKED_AT;

    free_copies(all);
    for (size_t i = 0; i < count; i++)
        if (!add_copy(all, pointers->list[i * (pointers->count / count)].pointer))
            return false;
    return all->count > 0;
}

/* With a known offset, only what is around it is searched. */
static bool choose_range(struct place_search *all)
{
    int64_t offset = all->search->offset;

    if (offset < 0) {
        int64_t start = offset - COUNTERS_FAR, end = offset + COUNTERS_FAR;
        all->block = (struct tls_block){.model = TLS_AT_DISTANCE,
                                        .distance = start,
                                        .size = (uint64_t)((end < 0 ? end : 0) - start)};
    } else if (!tls_find(&all->block, &all->search->instance->module, all->search->memory,
                         &arch_tls_relocations)) {
        return false;
    }
    all->len = all->block.size < BLOCK_MAX ? (size_t)all->block.size : BLOCK_MAX;
    all->first = 0;
    return all->len >= 64;
}

static bool is_of_version(const struct place_search *all, const struct tsd_layout *layout)
{
    const struct tsd_layout *known = NULL;
    size_t count = tsd_layouts_of(all->search->version, &known);

    return count && layout >= known && layout < known + count;
}

static void try_layouts(struct place_search *all)
{
    for (size_t i = 0; i < tsd_layout_count; i++) {
        all->bonus = is_of_version(all, &tsd_layouts[i]) ? SCORE_VERSION : 0;
        try_layout(all, &tsd_layouts[i]);
    }
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
        if (take_copies(all))
            try_layouts(all);
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

    memset(place, 0, sizeof *place);
    *why = "this build has its threads' data in no thread-local storage that is known";
    if (!choose_range(&all))
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

static enum tsd_condition condition_of(const struct tsd_bytes *tsd)
{
    const struct tsd_states *states = tsd->place->layout->states;
    uint32_t state = state_of(tsd);

    if (state == states->uninitialized)
        return TSD_NEW;
    if (state == states->minimal)
        return TSD_MINIMAL;
    return is_nominal(tsd) ? TSD_NOMINAL : TSD_ENDING;
}

static bool take_tsd_tdata(struct tsd_data *data, const struct tsd_bytes *tsd, remote_addr addr)
{
    const struct tsd_layout *layout = tsd->place->layout;
    unsigned char bytes[TDATA_BYTES];

    if (layout->wait != TSD_NONE) {
        data->has_wait = true;
        data->wait = word_at(tsd, layout->wait);
        data->wait_at = addr + layout->wait;
    }
    data->tdata = word_at(tsd, layout->tdata);
    if (data->tdata <= 2)
        data->tdata = 0;
    if (!data->tdata)
        return true;
    if (!is_profiling_data(tsd, data->tdata, bytes))
        return false;
    data->tdata_active = bytes[layout->tdata_active];
    data->active_at = data->tdata + layout->tdata_active;
    if (layout->tdata_wait != TSD_NONE) {
        data->has_wait = true;
        data->wait = reader_word(bytes, layout->tdata_wait);
        data->wait_at = data->tdata + layout->tdata_wait;
    }
    return true;
}

bool tsd_data_take(struct tsd_data *data, const struct tsd_place *place,
                   const struct tsd_search *search, remote_addr addr, const unsigned char *bytes)
{
    const struct tsd_bytes tsd = {search, place, bytes, NULL};

    memset(data, 0, sizeof *data);
    if (score_thread(&tsd) == REFUTED || !take_tsd_tdata(data, &tsd, addr))
        return false;
    data->condition = condition_of(&tsd);
    data->allocated = word_at(&tsd, place->counters);
    data->deallocated = word_at(&tsd, deallocated_at(place));
    return true;
}
