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
        row->sample = (uint32_t)i;
        row->bytes = amount_growth(&samples->list[i].values[VALUE_BYTES]);
        row->objects = amount_growth(&samples->list[i].values[VALUE_OBJECTS]);
        row->trend = samples->trends[i];
        row->error = (row->trend.high - row->trend.low) / 2;
        row->within = row->trend.verdict == TREND_REPLACED ||
                      (row->trend.verdict == TREND_UNCLEAR && row->error > 0);
        row->bytes_per_s = seconds > 0 ? (double)row->bytes / seconds : 0;
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

size_t growth_shown(const struct growth *growth, const struct display *display)
{
    size_t limit = display->rows         ? display->rows
                   : display->least == 0 ? growth->count
                                         : ROWS_DEFAULT;
    size_t shown = 0;

    for (; shown < growth->count && shown < limit; shown++) {
        const struct growth_row *row = &growth->rows[shown];
        /* What certainly has grown is shown, however little. */
        bool certain = row->trend.low > 0 && row->error > 0;
        if (display->least != 0 && !certain &&
            !((double)row->bytes >= display->least * (double)growth->grown))
            break;
    }
    return shown;
}

static enum growth_verdict verdict_of(const struct growth_row *row)
{
    switch (row->trend.verdict) {
    case TREND_GROWS:
        return GROWTH_GOES_ON;
    case TREND_CANDIDATE:
        return GROWTH_ONE_OF;
    case TREND_STOPPED:
        return GROWTH_STOPPED;
    default:
        return GROWTH_NONE;
    }
}

/* Under an answer that says nothing grows, no number is called growth. */
static const char *heading_of(const struct growth *growth)
{
    for (size_t i = 0; i < growth->count; i++)
        if (verdict_of(&growth->rows[i]) != GROWTH_NONE)
            return "growth";
    return "change";
}

enum { LINE_STACK = 44 /* columns of a stack in a line of 80 */ };

/* Returns the number of calls that are left out. */
static uint32_t write_stack_row(const struct growth *growth, const struct samples *samples,
                                const struct display *display, bool calls,
                                const struct growth_row *row, FILE *out)
{
    const struct trend *trend = &row->trend;
    const struct sample *sample = &samples->list[row->sample];
    double ago = growth->seconds - trend->stopped;
    char bytes[DISPLAY_CHANGE_SIZE], low[DISPLAY_CHANGE_SIZE], high[DISPLAY_CHANGE_SIZE],
        rate[DISPLAY_CHANGE_SIZE], time[UNITS_TEXT];
    char interval[2 * DISPLAY_NUMBER_SIZE + 8] = "exact"; /* "+1.2 MiB to +3 MiB" */
    char per_s[DISPLAY_NUMBER_SIZE + 8] = "";
    char verdict[UNITS_TEXT + 16]; /* "grows", "stopped 12 s ago" */
    uint32_t left_out = 0;

    if (row->error > 0)
        snprintf(interval, sizeof interval, "%s to %s",
                 display_bytes_change(display, trend->low, low),
                 display_bytes_change(display, trend->high, high));
    if (growth->seconds > 0 && trend->verdict != TREND_STOPPED)
        snprintf(per_s, sizeof per_s, "%s/s",
                 display_bytes_change(display, row->bytes_per_s, rate));
    if (calls && trend->verdict == TREND_STOPPED && ago > 0)
        snprintf(verdict, sizeof verdict, "stopped %s ago",
                 units_duration((uint64_t)(ago * 1e9), time));
    else
        snprintf(verdict, sizeof verdict, "%s", trend_verdict_name(trend->verdict));
    if (row->within && display->colors)
        fputs("\033[2m", out);
    fprintf(out, "%11s ", display_bytes_change(display, (double)row->bytes, bytes));
    if (calls) {
        fprintf(out, "%24s %13s %s\n", interval, per_s, verdict);
        left_out = stack_lines(samples, sample, display->depth, out);
        fputc('\n', out);
    } else {
        fprintf(out, "%12s %-9s ", per_s, verdict);
        stack_line(samples, sample, LINE_STACK, out);
        fputc('\n', out);
    }
    if (row->within && display->colors)
        fputs("\033[0m", out);
    return left_out;
}

