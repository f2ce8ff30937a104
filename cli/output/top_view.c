#include "cli/output/top_view.h"
#include "base/units.h"
#include "cli/output/columns.h"
#include "cli/output/sparkline.h"
#include "cli/output/usage.h"
#include "profile/names/short_name.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    LINE_BYTES = 4096,
    NAME_BYTES = 512,
    NARROW = 60, /* columns below which numbers are compact */
    WIDE = 100,  /* columns from which more numbers are shown */
    LOW = 16,    /* lines below which no line is left empty */
    CELL = 37,   /* columns of a gauge */
    ROWS_AT_LEAST = 3,
    UNLIMITED_WIDTH = 120, /* columns for which an unlimited width is laid out */
};

#define RATE_LEAST 0.5 /* bytes per second below which nothing changes */
/* If counts of live objects bound the growth, and if there are only samples. */
#define MARKS         "  ~ unclear, ? candidate"
#define MARKS_SAMPLES "  ~ unclear, = stopped"

/* The keys, for narrower and narrower terminals. */
static const char *const key_lines[] = {
    "q quits  r refreshes now  s sorts  p profiling  arrows, j, k, PgUp, g, G select  Enter opens",
    "q quits  r refreshes  s sorts  p profiling  j, k select  Enter opens",
    "q quit  r refresh  s sort  p prof  Enter open",
    "q, r, s, p, j, k, Enter",
};

/* The same while a stack is open. */
static const char *const stack_key_lines[] = {
    "Esc, q, Enter go back  r refreshes now  p profiling  arrows, j, k, PgUp, g, G scroll",
    "Esc, q, Enter back  r refresh  p profiling  j, k scroll",
    "Esc back  r refresh  p prof  j k scroll",
    "Esc, r, p, j, k",
};

struct layout {
    const struct top_page *page;
    const struct top_model *model;
    const struct top_size *size;
    top_line write;
    void *ctx;
    size_t columns;  /* the width that determines the layout */
    size_t written;  /* lines */
    size_t reserved; /* lines at the end */
    char text[LINE_BYTES];
    struct line line;
};

/* ---- numbers ---- */

static const char *rate_text(double bytes_per_second, bool compact, char out[UNITS_TEXT])
{
    if (fabs(bytes_per_second) < RATE_LEAST)
        return strcpy(out, "-");
    units_rate(bytes_per_second, out);
    return compact ? units_shorten(out) : out;
}

/* ---- lines ---- */

static struct line *begin_view_line(struct layout *view)
{
    size_t limit = view->size->columns ? view->size->columns : SIZE_MAX;

    line_init(&view->line, view->text, sizeof view->text, limit);
    return &view->line;
}

static bool has_lines_left(const struct layout *view, size_t lines)
{
    return !view->size->lines || view->written + lines + view->reserved <= view->size->lines;
}

static void end_view_line(struct layout *view, enum top_style style)
{
    if (!has_lines_left(view, 1))
        return;
    if (style == TOP_BAR && view->size->columns)
        line_fill(&view->line, view->size->columns);
    view->write(view->ctx, style, view->text);
    view->written++;
}

static bool is_low(const struct layout *view)
{
    return view->size->lines && view->size->lines < LOW;
}

static void leave_empty(struct layout *view)
{
    if (is_low(view))
        return;
    begin_view_line(view);
    end_view_line(view, TOP_PLAIN);
}

/* ---- the head ---- */

static void write_title(struct layout *view)
{
    const struct top_model *model = view->model;
    struct line *line = begin_view_line(view);
    const char *next_in = view->page->next_in;
    char right[64];
    size_t clock;

    line_printf(line, "%s[%d]", model->name, model->pid);
    if (model->version[0])
        line_printf(line, "  jemalloc %.*s", (int)strcspn(model->version, "-"), model->version);
    /* The time until the next refresh, and of this one. */
    snprintf(right, sizeof right, "%s%s%s%s", next_in && *next_in ? "next in " : "",
             next_in ? next_in : "", next_in && *next_in ? "  " : "", view->page->clock);
    clock = columns_of(right);
    if (line->columns + 2 + clock > view->columns) {
        snprintf(right, sizeof right, "%s", view->page->clock);
        clock = columns_of(right);
    }
    if (line->columns + 2 + clock <= view->columns) {
        line_fill(line, view->columns - clock);
        line_add(line, right);
    }
    end_view_line(view, TOP_BOLD);
}

