#include "cli/output/frag_view.h"
#include "base/text.h"
#include "base/units.h"
#include "base/util.h"
#include "cli/message.h"
#include "cli/output/advice.h"
#include "cli/output/attachment_json.h"
#include "cli/output/usage.h"
#include "cli/output/wrap.h"
#include "profile/stack_text.h"
#include "profile/views/call_label.h"
#include "run/faults.h"

#include <math.h>
#include <string.h>

enum {
    ROWS_DEFAULT = 10,
    ANSWER_BYTES = PLACE_TEXT_SIZE + COMMON_TEXT_SIZE + 256,
    LINE_STACK = 80 - CALL_INDENT,
};

/* With fewer samples than these in the mean, a stack of any size may have none. */
enum { SAMPLES_FEW = 8 };

/* ---- the parts ---- */

/* Those of the account, and what of it is free. */
struct parts {
    struct account_sum sum;
    uint64_t waste;
};

static struct parts make_parts(const struct frag_view *view)
{
    struct parts parts = {.sum = account_sum_up(&view->frag->account)};

    parts.waste = account_waste(&parts.sum);
    return parts;
}

/* ---- the answer ---- */

#define add_words(out, ...) text_append(out, ANSWER_BYTES, __VA_ARGS__)

/* "38 MiB of it is free space in" */
static void add_part(const struct frag_view *view, double bytes, bool is_about, char *out)
{
    char text[DISPLAY_NUMBER_SIZE];

    add_words(out, "%s%s of it is free space in", is_about ? "about " : "",
              display_bytes(view->display, bytes, text));
}

/* The error is more than half of it. */
static bool is_rough(const struct waste_row *row)
{
    return row->error > (double)row->bytes / 2;
}

/* Another stack may have more of the objects that are not in full slabs, whatever the sampling. */
static bool is_unsure(const struct waste_row *row)
{
    return row->least + row->error < (double)row->bytes / 2;
}

/* Of the counts. */
static const char *evidence(const struct frag_view *view)
{
    return view->frag->account.counted.share < 1 ? " (estimate)" : " (exact)";
}

/* Why no stack is known, a clause. */
static const char *why_no_stack(const struct frag_view *view)
{
    if (view->samples && !view->samples->count)
        return "the profile has no sample";
    if (view->samples)
        return "no sample is of them";
    if (view->frag->why == FAULT_UNREADABLE)
        return "the profile cannot be read from memory";
    return view->frag->why == FAULT_PROF_ABSENT
               ? "this jemalloc was built without profiling (config.prof)"
               : "profiling was not enabled (opt.prof)";
}

/* The stack that has most objects, if many of them may be in full slabs, is only the likeliest. */
static void describe_unsure(const struct frag_view *view, char out[ANSWER_BYTES])
{
    const struct waste_row *row = &view->waste->rows[0];
    const struct waste_class *class = &view->waste->classes[row->class];
    char place[PLACE_TEXT_SIZE], size[UNITS_TEXT];

    if (row->sample == TABLE_NONE)
        strcpy(place, row->own ? "jemalloc itself" : "objects that were not sampled");
    else
        place_text(view->samples, &view->samples->list[row->sample], place);
    add_part(view, (double)waste_bytes(class), false, out);
    add_words(out,
              " slabs of objects of %s; it is not known which stack keeps them: most objects are "
              "of %s, but %.0f %% of all are in full slabs (samples)",
              units_bytes((double)class->size, size), place, 100 * waste_full_part(class));
}

/* The free space that one stack keeps in the slabs of all sizes. */
struct keeper {
    const struct waste_row *row; /* its largest; NULL: no stack keeps more than a row without one */
    double bytes, error;
    size_t sizes; /* classes that hold a tenth of it or more */
};

/* The stack of a row that is unsure is only the likeliest: it is not summed up. */
static struct keeper find_keeper(const struct waste *waste)
{
    struct keeper most = {.row = NULL};
    size_t stacks = 0;

