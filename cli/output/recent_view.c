#include "cli/output/recent_view.h"
#include "base/text.h"
#include "base/util.h"
#include "cli/message.h"
#include "cli/output/columns.h"
#include "cli/output/stack_json.h"
#include "profile/stack_text.h"
#include "profile/views/call_label.h"

#include <inttypes.h>
#include <string.h>

enum { THREAD_COLUMNS = 16, THREAD_BYTES = 4 * THREAD_COLUMNS + 8 };

static bool is_full(const struct recent_list *list)
{
    return list->max >= 0 && list->count >= (uint64_t)list->max;
}

/* ---- the heading ---- */

/*
 * Returns the age of the first record that is shown. The list is in the order of time; clocks of
 * threads may differ by a tick.
 */
static uint64_t span_of(const struct recent_view *view)
{
    const struct recent_list *list = &view->recent->list;

    for (size_t i = 0; i < list->count; i++)
        if (view->sites->of[i] != TABLE_NONE)
            return recent_age(view->recent, &list->records[i]);
    return 0;
}

static void print_heading(const struct recent_view *view, FILE *out)
{
    const struct recent *recent = view->recent;
    const struct recent_list *list = &recent->list;
    char span[UNITS_TEXT], period[UNITS_TEXT];

    fprintf(out, "%zu sampled allocation%s", view->sites->shown,
            view->sites->shown == 1 ? "" : "s");
    if (view->sites->shown)
        fprintf(out, ", %zu still alive; the oldest is %s old", view->sites->alive,
                units_duration(span_of(view), span));
    fputc('\n', out);
    if (list->period > 1)
        fprintf(out, "one sample in %s on average: large allocations are more likely to be seen\n",
                units_bytes((double)list->period, period));
    if (is_full(list))
        fprintf(out, "the list was full: older samples were dropped (--last keeps more)\n");
    if (!recent->clock_shared)
        fprintf(out, "ages are from its last event on: its clock is of another time namespace\n");
}

/* ---- the sites ---- */

static void print_calls(const struct recent_view *view, const struct recent_site *site, FILE *out)
{
    for (uint32_t i = 0; i < site->call_count; i++) {
        fputs(i ? " <- " : "", out);
        text_write_clean(out, view->samples->locations.groups[site->calls[i]], "");
    }
    fputc('\n', out);
}

static void print_site(const struct recent_view *view, const struct recent_site *site, FILE *out)
{
    char lifetime[UNITS_TEXT], size[UNITS_TEXT];

    fprintf(out, "%8zu %8zu %11s %10s  ", site->count, site->alive,
            site->lived ? units_duration(site->median_ns, lifetime) : "-",
            units_bytes((double)site->size / (double)site->count, size));
    print_calls(view, site, out);
}

static void print_sites(const struct recent_view *view, FILE *out)
{
    const struct recent_sites *sites = view->sites;
    size_t shown = view->rows && view->rows < sites->count ? view->rows : sites->count;

    fprintf(out, "\n%8s %8s %11s %10s  %s\n", "samples", "alive", "lifetime", "size",
            "site (median lifetime, mean size)");
    for (size_t i = 0; i < shown; i++)
        print_site(view, &sites->list[i], out);
    if (shown < sites->count)
        fprintf(out, "and %zu more sites (--rows 0 shows all)\n", sites->count - shown);
}

/* ---- the records ---- */

static uint64_t rank_of(const struct recent_view *view, const struct recent_record *record)
{
    switch (view->order) {
    case RECENT_BY_SIZE:
        return record->size;
    case RECENT_BY_LIFETIME: /* an object that is alive has lived for its age so far */
        return record->released ? recent_lifetime(record) : recent_age(view->recent, record);
    default:
        return record->allocation.time_ns;
    }
}

/* The highest rank first; of equal ones the later one in the list. */
static int compare_records(const void *a, const void *b, void *ctx)
{
    const struct recent_view *view = ctx;
    const struct recent_record *records = view->recent->list.records;
    size_t p = *(const size_t *)a, q = *(const size_t *)b;
    uint64_t x = rank_of(view, &records[p]), y = rank_of(view, &records[q]);

    if (x != y)
        return x < y ? 1 : -1;
    return p < q ? 1 : p > q ? -1 : 0;
}

static const char *thread_text(const struct recent_thread *thread, char out[THREAD_BYTES])
{
    struct line line;

    line_init(&line, out, THREAD_BYTES, THREAD_COLUMNS);
    if (thread->name)
        line_add(&line, thread->name);
    else
        line_printf(&line, "t%" PRIu64, thread->uid);
    line_fill(&line, THREAD_COLUMNS);
    return out;
}

/* The program's own function that allocated, or the innermost one. */
static void print_place(const struct recent_view *view, uint32_t stack, FILE *out)
{
    const struct samples *samples = view->samples;
    uint32_t number = stack == TABLE_NONE ? TABLE_NONE : view->sites->samples[stack];
    char label[CALL_LABEL_SIZE] = "?";
    struct stack_text text = {.count = 0};

    if (number != TABLE_NONE)
        stack_text_choose(samples, &samples->list[number], 1, &text);
    if (text.count)
        call_label(samples, text.calls[0].function, text.calls[0].line, true, 0, label);
    fprintf(out, "%s\n", label);
}

