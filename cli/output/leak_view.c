#include "cli/output/leak_view.h"
#include "base/text.h"
#include "base/units.h"
#include "base/util.h"
#include "cli/output/advice.h"
#include "cli/output/attachment_json.h"
#include "cli/output/explain_words.h"
#include "cli/output/wrap.h"
#include "jemalloc/faults.h"
#include "profile/names/short_name.h"
#include "profile/views/call_label.h"
#include "profile/views/growth.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    CLASS_ROWS = 2,
    CLASSES_SHOWN = 10,
    ANSWER_BYTES = 1024,
    CLASS_COLUMNS = 64,
    SIZES_NAMED = 3,
    LINES = 12,
    ROWS_LEAST = 1,
    ALSO = 2,
    PATIENCE = 600 /* seconds: the longest watch that is proposed */
};

#define DAY_NS  (86400ull * 1000000000)
#define LONG_NS (5ull * 60 * 1000000000) /* who has watched for so long has seen enough */

static const double LATELY = 0.2; /* of the time: what ended before that is said to have ended */

static double watched_seconds(const struct leak_view *view)
{
    return view->verdict && view->verdict->seconds > 0 ? view->verdict->seconds
                                                       : leak_seconds(view->leak);
}

/* "400 KiB/s" */
static const char *growth_rate(const struct leak_view *view, double bytes, char out[UNITS_TEXT])
{
    const char *text = units_rate(fmax(bytes, 0) / fmax(watched_seconds(view), 1e-3), out);

    return *text == '+' ? text + 1 : text;
}

/* A process that has ended, or runs another program, does nothing any more. */
static bool has_ended(const struct leak_view *view)
{
    return view->leak->ended.code != FAULT_NONE;
}

/* "grows by", or of a time that is over */
static const char *grows_by(const struct leak_view *view)
{
    return has_ended(view) ? "grew by" : "grows by";
}

/* The least of the usual times that is long enough, or the longest: "30s", "2m". */
static const char *longer_time(double seconds, char out[UNITS_TEXT])
{
    static const unsigned short usual[] = {10, 30, 60, 120, 300, PATIENCE};
    unsigned time = usual[ARRAY_LEN(usual) - 1];

    for (size_t i = ARRAY_LEN(usual); i-- > 0;)
        if (usual[i] >= seconds)
            time = usual[i];
    snprintf(out, UNITS_TEXT, "%u%s", time % 60 ? time : time / 60, time % 60 ? "s" : "m");
    return out;
}

/* How long to sample so that a class is clear; 0: not known, nobody waits for it, or it is clear.
 */
static double time_for(const struct leak_view *view, const struct part *part)
{
    const double wait = part->class ? part->class->wait_s : 0,
                 seconds = watched_seconds(view) + wait;

    return view->samples && part->state == PART_ONE_OF && wait > 0 && seconds <= PATIENCE ? seconds
                                                                                          : 0;
}

/* What may have grown unseen, bytes. */
static double unseen_growth(const struct leak_view *view)
{
    if (view->verdict)
        return view->verdict->bound;
    return fmax(looks_judge_rss(&view->leak->looks).bound,
                view->faults ? parts_notable(view->leak, false, GROW_LIBC) : 0);
}

/* The watch that tells, seconds; 0: what is not seen to grow does not, but for a little. */
static double time_to_tell(const struct leak_view *view)
{
    const double seconds = verdict_watch(unseen_growth(view));
    const bool unsure = view->verdict ? view->verdict->kind == VERDICT_UNSURE
                                      : !view->samples && seconds > watched_seconds(view);

    return unsure ? fmax(seconds, 2 * watched_seconds(view)) : 0;
}

/* "; try -d 1m" */
static void write_try(const struct leak_view *view, double seconds, FILE *out)
{
    char time[UNITS_TEXT];

    if (watched_seconds(view) < PATIENCE)
        fprintf(out, "; try -d %s", longer_time(seconds, time));
}

/* True of jemalloc's pages where its objects are counted apart from them. */
static bool is_free_memory(const struct leak_view *view, const struct part *part)
{
    return part->kind == PART_MEMORY && part->memory == GROW_JEMALLOC && view->verdict;
}

/* ---- a part in words ---- */

static const char *stack_place(const struct leak_view *view, const struct part_stack *stack,
                               char out[PLACE_TEXT_SIZE])
{
    return place_text(view->samples, &view->samples->list[stack->sample], out);
}

/* Stacks may differ only in their distant callers. */
static bool was_named(const struct leak_view *view, const struct part *part, size_t number)
{
    char place[PLACE_TEXT_SIZE], former[PLACE_TEXT_SIZE];

    stack_place(view, &part->stacks[number], place);
    for (size_t i = 0; i < number; i++)
        if (strcmp(stack_place(view, &part->stacks[i], former), place) == 0)
            return true;
    return false;
}