    for (size_t i = 0; i < waste->count; i++)
        if (waste->rows[i].sample != TABLE_NONE && waste->rows[i].stack >= stacks)
            stacks = (size_t)waste->rows[i].stack + 1;
    AUTO_FREE double *sums = calloc(stacks + 1, sizeof *sums);
    for (size_t i = 0; sums && i < waste->count; i++)
        if (waste->rows[i].sample != TABLE_NONE && !is_unsure(&waste->rows[i]))
            sums[waste->rows[i].stack] += (double)waste->rows[i].bytes;
    for (size_t i = 0; sums && i < waste->count; i++)
        if (waste->rows[i].sample != TABLE_NONE && sums[waste->rows[i].stack] > most.bytes)
            most = (struct keeper){&waste->rows[i], sums[waste->rows[i].stack], 0, 0};
    for (size_t i = 0; most.row && i < waste->count; i++)
        if (waste->rows[i].stack == most.row->stack && !is_unsure(&waste->rows[i])) {
            most.error = hypot(most.error, waste->rows[i].error);
            most.sizes += (double)waste->rows[i].bytes * 10 >= most.bytes;
        }
    if (!sums || (waste->count && most.bytes < (double)waste->rows[0].bytes))
        most.row = NULL;
    return most;
}

/* Below which caller most stacks are that keep slabs. */
static const char *common_keeper(const struct frag_view *view, char out[COMMON_TEXT_SIZE])
{
    AUTO_FREE double *weights = calloc(view->samples->count + 1, sizeof *weights);

    out[0] = '\0';
    for (size_t i = 0; weights && i < view->waste->count; i++)
        if (view->waste->rows[i].sample != TABLE_NONE)
            weights[view->waste->rows[i].sample] += (double)view->waste->rows[i].bytes;
    return weights ? common_caller_text(view->samples, weights, out) : out;
}

static void describe_slabs(const struct frag_view *view, char out[ANSWER_BYTES])
{
    const struct waste_row *row = &view->waste->rows[0];
    char place[PLACE_TEXT_SIZE], common[COMMON_TEXT_SIZE], size[UNITS_TEXT];
    const struct keeper keeper = find_keeper(view->waste);

    if (keeper.row && keeper.sizes > 1) {
        add_part(view, keeper.bytes, keeper.error > keeper.bytes / 2, out);
        add_words(out, " slabs of %zu sizes, which objects of %s keep%s (samples)", keeper.sizes,
                  place_text(view->samples, &view->samples->list[keeper.row->sample], place),
                  common_keeper(view, common));
        return;
    }
    if (is_unsure(row)) {
        describe_unsure(view, out);
        return;
    }
    add_part(view, (double)row->bytes, is_rough(row), out);
    units_bytes((double)view->waste->classes[row->class].size, size);
    if (row->sample == TABLE_NONE)
        add_words(out, " slabs of objects of %s%s; which stacks keep them is not known: %s", size,
                  evidence(view), why_no_stack(view));
    else
        add_words(out, " slabs of objects of %s, which objects of %s keep%s (samples)", size,
                  place_text(view->samples, &view->samples->list[row->sample], place),
                  common_keeper(view, common));
}

/* What follows the name of the process. */
static const char *describe_answer(const struct frag_view *view, const struct parts *parts,
                                   char out[ANSWER_BYTES])
{
    const enum account_part most = account_most_waste(&parts->sum);
    char waste[DISPLAY_NUMBER_SIZE], text[DISPLAY_NUMBER_SIZE];

    out[0] = '\0';
    display_bytes(view->display, (double)parts->waste, waste);
    if (most == ACCOUNT_PARTS) {
        add_words(out, "wastes little: %s of %s is free memory of jemalloc%s", waste,
                  display_bytes(view->display, (double)parts->sum.whole, text), evidence(view));
        return out;
    }
    add_words(out, "wastes %s: ", waste);
    if (most == ACCOUNT_SLABS && view->waste->count)
        describe_slabs(view, out);
    else
        add_words(out, "%s of it is %s%s%s",
                  display_bytes(view->display, (double)parts->sum.bytes[most], text),
                  usage_parts[most].words, usage_parts[most].remark, evidence(view));
    return out;
}

/* ---- the table of parts ---- */

static void print_frag_parts(const struct frag_view *view, const struct parts *parts, FILE *out)
{
    char text[DISPLAY_NUMBER_SIZE];

    fprintf(out, "RSS %s:\n", display_bytes(view->display, (double)parts->sum.whole, text));
    usage_print_parts(&view->frag->account, out);
    if (account_most_waste(&parts->sum) == ACCOUNT_SLABS)
        fputs("a slab is returned only when all objects in it are freed\n", out);
}