static const char *rate_of(const struct layout *view, enum gauge gauge, char out[UNITS_TEXT])
{
    double rate = trends_rate(&view->model->trends, gauge);

    return units_rate(fabs(rate) < RATE_LEAST ? 0 : rate, out);
}

/* Explains a growing RSS: free pages that jemalloc keeps, or memory outside jemalloc. */
static const char *cause_of_rss(const struct layout *view)
{
    const struct trends *trends = &view->model->trends;

    if (trends_direction(trends, GAUGE_IN_USE) != TREND_STEADY ||
        trends_direction(trends, GAUGE_RSS) != TREND_GROWING)
        return NULL;
    if (trends_direction(trends, GAUGE_PAGES) == TREND_GROWING)
        return "in use is steady: free pages that jemalloc keeps";
    return "in use is steady: memory outside jemalloc, or newly touched";
}

static void write_trend(struct layout *view)
{
    const struct trends *trends = &view->model->trends;
    static const char *const words[] = {
        [TREND_STEADY] = "steady", [TREND_GROWING] = "growing", [TREND_SHRINKING] = "shrinking"};
    const char *cause = cause_of_rss(view);
    bool counted = trends_has_rate(trends, GAUGE_IN_USE);
    enum gauge main_gauge = counted && !cause ? GAUGE_IN_USE : GAUGE_RSS;
    enum gauge other = main_gauge == GAUGE_RSS ? GAUGE_IN_USE : GAUGE_RSS;
    struct line *line = begin_view_line(view);
    char rate[UNITS_TEXT], window[UNITS_TEXT];

    line_printf(line, "%s: %s %s", words[trends_direction(trends, main_gauge)],
                usage_gauge_name(main_gauge, false), rate_of(view, main_gauge, rate));
    if (cause)
        line_printf(line, "; %s", cause);
    else if (trends_has_rate(trends, other))
        line_printf(line, ", %s %s", usage_gauge_name(other, false), rate_of(view, other, rate));
    line_printf(line, " (over %s)", units_duration(trends_window(trends), window));
    end_view_line(view, TOP_PLAIN);
}

static void write_verdict(struct layout *view)
{
    const struct top_model *model = view->model;

    if (view->page->missed) {
        line_printf(begin_view_line(view), "no new numbers: %s", view->page->missed);
        end_view_line(view, TOP_BOLD);
    } else if (trends_has_rate(&model->trends, GAUGE_RSS)) {
        write_trend(view);
    } else {
        line_add(begin_view_line(view), model->interval ? "rates follow with the next refresh"
                                                        : "growth needs two refreshes");
        end_view_line(view, TOP_PLAIN);
    }
}

static void write_read(struct layout *view)
{
    const struct top_model *model = view->model;
    struct line *line = begin_view_line(view);
    char took[UNITS_TEXT], longest[UNITS_TEXT], interval[UNITS_TEXT];

    line_add(line, "no thread stopped");
    if (model->sites)
        line_printf(line, "; profile read in %s", units_duration(model->held, took));
    if (model->sites && model->interval)
        line_printf(line, ", at most %s", units_duration(model->longest, longest));
    if (model->interval)
        line_printf(line, "; every %s", units_duration(model->interval, interval));
    end_view_line(view, TOP_PLAIN);
}

static void write_hold(struct layout *view)
{
    const struct top_model *model = view->model;
    struct line *line = begin_view_line(view);
    char held[UNITS_TEXT], longest[UNITS_TEXT], interval[UNITS_TEXT], asked[UNITS_TEXT];
    const bool slower = model->interval > model->asked;
    double share;

    line_printf(line, "thread stopped %s", units_duration(model->held, held));
    if (!model->interval) {
        end_view_line(view, TOP_PLAIN);
        return;
    }
    line_printf(line, ", at most %s", units_duration(model->longest, longest));
    units_duration(model->interval, interval);
    share = 100 * (double)model->held / (double)model->interval;
    if (slower)
        line_printf(line, "; every %s, not %s, to stay below 1 %%", interval,
                    units_duration(model->asked, asked));
    else
        line_printf(line, ", %s%.2f %% of the time; every %s", share < 0.01 ? "< " : "",
                    share < 0.01 ? 0.01 : share, interval);
    end_view_line(view, slower ? TOP_BOLD : TOP_PLAIN);
}

