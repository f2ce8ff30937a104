#include "cli/output/grow_view.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/output/attachment_json.h"
#include "profile/stack_text.h"
#include "profile/views/call_label.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum {
    ANSWER_ROWS = 3,
    NOTABLE_PAGES = 16, /* a smaller change of the whole is none */
    /* The tool's own reads bring pages of the program's files into memory. */
    NOTABLE_FILE_PAGES = 256,
    LINE_STACK = 58, /* columns of a stack in a line of 80 */
    NOTABLE_PERCENT = 25,
    LEAST_PERCENT = 1, /* of a row */
};

static const double RETURNED = 1.02; /* of a growth: more of it was touched, and some returned */

/* ---- rows ---- */

/* Stacks that are one row. */
struct row {
    uint64_t hash;
    uint32_t sample; /* the largest of them */
    size_t stacks;   /* their number */
    int64_t bytes;
    double error; /* two standard deviations */
};

struct rows {
    struct row *list; /* the largest first */
    double *weights;  /* of each sample, bytes: what the rows are made of */
    size_t count;
    int64_t bytes; /* of all rows */
};

enum rows_of {
    ROWS_BY_STACK, /* a row has the stacks with the same functions of the program itself */
    ROWS_BY_CALL,  /* those with the same innermost one */
};

static uint64_t hash_stack(const struct samples *samples, const struct sample *sample,
                           enum rows_of of)
{
    struct stack_text text;
    const size_t count = stack_own_calls(samples, sample, &text);
    size_t first = 0, most = STACK_TEXT_OWN;
    uint64_t hash = 0;

    if (of == ROWS_BY_CALL) {
        first = stack_named_call(text.calls, count, 0);
        most = 1;
    }
    for (size_t i = first; i < count && i < first + most; i++)
        hash = table_mix(hash + (uintptr_t)text.calls[i].function);
    return hash;
}

static int rows_by_hash(const void *a, const void *b)
{
    const struct row *x = a, *y = b;

    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->bytes > y->bytes ? -1 : x->bytes < y->bytes;
}

static int rows_by_bytes(const void *a, const void *b)
{
    const struct row *x = a, *y = b;

    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return (x->sample > y->sample) - (x->sample < y->sample);
}

/* Adds up the rows with the same hash, which are together, the largest first. */
static void merge_rows(struct rows *rows)
{
    size_t kept = 0;

    for (size_t i = 0; i < rows->count; i++) {
        struct row *last = kept ? &rows->list[kept - 1] : NULL;
        if (last && last->hash == rows->list[i].hash) {
            last->bytes = add_saturating(last->bytes, rows->list[i].bytes);
            last->stacks++;
        } else {
            rows->list[kept++] = rows->list[i];
        }
    }
    rows->count = kept;
}

/* Two standard deviations of a share of all pages of a size. */
static double touched_error(const struct grow_touched *touched, double bytes)
{
    const double samples = (double)touched->samples,
                 share = touched->whole > 0 ? fmin(bytes / touched->whole, 1) : 0;

    return 2 * touched->whole * sqrt(share * (1 - share) / samples + 1 / (samples * samples));
}

static void free_rows(struct rows *rows)
{
    free(rows->list);
    free(rows->weights);
    *rows = (struct rows){.list = NULL};
}

/*
 * Makes the rows of a kind; GROW_KINDS: of all kinds but files. size: of new pages with jemalloc's
 * objects of that size, of no kind; 0: of all pages. False: out of memory. free_rows in every
 * case.
 */