void growth_write(const struct growth *growth, const struct samples *samples,
                  const struct display *display, bool calls, FILE *out)
{
    size_t shown = growth_shown(growth, display);
    const char *rate = growth->seconds > 0 ? "rate" : "";
    char bytes[DISPLAY_CHANGE_SIZE];
    uint64_t left_out = 0;
    int64_t rest = 0;

    if (growth->count == 0) {
        fputs("no sampled stack has changed\n", out);
        return;
    }
    if (shown && calls)
        fprintf(out, "%11s %24s %13s %s\n", heading_of(growth), "interval (95 %)", rate,
                "trend, and the stack below");
    else if (shown)
        fprintf(out, "%11s %12s %-9s stack\n", heading_of(growth), rate, "trend");
    for (size_t i = 0; i < shown; i++)
        left_out += write_stack_row(growth, samples, display, calls, &growth->rows[i], out);
    if (left_out)
        fputs("more: calls of libraries and distant callers; --depth 0 shows them\n", out);
    for (size_t i = shown; i < growth->count; i++)
        rest = add_saturating(rest, growth->rows[i].bytes);
    if (shown < growth->count)
        fprintf(out, "%11s in %zu %sstack%s (--rows 0 shows all)\n",
                display_bytes_change(display, (double)rest, bytes), growth->count - shown,
                shown ? "more " : "", growth->count - shown == 1 ? "" : "s");
}

enum {
    TEXT_BYTES = 64,
    INTERVAL_BYTES = 2 * DISPLAY_NUMBER_SIZE + 16,
};

const char *growth_evidence_name(enum trend_evidence evidence)
{
    static const char *const names[] = {
        [EVIDENCE_SAMPLES] = "samples", [EVIDENCE_TOTAL] = "total", [EVIDENCE_COUNTS] = "exact"};

    return names[evidence];
}

const char *growth_evidence_text(const struct samples *samples)
{
    static const char *const texts[] = {
        [EVIDENCE_SAMPLES] = "samples alone: a cache that replaces older objects looks the same",
        [EVIDENCE_TOTAL] = "samples, bounded by the growth of the whole",
        [EVIDENCE_COUNTS] = "samples, bounded by exact counts of live objects",
    };
    bool plain =
        samples->evidence == EVIDENCE_SAMPLES && (samples->period <= 1 || !samples->same_process);

    return samples->compares && !plain ? texts[samples->evidence] : NULL;
}

void growth_answer_choose(struct growth_answer *answer, const struct growth *growth,
                          const struct samples *samples)
{
    /*
     * What a stack may have grown by unseen: up to the end of the interval of a row, or, if
     * no object of it was sampled, three times the period, which 95 of 100 leaks exceed.
     */
    double most = samples->period > 1 ? 3 * (double)samples->period : 0;

    for (size_t i = 0; i < growth->count; i++)
        if (verdict_of(&growth->rows[i]) == GROWTH_NONE)
            most = fmax(most, growth->rows[i].trend.high);
    *answer = (struct growth_answer){.unseen = most};
    for (size_t i = 0; i < growth->count; i++) {
        const struct growth_row *row = &growth->rows[i];
        enum growth_verdict verdict = verdict_of(row);
        if (verdict < answer->verdict || verdict == GROWTH_NONE)
            continue;
        if (verdict > answer->verdict) {
            answer->verdict = verdict;
            answer->row = row;
            answer->more = 0;
            continue;
        }
        answer->more++;
        if (verdict == GROWTH_ONE_OF ? row->trend.high > answer->row->trend.high
                                     : row->trend.low > answer->row->trend.low)
            answer->row = row;
    }
}

/* ---- in words ---- */

/* The fit may know better than the difference of the two ends. */
static double best_estimate(const struct trend *trend)
{
    return trend->bytes < trend->low || trend->bytes > trend->high ? (trend->low + trend->high) / 2
                                                                   : trend->bytes;
}