/* ---- the gauges ---- */

/* The RSS goes on between refreshes. */
static const struct trends *trends_of(const struct layout *view, enum gauge gauge)
{
    const struct top_model *model = view->model;

    return gauge == GAUGE_RSS && model->watched.rounds ? &model->watched : &model->trends;
}

static void write_gauge(struct layout *view, enum gauge gauge)
{
    const struct trends *trends = trends_of(view, gauge);
    const struct gauge_values *now = trends_now(trends);
    char text[UNITS_TEXT];

    line_printf(&view->line, "%-12s %8s", usage_gauge_name(gauge, false),
                now && now->known[gauge] ? units_bytes((double)now->bytes[gauge], text) : "-");
    if (trends_has_rate(trends, gauge))
        line_printf(&view->line, " %14s", rate_text(trends_rate(trends, gauge), false, text));
}

/* The bars of the RSS, and the time that they cover. */
static void write_sparkline(struct layout *view)
{
    const struct trends *trends = trends_of(view, GAUGE_RSS);
    uint64_t values[TRENDS_HISTORY];
    size_t count = trends_values(trends, GAUGE_RSS, values);
    char bars[SPARKLINE_TEXT], window[UNITS_TEXT];

    if (is_low(view) || !trends_has_rate(trends, GAUGE_RSS))
        return;
    line_printf(begin_view_line(view), "RSS, %s: %s", units_duration(trends_window(trends), window),
                sparkline(values, count, TRENDS_HISTORY, view->page->utf8, bars));
    end_view_line(view, TOP_PLAIN);
}

/* The usual ones keep their places; the others are shown while there is something of them. */
static size_t list_gauges(const struct layout *view, enum gauge list[GAUGE_COUNT])
{
    static const enum gauge usual[] = {GAUGE_RSS, GAUGE_IN_USE,  GAUGE_SLABS,   GAUGE_PAGES,
                                       GAUGE_OWN, GAUGE_OUTSIDE, GAUGE_PADDING, GAUGE_SAMPLING};
    const struct gauge_values *now = trends_now(&view->model->trends);
    size_t count = view->model->has_stats ? ARRAY_LEN(usual) : 1;

    memcpy(list, usual, sizeof usual);
    for (enum gauge gauge = 0; now && count > 1 && gauge < GAUGE_COUNT; gauge++) {
        bool listed = !now->bytes[gauge];
        for (size_t i = 0; i < ARRAY_LEN(usual); i++)
            listed |= usual[i] == gauge;
        if (!listed)
            list[count++] = gauge;
    }
    return count;
}

static void write_gauges(struct layout *view)
{
    enum gauge list[GAUGE_COUNT];
    const size_t count = list_gauges(view, list);
    const size_t across = view->columns >= 2 * CELL && count > 1 ? 2 : 1;
    size_t rest = view->written + ROWS_AT_LEAST + 1, most = view->size->lines;
    size_t lines = (count + across - 1) / across, shown = lines;

    if (most && rest + lines > most) /* rows are to remain for the sites */
        shown = most > rest ? most - rest : 1;
    for (size_t i = 0; i < shown && i < lines; i++) {
        begin_view_line(view);
        write_gauge(view, list[i]);
        if (across == 2 && i + lines < count) {
            line_fill(&view->line, CELL + 3);
            write_gauge(view, list[i + lines]);
        }
        end_view_line(view, TOP_PLAIN);
    }
    write_sparkline(view);
    if (!view->model->has_stats && view->model->version[0]) {
        line_add(begin_view_line(view),
                 view->model->reads
                     ? "the counts are not found in jemalloc's records"
                     : "this jemalloc was built without statistics (config.stats is false)");
        end_view_line(view, TOP_PLAIN);
    }
}

/* ---- the sites ---- */