/* Below which caller most of it is, by what the samples of that size have grown. */
static void write_common_caller(const struct leak_view *view, const struct part *part, FILE *out)
{
    const struct samples *samples = view->samples;
    const struct verdict *verdict = view->verdict;
    AUTO_FREE double *weights = calloc(samples->count + 1, sizeof *weights);
    char text[COMMON_TEXT_SIZE];

    for (size_t i = 0; weights && i < samples->count; i++)
        if (!part->class || part->class == &verdict->classes[verdict->stacks[i].class])
            weights[i] = fmax((double)amount_growth(&samples->list[i].values[VALUE_BYTES]), 0);
    if (weights)
        text_write_clean(out, common_caller_text(samples, weights, text), "");
}

/* Of one stack its part is clear: all, unless it may be much less. */
static void write_causes(const struct leak_view *view, const struct part *part, FILE *out)
{
    const bool alone = part->stack_count == 1 && part->stacks[0].low > 0.5 * part->bytes;
    char low[UNITS_TEXT], high[UNITS_TEXT];

    for (size_t i = 0; i < part->stack_count; i++) {
        const struct part_stack *stack = &part->stacks[i];
        char place[PLACE_TEXT_SIZE];
        if (was_named(view, part, i))
            continue;
        if (i)
            fputs(i + 1 < part->stack_count || part->more || part->state != PART_ONE_OF ? ", "
                                                                                        : " or ",
                  out);
        text_write_clean(out, stack_place(view, stack, place), "");
        if (part->state == PART_ONE_OF || alone)
            continue;
        fprintf(out, " %s to %s", growth_rate(view, stack->low, low),
                growth_rate(view, fmin(stack->high, part->bytes + part->error), high));
    }
    if (part->more)
        fprintf(out, " %s %zu more stack%s", part->state == PART_ONE_OF ? "or" : "and", part->more,
                part->more == 1 ? "" : "s");
    write_common_caller(view, part, out);
    fputs(" (samples)", out);
}

/* True if a stack has more sampled objects of its size, which may be those that replace others. */
static bool is_sampled(const struct leak_view *view, const struct part *part)
{
    const struct verdict *verdict = view->verdict;

    for (size_t i = 0; i < view->samples->count; i++)
        if (part->class == &verdict->classes[verdict->stacks[i].class] &&
            amount_growth(&view->samples->list[i].values[VALUE_BYTES]) > 0)
            return true;
    return false;
}

/* Why it is not known which stack it is, and when it will be. */
static void write_doubt(const struct leak_view *view, const struct part *part, FILE *out)
{
    const double seconds = time_for(view, part);
    char time[UNITS_TEXT];

    if (part->class && part->class->unsampled)
        fputs("; more than the samples can account for: by threads that are not sampled", out);
    else if (part->stack_count)
        fputs(", not certain yet", out);
    else if (part->class && part->class->unseen)
        fputs(is_sampled(view, part) ? "; too few samples to name a stack" : "; no sample yet",
              out);
    if (seconds > 0 && part->stack_count > 1)
        fprintf(out, "; run with -d %s to tell them apart", longer_time(seconds, time));
    else if (seconds > 0)
        fprintf(out, "; try -d %s to name it", longer_time(seconds, time));
}

/* Who touched a page first does not have all the objects in it, and may have given it to others. */
static void write_touchers(const struct leak_view *view, enum grow_kind kind, uint64_t size,
                           double growth, FILE *out)
{
    if (grow_write_touchers(view->faults, kind, size, growth, out))
        fputs(" (first touch)", out);
}

/* The class of the objects of a part; NULL: not known. */
static const char *class_name(const struct leak_view *view, const struct part *part)
{
    for (size_t i = 0; i < GROWN_CLASSES; i++)
        if (part->size && view->leak->grown[i].size == part->size)
            return view->leak->grown[i].name;
    return NULL;
}

/* The numbers of up to so many classes that have changed most; returns how many. */
static size_t largest_changes(const struct leak_view *view, unsigned *list, size_t most)
{
    const struct verdict_class *classes = view->verdict->classes;
    size_t count = 0;

    for (unsigned i = 0; i < view->leak->looks.classes->count; i++) {
        size_t at = count;
        while (at > 0 && fabs(classes[list[at - 1]].growth) < fabs(classes[i].growth))
            at--;
        if (at == most || classes[i].growth == 0)
            continue;
        count += count < most;
        memmove(&list[at + 1], &list[at], (count - 1 - at) * sizeof *list);
        list[at] = i;
    }
    return count;
}

/* "512 B, 1 KiB and others": sizes that grow, the largest growth first */
static void write_sizes(const struct leak_view *view, FILE *out)
{
    const struct verdict_class *classes = view->verdict->classes;
    unsigned largest[CLASSES_SHOWN];
    size_t shown = 0;
    char size[UNITS_TEXT];

    for (size_t i = 0, count = largest_changes(view, largest, CLASSES_SHOWN); i < count; i++) {
        if (!classes[largest[i]].grows && !classes[largest[i]].explained)
            continue;
        if (shown == SIZES_NAMED) {
            fputs(" and others", out);
            break;
        }
        fprintf(out, "%s%s", shown++ ? ", " : "",
                units_bytes((double)view->leak->looks.classes->list[largest[i]].size, size));
    }
    if (!shown)
        fputs("several sizes", out);
}