/* "928 KiB/s to 1.1 MiB/s"; "exact" if every allocation was sampled. part: of the growth. */
static const char *describe_interval(const struct trend *trend, double part, const char *per,
                                     const struct display *display, char out[INTERVAL_BYTES])
{
    char low[DISPLAY_NUMBER_SIZE], high[DISPLAY_NUMBER_SIZE];

    if (trend->high > trend->low)
        snprintf(out, INTERVAL_BYTES, "%s%s to %s%s",
                 display_bytes(display, trend->low * part, low), per,
                 display_bytes(display, trend->high * part, high), per);
    else
        strcpy(out, "exact");
    return out;
}

/* "1.02 MiB/s (928 KiB/s to 1.1 MiB/s), 16.1 MiB in 16 s" */
static void describe_growth(const struct growth_row *row, const struct growth *growth,
                            const struct display *display, char *out, size_t size)
{
    const struct trend *trend = &row->trend;
    const double seconds = growth->seconds, part = seconds > 0 ? 1 / seconds : 1;
    const char *per = seconds > 0 ? "/s" : "";
    char best[DISPLAY_NUMBER_SIZE], all[DISPLAY_NUMBER_SIZE], interval[INTERVAL_BYTES],
        time[UNITS_TEXT];
    int len =
        snprintf(out, size, "%s%s (%s)", display_bytes(display, best_estimate(trend) * part, best),
                 per, describe_interval(trend, part, per, display, interval));

    if (seconds > 0)
        snprintf(out + len, size - (size_t)len, ", %s in %s",
                 display_bytes(display, best_estimate(trend), all),
                 units_duration((uint64_t)(seconds * 1e9), time));
}

const char *growth_answer_text(const struct growth_answer *answer, const struct growth *growth,
                               const struct samples *samples, const struct display *display,
                               char *out, size_t size)
{
    char place[PLACE_TEXT_SIZE], grown[4 * DISPLAY_NUMBER_SIZE];
    const char *evidence =
        samples->evidence == EVIDENCE_SAMPLES ? growth_evidence_text(samples) : NULL;
    int len;

    if (answer->verdict == GROWTH_NONE) {
        char unseen[DISPLAY_NUMBER_SIZE];
        if (answer->unseen > 0)
            snprintf(out, size,
                     "nothing grows beyond the sampling error: growth of one stack by up to %s "
                     "would not be seen",
                     display_bytes(display, answer->unseen, unseen));
        else
            snprintf(out, size, "nothing grows");
        return out;
    }
    place_text(samples, &samples->list[answer->row->sample], place);
    if (answer->verdict == GROWTH_ONE_OF) {
        /* Candidates are not counted as further rows: only one of them need grow. */
        char most[DISPLAY_NUMBER_SIZE];
        display_bytes(display, answer->row->trend.high, most);
        if (answer->more)
            snprintf(out, size, "one of %zu stacks grows, as %s may, by up to %s", answer->more + 1,
                     place, most);
        else
            snprintf(out, size, "%s may grow, by up to %s, or a stack without samples", place,
                     most);
        return out;
    }
    describe_growth(answer->row, growth, display, grown, sizeof grown);
    if (answer->verdict == GROWTH_GOES_ON) {
        len = snprintf(out, size, "leaking: %s grows by %s", place, grown);
    } else {
        /*
         * A growth that has stopped: the process has not, so the sentence does not say "stopped".
         */
        const struct trend *trend = &answer->row->trend;
        double ago = growth->seconds - trend->stopped;
        char all[DISPLAY_NUMBER_SIZE], interval[INTERVAL_BYTES], time[UNITS_TEXT],
            until[TEXT_BYTES] = "";
        if (growth->seconds > 0 && ago > 0)
            snprintf(until, sizeof until, ", until %s ago",
                     units_duration((uint64_t)(ago * 1e9), time));
        len = snprintf(out, size, "no longer growing: %s grew by %s (%s)%s", place,
                       display_bytes(display, best_estimate(trend), all),
                       describe_interval(trend, 1, "", display, interval), until);
    }
    if (answer->more && (size_t)len < size)
        len += snprintf(out + len, size - (size_t)len, "; so %s %zu more stack%s",
                        answer->verdict == GROWTH_STOPPED ? "did"
                        : answer->more == 1               ? "does"
                                                          : "do",
                        answer->more, answer->more == 1 ? "" : "s");
    if (evidence && (size_t)len < size)
        snprintf(out + len, size - (size_t)len, " (%s)", evidence);
    return out;
}