/* With --once there is no growth: its column is left to the names. */
static bool has_growth(const struct layout *view)
{
    return view->model->interval || sites_window(view->model->sites);
}

/* The column that sorts the rows is in capitals. */
static void write_heading(struct layout *view)
{
    const struct top_model *model = view->model;
    bool growth = view->page->order == SITES_BY_GROWTH;
    bool counted = !sites_window(model->sites) || model->sites->evidence == EVIDENCE_COUNTS;
    const char *sizes = growth ? "size" : "SIZE", *rates = growth ? "GROWTH" : "growth",
               *of_samples = growth ? "SAMPLE GROWTH" : "sample growth";
    struct line *line = begin_view_line(view);
    char in_all[UNITS_TEXT], grown[UNITS_TEXT + 8] = "";

    if (!has_growth(view))
        line_printf(line, view->columns < NARROW ? "%6s%s  " : "%11s %6s  ", sizes,
                    view->columns < NARROW ? "" : "share");
    else if (view->columns < NARROW)
        line_printf(line, "%6s %9s   ", sizes, rates);
    else
        line_printf(line, "%11s %6s %14s   ", sizes, "share", counted ? rates : of_samples);
    if (sites_window(model->sites))
        snprintf(grown, sizeof grown, "in %s", units_duration(sites_time(model->sites), in_all));
    if (view->columns >= WIDE)
        line_printf(line, "%14s %9s  ", grown, "objects");
    if (view->page->scroll && view->page->scroll->first)
        line_printf(line, "site, from %zu of %zu", view->page->scroll->first + 1,
                    model->sites->count);
    else
        line_printf(line, "site, of %zu", model->sites->count);
    const char *marks = model->sites->evidence == EVIDENCE_COUNTS ? MARKS : MARKS_SAMPLES;
    if (sites_window(model->sites) && model->sites->period > 1 && line_space(line) > strlen(marks))
        line_add(line, marks);
    end_view_line(view, TOP_BAR);
}

/* Returns the name, or a short one if it does not fit: with --full-names it is long. */
static const char *fitting_name(const struct line *line, const char *call, char out[NAME_BYTES])
{
    return columns_of(call) <= line_space(line) ? call : short_name(call, out, NAME_BYTES);
}

/* Writes the function that the site is about, where it is if that fits, and its callers. */
static void write_calls(struct layout *view, const struct site *site)
{
    struct line *line = &view->line;
    const char *call = site->calls;
    char name[NAME_BYTES];

    if (site->call_count) {
        line_add_end(line, fitting_name(line, call, name));
        if (site->place[0] && line_space(line) >= columns_of(site->place) + 3)
            line_printf(line, " (%s)", site->place);
    }
    for (uint32_t i = 1; i < site->call_count; i++) {
        call = site_next_call(call);
        if (line_space(line) < 4 + 6)
            break; /* too narrow for a name */
        line_add(line, " <- ");
        if (!line_add(line, fitting_name(line, call, name)))
            break;
    }
}

/* The marks of the table, in words. */
static const char *trend_note(const struct trend *trend)
{
    switch (trend->verdict) {
    case TREND_UNCLEAR:
    case TREND_REPLACED:
        return ", within the error";
    case TREND_CANDIDATE:
        return ", of it or another site of this size";
    case TREND_STOPPED:
        return ", has stopped";
    default:
        return "";
    }
}

static void write_numbers(struct layout *view, const struct site *site)
{
    const struct sites *sites = view->model->sites;
    struct site_growth growth = sites_growth(sites, site);
    struct line *line = &view->line;
    char bytes[UNITS_TEXT], rate[UNITS_TEXT] = "", mark = ' ';
    bool narrow = view->columns < NARROW;
    double total = (double)sites->bytes.now, now = (double)site->now.bytes;

    units_bytes(now, bytes);
    if (narrow)
        units_shorten(bytes);
    if (sites_window(sites))
        rate_text(growth.per_second, narrow, rate);
    if (growth.bytes &&
        (growth.trend.verdict == TREND_UNCLEAR || growth.trend.verdict == TREND_REPLACED))
        mark = '~';
    else if (growth.trend.verdict == TREND_CANDIDATE)
        mark = '?';
    else if (growth.trend.verdict == TREND_STOPPED)
        mark = '=';
    if (!has_growth(view) && narrow)
        line_printf(line, "%6s  ", bytes);
    else if (!has_growth(view))
        line_printf(line, "%11s %5.1f%%  ", bytes, total > 0 ? 100 * now / total : 0);
    else if (narrow)
        line_printf(line, "%6s %9s %c ", bytes, rate, mark);
    else
        line_printf(line, "%11s %5.1f%% %14s %c ", bytes, total > 0 ? 100 * now / total : 0, rate,
                    mark);
}

