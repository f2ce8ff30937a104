#include "cli/output/usage_aged.h"
#include "base/units.h"
#include "cli/message.h"

#include <inttypes.h>
#include <string.h>

enum { AGE_TEXT = UNITS_TEXT + 8, OTHER_ROW = USAGE_ROWS - 1 };

/* One number: a gauge as of the last collection, or a count of the kernel as of now. */
struct aged_value {
    const char *name; /* NULL: not in the table */
    const char *metric, *meaning, *help;
    bool known, now;
    int64_t bytes;
};

enum { GAUGE_VALUES = 5, KERNEL_VALUES = 3, AGED_VALUES = USAGE_ROWS + GAUGE_VALUES };

/* The rows that add up to the resident memory of jemalloc, without the difference to the RSS. */
static void fill_rows(const struct usage_aged *aged, struct aged_value values[USAGE_ROWS])
{
    struct usage_row rows[USAGE_ROWS];

    usage_rows(&aged->usage, rows);
    for (size_t i = 0; i < USAGE_ROWS; i++)
        values[i] = (struct aged_value){.name = rows[i].name,
                                        .metric = rows[i].metric,
                                        .meaning = rows[i].meaning,
                                        .help = rows[i].help,
                                        .known = gauges_known(aged->reading) && rows[i].name &&
                                                 i != OTHER_ROW,
                                        .bytes = rows[i].bytes};
    if (aged->ended)
        values[OTHER_ROW].name = NULL;
    values[OTHER_ROW].meaning = "outside jemalloc: the RSS is of now, the gauges are not";
}

static void fill_gauges(const struct usage_aged *aged, struct aged_value values[GAUGE_VALUES])
{
    const struct stats_gauges *gauges = &aged->reading->gauges;
    bool known = gauges_known(aged->reading);
    const struct aged_value all[GAUGE_VALUES] = {
        {"active", "active", "pages that contain allocations",
         "Pages that contain allocations (stats.active).", known, false, (int64_t)gauges->active},
        {NULL, "metadata", NULL, "Data structures of jemalloc itself (stats.metadata).", known,
         false, (int64_t)gauges->metadata},
        {"resident", "resident", usage_resident_meaning(gauges),
         "Active, dirty, metadata and pinned pages (stats.resident).", known, false,
         (int64_t)gauges->resident},
        {"mapped", "mapped", "address space of active extents",
         "Address space of active extents (stats.mapped).", known, false, (int64_t)gauges->mapped},
        {known && !gauges->has_retained ? NULL : "retained", "retained",
         "address space kept for later use, without memory",
         "Address space kept for later use (stats.retained).", known && gauges->has_retained, false,
         (int64_t)gauges->retained},
    };

    memcpy(values, all, sizeof all);
}

static void fill_kernel(const struct usage_aged *aged, struct aged_value values[KERNEL_VALUES])
{
    const struct proc_usage *process = &aged->usage.process;
    bool known = !aged->ended;
    const struct aged_value all[KERNEL_VALUES] = {
        {"RSS", "process_resident", "in memory, as counted by the kernel",
         "Memory of the whole process (RSS).", known, known, (int64_t)process->rss},
        {process->lazy_free ? "lazy free" : NULL, "process_lazy_free",
         "part of the RSS: muzzy pages, which the kernel reclaims when it needs memory",
         "Part of the RSS that the kernel may reclaim.", known, known, (int64_t)process->lazy_free},
        {"swapped", "process_swap", "not in the RSS", "Memory of the process that is swapped out.",
         known, known, (int64_t)process->swap},
    };

    memcpy(values, all, sizeof all);
}

static void fill_values(const struct usage_aged *aged, struct aged_value values[AGED_VALUES])
{
    fill_rows(aged, values);
    fill_gauges(aged, values + USAGE_ROWS);
}

/* ---- the table ---- */

static const char *age_text(const struct gauges_reading *reading, char out[AGE_TEXT])
{
    char age[UNITS_TEXT];

    units_duration(reading->age_ns, age);
    if (!gauges_known(reading) || reading->aged == AGE_UNKNOWN)
        snprintf(out, AGE_TEXT, "?");
    else
        snprintf(out, AGE_TEXT, "%s%s ago", reading->aged == AGE_AT_MOST ? "< " : "", age);
    return out;
}

static void print_values(const struct usage_aged *aged, const struct aged_value *values,
                         size_t count, FILE *out)
{
    char bytes[UNITS_TEXT], age[AGE_TEXT];

    age_text(aged->reading, age);
    for (const struct aged_value *value = values; value < values + count; value++)
        if (value->name)
            fprintf(out, "  %-13s %12s %14s  %s\n", value->name,
                    value->known ? units_bytes((double)value->bytes, bytes) : "?",
                    value->now     ? "now"
                    : value->known ? age
                                   : "?",
                    value->meaning);
}

static const char *why_unknown(enum gauges_state state)
{
    static const char *const reasons[] = {
        [GAUGES_NOT_FOUND] = ("not found: jemalloc was built without statistics, or its code has "
                              "an unknown form"),
        [GAUGES_UNPROVEN] = "unknown: the values in memory could not be proven",
        [GAUGES_UNREADABLE] = "unknown: their memory could not be read",
        [GAUGES_NEVER] = "never collected: nothing in the process has called mallctl yet",
    };

    return reasons[state];
}