/* " in objects of 512 B (exact), class Session (C++ vtable)" */
static void write_object_size(const struct leak_view *view, const struct part *part, FILE *out)
{
    const char *class = class_name(view, part);
    char size[UNITS_TEXT], name[CLASS_COLUMNS];

    fputs(" in objects of ", out);
    if (part->size)
        fputs(units_bytes((double)part->size, size), out);
    else
        write_sizes(view, out);
    fputs(" (exact)", out);
    if (class) {
        fputs(", class ", out);
        text_write_clean(out, short_name(class, name, sizeof name), "");
        fputs(strstr(class, "(Python)") ? "" : " (C++ vtable)", out);
    }
}

/* "grew by 77 MiB in the first 4 s of 12 s, and not since, most of it in objects of 4 KiB (exact)"
 */
static void write_steps(const struct leak_view *view, const struct part *part, FILE *out)
{
    const double seconds = watched_seconds(view);
    const bool stopped = part->since_s > seconds * LATELY;
    char text[UNITS_TEXT], time[UNITS_TEXT], all[UNITS_TEXT];

    units_bytes(part->bytes, text);
    units_duration((uint64_t)(seconds * 1e9), all);
    units_duration((uint64_t)(fmax(seconds - part->since_s, 0) * 1e9), time);
    if (stopped)
        fprintf(out, "grew by %s in the first %s of %s, and not since,", text, time, all);
    else
        fprintf(out, "%s %s in %s, not steadily,", grows_by(view), text, all);
    if (part->size)
        fputs(" most of it", out);
    write_object_size(view, part, out);
    if (view->faults)
        write_touchers(view, GROW_JEMALLOC, part->size, 0, out);
}

/* The sizes that grow, and their growth, bytes. */
static size_t growing_sizes(const struct leak_view *view, double *bytes)
{
    size_t count = 0;

    *bytes = 0;
    for (size_t i = 0; i < view->parts->count; i++) {
        const struct part *part = &view->parts->list[i];
        if (part->size && part->state < PART_ONCE) {
            *bytes += part->bytes;
            count++;
        }
    }
    return count;
}

/* True if the first line has the sum of this part and of others. */
static bool is_of_several(const struct leak_view *view, const struct part *part)
{
    double bytes;

    return part->size && part->state < PART_ONCE && view->parts->list[0].size &&
           growing_sizes(view, &bytes) > 1;
}

/* "grows by 2 MiB/s in objects of 3 sizes, 1.2 MiB/s of it" */
static void write_total(const struct leak_view *view, const struct part *part, FILE *out)
{
    char all[UNITS_TEXT], text[UNITS_TEXT];
    double bytes;
    const size_t count = growing_sizes(view, &bytes);

    fprintf(out, "%s %s in objects of %zu%s sizes, %s of it", grows_by(view),
            growth_rate(view, bytes, all), count, count == PARTS_MAX ? " or more" : "",
            growth_rate(view, part->bytes, text));
}

static void write_objects(const struct leak_view *view, const struct part *part, FILE *out)
{
    char text[UNITS_TEXT];

    if (part->state == PART_UNSTEADY) {
        write_steps(view, part, out);
        return;
    }
    if (part->state == PART_ONCE)
        fprintf(out, "grew once by %s", units_bytes(part->bytes, text));
    else if (is_of_several(view, part) && part > view->parts->list)
        fputs(growth_rate(view, part->bytes, text), out);
    else if (is_of_several(view, part))
        write_total(view, part, out);
    else
        fprintf(out, "%s %s", grows_by(view), growth_rate(view, part->bytes, text));
    write_object_size(view, part, out);
    if (part->stack_count) {
        fputs(part->state == PART_ONE_OF ? ", probably by " : ": ", out);
        write_causes(view, part, out);
    } else if (view->faults) {
        write_touchers(view, GROW_JEMALLOC, part->size, part->bytes, out);
    }
    if (view->samples && part->state == PART_ONE_OF && !has_ended(view))
        write_doubt(view, part, out);
}

/* "grows by 1 MiB/s in anonymous mappings (exact); first touched by: 98 % map_more (x.c:9)" */
static void write_memory(const struct leak_view *view, const struct part *part, FILE *out)
{
    char text[UNITS_TEXT], time[UNITS_TEXT];

    if (part->state < PART_ONCE)
        fprintf(out, "%s %s", grows_by(view), growth_rate(view, part->bytes, text));
    else
        fprintf(out, "%s by %s in %s", part->state == PART_ONCE ? "grew once" : "grew",
                units_bytes(part->bytes, text),
                units_duration((uint64_t)(watched_seconds(view) * 1e9), time));
    if (is_free_memory(view, part) && time_to_tell(view) > 0) {
        fputs(" in jemalloc's heap (exact): free memory or objects, which change too much to tell",
              out);
        write_try(view, time_to_tell(view), out);
        return;
    }
    if (is_free_memory(view, part)) {
        fputs(" in jemalloc's heap, but not in objects in use (exact): free memory in it", out);
        return;
    }
    fprintf(out, " in %s (exact)", grow_kind_words(part->memory));
    write_touchers(view, part->memory, 0, 0, out);
}