static void write_site(struct layout *view, const struct site *site, bool selected)
{
    const struct sites *sites = view->model->sites;
    const double all = (double)site_growth_in_all(site);
    char grown[UNITS_TEXT] = "";

    begin_view_line(view);
    write_numbers(view, site);
    if (sites_window(sites) && all != 0)
        units_change(all, grown);
    else if (sites_window(sites))
        snprintf(grown, sizeof grown, "-");
    if (view->columns >= WIDE) /* the growth since the first profile and the number of objects */
        line_printf(&view->line, "%14s %9lld  ", grown, (long long)site->objects);
    write_calls(view, site);
    end_view_line(view, selected ? TOP_SELECTED : TOP_PLAIN);
}

/* Returns how many sites can be shown below their heading. */
static size_t count_rows(const struct layout *view)
{
    size_t most = view->size->rows ? view->size->rows : SIZE_MAX, left = 0;

    if (!view->size->lines)
        return most;
    while (left < most && has_lines_left(view, left + 2))
        left++;
    return left;
}

/* Makes the first row valid: no further than until the last site is shown. */
static size_t scroll_to(const struct layout *view, size_t count, size_t rows)
{
    struct top_scroll *scroll = view->page->scroll;
    size_t last = count > rows ? count - rows : 0;

    if (!scroll)
        return 0;
    if (scroll->selected >= count)
        scroll->selected = count ? count - 1 : 0;
    scroll->first = scroll->selected < last ? scroll->selected : last;
    scroll->rows = rows;
    return scroll->first;
}

static bool write_sites(struct layout *view)
{
    const struct sites *sites = view->model->sites;
    const struct site **list = sites_sorted(sites, view->page->order);
    struct line *line = begin_view_line(view);
    char bytes[UNITS_TEXT], period[UNITS_TEXT];
    size_t first, rows;

    if (!list)
        return false;
    if (sites->count == 0) {
        line_add(line, "no samples yet: only allocations made from now on can be sampled");
    } else {
        line_printf(line, "profiled: %s in %lld objects",
                    units_bytes((double)sites->bytes.now, bytes), (long long)sites->objects.now);
        if (sites->period > 1)
            line_printf(line, ", a sample every %s", units_bytes((double)sites->period, period));
    }
    if (!is_low(view))
        end_view_line(view, TOP_DIM);
    rows = count_rows(view);
    first = scroll_to(view, sites->count, rows);
    write_heading(view);
    for (size_t i = first; i < sites->count && i - first < rows; i++)
        write_site(view, list[i], view->page->keys && i == view->page->scroll->selected);
    free(list);
    return true;
}

/* ---- one stack ---- */

static void write_opened_numbers(struct layout *view, const struct site *site)
{
    const struct sites *sites = view->model->sites;
    struct site_growth growth = sites_growth(sites, site);
    double total = (double)sites->bytes.now, now = (double)site->now.bytes,
           all = (double)site_growth_in_all(site);
    struct line *line = begin_view_line(view);
    char text[UNITS_TEXT], window[UNITS_TEXT];

    line_printf(line, "%s (%.1f%%) in %lld objects", units_bytes(now, text),
                total > 0 ? 100 * now / total : 0, (long long)site->objects);
    if (sites_window(sites) && growth.bytes)
        line_printf(line, "; %s over %s", rate_text(growth.per_second, false, text),
                    units_duration(sites_window(sites), window));
    else if (sites_window(sites))
        line_printf(line, "; no growth over %s", units_duration(sites_window(sites), window));
    if (growth.bytes)
        line_add(line, trend_note(&growth.trend));
    if (all != 0)
        line_printf(line, "; %s in %s", units_change(all, text),
                    units_duration(sites_time(sites), window));
    end_view_line(view, TOP_BOLD);
}

