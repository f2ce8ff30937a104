#include "jemalloc/reader/gauges.h"
#include "jemalloc/reader/birth.h"

#include <string.h>

enum {
    PAUSE_NS = 50000,
    PATIENCE_NS = 50000000, /* a collection takes some 0.1 ms, with many arenas some ms */
    TRIES_LEAST = 8,        /* even where the tool itself waits for a CPU */
    PAGE_LEAST = 4096,      /* of jemalloc: at least that of the kernel */
    PAGE_LG_MAX = 21,
    GAUGES_BYTES = 4096,
    EPOCH_MAX = 1 << 30, /* a larger number is no epoch, up to 4.5, where nothing else tells */
};

/* struct ctl_arenas_s (ctl.h, 5.0 to the development branch): the part before the arenas. */
struct arenas_head {
    uint64_t epoch;
    uint32_t arenas, unused;
    remote_addr destroyed;
    remote_addr merged, merged_destroyed, first; /* struct ctl_arena_s */
};

/* One read of everything. */
struct gauges_copy {
    remote_addr at;
    uint64_t values[CTL_GAUGES];
    struct arenas_head head; /* arenas 0: not found */
    uint64_t epoch;
    uint64_t active_pages;
    uint64_t uptime; /* of arena 0 when they were collected */
    bool has_uptime, has_epoch;
};

static bool load_word(struct memory *memory, remote_addr at, uint64_t *value)
{
    return memory_read(memory, at, value, sizeof *value);
}

/* --- the values --- */

static bool read_values(const struct gauges_memory *memory, struct gauges_copy *copy)
{
    const struct getters *getters = &memory->getters;
    unsigned char bytes[GAUGES_BYTES + 8];
    size_t len = 0;

    copy->at = getters->stats;
    if (getters->through && !load_word(memory->source.memory, getters->stats, &copy->at))
        return false;
    if (!copy->at)
        return true;
    for (size_t i = 0; i < CTL_GAUGES; i++)
        if ((size_t)getters->offset[i] + 8 > len)
            len = (size_t)getters->offset[i] + 8;
    if (len > sizeof bytes || !memory_read(memory->source.memory, copy->at, bytes, len))
        return false;
    for (size_t i = 0; i < CTL_GAUGES; i++)
        if (i == CTL_ALLOCATED || getters->offset[i])
            memcpy(&copy->values[i], bytes + getters->offset[i], 8);
    return true;
}

/* The head of ctl_arenas counts the arenas and points to their records. */
static bool head_valid(const struct arenas_head *head)
{
    return head->arenas > 0 && head->arenas <= ARENAS_MAX && head->merged % 8 == 0 &&
           head->first % 8 == 0 && head->merged && head->first;
}

/* Since 5.0: reads what ctl_arenas points to, and proves that it does. */
static void read_head(const struct gauges_memory *memory, struct gauges_copy *copy)
{
    const struct getter_variables *epochs = &memory->getters.epochs;
    struct memory *of = memory->source.memory;

    for (size_t i = 0; i < epochs->count; i++) {
        struct arenas_head head;
        remote_addr at;
        if (!load_word(of, epochs->list[i], &at) || !at ||
            !memory_read(of, at, &head, sizeof head) || !head_valid(&head) ||
            !load_word(of, head.merged + CTL_ARENA_PACTIVE, &copy->active_pages))
            continue;
        copy->head = head;
        copy->epoch = head.epoch;
        copy->has_epoch = true;
        return;
    }
}

/* Up to 4.5: a variable of its own, of which nothing but the code tells. */
static void read_epoch(const struct gauges_memory *memory, struct gauges_copy *copy)
{
    const struct getter_variables *epochs = &memory->getters.epochs;

    copy->has_epoch = epochs->count == 1 &&
                      load_word(memory->source.memory, epochs->list[0], &copy->epoch) &&
                      copy->epoch < EPOCH_MAX;
}

static bool read_copy(const struct gauges_memory *memory, struct gauges_copy *copy)
{
    memset(copy, 0, sizeof *copy);
    if (!read_values(memory, copy))
        return false;
    if (memory->getters.through && copy->at)
        read_head(memory, copy);
    if (!memory->getters.through)
        read_epoch(memory, copy);
    if (copy->head.arenas)
        copy->has_uptime =
            birth_uptime(copy->head.first, &memory->getters, memory->source.memory, &copy->uptime);
    return true;
}

/* --- the proof --- */

/* ctl_refresh: active is pactive << LG_PAGE. */
static bool pages_agree(uint64_t active, uint64_t pages)
{
    for (unsigned lg = 12; lg <= PAGE_LG_MAX; lg++)
        if (pages << lg == active)
            return true;
    return false;
}