/* ---- the table of stacks ---- */

/* True if chance alone may have taken no sample of so few objects. */
static bool is_few(const struct frag_view *view, const struct waste_row *row, double *expected)
{
    *expected =
        waste_expected(&view->waste->classes[row->class], row->objects, view->samples->period);
    return *expected < SAMPLES_FEW;
}

/*
 * Writes the stack in one line, or all its calls, one below the other. Returns the number of those
 * left out.
 */
static uint32_t print_frag_calls(const struct frag_view *view, const struct waste_row *row,
                                 FILE *out)
{
    double expected;

    if (row->sample == TABLE_NONE) {
        fprintf(out, "%*s", CALL_INDENT, "");
        if (row->own)
            fputs("[jemalloc's own data about samples]\n", out);
        else if (!is_few(view, row, &expected))
            fputs("[not sampled]\n", out);
        else if (expected < 1)
            fputs("[not sampled: less than 1 sample is expected of these]\n", out);
        else
            fprintf(out, "[not sampled: only %.0f %s expected of these]\n", expected,
                    expected < 1.5 ? "sample is" : "samples are");
        return 0;
    }
    if (!view->verbose) {
        fprintf(out, "%*s", CALL_INDENT, "");
        stack_line(view->samples, &view->samples->list[row->sample], LINE_STACK, out);
        fputc('\n', out);
        return 0;
    }
    const uint32_t left_out =
        stack_lines(view->samples, &view->samples->list[row->sample], view->display->depth, out);
    fputc('\n', out);
    return left_out;
}

static uint32_t print_stack(const struct frag_view *view, const struct waste_row *row, FILE *out)
{
    const struct waste_class *class = &view->waste->classes[row->class];
    /* How much of the space in the slabs of the class is in use. */
    const double filled = fmin(
        display_percent((double)class->objects, (double)class->slabs * (double)class->per_slab),
        100);
    char bytes[DISPLAY_NUMBER_SIZE];

    fprintf(out, "%c%10s %6.1f%% %10.0f %6llu %9llu %7.1f%%%s\n",
            is_unsure(row)  ? '?'
            : is_rough(row) ? '~'
                            : ' ',
            display_bytes(view->display, (double)row->bytes, bytes),
            display_percent((double)row->bytes, (double)view->waste->bytes), row->objects,
            (unsigned long long)class->size, (unsigned long long)class->slabs, filled,
            row->mixed ? "  mixed sizes" : "");
    return view->samples ? print_frag_calls(view, row, out) : 0;
}

static size_t rows_shown(const struct frag_view *view)
{
    const struct display *display = view->display;
    const struct waste *waste = view->waste;
    size_t limit = display->rows         ? display->rows
                   : display->least == 0 ? waste->count
                                         : ROWS_DEFAULT;
    size_t shown = 0;

    while (shown < waste->count && shown < limit &&
           (double)waste->rows[shown].bytes >= display->least * (double)waste->bytes)
        shown++;
    return shown;
}

static void print_table_notes(const struct frag_view *view, size_t shown, FILE *out)
{
    bool rough = false, mixed = false, unknown = false, unsure = false;
    double expected;

    for (size_t i = 0; i < shown; i++) {
        const struct waste_row *row = &view->waste->rows[i];
        unsure |= is_unsure(row);
        rough |= is_rough(row) && !is_unsure(row);
        mixed |= row->mixed;
        unknown |= view->samples && view->samples->count && row->sample == TABLE_NONE &&
                   !row->own && !is_few(view, row, &expected);
    }
    fputs("size: of an object, in bytes; slabs: that hold objects of that size;\n"
          "in use: how full these are\n",
          out);
    if (rough)
        fputs("~: few samples: the error is more than half of the value\n", out);
    if (unsure)
        fputs("?: objects in full slabs keep no free space, and most of this stack may be in\n"
              "   those: its share may be much smaller, and that of another stack of the same\n"
              "   size larger\n",
              out);
    if (mixed)
        fputs("mixed sizes: the mean size of the stack is between two size classes, which is a\n"
              "   guess\n",
              out);
    if (unknown)
        fputs("[not sampled]: more objects than the samples explain: sampling may have been off\n"
              "   when they were allocated (prof.active), or threads keep them in caches after\n"
              "   they were freed\n",
              out);
}