static void print_record(const struct recent_view *view, const struct recent_record *record,
                         FILE *out)
{
    char age[UNITS_TEXT], lifetime[UNITS_TEXT], size[UNITS_TEXT], thread[THREAD_BYTES];
    const char *lived = record->released ? "?" : "alive";

    if (!recent_lacks_lifetime(record))
        lived = units_duration(recent_lifetime(record), lifetime);
    fprintf(out, "%11s %11s %10s  %s  ", units_duration(recent_age(view->recent, record), age),
            lived, units_bytes((double)record->size, size),
            thread_text(&record->allocation.thread, thread));
    print_place(view, record->allocation.stack, out);
}

static bool print_records(const struct recent_view *view, FILE *out)
{
    const struct recent_list *list = &view->recent->list;
    AUTO_FREE size_t *order = reallocarray(NULL, list->count + 1, sizeof *order);
    size_t count = 0, shown;

    if (!order)
        return false;
    for (size_t i = 0; i < list->count; i++)
        if (view->sites->of[i] != TABLE_NONE)
            order[count++] = i;
    qsort_r(order, count, sizeof *order, compare_records, (void *)view);
    shown = view->rows && view->rows < count ? view->rows : count;
    fprintf(out, "\n%11s %11s %10s  %-*s  %s\n", "age", "lifetime", "size", THREAD_COLUMNS,
            "thread", "allocated by");
    for (size_t i = 0; i < shown; i++)
        print_record(view, &list->records[order[i]], out);
    if (shown < count)
        fprintf(out, "and %zu more allocations (--rows 0 shows all)\n", count - shown);
    return true;
}

bool recent_print(const struct recent_view *view, FILE *out)
{
    print_heading(view, out);
    if (!view->sites->shown)
        return true;
    print_sites(view, out);
    return print_records(view, out);
}

/* ---- JSON ---- */

static void json_thread(struct json *json, const char *name, const struct recent_thread *thread)
{
    json_object_begin(json, name);
    json_number(json, "uid", thread->uid);
    json_text_or_null(json, "name", thread->name);
    json_object_end(json);
}

static void json_index(struct json *json, const char *name, uint32_t index)
{
    if (index == TABLE_NONE)
        json_null(json, name);
    else
        json_number(json, name, index);
}

static void json_record(const struct recent_view *view, const struct recent_record *record,
                        uint32_t site, struct json *json)
{
    json_number(json, "size", record->size);
    json_number(json, "usable_size", record->usable);
    json_bool(json, "alive", !record->released);
    json_number(json, "age_ns", recent_age(view->recent, record));
    if (recent_lacks_lifetime(record))
        json_null(json, "lifetime_ns");
    else
        json_number(json, "lifetime_ns", recent_lifetime(record));
    json_number(json, "allocated_ns", record->allocation.time_ns);
    json_thread(json, "thread", &record->allocation.thread);
    json_index(json, "site", site);
    json_index(json, "stack", record->allocation.stack);
    if (!record->has_release) {
        json_null(json, "released_ns");
        json_null(json, "release_thread");
        json_null(json, "release_stack");
        return;
    }
    json_number(json, "released_ns", record->release.time_ns);
    json_thread(json, "release_thread", &record->release.thread);
    json_index(json, "release_stack", record->release.stack);
}

static void json_recent_site(const struct recent_view *view, const struct recent_site *site,
                             struct json *json)
{
    json_number(json, "samples", site->count);
    json_number(json, "alive", site->alive);
    if (site->lived)
        json_number(json, "median_lifetime_ns", site->median_ns);
    else
        json_null(json, "median_lifetime_ns");
    json_number(json, "bytes", site->size);
    json_number(json, "usable_bytes", site->usable);
    json_list_begin(json, "calls");
    for (uint32_t i = 0; i < site->call_count; i++)
        json_item_text(json, view->samples->locations.groups[site->calls[i]]);
    json_list_end(json);
}

/* A stack that a filter hides has no calls. */
static void json_stacks(const struct recent_view *view, struct json *json)
{
    const struct samples *samples = view->samples;

    json_list_begin(json, "stacks");
    for (size_t i = 0; i < view->recent->list.stack_count; i++) {
        uint32_t sample = view->sites->samples[i];
        json_item_begin(json);
        if (sample != TABLE_NONE) {
            stack_json(json, "calls", samples, &samples->list[sample]);
        } else {
            json_list_begin(json, "calls");
            json_list_end(json);
        }
        json_item_end(json);
    }
    json_list_end(json);
}

void recent_json(const struct recent_view *view, struct json *json)
{
    const struct recent *recent = view->recent;
    const struct recent_list *list = &recent->list;

    json_number(json, "period", list->period);
    json_signed(json, "last", list->max);
    json_signed(json, "last_before", recent->list_switch.former);
    json_bool(json, "full", is_full(list));
    json_text(json, "clock", recent->list_switch.realtime ? "realtime" : "monotonic_coarse");
    json_bool(json, "clock_shared", recent->clock_shared);
    json_number(json, "taken_ns", recent->now_ns);
    json_number(json, "samples", view->sites->shown);
    json_number(json, "alive", view->sites->alive);
    json_list_begin(json, "sites");
    for (size_t i = 0; i < view->sites->count; i++) {
        json_item_begin(json);
        json_recent_site(view, &view->sites->list[i], json);
        json_item_end(json);
    }
    json_list_end(json);
    json_list_begin(json, "records");
    for (size_t i = 0; i < list->count; i++) {
        if (view->sites->of[i] == TABLE_NONE)
            continue;
        json_item_begin(json);
        json_record(view, &list->records[i], view->sites->of[i], json);
        json_item_end(json);
    }
    json_list_end(json);
    json_stacks(view, json);
}