static bool make_rows(struct rows *rows, const struct grow_view *view, enum grow_kind kind,
                      uint64_t size, enum rows_of of)
{
    const struct grow *grow = view->grow;
    const struct samples *samples = view->samples;
    struct grow_touched touched = {.bytes = NULL};

    *rows = (struct rows){.list = calloc(samples->count + 1, sizeof *rows->list),
                          .weights = calloc(samples->count + 1, sizeof *rows->weights)};
    if (!rows->list || !rows->weights || (size && !grow_touched(grow, size, &touched))) {
        free_rows(rows);
        return false;
    }
    for (uint32_t i = 0; i < samples->count; i++) {
        const struct sample *sample = &samples->list[i];
        int64_t bytes = 0;
        if (!size && kind == GROW_KINDS) /* the profile has those of all kinds */
            bytes = sample->values[VALUE_BYTES].now;
        else if (sample->stack < grow->stacks.count)
            bytes = size ? (int64_t)touched.bytes[sample->stack]
                         : (int64_t)grow_bytes(grow, grow->stacks.list[sample->stack].growth[kind]);
        if (bytes > 0)
            rows->list[rows->count++] =
                (struct row){hash_stack(samples, sample, of), i, 1, bytes, 0};
        rows->bytes = add_saturating(rows->bytes, bytes);
        rows->weights[i] = fmax((double)bytes, 0);
    }
    qsort(rows->list, rows->count, sizeof *rows->list, rows_by_hash);
    merge_rows(rows);
    qsort(rows->list, rows->count, sizeof *rows->list, rows_by_bytes);
    for (size_t i = 0; i < rows->count; i++) {
        const double bytes = (double)rows->list[i].bytes;
        rows->list[i].error = size ? touched_error(&touched, bytes) : grow_error(grow, kind, bytes);
    }
    free(touched.bytes);
    return true;
}

/* ---- the answer ---- */

static double end_change(const struct grow *grow, size_t offset)
{
    const char *before = (const char *)&grow->before.usage,
               *after = (const char *)&grow->after.usage;

    return (double)*(const uint64_t *)(const void *)(after + offset) -
           (double)*(const uint64_t *)(const void *)(before + offset);
}

#define END_CHANGE(grow, member) end_change(grow, offsetof(struct proc_usage, member))

/*
 * "; first touched by: 61 % session_new (leaky.c:12), ..." Not more than that is known: an
 * allocator may have given the memory to another stack since.
 */
static bool write_toucher_names(const struct grow_view *view, const struct rows *rows,
                                double growth, FILE *out)
{
    char place[PLACE_TEXT_SIZE], common[COMMON_TEXT_SIZE];
    const char *before = "; first touched by: ";

    if (!rows->count || (double)rows->list[0].bytes <= rows->list[0].error) {
        fputs("; too few samples of page faults to name a stack: try a longer time (-d), or "
              "--period with a smaller number",
              out);
        return false;
    }
    for (size_t i = 0; i < rows->count && i < ANSWER_ROWS; i++) {
        const struct row *row = &rows->list[i];
        double percent = display_percent((double)row->bytes, fmax((double)rows->bytes, growth));
        if (i > 0 && (percent < NOTABLE_PERCENT || (double)row->bytes <= row->error)) {
            fputs(" and others", out);
            break;
        }
        fprintf(out, "%s%.0f %% ", before, percent);
        text_write_clean(out, place_text(view->samples, &view->samples->list[row->sample], place),
                         "");
        before = ", ";
    }
    text_write_clean(out, common_caller_text(view->samples, rows->weights, common), "");
    return true;
}

bool grow_write_touchers(const struct grow_view *view, enum grow_kind kind, uint64_t size,
                         double growth, FILE *out)
{
    struct rows rows;
    bool named = false;

    if (view->grow->refused.code != FAULT_NONE || !make_rows(&rows, view, kind, size, ROWS_BY_CALL))
        return false;
    /* Objects may be in pages that were there before. */
    if (rows.count || !size)
        named = write_toucher_names(view, &rows, growth, out);
    free_rows(&rows);
    return named;
}

/* ---- what has changed ---- */

/* The change of a part, bytes. */
static double part_change(const struct grow *grow, enum grow_kind kind)
{
    const struct grow_part *part = &grow->sum.parts[kind];

    return grow_bytes(grow, (double)part->gained - (double)part->lost);
}

/* All that allocators may have. */
static double heap_change(const struct grow *grow)
{
    return part_change(grow, GROW_JEMALLOC) + part_change(grow, GROW_LIBC) +
           part_change(grow, GROW_PYMALLOC) + part_change(grow, GROW_MAPPED);
}

static void write_change(const char *name, double bytes, FILE *out)
{
    char text[UNITS_TEXT];

    if (bytes != 0)
        fprintf(out, "; %s %s", name, units_change(bytes, text));
}

