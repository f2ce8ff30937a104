#include "profile/top.h"
#include "profile/text.h"

#include <math.h>
#include <string.h>

static int64_t magnitude(int64_t value)
{
    return value < 0 ? -value : value; /* amounts never reach INT64_MIN */
}

/* Marks of the sample that a group was counted for last, so that a recursion counts once. */
static void add_sample(struct top *top, const struct samples *samples, const struct view *view,
                       const struct sample *sample, uint32_t *seen, uint32_t number)
{
    const struct locations *locations = &samples->locations;
    const struct amount *amount = &sample->values[view->value];
    bool innermost = true;

    for (uint32_t i = 0; i < sample->depth; i++) {
        const struct location *location = &locations->list[samples->calls[sample->first + i]];
        for (uint32_t j = 0; j < location->count; j++) {
            uint32_t function = locations->lines[location->first + j].function;
            uint32_t group = locations->functions[function].group;
            struct top_row *row = &top->rows[group];
            if (innermost) {
                amount_add(&row->flat, amount);
                amount_add(&row->objects, &sample->values[view_objects(view)]);
            }
            innermost = false;
            if (seen[group] != number)
                amount_add(&row->whole, amount);
            seen[group] = number;
        }
    }
}

/* pprof's order: by what the function itself holds, then with all that it calls. */
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

bool top_make(struct top *top, const struct samples *samples, const struct view *view)
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
        add_sample(top, samples, view, &samples->list[i], seen, (uint32_t)i + 1);
    top->total = samples_total(samples, view->value);
    top->objects = samples_total(samples, view_objects(view));
    qsort_r(top->rows, top->count, sizeof *top->rows, by_size, locations->groups);
    return true;
}

/* What percentages are of: of a comparison, of the base. */
static double whole_of(const struct samples *samples, const struct top *top)
{
    return (double)(samples->compares && top->total.base ? top->total.base : top->total.now);
}

static bool is_shown(const struct top_row *row, const struct view *view, double whole)
{
    double size = (double)magnitude(amount_growth(&row->whole));
    return size > 0 && size >= view->least * fabs(whole);
}

static const char *kind_text(const struct view *view)
{
    return view->value == VALUE_BYTES || view->value == VALUE_OBJECTS ? "in use" : "allocated";
}

static void write_head(const struct samples *samples, const struct view *view,
                       const struct top *top, FILE *out)
{
    char now[VIEW_NUMBER_SIZE], error[VIEW_NUMBER_SIZE], period[VIEW_NUMBER_SIZE],
        base[VIEW_NUMBER_SIZE];
    struct view binary = {.value = VALUE_BYTES};

    if (view->title) {
        text_write_clean(out, view->title, "");
        fputc('\n', out);
    }
    view_number(view, (double)top->total.now, now);
    view_number(view, amount_error(&top->total), error);
    view_bytes(&binary, (double)samples->period, period);
    if (samples->compares)
        fprintf(out, "%s: %s, before %s\n", kind_text(view), now,
                view_number(view, (double)top->total.base, base));
    else
        fprintf(out, "%s: %s in %lld objects, %zu stacks\n", kind_text(view), now,
                (long long)top->objects.now, samples->count);
    if (samples->period > 1)
        fprintf(out, "estimated from samples, one in %s; error of the sum about %s\n", period,
                error);
}

static void write_name(const struct samples *samples, const struct top_row *row, FILE *out)
{
    text_write_clean(out, samples->locations.groups[row->group], "");
    fputc('\n', out);
}

static void write_row(const struct samples *samples, const struct view *view,
                      const struct top_row *row, double sum, double whole, FILE *out)
{
    char flat[VIEW_NUMBER_SIZE], cum[VIEW_NUMBER_SIZE], mean[VIEW_NUMBER_SIZE] = "";
    double flat_now = (double)row->flat.now, cum_now = (double)row->whole.now;

    if (row->objects.now > 0 && view_is_bytes(view))
        view_bytes(view, flat_now / (double)row->objects.now, mean);
    fprintf(out, "%12s %6.2f%% %6.2f%% %12s %6.2f%% %10lld %10s  ",
            view_number(view, flat_now, flat), view_percent(flat_now, whole),
            view_percent(sum, whole), view_number(view, cum_now, cum), view_percent(cum_now, whole),
            (long long)row->objects.now, mean);
    write_name(samples, row, out);
}

/* "+1.2 MiB" */
static const char *signed_number(const struct view *view, int64_t number,
                                 char out[VIEW_NUMBER_SIZE + 1])
{
    char text[VIEW_NUMBER_SIZE];

    snprintf(out, VIEW_NUMBER_SIZE + 1, "%s%s", number > 0 ? "+" : "",
             view_number(view, (double)number, text));
    return out;
}

/* A growth that the sampling alone may have made is grey, and marked for those without colours. */
static void write_growth_row(const struct samples *samples, const struct view *view,
                             const struct top_row *row, FILE *out)
{
    char flat[VIEW_NUMBER_SIZE + 1], cum[VIEW_NUMBER_SIZE + 1], error[VIEW_NUMBER_SIZE],
        base[VIEW_NUMBER_SIZE], now[VIEW_NUMBER_SIZE];
    bool within = fabs((double)amount_growth(&row->whole)) < amount_error(&row->whole);

    if (within && view->colors)
        fputs("\033[2m", out);
    fprintf(out, "%13s %13s %12s %12s %12s %10lld %c ",
            signed_number(view, amount_growth(&row->flat), flat),
            signed_number(view, amount_growth(&row->whole), cum),
            view_number(view, amount_error(&row->whole), error),
            view_number(view, (double)row->whole.base, base),
            view_number(view, (double)row->whole.now, now), (long long)amount_growth(&row->objects),
            within ? '~' : ' ');
    write_name(samples, row, out);
    if (within && view->colors)
        fputs("\033[0m", out);
}

static void write_rows(const struct samples *samples, const struct view *view,
                       const struct top *top, FILE *out)
{
    double whole = whole_of(samples, top), sum = 0;
    size_t shown = 0, left_out = 0;

    for (size_t i = 0; i < top->count; i++) {
        const struct top_row *row = &top->rows[i];
        if (!is_shown(row, view, whole) || (view->rows && shown == view->rows)) {
            left_out += amount_growth(&row->whole) != 0;
            continue;
        }
        shown++;
        sum += (double)row->flat.now;
        if (samples->compares)
            write_growth_row(samples, view, row, out);
        else
            write_row(samples, view, row, sum, whole, out);
    }
    if (left_out)
        fprintf(out, "and %zu smaller ones\n", left_out);
}

bool top_write(const struct samples *samples, const struct view *view, FILE *out)
{
    struct top top;

    if (!top_make(&top, samples, view))
        return false;
    write_head(samples, view, &top, out);
    if (samples->compares)
        fprintf(out, "%13s %13s %12s %12s %12s %10s   %s\n", "growth", "with calls", "error",
                "before", "now", "objects", "function (~: within the error)");
    else
        fprintf(out, "%12s %7s %7s %12s %7s %10s %10s  %s\n", "flat", "flat%", "sum%", "cum",
                "cum%", "objects", view_is_bytes(view) ? "mean size" : "", "function");
    write_rows(samples, view, &top, out);
    free(top.rows);
    return true;
}
