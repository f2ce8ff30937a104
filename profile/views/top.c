#include "profile/views/top.h"
#include "base/text.h"
#include "profile/views/call_keys.h"
#include "profile/views/call_label.h"
#include "profile/views/growth.h"
#include "profile/views/summary.h"

#include <math.h>
#include <string.h>

/* Columns before the name, and the width from which a terminal shows all of them. */
enum { NARROW_NUMBERS = 45, WIDE_NUMBERS = 80, WIDE = 120 };

static int64_t magnitude(int64_t value)
{
    return value < 0 ? -value : value; /* amounts never reach INT64_MIN */
}

/* What a key has so far. */
struct tally {
    uint32_t seen; /* the last sample that was counted: a recursion counts once */
    struct amount whole;
};

/* The lines of a location, innermost first. */
struct line_range {
    uint32_t first, count;
};

/* Millions of calls are counted: what each needs is close together. */
struct counter {
    struct top *top;
    const struct samples *samples;
    const struct display *display;
    struct call_keys keys;
    struct line_range *ranges; /* of each location */
    struct tally *tallies;     /* of each key */
};

static void count_sample(struct counter *counter, const struct sample *sample, uint32_t number)
{
    const uint32_t *calls = &counter->samples->calls[sample->first];
    const struct amount amount = sample->values[counter->display->value];

    for (uint32_t i = 0; i < sample->depth; i++) {
        struct line_range range = counter->ranges[calls[i]];
        for (uint32_t j = 0; j < range.count; j++) {
            struct tally *tally = &counter->tallies[counter->keys.of_line[range.first + j]];
            if (tally->seen == number)
                continue;
            tally->seen = number;
            amount_add(&tally->whole, &amount);
        }
    }
    if (sample->depth && counter->ranges[calls[0]].count) {
        /* The innermost call of a sample has at least one line: others are left out of it. */
        struct top_row *row =
            &counter->top->rows[counter->keys.of_line[counter->ranges[calls[0]].first]];
        amount_add(&row->flat, &sample->values[counter->display->value]);
        amount_add(&row->objects, &sample->values[display_objects(counter->display)]);
    }
}

/* Compares two amounts by their size, the larger first. */
static int by_growth_of(const struct amount *x, const struct amount *y)
{
    int64_t of_x = magnitude(amount_growth(x)), of_y = magnitude(amount_growth(y));

    return of_x < of_y ? 1 : of_x > of_y ? -1 : 0;
}

struct order {
    const char *const *names;
    enum display_sort sort;
};

/* pprof's orders: by the amount of the function itself, or including all that it calls. */
static int by_size(const void *a, const void *b, void *data)
{
    const struct top_row *x = a, *y = b;
    const struct order *order = data;
    int flat = by_growth_of(&x->flat, &y->flat), whole = by_growth_of(&x->whole, &y->whole),
        first = order->sort == SORT_CUM ? whole : flat,
        second = order->sort == SORT_CUM ? flat : whole, name;

    if (x->within != y->within)
        return x->within ? 1 : -1;
    if (first || second)
        return first ? first : second;
    name = strcmp(order->names[x->group], order->names[y->group]);
    return name ? name : x->line < y->line ? -1 : x->line > y->line;
}

/* Counts all samples. False: out of memory. */
static bool count_samples(struct counter *counter)
{
    const struct samples *samples = counter->samples;
    const struct locations *locations = &samples->locations;
    struct top *top = counter->top;

    top->count = counter->keys.count;
    top->rows = calloc(top->count + 1, sizeof *top->rows);
    counter->tallies = calloc(top->count + 1, sizeof *counter->tallies);
    counter->ranges = reallocarray(NULL, locations->count + 1, sizeof *counter->ranges);
    if (!top->rows || !counter->tallies || !counter->ranges)
        return false;
    for (size_t i = 0; i < locations->count; i++)
        counter->ranges[i] =
            (struct line_range){locations->list[i].first, locations->list[i].count};
    for (size_t i = 0; i < locations->line_count; i++) {
        struct top_row *row = &top->rows[counter->keys.of_line[i]];
        row->function = locations->lines[i].function;
        row->line = locations->lines[i].line;
        row->group = locations->functions[row->function].group;
    }
    for (size_t i = 0; i < samples->count; i++)
        count_sample(counter, &samples->list[i], (uint32_t)i + 1);
    for (size_t i = 0; i < top->count; i++)
        top->rows[i].whole = counter->tallies[i].whole;
    return true;
}