static void write_one_part(const struct leak_view *view, const struct part *part, FILE *out)
{
    if (part->kind == PART_OBJECTS)
        write_objects(view, part, out);
    else
        write_memory(view, part, out);
}

/* ---- no part grows ---- */

/* One size may grow while more of others is freed. */
static void write_hidden(const struct leak_view *view, FILE *out)
{
    const struct verdict_class *most = NULL, *classes = view->verdict->classes;
    const struct classes *known = view->leak->looks.classes;
    char change[UNITS_TEXT], size[UNITS_TEXT];

    for (unsigned i = 0; i < known->count; i++)
        if (classes[i].grows && (!most || classes[i].growth > most->growth))
            most = &classes[i];
    if (most)
        fprintf(out, ", but %s in those of %s", units_change(most->growth, change),
                units_bytes((double)known->list[most - classes].size, size));
}

/* "may grow or not: a growth below 5 MiB/s would not show in 10 s; try -d 1m" */
static void write_unsure(const struct leak_view *view, double change, const char *what, FILE *out)
{
    char text[UNITS_TEXT], time[UNITS_TEXT];

    fprintf(out, "may grow or not: a growth below %s would not show in %s",
            growth_rate(view, unseen_growth(view), text),
            units_duration((uint64_t)(watched_seconds(view) * 1e9), time));
    fprintf(out, "; %s %s (exact)", units_change(change, text), what);
    if (view->verdict)
        write_hidden(view, out);
    write_try(view, time_to_tell(view), out);
}

static void write_nothing(const struct leak_view *view, FILE *out)
{
    const struct verdict *verdict = view->verdict;
    char change[UNITS_TEXT], time[UNITS_TEXT], bound[UNITS_TEXT];

    units_duration((uint64_t)(watched_seconds(view) * 1e9), time);
    units_change(verdict->growth, change);
    if (verdict->kind == VERDICT_TOO_SHORT)
        fprintf(out,
                "was watched for too short a time to tell growth from noise: %s in objects in %s "
                "(exact)",
                change, time);
    else if (verdict->kind == VERDICT_UNSTEADY)
        fprintf(out,
                "does not grow steadily: %s in objects in %s (exact), and no size of them grows "
                "for certain",
                change, time);
    else if (verdict->kind == VERDICT_UNSURE)
        write_unsure(view, verdict->growth, "in objects", out);
    else
        fprintf(out, "does not grow: %s in objects in %s (exact)", change, time);
    if (verdict->kind == VERDICT_TOO_SHORT || verdict->kind == VERDICT_UNSTEADY)
        write_try(view, 2 * watched_seconds(view), out);
    if (verdict->kind == VERDICT_NOTHING)
        write_hidden(view, out);
    if (verdict->kind == VERDICT_NOTHING && verdict->bound > 0)
        fprintf(out, "; a growth below %s would not be seen",
                growth_rate(view, verdict->bound, bound));
}

/* Without counts: the memory is the answer. */
static void write_no_growth(const struct leak_view *view, FILE *out)
{
    const struct grow *grow = view->faults ? view->faults->grow : NULL;
    const struct looks *looks = &view->leak->looks;
    const double change =
        looks->count ? (double)looks->list[looks->count - 1].rss - (double)looks->list[0].rss : 0;
    char text[UNITS_TEXT], time[UNITS_TEXT], bound[UNITS_TEXT];

    /* What was touched at the end is in the RSS alone. */
    const double net = grow ? fmax(grow_net(grow), grow_rss(grow)) : 0;

    if (grow && net <= -parts_notable(view->leak, false, GROW_MAPPED)) {
        fprintf(out, "shrinks by %s", growth_rate(view, -net, text));
        return;
    }
    if (time_to_tell(view) > 0) {
        write_unsure(view, change, "of RSS", out);
        return;
    }
    fprintf(out, "does not grow: %s of RSS in %s (exact)", units_change(change, text),
            units_duration((uint64_t)(watched_seconds(view) * 1e9), time));
    if (grow)
        fprintf(out,
                "; a growth below %s, or in memory that its allocator has already, is not seen",
                growth_rate(view, unseen_growth(view), bound));
}

