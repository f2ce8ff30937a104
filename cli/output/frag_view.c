#include "cli/output/frag_view.h"
#include "base/text.h"
#include "base/util.h"
#include "cli/message.h"
#include "cli/output/advice.h"
#include "cli/output/attachment_json.h"
#include "cli/output/wrap.h"
#include "profile/stack_text.h"
#include "profile/views/call_label.h"
#include "run/faults.h"

#include <math.h>
#include <string.h>

enum { ROWS_DEFAULT = 10, ANSWER_BYTES = PLACE_TEXT_SIZE + 256, CALL_INDENT = 12 };

/* Less than this is no waste to speak of. */
enum { WASTE_LEAST = 1 << 20, WASTE_LEAST_PERCENT = 10 };

/* With fewer samples than these in the mean, a stack of any size may have none. */
enum { SAMPLES_FEW = 8 };

/* ---- the parts ---- */

/* Those of the account, of which the space between objects is divided. */
enum part {
    PART_IN_USE,
    PART_SAMPLING,
    PART_SLABS,
    PART_PADDING,
    PART_PAGES,
    PART_PINNED,
    PART_OWN,
    PART_OUTSIDE,
    PARTS
};

static const char *const part_names[PARTS] = {"in use",     "sampling", "slabs",    "padding",
                                              "free pages", "pinned",   "own data", "outside"};
static const char *const part_keys[PARTS] = {"in_use",     "sampling", "slabs",    "padding",
                                             "free_pages", "pinned",   "own_data", "outside"};

struct parts {
    bool known[PARTS];
    uint64_t bytes[PARTS];
    bool has_rss;      /* else of stats.resident */
    uint64_t resident; /* the RSS, or stats.resident */
    uint64_t absent;   /* counted, but not in memory */
    uint64_t whole;    /* the sum of the parts: resident + absent */
    uint64_t waste;    /* of free memory of jemalloc, what is in memory at least */
    uint64_t returned; /* what a purge returns at most */
    uint64_t padding;  /* of padding, what is in memory at least */
    uint64_t pages;    /* and of free pages */
};

static uint64_t left_of(uint64_t bytes, uint64_t part)
{
    return bytes > part ? bytes - part : 0;
}

static uint64_t sum_of(uint64_t a, uint64_t b)
{
    return __builtin_add_overflow(a, b, &a) ? UINT64_MAX : a;
}

/*
 * jemalloc also counts pages that were never touched. Of free pages the kernel tells which are in
 * memory. The others are behind objects that are sampled, then in what these take beyond their
 * size, and then behind large objects. All regions of a slab have been in use.
 */
static void take_off_absent(const struct frag *frag, const struct account_sum *sum,
                            struct parts *parts)
{
    const uint64_t pages = parts->bytes[PART_PAGES], padding = parts->bytes[PART_PADDING],
                   large = left_of(padding, frag->behind_sampled);
    uint64_t absent = parts->absent;

    if (sum->has_present) {
        parts->pages = parts->returned = sum->present[ACCOUNT_PAGES];
        parts->padding = left_of(sum->present[ACCOUNT_BETWEEN], parts->bytes[PART_SLABS]);
        return;
    }
    parts->returned = pages < parts->resident ? pages : parts->resident;
    absent = left_of(absent, padding - large + parts->bytes[PART_SAMPLING]);
    parts->padding = left_of(large, absent);
    parts->pages = left_of(parts->returned, left_of(absent, large));
}

/* The account is of another moment than the slabs: their part is at most the space between. */
static void make_parts(const struct frag_view *view, struct parts *parts)
{
    static const enum account_part same[PARTS] = {
        [PART_IN_USE] = ACCOUNT_IN_USE, [PART_SAMPLING] = ACCOUNT_SAMPLING,
        [PART_PAGES] = ACCOUNT_PAGES,   [PART_PINNED] = ACCOUNT_PINNED,
        [PART_OWN] = ACCOUNT_OWN,       [PART_OUTSIDE] = ACCOUNT_OUTSIDE,
        [PART_SLABS] = ACCOUNT_BETWEEN, [PART_PADDING] = ACCOUNT_BETWEEN};
    struct account account = view->frag->account;
    struct account_sum sum;

    memset(parts, 0, sizeof *parts);
    parts->has_rss = account.process.rss > 0;
    if (!parts->has_rss)
        account.process.rss = account.counted.gauges.resident;
    sum = account_sum_up(&account);
    for (enum part i = 0; i < PARTS; i++) {
        parts->known[i] = sum.known[same[i]];
        parts->bytes[i] = sum.bytes[same[i]];
    }
    parts->known[PART_OUTSIDE] &= parts->has_rss;
    parts->resident = account.process.rss;
    parts->absent = sum.absent;
    parts->whole = sum.whole;
    parts->bytes[PART_SLABS] = view->waste->bytes;
    if (!sum.known[ACCOUNT_BETWEEN]) { /* the sum has it in what is outside */
        parts->known[PART_SLABS] = true;
        parts->bytes[PART_OUTSIDE] = left_of(parts->bytes[PART_OUTSIDE], view->waste->bytes);
    } else if (parts->bytes[PART_SLABS] > sum.bytes[ACCOUNT_BETWEEN]) {
        parts->bytes[PART_SLABS] = sum.bytes[ACCOUNT_BETWEEN];
    }
    parts->bytes[PART_PADDING] = left_of(sum.bytes[ACCOUNT_BETWEEN], parts->bytes[PART_SLABS]);
    take_off_absent(view->frag, &sum, parts);
    parts->waste = sum_of(sum_of(parts->bytes[PART_SLABS], parts->padding),
                          sum_of(parts->pages, parts->bytes[PART_PINNED]));
}