static void write_rss(const struct grow_view *view, FILE *out)
{
    const struct grow *grow = view->grow;
    char from[UNITS_TEXT], to[UNITS_TEXT], change[UNITS_TEXT], time[UNITS_TEXT];

    fprintf(out, "RSS: %s -> %s, %s in %s", units_bytes((double)grow->before.usage.rss, from),
            units_bytes((double)grow->after.usage.rss, to), units_change(grow_rss(grow), change),
            units_duration(grow_ns(grow), time));
    write_change("heap", heap_change(grow), out);
    write_change("thread stacks", part_change(grow, GROW_STACKS), out);
    write_change("program data", part_change(grow, GROW_DATA), out);
    write_change("files", END_CHANGE(grow, file), out);
    write_change("shared memory", END_CHANGE(grow, shared), out);
    write_change("swap", END_CHANGE(grow, swap), out);
    write_change("in huge pages",
                 grow_bytes(grow, (double)grow->pages.huge_now - (double)grow->pages.huge_first),
                 out);
    fputc('\n', out);
}

/* In the order of enum grow_kind. */
static const struct {
    const char *name, *words;
    size_t notable; /* pages */
} kinds[] = {
    [GROW_JEMALLOC] = {"jemalloc", "jemalloc's heap", NOTABLE_PAGES},
    [GROW_LIBC] = {"libc", "the C library's heap", NOTABLE_PAGES},
    [GROW_PYMALLOC] = {"pymalloc", "pools of Python objects", NOTABLE_PAGES},
    [GROW_MAPPED] = {"mappings", "anonymous mappings", NOTABLE_PAGES},
    [GROW_STACKS] = {"stacks", "thread stacks", NOTABLE_PAGES},
    [GROW_DATA] = {"data", "program data", NOTABLE_PAGES},
    [GROW_SHARED] = {"shared", "shared memory", NOTABLE_PAGES},
    [GROW_HUGE] = {"huge", "mapped huge pages", NOTABLE_PAGES},
    [GROW_FILES] = {"files", "pages of files", NOTABLE_FILE_PAGES},
};
_Static_assert(ARRAY_LEN(kinds) == GROW_KINDS, "a row for each kind");

const char *grow_kind_name(enum grow_kind kind)
{
    return kinds[kind].name;
}

const char *grow_kind_words(enum grow_kind kind)
{
    return kinds[kind].words;
}

/* "anonymous mappings: +60 MiB; first touched by: 98 % map_more (x.c:9)" */
static void write_kinds(const struct grow_view *view, FILE *out)
{
    const struct grow *grow = view->grow;
    char text[UNITS_TEXT];

    for (enum grow_kind kind = 0; kind < GROW_KINDS; kind++) {
        struct rows rows;
        if (part_change(grow, kind) < grow_bytes(grow, (double)kinds[kind].notable))
            continue;
        fprintf(out, "%s: %s", kinds[kind].words, units_change(part_change(grow, kind), text));
        if (make_rows(&rows, view, kind, 0, ROWS_BY_CALL) && rows.count)
            write_toucher_names(view, &rows, 0, out);
        free_rows(&rows);
        fputc('\n', out);
    }
}

/* How the gained pages are divided. */
static void write_division(const struct grow_view *view, FILE *out)
{
    const struct grow *grow = view->grow;
    const struct grow_sum *sum = &grow->sum;
    char text[UNITS_TEXT];

    if (!sum->samples && sum->nobody < 1 && sum->in_flight < 1 && !sum->lost)
        return;
    fprintf(out, "anonymous memory: %s by stack (%zu sample%s)",
            units_change(grow_bytes(grow, sum->by_stack), text), sum->samples,
            sum->samples == 1 ? "" : "s");
    if (sum->nobody >= 1)
        fprintf(out, "; %s not sampled", units_change(grow_bytes(grow, sum->nobody), text));
    if (sum->in_flight >= 1)
        fprintf(out, "; %s short-lived", units_change(grow_bytes(grow, sum->in_flight), text));
    if (sum->lost)
        fprintf(out, "; %s of older memory returned",
                units_change(-grow_bytes(grow, (double)sum->lost), text));
    fputc('\n', out);
    if (sum->again >= NOTABLE_PAGES)
        fprintf(out, "temporary: %s touched, and returned before the end\n",
                units_bytes(grow_bytes(grow, sum->again), text));
}

