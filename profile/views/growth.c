#include "profile/views/growth.h"
#include "base/units.h"
#include "profile/stack_text.h"
#include "profile/views/call_label.h"

#include <math.h>
#include <string.h>

enum { ROWS_DEFAULT = 10 };

/* What grows comes first, even if something uncertain seems to have grown more. */
static int compare_growth(const void *a, const void *b)
{
    static const int ranks[] = {[TREND_GROWS] = 0,   [TREND_CANDIDATE] = 1, [TREND_STOPPED] = 2,
                                [TREND_UNCLEAR] = 3, [TREND_REPLACED] = 4,  [TREND_SHRINKS] = 5};
    const struct growth_row *x = a, *y = b;
    int rank_x = ranks[x->trend.verdict], rank_y = ranks[y->trend.verdict];

    if (rank_x != rank_y)
        return rank_x < rank_y ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->sample < y->sample ? -1 : x->sample > y->sample;
}

static void fill_row(struct growth_row *row, const struct samples *samples, uint32_t number,
                     double seconds)
{
    const struct amount *bytes = &samples->list[number].values[VALUE_BYTES];

    row->sample = number;
    row->bytes = amount_growth(bytes);
    row->objects = amount_growth(&samples->list[number].values[VALUE_OBJECTS]);
    row->trend = samples->trends[number];
    row->error = (row->trend.high - row->trend.low) / 2;
    row->within = row->trend.verdict == TREND_REPLACED ||
                  (row->trend.verdict == TREND_UNCLEAR && row->error > 0);
    row->bytes_per_s = seconds > 0 ? (double)row->bytes / seconds : 0;
}

bool growth_make(struct growth *growth, const struct samples *samples, double seconds)
{
    double variance = 0;

    memset(growth, 0, sizeof *growth);
    growth->seconds = seconds;
    growth->rows = calloc(samples->count + 1, sizeof *growth->rows);
    if (!growth->rows)
        return false;
    for (size_t i = 0; i < samples->count; i++) {
        struct growth_row *row = &growth->rows[growth->count];
        fill_row(row, samples, (uint32_t)i, seconds);
        variance += row->trend.variance;
        if (row->bytes == 0 && row->objects == 0)
            continue;
        growth->count++;
        *(row->bytes > 0 ? &growth->grown : &growth->shrunk) =
            add_saturating(row->bytes > 0 ? growth->grown : growth->shrunk, row->bytes);
    }
    growth->error = trend_error(variance, 1);
    qsort(growth->rows, growth->count, sizeof *growth->rows, compare_growth);
    return true;
}

void growth_free(struct growth *growth)
{
    free(growth->rows);
    memset(growth, 0, sizeof *growth);
}

/* What certainly has grown is shown, however little. */
static bool is_large(const struct growth *growth, const struct growth_row *row, double least)
{
    return (row->trend.low > 0 && row->error > 0) ||
           (double)row->bytes >= least * (double)growth->grown;
}

size_t growth_shown(const struct growth *growth, const struct display *display)
{
    size_t limit = display->rows         ? display->rows
                   : display->least == 0 ? growth->count
                                         : ROWS_DEFAULT;
    size_t shown = 0;

    while (shown < growth->count && shown < limit &&
           (display->least == 0 || is_large(growth, &growth->rows[shown], display->least)))
        shown++;
    return shown;
}

enum { CALL_INDENT = 12 };

/*
 * Writes the innermost call, its callers below it, and behind the last one the
 * number of those that are left out. Returns that number. In lines of their own:
 * names of C++ do not fit beside the numbers.
 */
static uint32_t write_growth_calls(const struct samples *samples, const struct display *display,
                                   const struct growth_row *row, FILE *out)
{
    struct stack_text text;
    char label[CALL_LABEL_SIZE];

    stack_text_choose(samples, &samples->list[row->sample], display->depth, &text);
    for (size_t i = 0; i < text.count; i++) {
        call_label(samples, text.calls[i].function, text.calls[i].line, true, 0, label);
        fprintf(out, "%s%*s%s", i ? "\n" : "", CALL_INDENT, "", label);
    }
    if (text.left_out)
        fprintf(out, ", %u more", text.left_out);
    fputc('\n', out);
    return text.left_out;
}

