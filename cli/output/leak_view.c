#include "cli/output/leak_view.h"
#include "base/text.h"
#include "base/units.h"
#include "base/util.h"
#include "cli/output/attachment_json.h"
#include "cli/output/wrap.h"
#include "profile/views/call_label.h"
#include "profile/views/growth.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { CLASS_ROWS = 3, CLASSES_SHOWN = 10, ANSWER_BYTES = 1024 };

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
        fputs(i ? ", " : ": ", out);
        text_write_clean(out, stack_place(view, stack, place), "");
        if (part->state == PART_ONE_OF || alone)
            continue;
        fprintf(out, " %s to %s", growth_rate(view, stack->low, low),
                growth_rate(view, fmin(stack->high, part->bytes + part->error), high));
    }
    if (part->more)
        fprintf(out, " and %zu more stack%s", part->more, part->more == 1 ? "" : "s");
    if (part->stack_count && part->state == PART_ONE_OF && part->unseen)
        fputs(", or one that no sample shows", out);
    if (part->stack_count)
        write_common_caller(view, part, out);
    fputs(part->stack_count ? " (samples)" : "", out);
}

/* Why it is not known which stack it is, and when it will be. */
static void write_doubt(const struct leak_view *view, const struct part *part, FILE *out)
{
    const struct verdict_class *class = part->class;
    char time[UNITS_TEXT];

    if (!class || !view->samples)
        return;
    if (class->unsampled)
        fputs("; more than the samples can account for: by threads that are not sampled", out);
    else if (!part->stack_count && class->unseen)
        fputs("; no such object has been sampled yet", out);
    else if (class->older >= 1 && class->older_per_s >= 1)
        fprintf(out,
                "; %.0f objects of that size, allocated before and unknown to the samples, are "
                "freed each second, and about %.0f are left",
                class->older_per_s, class->older);
    if (class->wait_s > 0)
        fprintf(out, "; sampling for about %s more can tell%s",
                units_duration((uint64_t)ceil(class->wait_s) * 1000000000, time),
                part->stack_count > 1 ? " them apart" : "");
}

static void write_object_size(const struct part *part, FILE *out)
{
    char size[UNITS_TEXT];

    if (part->size)
        fprintf(out, " in objects of %s (exact)", units_bytes((double)part->size, size));
    else
        fputs(" in objects of several sizes (exact)", out);
}

/* "grew by 77 MiB in 12 s, not steadily: most of it in objects of 4 KiB (exact), until 8 s ago" */
static void write_steps(const struct leak_view *view, const struct part *part, FILE *out)
{
    char text[UNITS_TEXT], time[UNITS_TEXT];

    fprintf(out, "grew by %s in %s, not steadily", units_bytes(part->bytes, text),
            units_duration((uint64_t)(watched_seconds(view) * 1e9), time));
    if (part->size)
        fputs(", most of it", out);
    write_object_size(part, out);
    if (part->since_s > watched_seconds(view) * LATELY)
        fprintf(out, ", until %s ago", units_duration((uint64_t)(part->since_s * 1e9), time));
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
    else
        fprintf(out, "grows by %s", growth_rate(view, part->bytes, text));
    write_object_size(part, out);
    if (part->state == PART_ONE_OF && part->stack_count)
        fputs(part->stack_count + part->unseen > 1 ? ", by one of" : ", perhaps by", out);
    write_causes(view, part, out);
    if (!view->samples)
        fputs("; only samples show which calls keep them", out);
    else if (part->state == PART_ONE_OF)
        write_doubt(view, part, out);
}

/* "grows by 1 MiB/s in anonymous mappings (exact); first touched by: 98 % map_more (x.c:9)" */
static void write_memory(const struct leak_view *view, const struct part *part, FILE *out)
{
    char text[UNITS_TEXT], time[UNITS_TEXT];

    if (part->state == PART_GROWS)
        fprintf(out, "grows by %s", growth_rate(view, part->bytes, text));
    else
        fprintf(out, "%s by %s in %s", part->state == PART_ONCE ? "grew once" : "grew",
                units_bytes(part->bytes, text),
                units_duration((uint64_t)(watched_seconds(view) * 1e9), time));
    if (part->memory == GROW_JEMALLOC && view->verdict) {
        fputs(" in jemalloc's heap, but not in objects in use (exact): free memory; jeattach frag "
              "shows its parts",
              out);
        return;
    }
    fprintf(out, " in %s (exact)", grow_kind_words(part->memory));
    /* Who touches a page first is who keeps it, unless an allocator has it in between. */
    if (grow_write_touchers(view->faults, part->memory, out))
        fputs(part->handed_on ? " (faults); an allocator may have given it to others since"
                              : " (faults)",
              out);
}