bool top_make(struct top *top, const struct samples *samples, const struct display *display)
{
    const enum call_key key = display->lines ? KEY_LINE : KEY_FUNCTION;
    struct counter counter = {.top = top, .samples = samples, .display = display};
    struct order order = {samples->locations.groups, display->sort};
    bool good;

    memset(top, 0, sizeof *top);
    good = call_keys_make(&counter.keys, &samples->locations, key) && count_samples(&counter);
    free(counter.tallies);
    free(counter.ranges);
    call_keys_free(&counter.keys);
    if (!good) {
        free(top->rows);
        top->rows = NULL;
        return false;
    }
    top->total = samples_total(samples, display->value);
    top->objects = samples_total(samples, display_objects(display));
    for (size_t i = 0; samples->compares && i < top->count; i++)
        top->rows[i].within = fabs((double)amount_growth(&top->rows[i].whole)) <
                              samples_error(samples, &top->rows[i].whole);
    qsort_r(top->rows, top->count, sizeof *top->rows, by_size, &order);
    return true;
}

bool top_shows(const struct top *top, const struct samples *samples, const struct display *display,
               const struct amount *amount)
{
    double size = (double)magnitude(amount_growth(amount));
    /* For a comparison, the base decides what is too small to show. */
    int64_t whole = samples->compares && top->total.base ? top->total.base : top->total.now;

    return size > 0 && size >= display->least * fabs((double)whole);
}

bool top_shows_row(const struct top *top, const struct samples *samples,
                   const struct display *display, const struct top_row *row)
{
    const bool all = display->least == 0 || display->sort == SORT_CUM;
    const char *name = samples->locations.groups[row->group]; /* a thread's has all of its calls */

    return (all || strncmp(name, "[thread ", 8) == 0 || amount_growth(&row->flat) != 0) &&
           top_shows(top, samples, display, &row->whole);
}

/* True if the numbers are of all allocations, not only of those in use. */
static bool is_total(const struct display *display)
{
    return display->value == VALUE_TOTAL_BYTES || display->value == VALUE_TOTAL_OBJECTS;
}

/* Formats the growth of a number of objects: "+125", "-". */
static const char *signed_count(const struct amount *objects, char out[DISPLAY_NUMBER_SIZE])
{
    int64_t growth = amount_growth(objects);

    if (!growth)
        return "-";
    snprintf(out, DISPLAY_NUMBER_SIZE, growth > 0 ? "+%lld" : "%lld", (long long)growth);
    return out;
}

uint64_t top_sampled(const struct samples *samples, const struct display *display)
{
    return (uint64_t)(is_total(display) ? samples->sampled_total : samples->sampled).now;
}

/* "594 samples stand for 37.1 MiB in use" */
static void write_sum(const struct samples *samples, const struct display *display,
                      const struct amount *total, FILE *out)
{
    const unsigned long long sampled = top_sampled(samples, display);
    char now[DISPLAY_NUMBER_SIZE];

    if (!display->touched && !samples->compares && samples->period > 1)
        fprintf(out, "%llu sample%s for ", sampled, sampled == 1 ? " stands" : "s stand");
    fputs(display_number(display, (double)total->now, now), out);
    if (!display_is_bytes(display))
        fputs(total->now == 1 ? " object" : " objects", out);
    if (!display->touched)
        fputs(is_total(display) ? " allocated" : " in use", out);
}

const char *top_filtered_text(const struct samples *samples, const struct display *display,
                              char out[TOP_FILTERED_SIZE])
{
    struct amount shown = samples_total(samples, display->value),
                  whole = samples_whole(samples, display->value);
    char text[DISPLAY_NUMBER_SIZE];

    out[0] = '\0';
    if (samples->filtered_count)
        snprintf(out, TOP_FILTERED_SIZE, "filtered: %.1f%% of %s, %zu stack%s left out",
                 display_percent((double)shown.now, (double)whole.now),
                 display_number(display, (double)whole.now, text), samples->filtered_count,
                 samples->filtered_count == 1 ? "" : "s");
    return out;
}

