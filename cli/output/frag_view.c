#include "cli/output/frag_view.h"
#include "base/text.h"
#include "base/util.h"
#include "cli/message.h"
#include "cli/output/stack_json.h"
#include "cli/output/wrap.h"
#include "profile/stack_text.h"
#include "profile/views/call_label.h"
#include "profile/views/place_text.h"
#include "run/account.h"
#include "run/faults.h"

#include <math.h>
#include <string.h>

enum { ROWS_DEFAULT = 10, ANSWER_BYTES = PLACE_TEXT_SIZE + 256, CALL_INDENT = 12 };

/* Less than this is no waste to speak of. */
enum { WASTE_LEAST = 1 << 20, WASTE_LEAST_PERCENT = 10 };

/* ---- the parts ---- */

enum part {
    PART_SLABS,
    PART_PADDING,
    PART_DIRTY,
    PART_MUZZY,
    PART_PINNED,
    PART_METADATA,
    PART_OTHER,
    PARTS
};

static const char *const part_names[PARTS] = {"slabs",  "padding",  "dirty", "muzzy",
                                              "pinned", "metadata", "other"};

/* The parts of what is resident but not allocated; they can be negative, as those of stats. */
struct parts {
    int64_t bytes[PARTS];
    bool has_rss;      /* else of stats.resident */
    bool has_lazy;     /* muzzy is counted by the kernel */
    uint64_t resident; /* the RSS, or stats.resident */
    int64_t whole;     /* the sum */
    int64_t waste;     /* of free memory of jemalloc, what is in memory at least */
    int64_t returned;  /* what a purge returns at most */
    int64_t padding;   /* of padding, what is in memory at least */
    int64_t pages;     /* and of dirty and muzzy pages */
};

static int64_t limited(uint64_t bytes)
{
    return bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes;
}

static int64_t or_none(int64_t bytes)
{
    return bytes > 0 ? bytes : 0;
}

/*
 * jemalloc also counts pages that were never touched. Most of those are behind large and sampled
 * objects; after these, free pages are the likeliest. All regions of a slab have been in use.
 */
static void take_off_untouched(struct parts *parts)
{
    const int64_t other = parts->bytes[PART_OTHER],
                  untouched = other > -INT64_MAX ? or_none(-other) : INT64_MAX,
                  padding = or_none(parts->bytes[PART_PADDING]);

    parts->padding = or_none(padding - untouched);
    parts->pages = or_none(parts->returned - or_none(untouched - padding));
}

static void add_sums(struct parts *parts)
{
    for (enum part i = 0; i < PARTS; i++)
        parts->whole = add_saturating(parts->whole, parts->bytes[i]);
    parts->returned = add_saturating(parts->bytes[PART_DIRTY], parts->bytes[PART_MUZZY]);
    if (parts->returned > limited(parts->resident))
        parts->returned = limited(parts->resident);
    take_off_untouched(parts);
    parts->waste = add_saturating(add_saturating(parts->bytes[PART_SLABS], parts->padding),
                                  add_saturating(parts->pages, parts->bytes[PART_PINNED]));
}

/* The parts of stats, two of them divided: the free space in slabs, and lazily freed pages. */
static void make_parts(const struct frag_view *view, struct parts *parts)
{
    const struct frag *frag = view->frag;
    const struct stats_gauges *gauges = &frag->bins.gauges;
    const struct account account = {.source = ACCOUNT_CALL,
                                    .counted = {.gauges = *gauges, .known = ~0u}};
    const struct account_sum sum = account_sum_up(&account);
    const uint64_t *bytes = sum.bytes;
    int64_t other, lazy = limited(frag->process.lazy_free);

    memset(parts, 0, sizeof *parts);
    parts->has_rss = frag->process.rss > 0;
    parts->resident = parts->has_rss ? frag->process.rss : gauges->resident;
    other = (int64_t)(parts->resident - gauges->resident);
    if (lazy > other)
        lazy = other > 0 ? other : 0;
    parts->has_lazy = parts->has_rss && frag->source != USAGE_STATUS;
    parts->bytes[PART_SLABS] = limited(view->waste->bytes);
    parts->bytes[PART_PADDING] =
        add_saturating(limited(bytes[ACCOUNT_BETWEEN]), -parts->bytes[PART_SLABS]);
    parts->bytes[PART_DIRTY] = limited(bytes[ACCOUNT_PAGES]);
    parts->bytes[PART_MUZZY] = lazy;
    parts->bytes[PART_PINNED] = limited(bytes[ACCOUNT_PINNED]);
    parts->bytes[PART_METADATA] = limited(bytes[ACCOUNT_OWN]);
    parts->bytes[PART_OTHER] = add_saturating(other, -lazy);
    add_sums(parts);
}