static void write_one_part(const struct leak_view *view, const struct part *part, FILE *out)
{
    if (part->kind == PART_OBJECTS)
        write_objects(view, part, out);
    else
        write_memory(view, part, out);
}

/* ---- no part grows ---- */

static void write_nothing(const struct leak_view *view, FILE *out)
{
    const struct verdict *verdict = view->verdict;
    char change[UNITS_TEXT], time[UNITS_TEXT], bound[UNITS_TEXT];

    units_duration((uint64_t)(watched_seconds(view) * 1e9), time);
    units_change(verdict->growth, change);
    if (verdict->kind == VERDICT_TOO_SHORT)
        fprintf(out,
                "was watched for too short a time to tell growth from noise: %s in objects in %s "
                "(exact); try -d 10s",
                change, time);
    else if (verdict->kind == VERDICT_UNSTEADY)
        fprintf(out,
                "does not grow steadily: %s in objects in %s (exact), and no size of them grows "
                "for certain; look for longer (-d)",
                change, time);
    else
        fprintf(out, "does not grow: %s in objects in %s (exact)", change, time);
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

    if (grow && grow_net(grow) <= -parts_notable(view->leak, NULL, GROW_MAPPED)) {
        fprintf(out, "shrinks by %s", growth_rate(view, -grow_net(grow), text));
        return;
    }
    fprintf(out, "does not grow: %s of RSS in %s (exact)", units_change(change, text),
            units_duration((uint64_t)(watched_seconds(view) * 1e9), time));
    if (grow)
        fprintf(out,
                "; a growth below %s, or in memory that its allocator has already, is not seen",
                growth_rate(view, parts_notable(view->leak, NULL, GROW_LIBC), bound));
}