void top_head_write(const struct samples *samples, const struct display *display,
                    const struct amount *total, const struct amount *objects, FILE *out)
{
    char error[DISPLAY_NUMBER_SIZE], period[DISPLAY_NUMBER_SIZE], base[DISPLAY_NUMBER_SIZE],
        growth[DISPLAY_CHANGE_SIZE], filtered[TOP_FILTERED_SIZE], title[DISPLAY_TITLE_SIZE];

    if (display->title) {
        text_write_clean(out, display_title(display, title), "");
        fputc('\n', out);
    }
    display_number(display, samples_error(samples, total), error);
    units_bytes((double)samples->period, period);
    fputs(display->touched ? "first touched: " : "sampled: ", out);
    write_sum(samples, display, total, out);
    if (samples->compares)
        fprintf(out, ", before %s, %s%s\n", display_number(display, (double)total->base, base),
                amount_growth(total) ? "growth " : "no growth",
                amount_growth(total) ? display_change(display, (double)amount_growth(total), growth)
                                     : "");
    else if (display_is_bytes(display))
        fprintf(out, ", %lld object%s, %zu stack%s\n", (long long)objects->now,
                objects->now == 1 ? "" : "s", samples->count, samples->count == 1 ? "" : "s");
    else
        fprintf(out, ", %zu stack%s\n", samples->count, samples->count == 1 ? "" : "s");
    if (samples->filtered_count)
        fprintf(out, "%s%s\n", top_filtered_text(samples, display, filtered),
                samples->compares || !samples->count ? "" : "; shares are of the whole");
    if (samples->period > 1)
        fprintf(out, "estimated from samples, one in %s; error of the %s about %s\n", period,
                samples->compares ? "growth" : "sum", error);
    if (!is_total(display) && amount_growth(total) != 0 && growth_evidence_text(samples))
        fprintf(out, "growth from %s\n", growth_evidence_text(samples));
    if (is_total(display) && !samples->accumulates)
        fputs("the profile has only memory in use: all allocations need prof_accum:true\n", out);
}

/* True if the terminal has no space for all columns and a name. */
static bool is_narrow(const struct display *display)
{
    return display->width && display->width < WIDE;
}

static void write_row_name(const struct samples *samples, const struct display *display,
                           const struct top_row *row, FILE *out)
{
    char label[CALL_LABEL_SIZE];
    size_t used = is_narrow(display) ? NARROW_NUMBERS : WIDE_NUMBERS,
           room = display->width > used ? display->width - used : 0;

    call_label(samples, &samples->locations.functions[row->function], row->line, display->lines,
               room, label);
    fprintf(out, "%s\n", label);
}

/* Formats a growth; one of nothing is no number to read. */
static const char *change_text(const struct display *display, const struct amount *amount,
                               char out[DISPLAY_CHANGE_SIZE])
{
    if (!amount_growth(amount))
        return strcpy(out, "-");
    return display_change(display, (double)amount_growth(amount), out);
}

/*
 * A growth that the sampling alone may have caused is grey, and marked for
 * output without colors.
 */
static void write_growth_row(const struct samples *samples, const struct display *display,
                             const struct top_row *row, FILE *out)
{
    char flat[DISPLAY_CHANGE_SIZE], cum[DISPLAY_CHANGE_SIZE], error[DISPLAY_NUMBER_SIZE],
        base[DISPLAY_NUMBER_SIZE], now[DISPLAY_NUMBER_SIZE], count[DISPLAY_NUMBER_SIZE];

    if (row->within && display->colors)
        fputs("\033[2m", out);
    change_text(display, &row->flat, flat);
    change_text(display, &row->whole, cum);
    display_number(display, samples_error(samples, &row->whole), error);
    if (is_narrow(display))
        fprintf(out, "%10s %10s %10s %9s %c ", flat, cum, error, signed_count(&row->objects, count),
                row->within ? '~' : ' ');
    else
        fprintf(out, "%13s %13s %12s %12s %12s %10s %c ", flat, cum, error,
                display_number(display, (double)row->whole.base, base),
                display_number(display, (double)row->whole.now, now),
                signed_count(&row->objects, count), row->within ? '~' : ' ');
    write_row_name(samples, display, row, out);
    if (row->within && display->colors)
        fputs("\033[0m", out);
}