static uint64_t by_stacks(const struct waste *waste)
{
    return amount_above(amount_above(waste->bytes, waste->unknown), waste->own);
}

/* How the stacks are known, of which the rows are; without any the answer has said why. */
static void print_evidence(const struct frag_view *view, FILE *out)
{
    const struct waste *waste = view->waste;
    char text[DISPLAY_NUMBER_SIZE];

    if (!view->samples || !by_stacks(waste))
        return;
    fprintf(out, "stacks: %s by %s", display_bytes(view->display, (double)by_stacks(waste), text),
            view->frag->by_object ? "samples" : "inference");
    if (waste->own)
        fprintf(out, "; %s jemalloc's own", display_bytes(view->display, (double)waste->own, text));
    if (waste->unknown)
        fprintf(out, "; %s not sampled",
                display_bytes(view->display, (double)waste->unknown, text));
    fputc('\n', out);
}

static void print_stacks(const struct frag_view *view, const struct parts *parts, FILE *out)
{
    const struct waste *waste = view->waste;
    const size_t shown = rows_shown(view), hidden = waste->count - shown;
    char bytes[DISPLAY_NUMBER_SIZE];
    uint64_t left_out = 0;
    double rest = 0;

    const bool asked = view->display->rows || view->display->least == 0 || view->verbose;
    if (!asked &&
        (account_most_waste(&parts->sum) == ACCOUNT_PARTS || waste->bytes < ACCOUNT_WASTE_LEAST))
        return;
    print_evidence(view, out);
    fprintf(out, "%11s %7s %10s %6s %9s %8s%s\n", "free space", "share", "objects", "size", "slabs",
            "in use", view->samples ? "  stack" : "");
    for (size_t i = 0; i < shown; i++)
        left_out += print_stack(view, &waste->rows[i], out);
    for (size_t i = shown; i < waste->count; i++)
        rest += (double)waste->rows[i].bytes;
    if (hidden)
        fprintf(out, "%11s in %zu more row%s (--rows 0 shows all)\n",
                display_bytes(view->display, rest, bytes), hidden, hidden == 1 ? "" : "s");
    if (left_out)
        fputs("more: calls of libraries and distant callers\n", out);
    print_table_notes(view, shown, out);
    /* Where the page tables were not read, the sizes do not tell what of them is in memory. */
    if (waste->bytes > parts->sum.bytes[ACCOUNT_SLABS] + ACCOUNT_WASTE_LEAST)
        fprintf(out, "%s of this free space is not in memory: never touched, or swapped out\n",
                display_bytes(view->display,
                              (double)(waste->bytes - parts->sum.bytes[ACCOUNT_SLABS]), bytes));
}

/* ---- what to do ---- */

/* The advice names a stack only if it is sure of it. */
static void make_advice(const struct frag_view *view, const struct parts *parts,
                        char place[PLACE_TEXT_SIZE], struct advice *advice)
{
    static const enum advice_waste most[] = {
        [ACCOUNT_SLABS] = ADVICE_SLABS,       [ACCOUNT_PAGES] = ADVICE_PAGES,
        [ACCOUNT_PADDING] = ADVICE_PADDING,   [ACCOUNT_PINNED] = ADVICE_PINNED,
        [ACCOUNT_RETAINED] = ADVICE_RETAINED, [ACCOUNT_PARTS] = ADVICE_NONE,
    };
    const struct frag *frag = view->frag;
    const struct keeper keeper = find_keeper(view->waste);
    struct advice_facts facts = {.setup = view->setup,
                                 .most = most[account_most_waste(&parts->sum)],
                                 .pid = view->pid,
                                 .program = view->name,
                                 .in_program = view->in_program,
                                 .has_stacks = view->samples && view->samples->count,
                                 .slabs = view->waste->bytes,
                                 .retained = parts->sum.bytes[ACCOUNT_RETAINED],
                                 .huge = frag->account.process.huge,
                                 .largest = frag->largest,
                                 .arenas = frag->arenas};

    if (keeper.row)
        facts.keeper = place_text(view->samples, &view->samples->list[keeper.row->sample], place);
    advice_make(advice, &facts);
}