static void write_opened_calls(struct layout *view)
{
    const char *text = view->page->stack->text;
    struct top_scroll *scroll = view->page->scroll;
    size_t count = 0, rows = count_rows(view), number = 0, last;

    for (const char *at = text; *at; at++)
        count += *at == '\n';
    last = count > rows ? count - rows : 0;
    scroll->selected = scroll->selected < last ? scroll->selected : last;
    scroll->rows = rows;
    for (; *text; text += strcspn(text, "\n") + 1, number++) {
        if (number < scroll->selected || number >= scroll->selected + rows)
            continue;
        line_printf(begin_view_line(view), "  %.*s", (int)strcspn(text, "\n"), text);
        end_view_line(view, TOP_PLAIN);
    }
}

static void write_opened(struct layout *view)
{
    const struct top_stack *stack = view->page->stack;
    const struct site *site = view->model->sites ? top_stack_site(stack, view->model->sites) : NULL;
    char text[UNITS_TEXT];

    if (!site || !stack->text) {
        line_add(begin_view_line(view), "this site holds nothing any more");
        end_view_line(view, TOP_BOLD);
        return;
    }
    write_opened_numbers(view, site);
    begin_view_line(view);
    if (stack->stacks > 1)
        line_printf(&view->line, "the largest of %zu stacks: %s in %lld objects", stack->stacks,
                    units_bytes((double)stack->bytes, text), (long long)stack->objects);
    else
        line_add(&view->line, "one stack, innermost call first");
    end_view_line(view, TOP_BAR);
    write_opened_calls(view);
}

/* The last line of the terminal. */
static void write_keys(struct layout *view)
{
    const char *const *lines = view->page->stack ? stack_key_lines : key_lines;
    size_t number = 0;

    view->reserved = 0;
    while (has_lines_left(view, 2)) {
        begin_view_line(view);
        end_view_line(view, TOP_PLAIN);
    }
    while (number + 1 < ARRAY_LEN(key_lines) && strlen(lines[number]) > view->columns)
        number++;
    line_add(begin_view_line(view), lines[number]);
    end_view_line(view, TOP_DIM);
}

/* Writes a text in as many lines as it needs, broken between words. */
static void write_wrapped(struct layout *view, const char *text, enum top_style style)
{
    size_t columns = view->size->columns ? view->size->columns : UNLIMITED_WIDTH;

    while (*text) {
        size_t len = strlen(text), fits = len;
        if (len > columns) {
            for (fits = columns; fits > 0 && text[fits] != ' ';)
                fits--;
            fits = fits ? fits : columns;
        }
        line_printf(begin_view_line(view), "%.*s", (int)fits, text);
        end_view_line(view, style);
        text += fits;
        text += strspn(text, " ");
    }
}

bool top_lay_out(const struct top_page *page, const struct top_size *size, top_line write,
                 void *ctx)
{
    const struct top_model *model = page->model;
    struct layout view = {.page = page,
                          .model = model,
                          .size = size,
                          .write = write,
                          .ctx = ctx,
                          .columns = size->columns ? size->columns : UNLIMITED_WIDTH};
    char text[1024];
    bool good = true;

    view.reserved = page->keys && size->lines >= LOW;
    write_title(&view);
    write_verdict(&view);
    if (model->reads)
        write_read(&view);
    else
        write_hold(&view);
    if (page->status && *page->status)
        write_wrapped(&view, page->status, TOP_BOLD);
    leave_empty(&view);
    write_gauges(&view);
    leave_empty(&view);
    if (page->stack) {
        write_opened(&view);
    } else if (model->sites) {
        good = write_sites(&view);
    } else if (model->version[0]) {
        snprintf(text, sizeof text, "counts only: %s", page->why ? page->why : "?");
        write_wrapped(&view, text, TOP_BOLD);
        snprintf(text, sizeof text, "next: %s", page->next ? page->next : "");
        if (page->next)
            write_wrapped(&view, text, TOP_PLAIN);
    }
    if (view.reserved)
        write_keys(&view);
    return good;
}