const char *usage_aged_text(const struct gauges_reading *reading, char *out, size_t size)
{
    char age[AGE_TEXT], epoch[32] = "";

    if (!gauges_known(reading)) {
        snprintf(out, size, "%s", why_unknown(reading->state));
        return out;
    }
    if (reading->has_epoch)
        snprintf(epoch, sizeof epoch, " (epoch %" PRIu64 ")", reading->epoch);
    age_text(reading, age);
    snprintf(out, size, "as of the last write of epoch%s%s%s", epoch,
             reading->aged == AGE_UNKNOWN ? "; its time is unknown" : ", ",
             reading->aged == AGE_UNKNOWN ? "" : age);
    return out;
}

static void print_state(const struct gauges_reading *reading, FILE *out)
{
    char text[USAGE_AGED_TEXT];

    fprintf(out, "gauges: %s\n", usage_aged_text(reading, text, sizeof text));
    if (reading->state == GAUGES_COLLECTING)
        fputs("gauges: a write of epoch has begun after it, and has not ended\n", out);
}

void usage_aged_print(const struct usage_aged *aged, FILE *out)
{
    const struct usage *usage = &aged->usage;
    struct aged_value values[AGED_VALUES], kernel[KERNEL_VALUES];
    char name[64], version[VERSION_TEXT_MAX];
    const char *known = usage->build->text;

    fill_values(aged, values);
    fill_kernel(aged, kernel);
    fprintf(out, "%s[%d]%s jemalloc %s\n", message_clean(usage->name, name, sizeof name),
            usage->pid, aged->origin ? aged->origin : "",
            *known ? message_clean(known, version, sizeof version) : "?");
    print_values(aged, values, AGED_VALUES, out);
    if (!aged->ended)
        print_values(aged, kernel, KERNEL_VALUES, out);
    print_state(aged->reading, out);
}

/* ---- Prometheus ---- */

static void print_number(const struct usage_aged *aged, const char *name, const char *type,
                         const char *help, double value, FILE *out)
{
    fprintf(out, "# HELP jemalloc_%s %s\n# TYPE jemalloc_%s %s\njemalloc_%s", name, help, name,
            type, name);
    usage_print_labels(&aged->usage, out);
    fprintf(out, " %.9g\n", value);
}

static void print_age(const struct usage_aged *aged, FILE *out)
{
    const struct gauges_reading *reading = aged->reading;
    double seconds = (double)reading->age_ns / 1e9;

    if (reading->aged == AGE_KNOWN)
        print_number(aged, "gauges_age_seconds", "gauge",
                     "Time since jemalloc collected its gauges.", seconds, out);
    if (reading->aged == AGE_AT_MOST)
        print_number(aged, "gauges_age_limit_seconds", "gauge",
                     "Upper limit of the time since jemalloc collected its gauges.", seconds, out);
    if (reading->has_epoch)
        print_number(aged, "epoch_total", "counter",
                     "Collections of the gauges since the process started.", (double)reading->epoch,
                     out);
}

static void print_known(const struct usage_aged *aged, const struct aged_value *values,
                        size_t count, FILE *out)
{
    for (size_t i = 0; i < count; i++)
        if (values[i].known)
            usage_print_metric(&aged->usage, values[i].metric, values[i].help, values[i].bytes,
                               out);
}

void usage_aged_metrics(const struct usage_aged *aged, FILE *out)
{
    struct aged_value values[AGED_VALUES], kernel[KERNEL_VALUES];

    fill_values(aged, values);
    fill_kernel(aged, kernel);
    print_known(aged, values, AGED_VALUES, out);
    print_known(aged, kernel, KERNEL_VALUES, out);
    print_age(aged, out);
}

/* ---- JSON ---- */

static void json_values(struct json *json, const struct aged_value *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (values[i].known)
            json_signed(json, values[i].metric, values[i].bytes);
        else
            json_null(json, values[i].metric);
}

static void json_number_if(struct json *json, const char *name, bool known, uint64_t value)
{
    if (known)
        json_number(json, name, value);
    else
        json_null(json, name);
}

void usage_aged_json(const struct usage_aged *aged, struct json *json)
{
    static const char *const states[] = {
        [GAUGES_NOT_FOUND] = "not_found",   [GAUGES_UNPROVEN] = "unproven",
        [GAUGES_UNREADABLE] = "unreadable", [GAUGES_NEVER] = "never_collected",
        [GAUGES_COLLECTING] = "collecting", [GAUGES_KNOWN] = "known"};
    const struct gauges_reading *reading = aged->reading;
    struct aged_value values[AGED_VALUES], kernel[KERNEL_VALUES];

    fill_values(aged, values);
    fill_kernel(aged, kernel);
    json_text_or_null(json, "version", aged->usage.build->text);
    json_object_begin(json, "gauges");
    json_text(json, "state", states[reading->state]);
    json_number_if(json, "epoch", reading->has_epoch, reading->epoch);
    json_number_if(json, "age_ns", reading->aged == AGE_KNOWN, reading->age_ns);
    json_number_if(json, "age_limit_ns", reading->aged != AGE_UNKNOWN, reading->age_ns);
    json_values(json, values, AGED_VALUES);
    json_object_end(json);
    json_object_begin(json, "process");
    json_values(json, kernel, KERNEL_VALUES);
    json_object_end(json);
}