/* ---- the answer ---- */

enum verdict { VERDICT_NONE, VERDICT_SLABS, VERDICT_PAGES, VERDICT_PADDING, VERDICT_PINNED };

static const char *const verdict_names[] = {
    [VERDICT_NONE] = "none",       [VERDICT_SLABS] = "slabs",   [VERDICT_PAGES] = "pages",
    [VERDICT_PADDING] = "padding", [VERDICT_PINNED] = "pinned",
};

static enum verdict judge(const struct parts *parts)
{
    const int64_t sizes[] = {[VERDICT_SLABS] = parts->bytes[PART_SLABS],
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
        return "their objects were allocated before sampling began, or are kept in thread caches";
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
        strcpy(place, "objects that were not sampled");
    else
        place_text(view->samples, &view->samples->list[row->sample], place);
    snprintf(out + len, size - (size_t)len,
             " of waste are in %llu-byte slabs; it is not known who pins them: most objects are of "
             "%s, but %.0f %% of all are in full slabs",
             (unsigned long long)class->size, place, 100 * waste_full_part(class));
}

static void describe_slabs(const struct frag_view *view, const struct parts *parts, char *out,
                           size_t size)
{
    const struct waste_row *row = &view->waste->rows[0];
    unsigned long long object = view->waste->classes[row->class].size;
    char place[PLACE_TEXT_SIZE];
    int len = is_rough(row) ? snprintf(out, size, "about ") : 0;

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

static void print_frag_answer(const struct frag_view *view, const struct parts *parts, FILE *out)
{
    char clean[64], text[ANSWER_BYTES];
    const bool colors = view->display->colors;

    struct wrap wrap;
    FILE *line = wrap_begin(&wrap, out);

    if (view->pid)
        fprintf(line, "%s[%d] ", message_clean(view->name, clean, sizeof clean), view->pid);
    text_write_clean(line, describe_answer(view, parts, judge(parts), text), "");
    fputc('\n', line);
    fputs(colors ? "\033[1m" : "", out);
    wrap_end(&wrap, 0, out);
    fputs(colors ? "\033[0m" : "", out);
}

/* ---- the table of parts ---- */

static void print_frag_part(const struct frag_view *view, const struct parts *parts,
                            const char *name, int64_t bytes, const char *meaning, FILE *out)
{
    char text[DISPLAY_NUMBER_SIZE], share[16];

    snprintf(share, sizeof share, "%.1f %%",
             display_percent((double)bytes, (double)parts->resident));
    fprintf(out, "  %-9s %9s %8s  %s\n", name, display_bytes(view->display, (double)bytes, text),
            share, meaning);
}

/* What is not one of the parts. */
static void print_beside(const struct frag_view *view, const char *name, uint64_t bytes,
                         const char *meaning, FILE *out)
{
    char text[DISPLAY_NUMBER_SIZE];

    fprintf(out, "  %-9s %9s %8s  %s\n", name, display_bytes(view->display, (double)bytes, text),
            "", meaning);
}

static const char *meaning_of(const struct parts *parts, enum part part)
{
    static const char *const meanings[PARTS] = {
        [PART_SLABS] = "free space between objects; no purge returns it",
        [PART_PADDING] = "free space behind large and sampled objects",
        [PART_DIRTY] = "free pages; jeattach purge returns them",
        [PART_MUZZY] = "free pages; the kernel takes them when needed",
        [PART_PINNED] = "free pages pinned by hooks; never returned",
        [PART_METADATA] = "jemalloc's own data",
        [PART_OTHER] = "not jemalloc: code, stacks, files, other heaps",
    };

    if (part == PART_OTHER && parts->bytes[part] < 0)
        return "counted above, but not in memory (untouched)";
    return meanings[part];
}

static bool is_counted(const struct frag_view *view, const struct parts *parts, enum part part)
{
    switch (part) {
    case PART_MUZZY:
        return parts->has_lazy;
    case PART_PINNED:
        return view->frag->bins.gauges.has_pinned;
    case PART_OTHER:
        return parts->has_rss;
    default:
        return true;
    }
}

static void print_frag_parts(const struct frag_view *view, const struct parts *parts, FILE *out)
{
    const struct stats_gauges *gauges = &view->frag->bins.gauges;
    char resident[DISPLAY_NUMBER_SIZE], allocated[DISPLAY_NUMBER_SIZE], text[DISPLAY_NUMBER_SIZE];

    fprintf(out, "%s %s - allocated %s = %s:\n", parts->has_rss ? "RSS" : "stats.resident",
            display_bytes(view->display, (double)parts->resident, resident),
            display_bytes(view->display, (double)gauges->allocated, allocated),
            display_bytes(view->display, (double)parts->whole, text));
    for (enum part i = 0; i < PARTS; i++)
        if (is_counted(view, parts, i))
            print_frag_part(view, parts, part_names[i], parts->bytes[i], meaning_of(parts, i), out);
    if (gauges->has_retained)
        print_beside(view, "retained", gauges->retained,
                     "address space without memory, not in the RSS", out);
    if (view->frag->bins.since_50)
        print_beside(view, "cached", view->frag->bins.arenas->cached,
                     "in thread caches, counted as allocated", out);
    if (parts->returned > 0)
        fprintf(out, "jeattach purge would return up to %s\n",
                display_bytes(view->display, (double)parts->returned, text));
    if (judge(parts) == VERDICT_SLABS)
        fputs("a slab is returned only when all objects in it are freed\n", out);
}

/* ---- the table of stacks ---- */

/* How much of the space in the slabs of a class is in use, in percent. */
static double filled_percent(const struct waste_class *class)
{
    return fmin(
        display_percent((double)class->objects, (double)class->slabs * (double)class->per_slab),
        100);
}

/* Writes the innermost call, and its callers below it. Returns the number of those left out. */
static uint32_t print_frag_calls(const struct frag_view *view, const struct waste_row *row,
                                 FILE *out)
{
    struct stack_text text;
    char label[CALL_LABEL_SIZE];

    if (row->sample == TABLE_NONE) {
        fprintf(out, "%*s%s\n", CALL_INDENT, "", view->samples ? "[not sampled]" : "[no profile]");
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
    char bytes[DISPLAY_NUMBER_SIZE];

    fprintf(out, "%c%10s %6.1f%% %10.0f %6llu %9llu %7.1f%%%s\n",
            is_unsure(row)  ? '?'
            : is_rough(row) ? '~'
                            : ' ',
            display_bytes(view->display, (double)row->bytes, bytes),
            display_percent((double)row->bytes, (double)view->waste->bytes), row->objects,
            (unsigned long long)class->size, (unsigned long long)class->slabs,
            filled_percent(class), row->mixed ? "  mixed sizes" : "");
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

static void print_hidden(const struct frag_view *view, size_t shown, FILE *out)
{
    const struct waste *waste = view->waste;
    char bytes[DISPLAY_NUMBER_SIZE];
    double rest = 0;

    for (size_t i = shown; i < waste->count; i++)
        rest += (double)waste->rows[i].bytes;
    if (shown < waste->count)
        fprintf(out, "%11s in %zu more row%s (--rows 0 shows all)\n",
                display_bytes(view->display, rest, bytes), waste->count - shown,
                waste->count - shown == 1 ? "" : "s");
}

static void print_table_notes(const struct frag_view *view, size_t shown, FILE *out)
{
    bool rough = false, mixed = false, unknown = false, unsure = false;

    for (size_t i = 0; i < shown; i++) {
        const struct waste_row *row = &view->waste->rows[i];
        unsure |= is_unsure(row);
        rough |= is_rough(row) && !is_unsure(row);
        mixed |= row->mixed;
        unknown |= row->sample == TABLE_NONE;
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
    if (unknown && view->samples)
        fputs("[not sampled]: objects from before sampling began, and those kept in thread "
              "caches\n",
              out);
}

static void print_stacks(const struct frag_view *view, FILE *out)
{
    size_t shown = rows_shown(view);
    uint64_t left_out = 0;

    if (view->waste->bytes < WASTE_LEAST && !view->display->rows && view->display->least > 0)
        return; /* not asked for */
    fprintf(out, "%11s %7s %10s %6s %9s %8s  %s\n", "free space", "share", "objects", "size",
            "slabs", "in use", view->samples ? "stack" : "");
    for (size_t i = 0; i < shown; i++)
        left_out += print_stack(view, &view->waste->rows[i], out);
    print_hidden(view, shown, out);
    if (left_out)
        fputs("more: calls of libraries and distant callers\n", out);
    print_table_notes(view, shown, out);
}

/* ---- what to do ---- */

static void print_left(const struct frag_view *view, FILE *out)
{
    const struct left_behind *left = &view->frag->left;
    char bytes[DISPLAY_NUMBER_SIZE];

    if (left->bytes)
        fprintf(out,
                "%s in the %llu-byte slabs of %u arena%s that no thread is assigned to: no new "
                "object fills it\n",
                display_bytes(view->display, (double)left->bytes, bytes),
                (unsigned long long)left->size, left->arenas, left->arenas == 1 ? "" : "s");
}

static void print_next(const struct frag_view *view, const struct parts *parts, FILE *out)
{
    char pid[16] = "PID";

    if (view->pid)
        snprintf(pid, sizeof pid, "%d", view->pid);
    if (judge(parts) == VERDICT_PAGES)
        fprintf(out, "next: jeattach purge %s returns the free pages to the kernel\n", pid);
    if (judge(parts) != VERDICT_SLABS || (view->samples && view->samples->count))
        return;
    if (view->samples)
        fprintf(out, "next: jeattach on %s, so that objects are sampled from now on\n", pid);
    else
        fprintf(out,
                "next: jeattach peek %s shows what these objects are\n"
                "      to see the stacks, start it with prof:true (jeattach status %s)\n",
                pid, pid);
}

void frag_print(const struct frag_view *view, FILE *out)
{
    struct parts parts;

    make_parts(view, &parts);
    print_frag_answer(view, &parts, out);
    print_frag_parts(view, &parts, out);
    print_left(view, out);
    print_stacks(view, out);
    print_next(view, &parts, out);
}

/* ---- JSON ---- */

static void json_stack(const struct frag_view *view, const struct waste_row *row, struct json *json)
{
    if (row->sample == TABLE_NONE)
        json_null(json, "stack");
    else
        stack_json(json, "stack", view->samples, &view->samples->list[row->sample]);
}

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
    json_number(json, "size", class->size);
    json_number(json, "class_bytes", waste_bytes(class));
    json_number(json, "class_objects", class->objects);
    json_number(json, "slabs", class->slabs);
    json_number(json, "nonfull", class->nonfull);
    json_number(json, "per_slab", class->per_slab);
    json_stack(view, row, json);
    json_item_end(json);
}

static void json_parts(const struct frag_view *view, const struct parts *parts, struct json *json)
{
    json_object_begin(json, "parts");
    for (enum part i = 0; i < PARTS; i++)
        if (is_counted(view, parts, i))
            json_signed(json, part_names[i], parts->bytes[i]);
        else
            json_null(json, part_names[i]);
    json_object_end(json);
}

static const char *profile_word(const struct frag_view *view)
{
    if (view->samples)
        return view->samples->count ? "sampled" : "empty";
    return view->frag->why == FAULT_PROF_ABSENT ? "absent" : "disabled";
}

static void json_left_behind(const struct left_behind *left, struct json *json)
{
    json_object_begin(json, "left_behind");
    json_number(json, "size", left->size);
    json_number(json, "bytes", left->bytes);
    json_number(json, "arenas", left->arenas);
    json_object_end(json);
}

void frag_json(const struct frag_view *view, struct json *json)
{
    const struct stats_gauges *gauges = &view->frag->bins.gauges;
    struct parts parts;
    char text[ANSWER_BYTES];

    make_parts(view, &parts);
    json_text(json, "verdict", verdict_names[judge(&parts)]);
    json_text(json, "answer", describe_answer(view, &parts, judge(&parts), text));
    json_text(json, "profile", profile_word(view));
    if (parts.has_rss)
        json_number(json, "rss", parts.resident);
    else
        json_null(json, "rss");
    json_number(json, "resident", gauges->resident);
    json_number(json, "allocated", gauges->allocated);
    json_signed(json, "unallocated", parts.whole);
    json_parts(view, &parts, json);
    json_signed(json, "waste", parts.waste);
    json_signed(json, "returned_by_purge", parts.returned);
    if (gauges->has_retained)
        json_number(json, "retained", gauges->retained);
    else
        json_null(json, "retained");
    if (view->frag->bins.since_50)
        json_number(json, "cached", view->frag->bins.arenas->cached);
    else
        json_null(json, "cached");
    json_left_behind(&view->frag->left, json);
    json_number(json, "not_sampled", view->waste->unknown);
    json_list_begin(json, "rows");
    for (size_t i = 0; i < rows_shown(view); i++)
        json_frag_row(view, &view->waste->rows[i], json);
    json_list_end(json);
}

/* ---- */

bool frag_contradicts(const struct frag *frag, const struct samples *samples, double *sampled)
{
    const struct amount total = samples_total(samples, VALUE_BYTES);
    const double allocated = (double)frag->bins.gauges.allocated;

    *sampled = (double)total.now;
    return *sampled - 2 * amount_error(&total) > 1.25 * allocated + WASTE_LEAST;
}
