#include "run/leak/parts.h"
#include "run/explain/heap_kind.h"

#include <math.h>
#include <string.h>

enum {
    NOTABLE_FREE = 1 << 20,
    PROMOTED = 5 << 12,  /* bytes: 16 KiB and a page (arena_prof_promote), all of them touched */
    NOTABLE = 256 << 10, /* bytes */
    NOTABLE_FILES = 1 << 20, /* the tool's own reads bring pages of the program's files in */
};

static const double KEPT = 0.5;                          /* of all gains: the rest was given back */
static const double FREE_PART = 0.02, HEAP_PART = 0.005; /* of the RSS */
static const double ALMOST = 0.02;                       /* of a growth: less is not missed */

/* Pages of files are the kernel's to take back. */
static unsigned urgency_of(const struct part *part)
{
    if (part->kind == PART_MEMORY && part->memory == GROW_FILES)
        return 3;
    return part->state == PART_UNSTEADY ? 2 : part->state == PART_ONCE;
}

/* What goes on comes first; then the largest. */
static int by_urgency(const void *a, const void *b)
{
    const struct part *x = a, *y = b;

    if (urgency_of(x) != urgency_of(y))
        return urgency_of(x) < urgency_of(y) ? -1 : 1;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

/* Keeps the largest ones, in their order. */
static void parts_add(struct parts *parts, const struct part *part)
{
    if (parts->count == PARTS_MAX && by_urgency(part, &parts->list[PARTS_MAX - 1]) >= 0)
        return;
    if (parts->count < PARTS_MAX)
        parts->count++;
    parts->list[parts->count - 1] = *part;
    qsort(parts->list, parts->count, sizeof *parts->list, by_urgency);
}

static void name_stack(struct part *part, uint32_t sample, const struct verdict_stack *stack)
{
    const struct part_stack fresh = {sample, stack->low, stack->high};
    size_t at = part->stack_count;

    while (at > 0 && part->stacks[at - 1].low < fresh.low)
        at--;
    part->more += part->stack_count == PART_STACKS;
    if (at == PART_STACKS)
        return;
    part->stack_count += part->stack_count < PART_STACKS;
    memmove(&part->stacks[at + 1], &part->stacks[at],
            (part->stack_count - 1 - at) * sizeof *part->stacks);
    part->stacks[at] = fresh;
}

/* The stacks of one class, or of all: TABLE_NONE. */
static void name_stacks(struct part *part, const struct verdict *verdict, uint32_t class,
                        const struct samples *samples)
{
    const bool doubts = verdict->kind == VERDICT_ONE_OF || verdict->kind == VERDICT_ONCE;

    for (size_t i = 0; samples && i < samples->count; i++) {
        const struct verdict_stack *stack = &verdict->stacks[i];
        if (stack->grows && (class == TABLE_NONE || stack->class == class)) {
            part->state = PART_GROWS;
            name_stack(part, (uint32_t)i, stack);
        } else if (doubts && stack->candidate && class == verdict->leading) {
            name_stack(part, (uint32_t)i, stack);
        }
    }
    if (verdict->kind == VERDICT_ONCE)
        part->state = PART_ONCE;
}

static bool has_own_stack(const struct verdict *verdict, uint32_t class, size_t stacks)
{
    for (size_t i = 0; i < stacks; i++)
        if (verdict->stacks[i].grows && verdict->stacks[i].class == class)
            return true;
    return false;
}

/* Stacks whose objects have several sizes: no amount of one size is theirs. */
static bool are_mixed(const struct verdict *verdict, unsigned classes,
                      const struct samples *samples)
{
    for (size_t i = 0; samples && i < samples->count; i++)
        if (verdict->stacks[i].grows && !verdict->classes[verdict->stacks[i].class].grows)
            return true;
    for (unsigned i = 0; samples && i < classes; i++)
        if (verdict->classes[i].grows && verdict->classes[i].explained &&
            !has_own_stack(verdict, i, samples->count))
            return true;
    return false;
}

/* True: the part has the growth of all classes. */
static bool add_all(struct parts *parts, const struct verdict *verdict, unsigned classes,
                    const struct samples *samples)
{
    struct part part = {.kind = PART_OBJECTS,
                        .state = PART_ONE_OF,
                        .error = verdict->error,
                        .unseen = verdict->unseen};

    for (unsigned i = 0; i < classes; i++)
        if (verdict->classes[i].explained)
            part.bytes += verdict->classes[i].growth;
    name_stacks(&part, verdict, TABLE_NONE, samples);
    const bool all = part.state != PART_GROWS || part.bytes < part.stacks[0].low;
    if (all)
        part.bytes = verdict->growth;
    parts_add(parts, &part);
    return all;
}

static void add_certain(struct parts *parts, const struct leak *leak, const struct verdict *verdict,
                        const struct samples *samples)
{
    const unsigned classes = leak->looks.classes->count;
    const bool once = verdict->kind == VERDICT_ONCE,
               mixed =
                   verdict->leading == VERDICT_ALL_CLASSES || are_mixed(verdict, classes, samples);

    const bool all = mixed && add_all(parts, verdict, classes, samples);

    for (unsigned i = 0; i < classes; i++) {
        const struct verdict_class *class = &verdict->classes[i];
        struct part part;
        if (all || !(once ? i == verdict->leading : class->grows) || (mixed && class->explained))
            continue;
        part = (struct part){.kind = PART_OBJECTS,
                             .state = PART_ONE_OF,
                             .size = leak->looks.classes->list[i].size,
                             .bytes = class->growth,
                             .error = class->error,
                             .class = class};
        part.unseen = leak->silent || class->unseen;
        if (!class->unsampled)
            name_stacks(&part, verdict, i, samples);
        parts_add(parts, &part);
    }
}

/* The bytes of a class at a look; TABLE_NONE: of all. */
static double bytes_at(const struct looks *looks, size_t look, uint32_t class)
{
    double bytes = 0;

    for (unsigned i = 0; i < looks->classes->count; i++)
        if (class == TABLE_NONE || class == i)
            bytes += (double)looks->list[look].bytes[i];
    return bytes;
}

/* True if most of what it has gained at any time is still there. */
static bool keeps_gains(const struct looks *looks, double growth)
{
    double gained = 0;

    for (size_t i = 1; i < looks->count; i++)
        gained += fmax(bytes_at(looks, i, TABLE_NONE) - bytes_at(looks, i - 1, TABLE_NONE), 0);
    return growth > KEPT * gained;
}

/* For how long it has had nearly all that it has gained, seconds. */
static double since_growth(const struct looks *looks, uint32_t class)
{
    const size_t last = looks->count - 1;
    const double end = bytes_at(looks, last, class),
                 least = end - ALMOST * (end - bytes_at(looks, 0, class));
    size_t i = last;

    while (i > 0 && bytes_at(looks, i - 1, class) >= least)
        i--;
    return (double)(looks->list[last].at_ns - looks->list[i].at_ns) / 1e9;
}

/* Nothing is certain, but the objects are more: in steps, for instance, or until lately. */
static void add_unsteady(struct parts *parts, const struct leak *leak,
                         const struct verdict *verdict)
{
    struct part part = {.kind = PART_OBJECTS, .state = PART_UNSTEADY, .bytes = verdict->growth};
    uint32_t largest = 0;

    if (verdict->growth < NOTABLE || !keeps_gains(&leak->looks, verdict->growth))
        return;
    for (unsigned i = 0; i < leak->looks.classes->count; i++)
        if (verdict->classes[i].growth > verdict->classes[largest].growth)
            largest = i;
    if (verdict->classes[largest].growth < verdict->growth / 2)
        largest = TABLE_NONE;
    else
        part.size = leak->looks.classes->list[largest].size;
    part.since_s =
        fmin(since_growth(&leak->looks, largest), since_growth(&leak->looks, TABLE_NONE));
    parts_add(parts, &part);
}

void parts_of_objects(struct parts *parts, const struct leak *leak, const struct verdict *verdict,
                      const struct samples *samples)
{
    if (verdict->kind > VERDICT_TOO_SHORT && verdict->kind < VERDICT_ONCE)
        add_unsteady(parts, leak, verdict);
    if (verdict->kind >= VERDICT_ONCE)
        add_certain(parts, leak, verdict, samples);
}

/*
 * Memory of unknown use is an allocator's, unless the process is known to have another one. A
 * collector's memory grows from one collection to the next.
 */
static bool is_of_allocator(const struct grow *grow, bool counted, enum grow_kind kind)
{
    if (kind == GROW_MAPPED)
        return heap_kinds_collector(grow->heaps) != HEAP_KINDS ||
               (!counted && !grow->sum.parts[GROW_LIBC].now);
    return kind == GROW_JEMALLOC || kind == GROW_LIBC || kind == GROW_PYMALLOC;
}

/* What objects have grown by, and what sampled ones take besides their own: the tool's doing. */
static double taken_by_objects(const struct looks *looks)
{
    const struct look *last = &looks->list[looks->count - 1];
    const double before = (double)looks->list[0].promoted, after = (double)last->promoted;

    return fmax(bytes_at(looks, looks->count - 1, TABLE_NONE) - bytes_at(looks, 0, TABLE_NONE), 0) +
           fmax(after - before, 0) * PROMOTED;
}

/* What is in flight is not likely to stay. */
static double gained_by(const struct grow *grow, enum grow_kind kind)
{
    const struct grow_part *sum = &grow->sum.parts[kind];
    const double in_flight = grow_kind_is_private(kind) ? sum->in_flight : 0;

    return grow_bytes(grow, (double)sum->gained - (double)sum->lost - in_flight);
}

/* What others have returned, bytes: a part that has not gained more is no growth of the process. */
static double lost_elsewhere(const struct grow *grow, enum grow_kind kind)
{
    double lost = 0;

    for (enum grow_kind i = 0; i < GROW_KINDS; i++)
        if (i != kind && i != GROW_FILES)
            lost -= fmin(gained_by(grow, i), 0);
    return lost;
}

double parts_notable(const struct leak *leak, bool counted, enum grow_kind kind)
{
    const struct grow *grow = &leak->grow;
    const double rss = (double)grow->after.usage.rss;

    if (kind == GROW_FILES)
        return NOTABLE_FILES;
    if (kind == GROW_JEMALLOC && counted)
        return fmax(NOTABLE_FREE, FREE_PART * rss) + taken_by_objects(&leak->looks);
    return is_of_allocator(grow, counted, kind) ? fmax(NOTABLE, HEAP_PART * rss) : NOTABLE;
}

bool parts_have_free_memory(const struct leak *leak)
{
    return leak->grows && looks_counted(&leak->looks) &&
           gained_by(&leak->grow, GROW_JEMALLOC) >= parts_notable(leak, true, GROW_JEMALLOC);
}

void parts_of_memory(struct parts *parts, const struct leak *leak, const struct verdict *verdict)
{
    const struct grow *grow = &leak->grow;
    const struct verdict_total total = looks_judge_rss(&leak->looks);

    for (enum grow_kind kind = 0; kind < GROW_KINDS; kind++) {
        struct part part = {.kind = PART_MEMORY,
                            .state = total.kind == VERDICT_ONCE ? PART_ONCE : PART_UNSTEADY,
                            .memory = kind,
                            .bytes = gained_by(grow, kind),
                            .handed_on = is_of_allocator(grow, verdict != NULL, kind)};
        if (total.kind == VERDICT_GROWS)
            part.state = part.handed_on ? PART_ONE_OF : PART_GROWS;
        /* Of a process that has ended it is not known which mappings are jemalloc's. */
        if (kind == GROW_MAPPED && verdict && grow->ended.code != FAULT_NONE)
            continue;
        if (kind == GROW_SHARED && part.bytes > 0) /* not what others have had before */
            part.bytes -= grow_bytes(grow, (double)grow_pages_only_touched(&grow->pages));
        if (kind == GROW_LIBC) /* large objects move there from mappings of their own */
            part.bytes += fmin(0, gained_by(grow, GROW_MAPPED));
        if (part.bytes < parts_notable(leak, verdict != NULL, kind) ||
            (part.state >= PART_ONCE && lost_elsewhere(grow, kind) >= part.bytes))
            continue;
        if (kind == GROW_JEMALLOC && verdict) /* what objects have not: free space, own data */
            part.bytes -= taken_by_objects(&leak->looks);
        parts_add(parts, &part);
    }
}