/* ---- the answer ---- */

enum verdict { VERDICT_NONE, VERDICT_SLABS, VERDICT_PAGES, VERDICT_PADDING, VERDICT_PINNED };

static const char *const verdict_names[] = {
    [VERDICT_NONE] = "none",       [VERDICT_SLABS] = "slabs",   [VERDICT_PAGES] = "pages",
    [VERDICT_PADDING] = "padding", [VERDICT_PINNED] = "pinned",
};

static enum verdict judge(const struct parts *parts)
{
    const uint64_t sizes[] = {[VERDICT_SLABS] = parts->bytes[PART_SLABS],
                              [VERDICT_PAGES] = parts->pages,
                              [VERDICT_PADDING] = parts->padding,
                              [VERDICT_PINNED] = parts->bytes[PART_PINNED]};
    enum verdict most = VERDICT_SLABS;

    if (parts->waste < WASTE_LEAST ||
        (double)parts->waste * 100 < (double)parts->resident * WASTE_LEAST_PERCENT)
        return VERDICT_NONE;
    for (enum verdict i = VERDICT_SLABS; i <= VERDICT_PINNED; i++)
        if (sizes[i] > sizes[most])
            most = i;
    return most;
}

/* "1.9 of 2.4 GiB"; "900 MiB of 2.4 GiB". */
static int describe_part(const struct frag_view *view, double part, double whole, char *out,
                         size_t size)
{
    char a[DISPLAY_NUMBER_SIZE], b[DISPLAY_NUMBER_SIZE];
    char *unit = strchr(display_bytes(view->display, part, a), ' ');
    const char *other = strchr(display_bytes(view->display, whole, b), ' ');

    if (unit && other && strcmp(unit, other) == 0)
        *unit = '\0';
    return snprintf(out, size, "%s of %s", a, b);
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
static void describe_unsure(const struct frag_view *view, const struct parts *parts, char *out,
                            size_t size)
{
    const struct waste_row *row = &view->waste->rows[0];
    const struct waste_class *class = &view->waste->classes[row->class];
    char place[PLACE_TEXT_SIZE];
    int len = describe_part(view, (double)waste_bytes(class), (double)parts->waste, out, size);

    if (row->sample == TABLE_NONE)
        strcpy(place, row->own ? "jemalloc itself" : "objects that were not sampled");
    else
        place_text(view->samples, &view->samples->list[row->sample], place);
    snprintf(out + len, size - (size_t)len,
             " of waste are in %llu-byte slabs; it is not known who pins them: most objects are of "
             "%s, but %.0f %% of all are in full slabs",
             (unsigned long long)class->size, place, 100 * waste_full_part(class));
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

static void describe_slabs(const struct frag_view *view, const struct parts *parts, char *out,
                           size_t size)
{
    const struct waste_row *row = &view->waste->rows[0];
    unsigned long long object = view->waste->classes[row->class].size;
    char place[PLACE_TEXT_SIZE];
    const struct keeper keeper = find_keeper(view->waste);
    int len = 0;

    if (keeper.row && keeper.sizes > 1) {
        if (keeper.error > keeper.bytes / 2)
            len = snprintf(out, size, "about ");
        len +=
            describe_part(view, keeper.bytes, (double)parts->waste, out + len, size - (size_t)len);
        snprintf(out + len, size - (size_t)len, " of waste are in slabs of %zu sizes pinned by %s",
                 keeper.sizes,
                 place_text(view->samples, &view->samples->list[keeper.row->sample], place));
        return;
    }
    if (is_rough(row))
        len = snprintf(out, size, "about ");
    if (is_unsure(row)) {
        describe_unsure(view, parts, out, size);
        return;
    }
    len += describe_part(view, (double)row->bytes, (double)parts->waste, out + len,
                         size - (size_t)len);
    if (row->sample == TABLE_NONE)
        snprintf(out + len, size - (size_t)len,
                 " of waste are in %llu-byte slabs; which stacks keep them is not known: %s",
                 object, why_no_stack(view));
    else
        snprintf(out + len, size - (size_t)len, " of waste are in %llu-byte slabs pinned by %s",
                 object, place_text(view->samples, &view->samples->list[row->sample], place));
}

static const char *describe_answer(const struct frag_view *view, const struct parts *parts,
                                   enum verdict verdict, char out[ANSWER_BYTES])
{
    static const char *const others[] = {
        [VERDICT_NONE] = "",
        [VERDICT_SLABS] = "in slabs",
        [VERDICT_PAGES] = "free pages, which jeattach purge returns",
        [VERDICT_PADDING] = "behind large objects, in their last pages",
        [VERDICT_PINNED] = "free pages pinned by hooks; never returned",
    };
    const double bytes[] = {[VERDICT_SLABS] = (double)parts->bytes[PART_SLABS],
                            [VERDICT_PAGES] = (double)parts->pages,
                            [VERDICT_PADDING] = (double)parts->padding,
                            [VERDICT_PINNED] = (double)parts->bytes[PART_PINNED]};
    int len;

    if (verdict == VERDICT_SLABS && view->waste->count) {
        describe_slabs(view, parts, out, ANSWER_BYTES);
    } else if (verdict == VERDICT_NONE) {
        len = snprintf(out, ANSWER_BYTES, "no waste to speak of: ");
        len += describe_part(view, (double)parts->waste, (double)parts->resident, out + len,
                             ANSWER_BYTES - (size_t)len);
        snprintf(out + len, ANSWER_BYTES - (size_t)len, " (%s) are free memory of jemalloc",
                 parts->has_rss ? "RSS" : "stats.resident");
    } else {
        len = describe_part(view, bytes[verdict], (double)parts->waste, out, ANSWER_BYTES);
        snprintf(out + len, ANSWER_BYTES - (size_t)len, " of waste are %s", others[verdict]);
    }
    return out;
}

/* ---- the table of parts ---- */

/* What is not one of the parts. */
static void print_beside(const struct frag_view *view, const char *name, uint64_t bytes,
                         const char *meaning, FILE *out)
{
    char text[DISPLAY_NUMBER_SIZE];

    if (bytes)
        fprintf(out, "  %-10s %9s %8s  %s\n", name,
                display_bytes(view->display, (double)bytes, text), "", meaning);
}

static const char *const part_meanings[PARTS] = {
    [PART_IN_USE] = "by the program",
    [PART_SAMPLING] = "what sampled objects take beyond their size",
    [PART_SLABS] = "free space between objects; no purge returns it",
    [PART_PADDING] = "free space behind large and sampled objects",
    [PART_PAGES] = "not returned yet; jeattach purge returns them",
    [PART_PINNED] = "free pages pinned by hooks; never returned",
    [PART_OWN] = "jemalloc's own",
    [PART_OUTSIDE] = "not jemalloc: code, stacks, files, other heaps",
};

static void print_frag_parts(const struct frag_view *view, const struct parts *parts, FILE *out)
{
    const struct stats_gauges *gauges = &view->frag->account.counted.gauges;
    char resident[DISPLAY_NUMBER_SIZE], text[DISPLAY_NUMBER_SIZE], share[16];

    fprintf(out, "%s %s", parts->has_rss ? "RSS" : "stats.resident",
            display_bytes(view->display, (double)parts->resident, resident));
    if (parts->absent)
        fprintf(out, ", and %s that are counted but not in memory",
                display_bytes(view->display, (double)parts->absent, text));
    fputs(":\n", out);
    for (enum part i = 0; i < PARTS; i++) {
        if (!parts->known[i] || !parts->bytes[i])
            continue;
        snprintf(share, sizeof share, "%.1f %%",
                 display_percent((double)parts->bytes[i], (double)parts->whole));
        fprintf(out, "  %-10s %9s %8s  %s\n", part_names[i],
                display_bytes(view->display, (double)parts->bytes[i], text), share,
                part_meanings[i]);
    }
    if (counted_has(&view->frag->account.counted, CTL_RETAINED))
        print_beside(view, "retained", gauges->retained,
                     "address space without memory, not in the RSS", out);
    if (parts->returned > 0)
        fprintf(out, "jeattach purge would return up to %s\n",
                display_bytes(view->display, (double)parts->returned, text));
    if (judge(parts) == VERDICT_SLABS)
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

/* Writes the innermost call, and its callers below it. Returns the number of those left out. */
static uint32_t print_frag_calls(const struct frag_view *view, const struct waste_row *row,
                                 FILE *out)
{
    struct stack_text text;
    char label[CALL_LABEL_SIZE];
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
            fprintf(out, "[not sampled: only %.0f samples are expected of these]\n", expected);
        return 0;
    }
    stack_text_choose(view->samples, &view->samples->list[row->sample], view->display->depth,
                      &text);
    for (size_t i = 0; i < text.count; i++) {
        call_label(view->samples, text.calls[i].function, text.calls[i].line, true, 0, label);
        fprintf(out, "%s%*s%s", i ? "\n" : "", CALL_INDENT, "", label);
    }
    if (text.left_out)
        fprintf(out, ", %u more", text.left_out);
    fputc('\n', out);
    return text.left_out;
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
        unknown |= view->samples && row->sample == TABLE_NONE && !row->own &&
                   !is_few(view, row, &expected);
    }
    fputs("size, slabs, in use: of all objects of that size, in bytes; how many slabs hold them,\n"
          "and how full these are\n",
          out);
    if (rough)
        fputs("~: few samples: the error is more than half of the value\n", out);
    if (unsure)
        fputs("?: objects in full slabs pin nothing, and most of this stack may be in those: the "
              "share\n   may be much smaller, and that of another stack of the same size larger\n",
              out);
    if (mixed)
        fputs("mixed sizes: the mean size of the stack is between two size classes, which is a "
              "guess\n",
              out);
    if (unknown)
        fputs("[not sampled]: more objects than the samples explain: possible if sampling was off "
              "when they\n   were allocated (prof.active), or if threads keep them in caches after "
              "they were freed\n",
              out);
}

static uint64_t by_stacks(const struct waste *waste)
{
    return left_of(left_of(waste->bytes, waste->unknown), waste->own);
}

/* How the stacks are known, of which the rows are. */
static void print_evidence(const struct frag_view *view, FILE *out)
{
    const struct waste *waste = view->waste;
    char text[DISPLAY_NUMBER_SIZE];
    const char *before = "";

    if (!view->samples || !waste->bytes)
        return;
    if (by_stacks(waste)) {
        fprintf(out, "%s %s", display_bytes(view->display, (double)by_stacks(waste), text),
                view->frag->by_object ? "by samples of the same size"
                                      : "by inference, from the mean size of a stack's samples");
        before = "; ";
    }
    if (waste->own) {
        fprintf(out, "%s%s by jemalloc's own data", before,
                display_bytes(view->display, (double)waste->own, text));
        before = "; ";
    }
    if (waste->unknown)
        fprintf(out, "%s%s of no sample", before,
                display_bytes(view->display, (double)waste->unknown, text));
    fputc('\n', out);
}

static void print_stacks(const struct frag_view *view, FILE *out)
{
    const struct waste *waste = view->waste;
    const size_t shown = rows_shown(view), hidden = waste->count - shown;
    char bytes[DISPLAY_NUMBER_SIZE];
    uint64_t left_out = 0;
    double rest = 0;

    if (waste->bytes < WASTE_LEAST && !view->display->rows && view->display->least > 0)
        return; /* not asked for */
    print_evidence(view, out);
    fprintf(out, "%11s %7s %10s %6s %9s %8s  %s\n", "free space", "share", "objects", "size",
            "slabs", "in use", view->samples ? "stack" : "");
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
}

/* ---- what to do ---- */

/* The advice names a stack only if it is sure of it. */
static void make_advice(const struct frag_view *view, const struct parts *parts,
                        char place[PLACE_TEXT_SIZE], struct advice *advice)
{
    static const enum advice_waste most[] = {
        [VERDICT_NONE] = ADVICE_NONE,     [VERDICT_SLABS] = ADVICE_SLABS,
        [VERDICT_PAGES] = ADVICE_PAGES,   [VERDICT_PADDING] = ADVICE_PADDING,
        [VERDICT_PINNED] = ADVICE_PINNED,
    };
    const struct frag *frag = view->frag;
    const struct keeper keeper = find_keeper(view->waste);
    struct advice_facts facts = {.most = most[judge(parts)],
                                 .pid = view->pid,
                                 .program = view->name,
                                 .in_program = view->in_program,
                                 .can_sample = view->samples != NULL,
                                 .has_stacks = view->samples && view->samples->count,
                                 .slabs = view->waste->bytes,
                                 .largest = frag->largest,
                                 .arenas = frag->arenas};

    if (keeper.row)
        facts.keeper = place_text(view->samples, &view->samples->list[keeper.row->sample], place);
    advice_make(advice, &facts);
}

void frag_print(const struct frag_view *view, FILE *out)
{
    const bool colors = view->display->colors;
    char place[PLACE_TEXT_SIZE], clean[64], text[ANSWER_BYTES];
    struct advice advice;
    struct parts parts;
    struct wrap wrap;
    FILE *line;

    make_parts(view, &parts);
    line = wrap_begin(&wrap, out);
    fprintf(line, "%s[%d] ", message_clean(view->name, clean, sizeof clean), view->pid);
    text_write_clean(line, describe_answer(view, &parts, judge(&parts), text), "");
    fputc('\n', line);
    fputs(colors ? "\033[1m" : "", out);
    wrap_end(&wrap, 0, out);
    fputs(colors ? "\033[0m" : "", out);

    print_frag_parts(view, &parts, out);
    print_stacks(view, out);
    make_advice(view, &parts, place, &advice);
    advice_print(&advice, out);
}

/* ---- JSON ---- */

static void json_frag_row(const struct frag_view *view, const struct waste_row *row,
                          struct json *json)
{
    const struct waste_class *class = &view->waste->classes[row->class];

    json_item_begin(json);
    json_number(json, "bytes", row->bytes);
    json_rounded(json, "error", trunc(row->error));
    json_rounded(json, "least", trunc(row->least));
    json_rounded(json, "most", trunc(row->most));
    json_rounded(json, "objects", trunc(row->objects));
    json_bool(json, "mixed", row->mixed);
    if (row->sample == TABLE_NONE)
        json_null(json, "by");
    else
        json_text(json, "by", view->frag->by_object ? "samples" : "inference");
    json_bool(json, "own", row->own);
    if (view->samples && row->sample == TABLE_NONE && !row->own)
        json_rounded(json, "expected_samples",
                     waste_expected(class, row->objects, view->samples->period));
    else
        json_null(json, "expected_samples");
    json_number(json, "size", class->size);
    json_number(json, "class_bytes", waste_bytes(class));
    json_number(json, "class_objects", class->objects);
    json_number(json, "slabs", class->slabs);
    json_number(json, "nonfull", class->nonfull);
    json_number(json, "per_slab", class->per_slab);
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
    struct advice advice;
    struct parts parts;

    make_parts(view, &parts);
    make_advice(view, &parts, place, &advice);
    json_text(json, "verdict", verdict_names[judge(&parts)]);
    json_text(json, "answer", describe_answer(view, &parts, judge(&parts), text));
    json_text(json, "profile", profile_word(view));
    json_number_or_null(json, "rss", parts.has_rss, parts.resident);
    json_number_or_null(json, "resident", counted_has(counted, CTL_RESIDENT), gauges->resident);
    json_number_or_null(json, "allocated", counted_has(counted, CTL_ALLOCATED), gauges->allocated);

    /* As all verbs have them: the space between objects is one, whose parts come behind. */
    json_object_begin(json, "parts");
    for (enum part i = 0; i < PARTS; i++)
        if (i == PART_SLABS)
            json_number(json, "between", sum_of(parts.bytes[i], parts.bytes[PART_PADDING]));
        else if (i != PART_PADDING)
            json_number_or_null(json, part_keys[i], parts.known[i], parts.bytes[i]);
    json_object_end(json);
    for (enum part i = PART_SLABS; i <= PART_PADDING; i++)
        json_number_or_null(json, part_keys[i], parts.known[i], parts.bytes[i]);
    json_number(json, "absent", parts.absent);
    json_number(json, "waste", parts.waste);
    json_number(json, "returned_by_purge", parts.returned);
    json_number_or_null(json, "retained", counted_has(counted, CTL_RETAINED), gauges->retained);
    json_number(json, "by_samples", frag->by_object ? by_stacks(view->waste) : 0);
    json_number(json, "by_inference", frag->by_object ? 0 : by_stacks(view->waste));
    json_number(json, "not_sampled", view->waste->unknown);
    json_number(json, "own", view->waste->own);
    json_list_begin(json, "rows");
    for (size_t i = 0; i < rows_shown(view); i++)
        json_frag_row(view, &view->waste->rows[i], json);
    json_list_end(json);
    advice_json(&advice, "helps", json);
}