void frag_print(const struct frag_view *view, FILE *out)
{
    const bool colors = view->display->colors;
    char place[PLACE_TEXT_SIZE], clean[PROCESS_TEXT], text[ANSWER_BYTES];
    const struct parts parts = make_parts(view);
    struct advice advice;
    struct wrap wrap;
    FILE *line;

    line = wrap_begin(&wrap, out);
    fprintf(line, "%s ", message_process(view->name, view->pid, clean));
    text_write_clean(line, describe_answer(view, &parts, text), "");
    fputc('\n', line);
    fputs(colors ? "\033[1m" : "", out);
    wrap_end(&wrap, 0, out);
    fputs(colors ? "\033[0m" : "", out);

    print_frag_parts(view, &parts, out);
    print_stacks(view, &parts, out);
    make_advice(view, &parts, place, &advice);
    advice_print(&advice, out);
}

/* ---- JSON ---- */

static void json_frag_row(const struct frag_view *view, const struct waste_row *row,
                          struct json *json)
{
    const struct waste_class *class = &view->waste->classes[row->class];

    json_item_begin(json);
    JSON_MEMBERS(
        json, NUMBER("bytes", row->bytes), ROUNDED("error", trunc(row->error)),
        ROUNDED("least", trunc(row->least)), ROUNDED("most", trunc(row->most)),
        ROUNDED("objects", trunc(row->objects)), FLAG("mixed", row->mixed),
        TEXT_IF(row->sample != TABLE_NONE, "by", view->frag->by_object ? "samples" : "inference"),
        FLAG("own", row->own),
        ROUNDED_IF(view->samples && row->sample == TABLE_NONE && !row->own, "expected_samples",
                   waste_expected(class, row->objects, view->samples->period)),
        NUMBER("size", class->size), NUMBER("class_bytes", waste_bytes(class)),
        NUMBER("class_objects", class->objects), NUMBER("slabs", class->slabs),
        NUMBER("nonfull", class->nonfull), NUMBER("per_slab", class->per_slab));
    if (row->sample == TABLE_NONE)
        json_null(json, "stack");
    else
        stack_json(json, "stack", view->samples, &view->samples->list[row->sample]);
    json_item_end(json);
}

static const char *profile_word(const struct frag_view *view)
{
    if (view->samples)
        return view->samples->count ? "sampled" : "empty";
    if (view->frag->why == FAULT_UNREADABLE)
        return "unreadable";
    return view->frag->why == FAULT_PROF_ABSENT ? "absent" : "disabled";
}

void frag_json(const struct frag_view *view, struct json *json)
{
    const struct frag *frag = view->frag;
    const struct counted *counted = &frag->account.counted;
    const struct stats_gauges *gauges = &counted->gauges;
    char text[ANSWER_BYTES], place[PLACE_TEXT_SIZE];
    const struct parts parts = make_parts(view);
    const enum account_part most = account_most_waste(&parts.sum);
    struct advice advice;

    make_advice(view, &parts, place, &advice);
    JSON_MEMBERS(
        json, TEXT("verdict", most == ACCOUNT_PARTS ? "none" : usage_parts[most].key),
        TEXT("answer", describe_answer(view, &parts, text)), TEXT("profile", profile_word(view)),
        NUMBER("rss", parts.sum.whole),
        NUMBER_IF(counted_has(counted, CTL_RESIDENT), "stats_resident", gauges->resident),
        NUMBER_IF(counted_has(counted, CTL_ALLOCATED), "stats_allocated", gauges->allocated));
    json_object_begin(json, "parts");
    usage_parts_json(&parts.sum, json);
    json_object_end(json);
    JSON_MEMBERS(json, NUMBER("waste", parts.waste),
                 NUMBER("returned_by_purge", parts.sum.bytes[ACCOUNT_PAGES]),
                 NUMBER_IF(counted_has(counted, CTL_RETAINED), "stats_retained", gauges->retained),
                 NUMBER("by_samples", frag->by_object ? by_stacks(view->waste) : 0),
                 NUMBER("by_inference", frag->by_object ? 0 : by_stacks(view->waste)),
                 NUMBER("not_sampled", view->waste->unknown), NUMBER("own", view->waste->own));
    json_list_begin(json, "rows");
    for (size_t i = 0; i < rows_shown(view); i++)
        json_frag_row(view, &view->waste->rows[i], json);
    json_list_end(json);
    advice_json(&advice, json);
    json_text_or_null(json, "next", *advice.command ? advice.command : NULL);
}