/* "+1.2 MiB to +3 MiB"; "exact" if every allocation was sampled. */
static const char *interval_text(const struct growth_row *row, const struct display *display,
                                 char *out, size_t size)
{
    char low[DISPLAY_CHANGE_SIZE], high[DISPLAY_CHANGE_SIZE];

    if (row->error > 0)
        snprintf(out, size, "%s to %s", display_bytes_change(display, row->trend.low, low),
                 display_bytes_change(display, row->trend.high, high));
    else
        snprintf(out, size, "exact");
    return out;
}

/* "grows"; "stopped 12 s ago" */
static const char *trend_text(const struct growth *growth, const struct growth_row *row, char *out,
                              size_t size)
{
    double ago = growth->seconds - row->trend.stopped;
    char time[UNITS_TEXT];

    if (row->trend.verdict == TREND_STOPPED && ago > 0)
        snprintf(out, size, "stopped %s ago", units_duration((uint64_t)(ago * 1e9), time));
    else
        snprintf(out, size, "%s", trend_verdict_name(row->trend.verdict));
    return out;
}

static uint32_t write_stack_row(const struct growth *growth, const struct samples *samples,
                                const struct display *display, const struct growth_row *row,
                                FILE *out)
{
    char bytes[DISPLAY_CHANGE_SIZE], interval[2 * DISPLAY_NUMBER_SIZE + 8],
        rate[DISPLAY_CHANGE_SIZE], per_s[DISPLAY_NUMBER_SIZE + 8] = "", verdict[UNITS_TEXT + 16];
    uint32_t left_out;

    if (growth->seconds > 0 && row->trend.verdict != TREND_STOPPED)
        snprintf(per_s, sizeof per_s, "%s/s",
                 display_bytes_change(display, row->bytes_per_s, rate));
    if (row->within && display->colors)
        fputs("\033[2m", out);
    fprintf(out, "%11s %24s %13s %s\n", display_bytes_change(display, (double)row->bytes, bytes),
            interval_text(row, display, interval, sizeof interval), per_s,
            trend_text(growth, row, verdict, sizeof verdict));
    left_out = write_growth_calls(samples, display, row, out);
    if (row->within && display->colors)
        fputs("\033[0m", out);
    return left_out;
}

static void write_rest(const struct growth *growth, const struct display *display, size_t shown,
                       FILE *out)
{
    char bytes[DISPLAY_CHANGE_SIZE];
    int64_t rest = 0;

    for (size_t i = shown; i < growth->count; i++)
        rest = add_saturating(rest, growth->rows[i].bytes);
    if (shown < growth->count)
        fprintf(out, "%11s in %zu %sstack%s (--rows 0 shows all)\n",
                display_bytes_change(display, (double)rest, bytes), growth->count - shown,
                shown ? "more " : "", growth->count - shown == 1 ? "" : "s");
}

void growth_write(const struct growth *growth, const struct samples *samples,
                  const struct display *display, FILE *out)
{
    size_t shown = growth_shown(growth, display);
    uint64_t left_out = 0;

    if (growth->count == 0) {
        fputs("no sampled stack has changed\n", out);
        return;
    }
    if (shown)
        fprintf(out, "%11s %24s %13s %s\n", "growth", "interval (95 %)",
                growth->seconds > 0 ? "rate" : "", "trend, and the stack below");
    for (size_t i = 0; i < shown; i++)
        left_out += write_stack_row(growth, samples, display, &growth->rows[i], out);
    if (left_out)
        fputs("more: calls of libraries and distant callers; --depth 0 shows them\n", out);
    write_rest(growth, display, shown, out);
}