/* What was not seen to its end is not judged. */
static void write_end(const struct leak_view *view, FILE *out)
{
    const struct looks *looks = &view->leak->looks;
    char text[UNITS_TEXT], time[UNITS_TEXT];

    fprintf(out, "%s after %s",
            view->leak->ended.code == FAULT_EXECED ? "was replaced by another program" : "ended",
            units_duration(view->leak->ended_ns - view->leak->began, time));
    if (view->parts->count) {
        fputs("; until then it ", out);
        write_one_part(view, &view->parts->list[0], out);
    } else if (looks->count > 1) {
        const struct look *first = &looks->list[0], *last = &looks->list[looks->count - 1];
        fprintf(out, "; until then: %s of RSS in %s, too little to judge",
                units_change((double)last->rss - (double)first->rss, text),
                units_duration(last->at_ns - first->at_ns, time));
    } else {
        fputs(", before there was anything to compare", out);
    }
}

/* "; the RSS shrank by 12 MiB: free pages were returned" */
static void write_shrunk(const struct leak_view *view, FILE *out)
{
    const struct grow *grow = view->faults ? view->faults->grow : NULL;
    const struct grow_part *heap = grow ? &grow->sum.parts[GROW_JEMALLOC] : NULL;
    char text[UNITS_TEXT];

    if (!grow || grow_rss(grow) > -parts_notable(view->leak, false, GROW_JEMALLOC))
        return;
    fprintf(out, "; the RSS shrank by %s", units_bytes(-grow_rss(grow), text));
    if (view->verdict && heap->now < heap->before)
        fputs(": free pages were returned", out);
}

static void leak_answer(const struct leak_view *view, FILE *out)
{
    char text[ANSWER_BYTES];

    if (has_ended(view)) {
        write_end(view, out);
    } else if (view->parts->count) {
        write_one_part(view, &view->parts->list[0], out);
        write_shrunk(view, out);
    } else if (view->verdict) {
        write_nothing(view, out);
    } else if (view->samples) {
        /* Samples alone: their trends are bounded by the growth of the RSS. */
        growth_answer_text(&view->answer, view->growth, view->samples, view->display, text,
                           sizeof text);
        text_write_clean(out, text, "");
    } else {
        write_no_growth(view, out);
    }
}

/* ---- what the answer rests on ---- */

static void write_seen_rss(const struct leak_view *view, FILE *out)
{
    const struct looks *looks = &view->leak->looks;
    const struct look *first = &looks->list[0], *last = &looks->list[looks->count - 1];
    char texts[4][UNITS_TEXT];

    if (looks->count < 2 || !first->rss || !last->rss)
        return;
    fprintf(out, "RSS: %s -> %s, %s in %s\n", units_bytes((double)first->rss, texts[0]),
            units_bytes((double)last->rss, texts[1]),
            units_change((double)last->rss - (double)first->rss, texts[2]),
            units_duration(last->at_ns - first->at_ns, texts[3]));
}

/* "limit: 400 MiB (its cgroup), 65 MiB left, for about 2 min at this rate" */
static void write_limit(const struct leak_view *view, FILE *out)
{
    const struct looks *looks = &view->leak->looks;
    const struct look *first = &looks->list[0], *last = &looks->list[looks->count - 1];
    const uint64_t left = amount_above(view->use.limit, view->use.used);
    char limit[UNITS_TEXT], space[UNITS_TEXT], time[ROUGH_TIME];
    uint64_t ns;
    bool soon;

    if (looks->count < 2 || !view->use.limit || last->rss <= first->rss)
        return;
    soon = rise_time_left(
        left, (double)(last->rss - first->rss) / (double)(last->at_ns - first->at_ns) * 1e9, &ns);
    if (view->machine && (!soon || ns > DAY_NS))
        return;
    fprintf(out, "limit: %s (%s), %s left, for about %s at this rate\n",
            units_bytes((double)view->use.limit, limit), view->machine ? "machine" : "its cgroup",
            units_bytes((double)left, space),
            time_rough(soon ? ns / 1000000000 : UINT32_MAX, time));
}

static int64_t objects_change(const struct looks *looks, unsigned class)
{
    return (int64_t)(looks->list[looks->count - 1].objects[class] - looks->list[0].objects[class]);
}

/* "objects: +11.7 MiB in use (exact): +11.7 MiB of 512 B, -54 KiB of 6 KiB" */
static void write_classes(const struct leak_view *view, FILE *out)
{
    const struct looks *looks = &view->leak->looks;
    unsigned largest[CLASSES_SHOWN];
    const size_t count = largest_changes(view, largest, view->verbose ? CLASSES_SHOWN : CLASS_ROWS);
    char text[UNITS_TEXT];

    if (view->verdict->growth == 0)
        fputs(count ? "objects: unchanged in sum (exact" : "objects: unchanged (exact", out);
    else
        fprintf(out, "objects: %s in use (exact", units_change(view->verdict->growth, text));
    if (view->verbose)
        fprintf(out, ", %zu looks", looks->count);
    fputc(')', out);
    for (size_t i = 0; i < count; i++) {
        const unsigned class = largest[i];
        fprintf(out, "%s %s", i ? "," : ":",
                units_change(view->verdict->classes[class].growth, text));
        if (view->verbose)
            fprintf(out, " in %" PRId64, objects_change(looks, class));
        fprintf(out, " of %s", units_bytes((double)looks->classes->list[class].size, text));
    }
    fputc('\n', out);
}

