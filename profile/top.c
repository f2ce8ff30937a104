#include "profile/top.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

static int64_t magnitude(int64_t value)
{
    return value < 0 ? -value : value; /* amounts never reach INT64_MIN */
}

/* Marks hold the last sample that was counted for each group, so that a recursion counts once. */
static void count_sample(struct top *top, const struct samples *samples,
                         const struct display *display, const struct sample *sample, uint32_t *seen,
                         uint32_t number)
{
    const struct locations *locations = &samples->locations;
    const struct amount *amount = &sample->values[display->value];
    bool innermost = true;

    for (uint32_t i = 0; i < sample->depth; i++) {
        const struct location *location = &locations->list[samples->calls[sample->first + i]];
        for (uint32_t j = 0; j < location->count; j++) {
            uint32_t function = locations->lines[location->first + j].function;
            uint32_t group = locations->functions[function].group;
            struct top_row *row = &top->rows[group];
            if (innermost) {
                amount_add(&row->flat, amount);
                amount_add(&row->objects, &sample->values[display_objects(display)]);
            }
            innermost = false;
            if (seen[group] != number)
                amount_add(&row->whole, amount);
            seen[group] = number;
        }
    }
}

/* pprof's order: by the amount of the function itself, then including all that it calls. */
static int by_size(const void *a, const void *b, void *names)
{
    const struct top_row *x = a, *y = b;
    int64_t flat_x = magnitude(amount_growth(&x->flat)),
            flat_y = magnitude(amount_growth(&y->flat)),
            whole_x = magnitude(amount_growth(&x->whole)),
            whole_y = magnitude(amount_growth(&y->whole));

    if (flat_x != flat_y)
        return flat_x < flat_y ? 1 : -1;
    if (whole_x != whole_y)
        return whole_x < whole_y ? 1 : -1;
    return strcmp(((const char **)names)[x->group], ((const char **)names)[y->group]);
}

bool top_make(struct top *top, const struct samples *samples, const struct display *display)
{
    const struct locations *locations = &samples->locations;
    AUTO_FREE uint32_t *seen = calloc(locations->group_count + 1, sizeof *seen);

    memset(top, 0, sizeof *top);
    top->count = locations->group_count;
    top->rows = calloc(top->count + 1, sizeof *top->rows);
    if (!seen || !top->rows) {
        free(top->rows);
        top->rows = NULL;
        return false;
    }
    for (size_t i = 0; i < top->count; i++)
        top->rows[i].group = (uint32_t)i;
    for (size_t i = 0; i < samples->count; i++)
        count_sample(top, samples, display, &samples->list[i], seen, (uint32_t)i + 1);
    top->total = samples_total(samples, display->value);
    top->objects = samples_total(samples, display_objects(display));
    qsort_r(top->rows, top->count, sizeof *top->rows, by_size, locations->groups);
    return true;
}

/* Returns the amount that percentages refer to: for a comparison, the base. */
static double whole_of(const struct samples *samples, const struct top *top)
{
    return (double)(samples->compares && top->total.base ? top->total.base : top->total.now);
}

bool top_shows(const struct top *top, const struct samples *samples, const struct display *display,
               const struct amount *amount)
{
    double size = (double)magnitude(amount_growth(amount));
    return size > 0 && size >= display->least * fabs(whole_of(samples, top));
}

static const char *kind_text(const struct display *display)
{
    return display->value == VALUE_BYTES || display->value == VALUE_OBJECTS ? "in use"
                                                                            : "allocated";
}

static void write_table_head(const struct samples *samples, const struct display *display,
                             const struct top *top, FILE *out)
{
    char now[DISPLAY_NUMBER_SIZE], error[DISPLAY_NUMBER_SIZE], period[DISPLAY_NUMBER_SIZE],
        base[DISPLAY_NUMBER_SIZE];

    if (display->title) {
        text_write_clean(out, display->title, "");
        fputc('\n', out);
    }
    display_number(display, (double)top->total.now, now);
    display_number(display, amount_error(&top->total), error);
    units_bytes((double)samples->period, period);
    if (samples->compares)
        fprintf(out, "%s: %s, before %s\n", kind_text(display), now,
                display_number(display, (double)top->total.base, base));
    else
        fprintf(out, "%s: %s in %lld objects, %zu stacks\n", kind_text(display), now,
                (long long)top->objects.now, samples->count);
    if (samples->period > 1)
        fprintf(out, "estimated from samples, one in %s; error of the sum about %s\n", period,
                error);
}