static bool values_whole(const struct gauges_copy *copy)
{
    static const enum ctl_gauge pages[] = {CTL_ACTIVE, CTL_RESIDENT, CTL_MAPPED, CTL_RETAINED,
                                           CTL_PINNED};

    for (size_t i = 0; i < ARRAY_LEN(pages); i++)
        if (copy->values[pages[i]] % PAGE_LEAST)
            return false;
    return true;
}

static bool copy_empty(const struct gauges_copy *copy)
{
    for (size_t i = 0; i < CTL_GAUGES; i++)
        if (copy->values[i])
            return false;
    return true;
}

/* Two reads agree. */
static bool read_twice(const struct gauges_memory *memory, struct gauges_copy *copy, bool *agree)
{
    struct gauges_copy again;

    if (!read_copy(memory, copy) || !read_copy(memory, &again))
        return false;
    *agree = memcmp(copy, &again, sizeof again) == 0;
    return true;
}

/* A collection clears the records of the arenas first, and writes the gauges at its end. */
static enum gauges_state judge_copy(const struct getters *getters, const struct gauges_copy *copy)
{
    if (copy_empty(copy) && !copy->epoch)
        return GAUGES_NEVER;
    if (!values_whole(copy) || (getters->through && !copy->head.arenas))
        return GAUGES_UNPROVEN;
    return !getters->through || pages_agree(copy->values[CTL_ACTIVE], copy->active_pages)
               ? GAUGES_KNOWN
               : GAUGES_COLLECTING;
}

/*
 * A program collects while its gauges are read: waits for the end of that, but not for long, as
 * it may have been stopped there.
 */
static enum gauges_state take_copy(const struct gauges_memory *memory, struct gauges_copy *copy)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    uint64_t end = clock_now() + PATIENCE_NS;
    enum gauges_state state;
    unsigned tries = 0;

    do {
        bool agree;
        if (!read_twice(memory, copy, &agree))
            return GAUGES_UNREADABLE;
        state = agree ? judge_copy(&memory->getters, copy) : GAUGES_UNPROVEN;
        if (state == GAUGES_KNOWN || state == GAUGES_NEVER)
            break;
        nanosleep(&pause, NULL);
    } while (++tries < TRIES_LEAST || clock_now() < end);
    return state;
}

/* --- the age --- */

static void find_age(struct gauges_memory *memory, const struct gauges_copy *copy,
                     struct gauges_reading *reading)
{
    const struct birth_question question = {.source = &memory->source,
                                            .arenas = &memory->getters.arenas,
                                            .uptime = copy->uptime,
                                            .count = copy->head.arenas};
    uint64_t now = clock_now(), most;

    if (memory->source.memory->source.read) /* a core file does not tell when it was made */
        return;
    most = birth_uptime_limit(memory->source.target);
    if (!copy->has_uptime || copy->uptime > most)
        return;
    if (!memory->searched)
        memory->created = birth_find(&question);
    memory->searched = true;
    if (memory->created && now >= memory->created + copy->uptime) {
        reading->aged = AGE_KNOWN;
        reading->age_ns = now - (memory->created + copy->uptime);
    } else {
        reading->aged = AGE_AT_MOST;
        reading->age_ns = most - copy->uptime;
    }
}

static void copy_gauges(const struct gauges_memory *memory, const struct gauges_copy *copy,
                        struct stats_gauges *gauges)
{
    gauges->allocated = copy->values[CTL_ALLOCATED];
    gauges->active = copy->values[CTL_ACTIVE];
    gauges->metadata = copy->values[CTL_METADATA];
    gauges->resident = copy->values[CTL_RESIDENT];
    gauges->mapped = copy->values[CTL_MAPPED];
    gauges->retained = copy->values[CTL_RETAINED];
    gauges->has_retained = memory->getters.offset[CTL_RETAINED] != 0;
    gauges->pinned = copy->values[CTL_PINNED];
    gauges->has_pinned = memory->getters.offset[CTL_PINNED] != 0;
}

void gauges_locate(struct gauges_memory *memory, const struct reader_source *source)
{
    *memory = (struct gauges_memory){.source = *source};
    memory->found =
        getters_find(&memory->getters, source->instance, source->target, source->memory);
}

void gauges_read(struct gauges_memory *memory, struct gauges_reading *reading)
{
    struct gauges_copy copy;

    memset(reading, 0, sizeof *reading);
    if (!memory->found)
        return;
    reading->state = take_copy(memory, &copy);
    if (!gauges_known(reading))
        return;
    reading->has_epoch = copy.has_epoch;
    reading->epoch = copy.epoch;
    copy_gauges(memory, &copy, &reading->gauges);
    if (reading->state == GAUGES_KNOWN)
        find_age(memory, &copy, reading);
}