/*
 * Memory that was allocated before sampling has no stack. An estimate may exceed
 * what is counted.
 */
static void write_coverage(const struct leak *leak, FILE *out)
{
    const double whole = leak_covered_whole(leak), percent = leak_covered_percent(leak);
    char sampled[UNITS_TEXT], of[UNITS_TEXT];

    units_bytes(leak->sampled, sampled);
    units_bytes(whole, of);
    if (whole > 0 && percent >= 100)
        fprintf(out, "covered: the samples represent %s, about all that is allocated (%s)\n",
                sampled, of);
    else if (whole > 0)
        fprintf(out,
                "covered: the samples represent %s, %.1f %% of %s; memory allocated before "
                "sampling started is not covered\n",
                sampled, percent, of);
    else
        fprintf(out,
                "covered: the samples represent %s; memory allocated before sampling started is "
                "not covered\n",
                sampled);
}

/* Those of fewer than one in a hundred change no answer. */
static void write_unread(const struct looks *looks, FILE *out)
{
    size_t unread = 0;

    for (size_t i = 0; i < looks->seen_count; i++)
        unread += looks->seen[i].stack == TABLE_NONE;
    if (unread * 100 > looks->seen_count)
        fprintf(out, "lost: the stacks of %.0f %% of the sampled objects cannot be read\n",
                100 * (double)unread / (double)looks->seen_count);
}

static void write_sampled_sum(const struct leak_view *view, FILE *out)
{
    const struct leak *leak = view->leak;
    const struct growth *growth = view->growth;
    char grown[DISPLAY_NUMBER_SIZE], shrunk[DISPLAY_NUMBER_SIZE], error[DISPLAY_NUMBER_SIZE],
        time[UNITS_TEXT];

    fprintf(out, "sampled for %s: gains of %s, losses of %s, error of the sum about %s\n",
            units_duration(sampling_ns(&leak->sampling), time),
            display_bytes(view->display, (double)growth->grown, grown),
            display_bytes(view->display, (double)-growth->shrunk, shrunk),
            display_bytes(view->display, growth->error, error));
}

/* ---- what to do next ---- */

/* True of memory that is not jemalloc's. */
static bool is_of_others(const struct part *part)
{
    return part->kind == PART_MEMORY && part->memory != GROW_JEMALLOC;
}

/* True if with -v the screen would have whole stacks that it cuts now. */
static bool cuts_stacks(const struct leak_view *view, const struct part *part)
{
    return !view->verbose && view->faults && is_of_others(part) &&
           view->faults->grow->sum.parts[part->memory].samples > 0;
}

/* Prints one command, and what it gives. */
static void print_next(const struct leak_view *view, FILE *out)
{
    const int pid = (int)view->attachment->target.pid;
    const struct part *part = view->parts->count ? &view->parts->list[0] : NULL;
    const double seconds = part ? time_for(view, part) : 0,
                 tell = !part || is_free_memory(view, part) ? time_to_tell(view) : 0;
    const char *shows = "what fills it";
    struct language_hint hint;
    char time[UNITS_TEXT], command[ADVICE_COMMAND], reason[256];

    snprintf(command, sizeof command, "jeattach %d", pid);
    if (view->leak->ended.code == FAULT_EXECED) {
        shows = "the program that it is now";
    } else if (has_ended(view)) {
        strcpy(command, "jeattach ps");
        shows = "which processes run";
    } else if (view->faults && (!part || is_of_others(part)) &&
               grow_language_hint(view->faults, &hint)) {
        snprintf(reason, sizeof reason, "this shows %s%s%s%s", hint.shows, hint.needs ? " (" : "",
                 hint.needs ? hint.needs : "", hint.needs ? ")" : "");
        advice_print_next(hint.command, reason, out);
        return;
    } else if (seconds > 0) {
        snprintf(command, sizeof command, "jeattach leak %d -d %s", pid,
                 longer_time(seconds, time));
        shows = part->stack_count > 1 ? "which of these stacks it is" : "which calls keep them";
    } else if (tell > 0 && watched_seconds(view) < PATIENCE) {
        snprintf(command, sizeof command, "jeattach leak %d -d %s", pid, longer_time(tell, time));
        shows = "a slower growth";
    } else if (part && part->kind == PART_OBJECTS) {
        snprintf(command, sizeof command, "jeattach peek %d", pid);
        shows = "what these objects are";
    } else if (part && is_free_memory(view, part)) {
        snprintf(command, sizeof command, "jeattach %s %d", view->wasteful ? "frag" : "stats", pid);
        shows = view->wasteful ? "which objects keep it" : "its parts";
    } else if (part && cuts_stacks(view, part)) {
        snprintf(command, sizeof command, "jeattach leak %d -d %s -v", pid,
                 longer_time(watched_seconds(view), time));
        shows = "the whole stacks";
    } else if (!part && view->wasteful) {
        snprintf(command, sizeof command, "jeattach frag %d", pid);
        shows = "which objects keep free memory from being returned";
    } else if (!part && view->leak->request.duration_ns < LONG_NS) {
        snprintf(command, sizeof command, "jeattach leak %d -d %s", pid,
                 longer_time((double)view->leak->request.duration_ns / 1e9 * 4, time));
        shows = "a slower growth";
    }
    snprintf(reason, sizeof reason, "this shows %s", shows);
    advice_print_next(command, reason, out);
}