static void write_row_name(const struct samples *samples, const struct top_row *row, FILE *out)
{
    text_write_clean(out, samples->locations.groups[row->group], "");
    fputc('\n', out);
}

static void write_table_row(const struct samples *samples, const struct display *display,
                            const struct top_row *row, double sum, double whole, FILE *out)
{
    char flat[DISPLAY_NUMBER_SIZE], cum[DISPLAY_NUMBER_SIZE], mean[DISPLAY_NUMBER_SIZE] = "";
    double flat_now = (double)row->flat.now, cum_now = (double)row->whole.now;

    if (row->objects.now > 0 && display_is_bytes(display))
        display_bytes(display, flat_now / (double)row->objects.now, mean);
    fprintf(out, "%12s %6.2f%% %6.2f%% %12s %6.2f%% %10lld %10s  ",
            display_number(display, flat_now, flat), display_percent(flat_now, whole),
            display_percent(sum, whole), display_number(display, cum_now, cum),
            display_percent(cum_now, whole), (long long)row->objects.now, mean);
    write_row_name(samples, row, out);
}

/* Formats a number with a sign: "+1.2 MiB". */
static const char *signed_number(const struct display *display, int64_t number,
                                 char out[DISPLAY_NUMBER_SIZE + 1])
{
    char text[DISPLAY_NUMBER_SIZE];

    snprintf(out, DISPLAY_NUMBER_SIZE + 1, "%s%s", number > 0 ? "+" : "",
             display_number(display, (double)number, text));
    return out;
}

/*
 * A growth that the sampling alone may have caused is grey, and marked for
 * output without colors.
 */
static void write_growth_row(const struct samples *samples, const struct display *display,
                             const struct top_row *row, FILE *out)
{
    char flat[DISPLAY_NUMBER_SIZE + 1], cum[DISPLAY_NUMBER_SIZE + 1], error[DISPLAY_NUMBER_SIZE],
        base[DISPLAY_NUMBER_SIZE], now[DISPLAY_NUMBER_SIZE];
    bool within = fabs((double)amount_growth(&row->whole)) < amount_error(&row->whole);

    if (within && display->colors)
        fputs("\033[2m", out);
    fprintf(out, "%13s %13s %12s %12s %12s %10lld %c ",
            signed_number(display, amount_growth(&row->flat), flat),
            signed_number(display, amount_growth(&row->whole), cum),
            display_number(display, amount_error(&row->whole), error),
            display_number(display, (double)row->whole.base, base),
            display_number(display, (double)row->whole.now, now),
            (long long)amount_growth(&row->objects), within ? '~' : ' ');
    write_row_name(samples, row, out);
    if (within && display->colors)
        fputs("\033[0m", out);
}

static void write_rows(const struct samples *samples, const struct display *display,
                       const struct top *top, FILE *out)
{
    double whole = whole_of(samples, top), sum = 0;
    size_t shown = 0, left_out = 0;

    for (size_t i = 0; i < top->count; i++) {
        const struct top_row *row = &top->rows[i];
        if (!top_shows(top, samples, display, &row->whole) ||
            (display->rows && shown == display->rows)) {
            left_out += amount_growth(&row->whole) != 0;
            continue;
        }
        shown++;
        sum += (double)row->flat.now;
        if (samples->compares)
            write_growth_row(samples, display, row, out);
        else
            write_table_row(samples, display, row, sum, whole, out);
    }
    if (left_out)
        fprintf(out, "and %zu smaller ones\n", left_out);
}

bool top_write(const struct samples *samples, const struct display *display, FILE *out)
{
    struct top top;

    if (!top_make(&top, samples, display))
        return false;
    write_table_head(samples, display, &top, out);
    if (samples->compares)
        fprintf(out, "%13s %13s %12s %12s %12s %10s   %s\n", "growth", "with calls", "error",
                "before", "now", "objects", "function (~: within the error)");
    else
        fprintf(out, "%12s %7s %7s %12s %7s %10s %10s  %s\n", "flat", "flat%", "sum%", "cum",
                "cum%", "objects", display_is_bytes(display) ? "mean size" : "", "function");
    write_rows(samples, display, &top, out);
    free(top.rows);
    return true;
}