/* The inner calls of each stack are right: what is unsure are the outer ones. */
static void write_walks(const struct grow *grow, FILE *out)
{
    const struct {
        uint64_t walks;
        const char *words;
    } rows[] = {
        {grow->cut, "are deeper than the copy of the stack: outer callers are missing"},
        {grow->lost, "end early: outer callers are missing"},
        {grow->guessed, "have no call frame information: outer callers are guesses"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        /* One in a hundred stacks, or fewer, changes no answer. */
        if (rows[i].walks * 100 > grow->walks)
            fprintf(out, "stacks: %.0f %% %s\n", 100 * (double)rows[i].walks / (double)grow->walks,
                    rows[i].words);
}

/* Those of fewer than one in a hundred change no answer. */
static void write_losses(const struct grow *grow, FILE *out)
{
    const struct page_fault_lack *lack = &grow->lack;
    const uint64_t lost = lack->lost + grow->sites.dropped,
                   all = lost + grow->sites.seen + lack->others;

    if (lost * 100 > all)
        fprintf(out, "lost: %.0f %% of the page-fault samples: shares are of the others\n",
                100 * (double)lost / (double)all);
    if (lack->throttled)
        fprintf(out, "lost: samples of page faults: the kernel paused the sampling %llu times\n",
                (unsigned long long)lack->throttled);
    if (grow->unwalked * 100 > grow->sites.seen)
        fprintf(out,
                "stacks: %llu samples have none: to find more would take more than half of a "
                "CPU\n",
                (unsigned long long)grow->unwalked);
}

static const char *reason_missed(int err)
{
    switch (err) {
    case EMFILE:
    case ENFILE:
        return "jeattach may open no more files (ulimit -n)";
    case EPERM:
        return "jeattach may lock no more memory (ulimit -l, kernel.perf_event_mlock_kb)";
    case ENOBUFS:
        return "more would need too much of the kernel's memory";
    case ETIMEDOUT:
        return "there was no time for more (--timeout, or Ctrl-C)";
    default:
        return "the kernel refuses the others";
    }
}

/* What was not seen, or not whole. */
static void write_lacks(const struct grow_view *view, FILE *out)
{
    const struct grow *grow = view->grow;
    const struct page_fault_lack *lack = &grow->lack;
    char text[UNITS_TEXT];

    if (lack->kernel)
        fputs("not seen: page faults inside system calls, such as read(2) into new memory: the "
              "kernel does not permit it\n",
              out);
    if (lack->listed)
        fprintf(out,
                "not seen: page faults of threads of less than %u ms: there are too many threads\n",
                lack->listed_ms);
    if (lack->threads)
        fprintf(out, "%zu of %zu threads are observed: %s%s\n", lack->all_threads - lack->threads,
                lack->all_threads, reason_missed(lack->threads_err),
                lack->cpus_denied ? "; as root, or with CAP_PERFMON, it observes all" : "");
    if (lack->by_cpu)
        fprintf(out,
                "sampled by CPU, as there are many threads: %llu samples of other processes are "
                "left out\n",
                (unsigned long long)lack->others);
    write_losses(grow, out);
    if (grow->pages.unread)
        fprintf(out, "not seen: pages in %s of address space\n",
                units_bytes((double)grow->pages.unread, text));
    if (grow->stacks_unsure)
        fputs("thread stacks: some count as heap: the time limit (--timeout) was over\n", out);
    if (grow->owners.jemalloc)
        fputs("jemalloc's heap is not known apart: it counts as anonymous mappings\n", out);
    if (grow->owners.pymalloc)
        fputs("pools of Python objects: some count as anonymous mappings: there are too many\n",
              out);
    if (view->verbose)
        write_walks(grow, out);
}

/* ---- the table ---- */

static void write_calls(const struct grow_view *view, const struct row *row, FILE *out)
{
    stack_lines(view->samples, &view->samples->list[row->sample], view->depth, out);
    if (row->stacks > 1)
        fprintf(out, "; and %zu more stack%s of this function", row->stacks - 1,
                row->stacks == 2 ? "" : "s");
    fputc('\n', out);
}

static void write_grow_row(const struct grow_view *view, const struct row *row, double whole,
                           FILE *out)
{
    const double seconds = (double)grow_ns(view->grow) / 1e9, bytes = (double)row->bytes;
    char touched[UNITS_TEXT], error[UNITS_TEXT], rate[UNITS_TEXT], around[UNITS_TEXT + 4];
    bool within = bytes <= row->error;

    if (within && view->colors)
        fputs("\033[2m", out);
    fprintf(out, "%11s %5.1f %%", units_bytes(bytes, touched), display_percent(bytes, whole));
    if (view->verbose) {
        snprintf(around, sizeof around, "+-%s", units_bytes(row->error, error));
        fprintf(out, " %12s %13s%s\n", around, seconds > 0 ? units_rate(bytes / seconds, rate) : "",
                within ? " ~" : "");
        write_calls(view, row, out);
    } else {
        fputs("  ", out);
        stack_line(view->samples, &view->samples->list[row->sample], LINE_STACK, out);
        fputc('\n', out);
    }
    if (within && view->colors)
        fputs("\033[0m", out);
}

/* The same function in other stacks is the same answer: one row. */
void grow_write_table(const struct grow_view *view, enum grow_kind kind, uint64_t size,
                      double growth, size_t limit, FILE *out)
{
    struct rows rows;
    size_t shown;
    int64_t rest = 0;
    bool unsure = false;
    char text[UNITS_TEXT];

    if (!make_rows(&rows, view, kind, size, ROWS_BY_CALL))
        return;
    shown = !limit || limit > rows.count ? rows.count : limit;
    while (limit && !view->verbose && shown > 1 &&
           display_percent((double)rows.list[shown - 1].bytes, (double)rows.bytes) < LEAST_PERCENT)
        shown--;
    const char *returned =
        (double)rows.bytes > growth * RETURNED + grow_bytes(view->grow, NOTABLE_PAGES)
            ? ", some returned since"
            : "";
    if (shown && view->verbose)
        fprintf(out, "%11s %7s %12s %13s  %s%s\n", "first touch", "share", "margin", "rate",
                "stack", *returned ? returned : ", innermost call first");
    else if (shown)
        fprintf(out, "%11s %7s  stack, %s %s%s\n", "first touch", "share",
                size ? "for objects of" : "in",
                size ? units_bytes((double)size, text) : grow_kind_words(kind), returned);
    for (size_t i = 0; i < shown; i++) {
        write_grow_row(view, &rows.list[i], (double)rows.bytes, out);
        unsure |= (double)rows.list[i].bytes <= rows.list[i].error;
    }
    for (size_t i = shown; i < rows.count; i++)
        rest = add_saturating(rest, rows.list[i].bytes);
    if (shown < rows.count)
        fprintf(out, "%11s in %zu more stack%s (--rows 0 shows all)\n",
                units_bytes((double)rest, text), rows.count - shown,
                rows.count - shown == 1 ? "" : "s");
    if (unsure && view->verbose)
        fputs("~: within its margin of error (+-, 95 %)\n", out);
    free_rows(&rows);
}

bool grow_language_hint(const struct grow_view *view, struct language_hint *hint)
{
    return grow_net(view->grow) >= grow_bytes(view->grow, NOTABLE_PAGES) &&
           language_hint(view->grow->heaps, view->target, hint);
}

void grow_write_parts(const struct grow_view *view, FILE *out)
{
    write_rss(view, out);
    if (view->verbose) {
        write_division(view, out);
        write_kinds(view, out);
    }
    write_lacks(view, out);
}

/* ---- JSON ---- */

static void json_grow_end(struct json *json, const char *name, const struct grow_end *end)
{
    JSON_OBJECT(json, name, NUMBER("rss", end->usage.rss),
                NUMBER("anonymous", end->usage.anonymous), NUMBER("file", end->usage.file),
                NUMBER("shared", end->usage.shared), NUMBER("swap", end->usage.swap));
}

void grow_touchers_json(const struct grow_view *view, enum grow_kind kind, uint64_t size,
                        struct json *json)
{
    struct rows rows = {0};

    (void)make_rows(&rows, view, kind, size, ROWS_BY_CALL);
    for (const struct row *row = rows.list; row < rows.list + rows.count; row++) {
        json_item_begin(json);
        JSON_MEMBERS(json, ROUNDED("low", fmax((double)row->bytes - row->error, 0)),
                     ROUNDED("high", (double)row->bytes + row->error), TEXT("evidence", "faults"),
                     NUMBER("stacks", row->stacks));
        stack_json(json, "stack", view->samples, &view->samples->list[row->sample]);
        json_item_end(json);
    }
    free_rows(&rows);
}

/*
 * Adds "parts": of each kind with memory, the bytes at both ends and the stacks that
 * touched what was gained.
 */
static void grow_parts_json(const struct grow_view *view, struct json *json)
{
    const struct grow *grow = view->grow;

    json_list_begin(json, "parts");
    for (enum grow_kind kind = 0; kind < GROW_KINDS; kind++) {
        const struct grow_part *part = &grow->sum.parts[kind];
        if (!part->before && !part->now)
            continue;
        json_item_begin(json);
        JSON_MEMBERS(json, TEXT("kind", kinds[kind].name),
                     ROUNDED("before", grow_bytes(grow, (double)part->before)),
                     ROUNDED("after", grow_bytes(grow, (double)part->now)),
                     ROUNDED("bytes", part_change(grow, kind)),
                     ROUNDED("by_stack", grow_bytes(grow, part->by_stack)),
                     ROUNDED("in_flight", grow_bytes(grow, part->in_flight)),
                     ROUNDED("without_sample", grow_bytes(grow, part->nobody)),
                     NUMBER("samples", part->samples));
        json_list_begin(json, "stacks");
        grow_touchers_json(view, kind, 0, json);
        json_list_end(json);
        json_item_end(json);
    }
    json_list_end(json);
    JSON_MEMBERS(json, FLAG("jemalloc_apart", !grow->owners.jemalloc),
                 FLAG("pymalloc_apart", !grow->owners.pymalloc));
}

static void json_lacks(const struct grow *grow, struct json *json)
{
    JSON_MEMBERS(
        json, NUMBER("samples", grow->sites.seen), NUMBER("samples_of_growth", grow->sum.samples),
        NUMBER("samples_lost", grow->lack.lost + grow->sites.dropped),
        NUMBER("throttled", grow->lack.throttled), FLAG("system_calls_seen", !grow->lack.kernel),
        NUMBER("page_faults", grow->lack.counted), NUMBER("threads_missed", grow->lack.threads),
        FLAG("by_cpu", grow->lack.by_cpu), NUMBER("samples_of_others", grow->lack.others),
        NUMBER("stacks_cut", grow->cut), NUMBER("stack_bytes", grow->stack_bytes),
        NUMBER("stacks_lost", grow->lost), NUMBER("stacks_guessed", grow->guessed),
        NUMBER("stacks_left_out", grow->unwalked), NUMBER("looks", grow->pages.looks),
        NUMBER("longest_look_ns", grow->pages.longest_ns), NUMBER("unread", grow->pages.unread),
        FLAG("ended", grow->ended.code != FAULT_NONE));
}

void grow_json(const struct grow_view *view, struct json *json)
{
    const struct grow *grow = view->grow;
    const struct grow_sum *sum = &grow->sum;
    struct language_hint hint;
    struct rows rows;

    json_number(json, "sampled_ns", grow_ns(grow));
    json_grow_end(json, "before", &grow->before);
    json_grow_end(json, "after", &grow->after);
    JSON_MEMBERS(
        json, ROUNDED("heap", heap_change(grow)), ROUNDED("stacks", part_change(grow, GROW_STACKS)),
        ROUNDED("data", part_change(grow, GROW_DATA)),
        ROUNDED("huge",
                grow_bytes(grow, (double)grow->pages.huge_now - (double)grow->pages.huge_first)),
        ROUNDED("net", grow_net(grow)), ROUNDED("gained", grow_bytes(grow, (double)sum->gained)),
        ROUNDED("lost", grow_bytes(grow, (double)sum->lost)),
        ROUNDED("by_stack", grow_bytes(grow, sum->by_stack)),
        ROUNDED("without_sample", grow_bytes(grow, sum->nobody)),
        ROUNDED("in_flight", grow_bytes(grow, sum->in_flight)),
        ROUNDED("again", grow_bytes(grow, sum->again)));
    json_lacks(grow, json);
    grow_parts_json(view, json);
    language_hint_json(&hint, language_hint(grow->heaps, view->target, &hint), "language", json);
    json_list_begin(json, "rows");
    (void)make_rows(&rows, view, GROW_KINDS, 0, ROWS_BY_STACK);
    for (const struct row *row = rows.list; row < rows.list + rows.count; row++) {
        json_item_begin(json);
        JSON_MEMBERS(json, SIGNED("bytes", row->bytes), ROUNDED("error", row->error),
                     FLAG("within_error", (double)row->bytes <= row->error));
        stack_json(json, "stack", view->samples, &view->samples->list[row->sample]);
        json_item_end(json);
    }
    json_list_end(json);
    free_rows(&rows);
}