/* ---- the screen ---- */

/* The answer and what it rests on: all before the table. */
static void print_head(const struct leak_view *view, FILE *out)
{
    const bool colors = view->display->colors;
    const size_t parts =
        view->verbose || view->parts->count <= ALSO + 1 ? view->parts->count : ALSO + 1;
    char own[OWN_LIMIT_TEXT];
    struct wrap wrap;
    FILE *lines = wrap_begin(&wrap, out);

    text_write_clean(lines, view->attachment->target.stat.comm, "");
    fprintf(lines, "[%d] ", (int)view->attachment->target.pid);
    leak_answer(view, lines);
    fputc('\n', lines);
    fputs(colors ? "\033[1m" : "", out);
    wrap_end(&wrap, 0, out);
    fputs(colors ? "\033[0m" : "", out);

    lines = wrap_begin(&wrap, out);
    for (size_t i = 1; i < parts; i++) {
        fputs(is_of_several(view, &view->parts->list[i]) ? "of it " : "also ", lines);
        write_one_part(view, &view->parts->list[i], lines);
        fputc('\n', lines);
    }
    if (parts < view->parts->count)
        fprintf(lines, "also %zu smaller part%s (-v)\n", view->parts->count - parts,
                view->parts->count - parts == 1 ? "" : "s");
    if (view->faults && !has_ended(view))
        grow_write_parts(view->faults, lines);
    else
        write_seen_rss(view, lines);
    if (parts && !has_ended(view) && view->parts->list[0].state < PART_ONCE)
        write_limit(view, lines);
    if (view->faults && parts && !has_ended(view) &&
        own_limit_text(&view->own_limit, view->attachment->target.stat.comm, own))
        fprintf(lines, "own limit: %s\n", own);
    if (view->verdict)
        write_classes(view, lines);
    if (view->samples)
        write_unread(&view->leak->looks, lines);
    if (view->samples && view->verbose) {
        write_coverage(view->leak, lines);
        write_sampled_sum(view, lines);
    }
    wrap_end(&wrap, 2, out);
}

/* True if samples are evidence for the first line: under "does not grow", no growth is shown. */
static bool shows_samples(const struct leak_view *view, const struct part *part)
{
    if (part)
        return !is_of_others(part);
    if (view->verdict)
        return view->verdict->kind == VERDICT_TOO_SHORT; /* which is no answer yet */
    return view->answer.verdict != GROWTH_NONE;
}

/* Of the first part alone: the pages of others are no evidence for it. */
static void print_table(const struct leak_view *view, size_t rows, FILE *out)
{
    const struct part *part = view->parts->count ? &view->parts->list[0] : NULL;
    struct display display = *view->display;

    if (!view->rows_given)
        display.rows = rows;
    if (view->samples && !(part && is_of_others(part)) &&
        (view->verbose || view->rows_given || shows_samples(view, part)))
        growth_write(view->growth, view->samples, &display, view->verbose, out);
    else if (view->faults && view->verbose)
        grow_write_table(view->faults, GROW_KINDS, 0, grow_net(view->faults->grow), view->rows,
                         out);
    else if (view->faults && part)
        grow_write_table(view->faults, part->kind == PART_OBJECTS ? GROW_JEMALLOC : part->memory,
                         part->size, part->bytes, view->rows_given ? view->rows : rows, out);
}

/* The table has the lines that are left: besides its rows a heading, and the sum of the others. */
void leak_print(const struct leak_view *view, FILE *out)
{
    AUTO_FREE char *head = NULL;
    size_t len, used = 0;
    FILE *memory = open_memstream(&head, &len);

    if (memory)
        print_head(view, memory);
    if (!memory || fclose(memory) != 0)
        return;
    for (const char *at = head; (at = strchr(at, '\n')); at++)
        used++;
    fputs(head, out);
    print_table(view,
                view->verbose                   ? view->rows
                : used + 3 + ROWS_LEAST < LINES ? LINES - 3 - used
                                                : ROWS_LEAST,
                out);
    print_next(view, out);
}

/* ---- JSON ---- */

static const char *part_word(const struct part *part)
{
    static const char *const words[] = {[PART_GROWS] = "grows",
                                        [PART_ONE_OF] = "one_of",
                                        [PART_ONCE] = "once",
                                        [PART_UNSTEADY] = "unsteady"};

    return words[part->state];
}