void leak_answer(const struct leak_view *view, FILE *out)
{
    struct growth_answer answer;
    char text[ANSWER_BYTES];

    if (view->parts->count) {
        write_one_part(view, &view->parts->list[0], out);
    } else if (view->verdict) {
        write_nothing(view, out);
    } else if (view->samples) {
        /* Samples alone: their trends are bounded by the growth of the RSS. */
        growth_answer_choose(&answer, view->growth, view->samples);
        growth_answer_text(&answer, view->growth, view->samples, view->display, text, sizeof text);
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

static int64_t objects_change(const struct looks *looks, unsigned class)
{
    return (int64_t)(looks->list[looks->count - 1].objects[class] - looks->list[0].objects[class]);
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

/* "jemalloc: +11.7 MiB in objects in use (exact): +11.7 MiB in 23,930 of 512 B, ..." */
static void write_classes(const struct leak_view *view, FILE *out)
{
    const struct looks *looks = &view->leak->looks;
    unsigned largest[CLASS_ROWS];
    const size_t count = largest_changes(view, largest, CLASS_ROWS);
    char text[UNITS_TEXT];

    fprintf(out, "jemalloc: %s in objects in use (exact, %zu looks)",
            units_change(view->verdict->growth, text), looks->count);
    for (size_t i = 0; i < count; i++) {
        const unsigned class = largest[i];
        fprintf(out, "%s %s in %" PRId64 " of ", i ? "," : ":",
                units_change(view->verdict->classes[class].growth, text),
                objects_change(looks, class));
        fputs(units_bytes((double)looks->classes->list[class].size, text), out);
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

static void write_sampled_sum(const struct leak_view *view, FILE *out)
{
    const struct leak *leak = view->leak;
    const struct growth *growth = view->growth;
    char grown[DISPLAY_NUMBER_SIZE], shrunk[DISPLAY_NUMBER_SIZE], error[DISPLAY_NUMBER_SIZE],
        time[UNITS_TEXT];

    fprintf(out, "sampled for %s: grew by %s, shrank by %s, error of the sum about %s\n",
            units_duration(sampling_ns(&leak->sampling), time),
            display_bytes(view->display, (double)growth->grown, grown),
            display_bytes(view->display, (double)-growth->shrunk, shrunk),
            display_bytes(view->display, growth->error, error));
}

void leak_print(const struct leak_view *view, FILE *out)
{
    const struct target *target = &view->attachment->target;
    const bool colors = view->display->colors;
    struct wrap wrap;
    FILE *lines = wrap_begin(&wrap, out);

    text_write_clean(lines, target->stat.comm, "");
    fprintf(lines, "[%d] ", (int)target->pid);
    leak_answer(view, lines);
    fputc('\n', lines);
    fputs(colors ? "\033[1m" : "", out);
    wrap_end(&wrap, 0, out);
    fputs(colors ? "\033[0m" : "", out);

    lines = wrap_begin(&wrap, out);
    for (size_t i = 1; i < view->parts->count; i++) {
        fputs("also ", lines);
        write_one_part(view, &view->parts->list[i], lines);
        fputc('\n', lines);
    }
    if (view->faults)
        grow_write_parts(view->faults, lines);
    else
        write_seen_rss(view, lines);
    if (view->verdict)
        write_classes(view, lines);
    if (view->samples) {
        write_coverage(view->leak, lines);
        write_sampled_sum(view, lines);
    }
    wrap_end(&wrap, 2, out);

    if (view->samples)
        growth_write(view->growth, view->samples, view->display, out);
    else if (view->faults)
        grow_write_table(view->faults, out);
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

static const char *verdict_word(const struct leak_view *view)
{
    static const char *const kinds[] = {[VERDICT_TOO_SHORT] = "too_short",
                                        [VERDICT_NOTHING] = "nothing",
                                        [VERDICT_UNSTEADY] = "unsteady"};
    static const char *const trends[] = {[GROWTH_NONE] = "nothing",
                                         [GROWTH_STOPPED] = "once",
                                         [GROWTH_ONE_OF] = "one_of",
                                         [GROWTH_GOES_ON] = "grows"};
    struct growth_answer answer;

    if (view->parts->count)
        return part_word(&view->parts->list[0]);
    if (view->verdict)
        return view->verdict->kind < VERDICT_ONCE ? kinds[view->verdict->kind] : "unsteady";
    if (!view->samples)
        return "nothing";
    growth_answer_choose(&answer, view->growth, view->samples);
    return trends[answer.verdict];
}

static void json_growing(const struct leak_view *view, const struct part *part, struct json *json)
{
    json_item_begin(json);
    json_text(json, "kind", part->kind == PART_OBJECTS ? "objects" : grow_kind_name(part->memory));
    json_text(json, "verdict", part_word(part));
    json_number_or_null(json, "size", part->size, part->size);
    json_rounded(json, "bytes", trunc(part->bytes));
    json_rounded(json, "error", trunc(part->error));
    json_rounded(json, "bytes_per_s", trunc(part->bytes / fmax(watched_seconds(view), 1e-3)));
    json_text(json, "evidence", "exact");
    if (part->class && part->class->wait_s > 0)
        json_rounded(json, "wait_s", ceil(part->class->wait_s));
    else
        json_null(json, "wait_s");
    if (part->kind == PART_MEMORY) {
        grow_touchers_json(view->faults, part->memory, json);
        json_item_end(json);
        return;
    }
    json_list_begin(json, "stacks");
    for (size_t i = 0; i < part->stack_count; i++) {
        const struct part_stack *stack = &part->stacks[i];
        json_item_begin(json);
        json_rounded(json, "low", trunc(stack->low));
        json_rounded(json, "high", trunc(stack->high));
        json_text(json, "evidence", "samples");
        stack_json(json, "stack", view->samples, &view->samples->list[stack->sample]);
        json_item_end(json);
    }
    json_list_end(json);
    json_number(json, "more_stacks", part->more);
    json_bool(json, "or_unseen", part->state == PART_ONE_OF && part->unseen);
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
    json_rounded(json, "bytes", trunc(view->verdict->growth));
    json_rounded(json, "error", trunc(view->verdict->error));
    json_rounded(json, "unseen", trunc(view->verdict->bound));
    json_list_begin(json, "sizes");
    for (size_t i = 0, count = largest_changes(view, largest, CLASSES_SHOWN); i < count; i++) {
        json_item_begin(json);
        json_number(json, "size", looks->classes->list[largest[i]].size);
        json_signed(json, "objects", objects_change(looks, largest[i]));
        json_rounded(json, "bytes", trunc(view->verdict->classes[largest[i]].growth));
        json_item_end(json);
    }
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
    json_text(json, "verdict", verdict_word(view));
    json_text(json, "answer", answer ? answer : "");
    json_text(json, "evidence", view->verdict ? "exact" : view->samples ? "samples" : "rss");
    json_number(json, "looks", view->leak->looks.count);
    json_objects(view, json);
    json_list_begin(json, "parts");
    for (size_t i = 0; i < view->parts->count; i++)
        json_growing(view, &view->parts->list[i], json);
    json_list_end(json);
}