static void write_rows(const struct samples *samples, const struct display *display,
                       const struct top *top, FILE *out)
{
    double whole = (double)samples_whole(samples, display->value).now, sum = 0, most = 0;
    struct amount rest = {0};
    size_t shown = 0, left_out = 0;

    for (size_t i = 0; i < top->count; i++) {
        const struct top_row *row = &top->rows[i];
        if (!top_shows_row(top, samples, display, row) ||
            (display->rows && shown == display->rows)) {
            left_out += amount_growth(&row->whole) != 0;
            amount_add(&rest, &row->flat);
            most = fmax(most, (double)magnitude(amount_growth(&row->flat)));
            continue;
        }
        shown++;
        sum += (double)row->flat.now;
        if (samples->compares) {
            write_growth_row(samples, display, row, out);
        } else {
            char flat[DISPLAY_NUMBER_SIZE], cum[DISPLAY_NUMBER_SIZE],
                mean[DISPLAY_NUMBER_SIZE] = "";
            double flat_now = (double)row->flat.now, cum_now = (double)row->whole.now;
            display_number(display, flat_now, flat);
            display_number(display, cum_now, cum);
            if (row->objects.now > 0 && display_is_bytes(display))
                display_bytes(display, flat_now / (double)row->objects.now, mean);
            if (is_narrow(display))
                fprintf(out, "%9s %5.1f%% %9s %5.1f%% %9lld  ", flat,
                        display_percent(flat_now, whole), cum, display_percent(cum_now, whole),
                        (long long)row->objects.now);
            else
                fprintf(out, "%12s %6.2f%% %6.2f%% %12s %6.2f%% %10lld %10s  ", flat,
                        display_percent(flat_now, whole), display_percent(sum, whole), cum,
                        display_percent(cum_now, whole), (long long)row->objects.now, mean);
            write_row_name(samples, display, row, out);
        }
    }
    if (left_out) {
        fprintf(out, "and %zu more %s%s", left_out, display->lines ? "line" : "function",
                left_out == 1 ? "" : "s");
        if (most > 0) {
            /*
             * What the functions without a row allocated themselves: nothing large hides in them.
             */
            char text[DISPLAY_CHANGE_SIZE];
            if (samples->compares)
                fprintf(out, ": growth %s",
                        display_change(display, (double)amount_growth(&rest), text));
            else
                fprintf(out, ": %s (%.1f%%)", display_number(display, (double)rest.now, text),
                        display_percent((double)rest.now, whole));
            if (left_out > 1)
                fprintf(out, ", each at most %s", display_number(display, most, text));
        }
        fputs(" (--rows 0 shows all)\n", out);
    }
    if (samples->folded && shown)
        fputs("memory of library calls counts as their caller's: --no-fold shows them\n", out);
}

bool top_write(const struct samples *samples, const struct display *display, FILE *out)
{
    struct amount whole;
    struct top top;
    bool good, has_rows = false, has_changed = false;

    if (!top_make(&top, samples, display))
        return false;
    top_head_write(samples, display, &top.total, &top.objects, out);
    whole = samples_whole(samples, display->value);
    good = summary_write(samples, display, &whole, out);
    for (size_t i = 0; i < top.count && !has_rows; i++) {
        has_changed |= amount_growth(&top.rows[i].whole) != 0;
        has_rows = top_shows_row(&top, samples, display, &top.rows[i]);
    }
    if (has_rows) {
        const char *row = display->lines ? "line" : "function";
        bool narrow = is_narrow(display);
        if (samples->compares && narrow)
            fprintf(out, "%10s %10s %10s %9s   %s (~: within the error)\n", "growth", "cum",
                    "error", "objects", row);
        else if (samples->compares)
            fprintf(out, "%13s %13s %12s %12s %12s %10s   %s (~: within the error)\n", "growth",
                    "cum", "error", "before", "now", "objects", row);
        else if (narrow)
            fprintf(out, "%9s %6s %9s %6s %9s  %s\n", "flat", "flat%", "cum", "cum%", "objects",
                    row);
        else
            fprintf(out, "%12s %7s %7s %12s %7s %10s %10s  %s\n", "flat", "flat%", "sum%", "cum",
                    "cum%", "objects", display_is_bytes(display) ? "mean size" : "", row);
    } else if (samples->compares && !has_changed) {
        fputs("no stack has changed\n", out);
    }
    write_rows(samples, display, &top, out);
    free(top.rows);
    return good;
}