/* NULL: it has not ended. */
static const char *end_word(const struct leak_view *view)
{
    return !has_ended(view) ? NULL : view->leak->ended.code == FAULT_EXECED ? "replaced" : "ended";
}

/* NULL: it is not judged. */
static const char *verdict_word(const struct leak_view *view)
{
    static const char *const kinds[] = {[VERDICT_TOO_SHORT] = "too_short",
                                        [VERDICT_UNSURE] = "cannot_tell",
                                        [VERDICT_NOTHING] = "nothing",
                                        [VERDICT_UNSTEADY] = "unsteady"};
    static const char *const trends[] = {[GROWTH_NONE] = "nothing",
                                         [GROWTH_STOPPED] = "once",
                                         [GROWTH_ONE_OF] = "one_of",
                                         [GROWTH_GOES_ON] = "grows"};

    if (has_ended(view))
        return NULL;
    if (view->parts->count)
        return part_word(&view->parts->list[0]);
    if (view->verdict)
        return view->verdict->kind < VERDICT_ONCE ? kinds[view->verdict->kind] : "unsteady";
    if (!view->samples)
        return time_to_tell(view) > 0 ? "cannot_tell" : "nothing";
    return trends[view->answer.verdict];
}

static void json_growing(const struct leak_view *view, const struct part *part, struct json *json)
{
    json_item_begin(json);
    JSON_MEMBERS(
        json, TEXT("kind", part->kind == PART_OBJECTS ? "objects" : grow_kind_name(part->memory)),
        TEXT("verdict", part_word(part)), NUMBER_IF(part->size, "size", part->size),
        TEXT_OR_NULL("class", class_name(view, part)), ROUNDED("bytes", trunc(part->bytes)),
        ROUNDED("error", trunc(part->error)),
        ROUNDED("bytes_per_s", trunc(part->bytes / fmax(watched_seconds(view), 1e-3))),
        TEXT("evidence", "exact"),
        ROUNDED_IF(part->class && part->class->wait_s > 0, "wait_s", ceil(part->class->wait_s)));
    json_list_begin(json, "stacks");
    if (part->kind == PART_MEMORY) {
        grow_touchers_json(view->faults, part->memory, 0, json);
        json_list_end(json);
        json_item_end(json);
        return;
    }
    if (!part->stack_count && view->faults)
        grow_touchers_json(view->faults, GROW_JEMALLOC, part->size, json);
    for (size_t i = 0; i < part->stack_count; i++) {
        const struct part_stack *stack = &part->stacks[i];
        json_item_begin(json);
        JSON_MEMBERS(json, ROUNDED("low", trunc(stack->low)), ROUNDED("high", trunc(stack->high)),
                     TEXT("evidence", "samples"));
        stack_json(json, "stack", view->samples, &view->samples->list[stack->sample]);
        json_item_end(json);
    }
    json_list_end(json);
    JSON_MEMBERS(json, NUMBER("more_stacks", part->more),
                 FLAG("or_unseen", part->state == PART_ONE_OF && part->unseen));
    json_item_end(json);
}

static void json_objects(const struct leak_view *view, struct json *json)
{
    const struct looks *looks = &view->leak->looks;
    unsigned largest[CLASSES_SHOWN];

    if (!view->verdict) {
        json_null(json, "objects");
        return;
    }
    json_object_begin(json, "objects");
    JSON_MEMBERS(json, ROUNDED("bytes", trunc(view->verdict->growth)),
                 ROUNDED("error", trunc(view->verdict->error)),
                 ROUNDED("unseen", trunc(view->verdict->bound)));
    json_list_begin(json, "sizes");
    for (size_t i = 0, count = largest_changes(view, largest, CLASSES_SHOWN); i < count; i++)
        JSON_ITEM(json, NUMBER("size", looks->classes->list[largest[i]].size),
                  SIGNED("objects", objects_change(looks, largest[i])),
                  ROUNDED("bytes", trunc(view->verdict->classes[largest[i]].growth)));
    json_list_end(json);
    json_object_end(json);
}

void leak_json(const struct leak_view *view, struct json *json)
{
    AUTO_FREE char *answer = NULL;
    size_t len = 0;
    FILE *memory = open_memstream(&answer, &len);

    if (memory)
        leak_answer(view, memory);
    if (memory)
        fclose(memory);
    JSON_MEMBERS(
        json, TEXT_OR_NULL("verdict", verdict_word(view)), TEXT_OR_NULL("ended", end_word(view)),
        TEXT("answer", answer ? answer : ""),
        TEXT("evidence", view->verdict   ? "exact"
                         : view->samples ? "samples"
                                         : "rss"),
        NUMBER("looks", view->leak->looks.count),
        NUMBER_IF(view->use.limit, "limit", view->use.limit),
        NUMBER_IF(view->use.limit, "limit_left", amount_above(view->use.limit, view->use.used)));
    json_objects(view, json);
    json_list_begin(json, "parts");
    for (size_t i = 0; i < view->parts->count; i++)
        json_growing(view, &view->parts->list[i], json);
    json_list_end(json);
}
