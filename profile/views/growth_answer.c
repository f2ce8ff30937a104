#include "profile/views/growth_answer.h"
#include "profile/views/place_text.h"

#include <math.h>
#include <string.h>

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

/*
 * What a stack may have grown by unseen: up to the end of the interval of a row, or, if
 * no object of it was sampled, three times the period, which 95 of 100 leaks exceed.
 */
static double unseen_growth(const struct growth *growth, const struct samples *samples)
{
    double most = samples->period > 1 ? 3 * (double)samples->period : 0;

    for (size_t i = 0; i < growth->count; i++)
        if (verdict_of(&growth->rows[i]) == GROWTH_NONE)
            most = fmax(most, growth->rows[i].trend.high);
    return most;
}

void growth_answer_choose(struct growth_answer *answer, const struct growth *growth,
                          const struct samples *samples)
{
    *answer = (struct growth_answer){.unseen = unseen_growth(growth, samples)};
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

/* A growth that has stopped: the process has not, so the sentence does not say "stopped". */
static int describe_stopped(const struct growth_row *row, const struct growth *growth,
                            const char *place, const struct display *display, char *out,
                            size_t size)
{
    const struct trend *trend = &row->trend;
    double ago = growth->seconds - trend->stopped;
    char all[DISPLAY_NUMBER_SIZE], interval[INTERVAL_BYTES], time[UNITS_TEXT],
        until[TEXT_BYTES] = "";

    if (growth->seconds > 0 && ago > 0)
        snprintf(until, sizeof until, ", until %s ago",
                 units_duration((uint64_t)(ago * 1e9), time));
    return snprintf(out, size, "no longer growing: %s grew by %s (%s)%s", place,
                    display_bytes(display, best_estimate(trend), all),
                    describe_interval(trend, 1, "", display, interval), until);
}

/* Candidates are not counted as further rows: only one of them need grow. */
static void describe_candidates(const struct growth_answer *answer, const char *place,
                                const struct display *display, char *out, size_t size)
{
    char most[DISPLAY_NUMBER_SIZE];

    display_bytes(display, answer->row->trend.high, most);
    if (answer->more)
        snprintf(out, size, "one of %zu stacks grows, as %s may, by up to %s", answer->more + 1,
                 place, most);
    else
        snprintf(out, size, "%s may grow, by up to %s, or a stack without samples", place, most);
}

static void describe_none(const struct growth_answer *answer, const struct display *display,
                          char *out, size_t size)
{
    char unseen[DISPLAY_NUMBER_SIZE];

    if (answer->unseen > 0)
        snprintf(out, size,
                 "nothing grows beyond the sampling error: growth of one stack by up to %s would "
                 "not be seen",
                 display_bytes(display, answer->unseen, unseen));
    else
        snprintf(out, size, "nothing grows");
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
        describe_none(answer, display, out, size);
        return out;
    }
    place_text(samples, &samples->list[answer->row->sample], place);
    if (answer->verdict == GROWTH_ONE_OF) {
        describe_candidates(answer, place, display, out, size);
        return out;
    }
    describe_growth(answer->row, growth, display, grown, sizeof grown);
    if (answer->verdict == GROWTH_GOES_ON)
        len = snprintf(out, size, "leaking: %s grows by %s", place, grown);
    else
        len = describe_stopped(answer->row, growth, place, display, out, size);
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
