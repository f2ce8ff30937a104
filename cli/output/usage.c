#include "cli/output/usage.h"
#include "base/units.h"
#include "cli/message.h"

#include <inttypes.h>
#include <string.h>

enum { AGE_TEXT = UNITS_TEXT + 8, WHEN_TEXT = 48 };

enum field_kind {
    FIELD_PART,   /* of the RSS and what is absent: it has a share */
    FIELD_RSS,    /* their sum, but for what is absent */
    FIELD_ABSENT, /* has a line of its own in the table */
    FIELD_KERNEL,
    FIELD_GAUGE, /* of jemalloc */
};

struct usage_field {
    enum field_kind kind;
    const char *name; /* in the table; NULL: not there */
    const char *member, *metric, *meaning, *help;
    bool known, aged, wanted; /* wanted: unknown it is shown as ? */
    uint64_t bytes;
};

enum { KERNEL_FIELDS = 4, FIELDS = ACCOUNT_PARTS + KERNEL_FIELDS + CTL_GAUGES + 1 };

/* ---- the fields ---- */

static const struct usage_field part_fields[ACCOUNT_PARTS] = {
    [ACCOUNT_IN_USE] = {.kind = FIELD_PART,
                        .name = "in use",
                        .member = "in_use",
                        .metric = "in_use",
                        .meaning = "by the program",
                        .help = "In use by the program.",
                        .wanted = true},
    [ACCOUNT_SAMPLING] = {.kind = FIELD_PART,
                          .name = "sampling",
                          .member = "sampling",
                          .metric = "sampling",
                          .meaning = "what sampling adds: a sampled object takes pages of its own",
                          .help = "What sampled objects take above their size class."},
    [ACCOUNT_BETWEEN] = {.kind = FIELD_PART,
                         .name = "between",
                         .member = "between",
                         .metric = "between",
                         .meaning = "free space between objects, in pages that hold some",
                         .help = "Free space between objects, in pages that hold some.",
                         .wanted = true},
    [ACCOUNT_PAGES] = {.kind = FIELD_PART,
                       .name = "free pages",
                       .member = "free_pages",
                       .metric = "free_pages",
                       .meaning = "free pages that are not yet returned to the kernel",
                       .help = "Free pages that are not yet returned to the kernel.",
                       .wanted = true},
    [ACCOUNT_PINNED] = {.kind = FIELD_PART,
                        .name = "pinned",
                        .member = "pinned",
                        .metric = "pinned",
                        .meaning =
                            "free pages that extent hooks have pinned: no purge returns them",
                        .help = "Free pages that are pinned (stats.pinned)."},
    [ACCOUNT_OWN] = {.kind = FIELD_PART,
                     .name = "own data",
                     .member = "own_data",
                     .metric = "own_data",
                     .meaning = "of jemalloc itself",
                     .help = "Data structures of jemalloc itself that are in memory.",
                     .wanted = true},
    [ACCOUNT_OUTSIDE] = {.kind = FIELD_PART,
                         .name = "outside",
                         .member = "outside",
                         .metric = "outside",
                         .meaning = "outside jemalloc: code, stacks, files, other allocators",
                         .help = "RSS outside jemalloc.",
                         .wanted = true},
};

static void fill_parts(const struct account *account, struct usage_field fields[ACCOUNT_PARTS])
{
    const struct account_sum sum = account_sum_up(account);
    const bool aged = account->aged >> CTL_RESIDENT & 1;

    memcpy(fields, part_fields, sizeof part_fields);
    for (size_t i = 0; i < ACCOUNT_PARTS; i++) {
        fields[i].known = sum.known[i];
        fields[i].bytes = sum.bytes[i];
        fields[i].aged = i == ACCOUNT_IN_USE ? account->aged >> CTL_ALLOCATED & 1 : aged;
    }
    if (!account->has_process)
        fields[ACCOUNT_OUTSIDE].wanted = false;
    if (!sum.known[ACCOUNT_SAMPLING])
        fields[ACCOUNT_IN_USE].meaning = "by the program, and what sampling may add to it";
}

static void fill_kernel(const struct account *account, struct usage_field fields[KERNEL_FIELDS])
{
    static const char *const sources[] = {
        [USAGE_ROLLUP] = "in memory, as counted by the kernel (smaps_rollup)",
        [USAGE_SMAPS] = "in memory, as counted by the kernel (smaps)",
        [USAGE_STATUS] = "in memory, as counted by the kernel (status)"};
    const struct proc_usage *process = &account->process;
    const struct account_sum sum = account_sum_up(account);
    const bool known = account->has_process;
    const struct usage_field all[KERNEL_FIELDS] = {
        {FIELD_RSS, "RSS", "rss", "process_resident", sources[account->rss_source],
         "Memory of the whole process (RSS).", .known = known, .bytes = process->rss},
        {FIELD_ABSENT, NULL, "absent", "absent", NULL,
         "Counted by jemalloc, but not in memory: never touched, or swapped out.",
         .known = sum.has_rss, .bytes = sum.absent},
        {FIELD_KERNEL, "lazy free", "lazy_free", "process_lazy_free",
         "part of the RSS: muzzy pages, which the kernel reclaims when it needs memory",
         "Part of the RSS that the kernel may reclaim.",
         .known = known && account->rss_source != USAGE_STATUS, .bytes = process->lazy_free},
        {FIELD_KERNEL, "swapped", "swap", "process_swap", "not in the RSS",
         "Memory of the process that is swapped out.", .known = known, .bytes = process->swap},
    };

    memcpy(fields, all, sizeof all);
}

static const char *resident_meaning(const struct stats_gauges *gauges)
{
    return gauges->has_pinned ? "active, dirty, metadata and pinned pages, an upper bound"
                              : "active, dirty and metadata pages, an upper bound";
}

/* The names of the program for them; allocated is the same as in use. */
static void fill_gauges(const struct account *account, struct usage_field fields[CTL_GAUGES])
{
    const struct stats_gauges *gauges = &account->counted.gauges;
    const struct usage_field all[CTL_GAUGES] = {
        [CTL_ALLOCATED] = {FIELD_GAUGE, NULL, "stats_allocated", "stats_allocated", NULL,
                           "What jemalloc counts as allocated, with what sampling adds "
                           "(stats.allocated).",
                           .bytes = gauges->allocated},
        [CTL_ACTIVE] = {FIELD_GAUGE, "active", "stats_active", "active",
                        "pages that contain allocations",
                        "Pages that contain allocations (stats.active).", .bytes = gauges->active},
        [CTL_METADATA] = {FIELD_GAUGE, NULL, "stats_metadata", "metadata", NULL,
                          "Data structures of jemalloc itself (stats.metadata).",
                          .bytes = gauges->metadata},
        [CTL_RESIDENT] = {FIELD_GAUGE, "resident", "stats_resident", "resident",
                          resident_meaning(gauges),
                          "Active, dirty, metadata and pinned pages (stats.resident).",
                          .bytes = gauges->resident},
        [CTL_MAPPED] = {FIELD_GAUGE, "mapped", "stats_mapped", "mapped",
                        "address space of active extents",
                        "Address space of active extents (stats.mapped).", .bytes = gauges->mapped},
        [CTL_RETAINED] = {FIELD_GAUGE, "retained", "stats_retained", "retained",
                          "address space kept for later use, without memory",
                          "Address space kept for later use (stats.retained).",
                          .bytes = gauges->retained},
    };

    memcpy(fields, all, sizeof all);
    for (unsigned i = 0; i < CTL_PINNED; i++) {
        fields[i].known = counted_has(&account->counted, i);
        fields[i].aged = account->aged >> i & 1;
        fields[i].wanted = i != CTL_RETAINED || !account->counted.known;
    }
}

static void fill_fields(const struct account *account, struct usage_field fields[FIELDS])
{
    struct usage_field *allocated = fields + FIELDS - 1;

    fill_parts(account, fields);
    fill_kernel(account, fields + ACCOUNT_PARTS);
    fill_gauges(account, fields + ACCOUNT_PARTS + KERNEL_FIELDS);
    *allocated = fields[ACCOUNT_IN_USE];
    allocated->name = allocated->member = NULL;
    allocated->metric = "allocated";
    allocated->help = "The same as jemalloc_in_use_bytes.";
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

static const char *why_unknown(enum gauges_state state)
{
    static const char *const reasons[] = {
        [GAUGES_NOT_FOUND] = ("not found: jemalloc was built without statistics, or its code has "
                              "an unknown form"),
        [GAUGES_UNPROVEN] = "not known: the values in memory could not be proven",
        [GAUGES_UNREADABLE] = "not known: their memory could not be read",
        [GAUGES_NEVER] = "not known: nothing has asked jemalloc for its counts yet",
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

/* The moment of a value, or the share of a part where all are of one moment. */
static const char *when_text(const struct usage *usage, const struct usage_field *field,
                             char out[WHEN_TEXT])
{
    const struct account *account = usage->account;
    uint64_t whole = account_sum_up(account).whole;

    out[0] = '\0';
    if (!field->known)
        snprintf(out, WHEN_TEXT, "?");
    else if (field->aged)
        age_text(&account->reading, out);
    else if (!account_is_whole(account))
        snprintf(out, WHEN_TEXT, "%s", account->has_process ? "now" : "");
    else if (whole && (field->kind == FIELD_PART || field->kind == FIELD_RSS))
        snprintf(out, WHEN_TEXT, "%.1f %%", 100.0 * (double)field->bytes / (double)whole);
    return out;
}

static void print_field(const struct usage *usage, const struct usage_field *field, FILE *out)
{
    int width = account_is_whole(usage->account) ? 9 : 14;
    char bytes[UNITS_TEXT], when[WHEN_TEXT];

    fprintf(out, "  %-13s %12s %*s  %s\n", field->name,
            field->known ? units_bytes((double)field->bytes, bytes) : "?", width,
            when_text(usage, field, when), field->meaning);
}

static void print_absent(const struct usage_field *field, FILE *out)
{
    char bytes[UNITS_TEXT];

    fprintf(out, "  %s of these are not in memory: never touched, or swapped out\n",
            units_bytes((double)field->bytes, bytes));
}

/* Says where the counts are from. */
static void print_count_source(const struct account *account, FILE *out)
{
    char text[USAGE_AGED_TEXT];

    if (account->source == ACCOUNT_CALL)
        fputs("counts: by jemalloc itself, in a call\n", out);
    else if (account->source == ACCOUNT_RECORDS)
        fputs("counts: from jemalloc's records, without a call\n", out);
    if (!account->has_reading || account_is_whole(account))
        return;
    fprintf(out, "gauges: %s\n", usage_aged_text(&account->reading, text, sizeof text));
    if (account->reading.state == GAUGES_COLLECTING)
        fputs("gauges: a write of epoch has begun after it, and has not ended\n", out);
}

void usage_print_table(const struct usage *usage, FILE *out)
{
    const char *known = usage->account->build.text;
    struct usage_field fields[FIELDS];
    char name[64], version[VERSION_TEXT_MAX];

    fill_fields(usage->account, fields);
    fprintf(out, "%s[%d]%s jemalloc %s\n", message_clean(usage->name, name, sizeof name),
            usage->pid, usage->origin ? usage->origin : "",
            *known ? message_clean(known, version, sizeof version) : "?");
    for (const struct usage_field *field = fields; field < fields + FIELDS; field++)
        if (field->kind == FIELD_ABSENT && field->known && field->bytes)
            print_absent(field, out);
        else if (field->name && (field->known ? field->bytes > 0 : field->wanted))
            print_field(usage, field, out);
    print_count_source(usage->account, out);
}

/* ---- Prometheus ---- */

/* Prints a label value: quotes and backslashes escaped, valid UTF-8 (exposition formats). */
static void print_label(const char *text, FILE *out)
{
    for (const char *p = text; *p; p++) {
        if (*p == '"' || *p == '\\')
            fputc('\\', out);
        fputc((unsigned char)*p < 0x20 || (unsigned char)*p > 0x7e ? '?' : *p, out);
    }
}

void usage_begin_labels(int pid, const char *name, FILE *out)
{
    fprintf(out, "{pid=\"%d\",process=\"", pid);
    print_label(name, out);
    fputc('"', out);
}

/* Prints the head of a metric, up to its value. */
static void begin_metric(const struct usage *usage, const char *name, const char *unit,
                         const char *type, const char *help, FILE *out)
{
    fprintf(out, "# HELP jemalloc_%s%s %s\n# TYPE jemalloc_%s%s %s\njemalloc_%s%s", name, unit,
            help, name, unit, type, name, unit);
    usage_begin_labels(usage->pid, usage->name, out);
    fputs("} ", out);
}

static void print_age(const struct usage *usage, const struct gauges_reading *reading, FILE *out)
{
    double seconds = (double)reading->age_ns / 1e9;

    if (reading->aged == AGE_KNOWN) {
        begin_metric(usage, "gauges_age", "_seconds", "gauge",
                     "Time since jemalloc collected its gauges.", out);
        fprintf(out, "%.9g\n", seconds);
    } else if (reading->aged == AGE_AT_MOST) {
        begin_metric(usage, "gauges_age_limit", "_seconds", "gauge",
                     "Upper limit of the time since jemalloc collected its gauges.", out);
        fprintf(out, "%.9g\n", seconds);
    }
    if (reading->has_epoch) {
        begin_metric(usage, "epoch", "_total", "counter",
                     "Collections of the gauges since the process started.", out);
        fprintf(out, "%" PRIu64 "\n", reading->epoch);
    }
}

void usage_print_metrics(const struct usage *usage, FILE *out)
{
    struct usage_field fields[FIELDS];

    fill_fields(usage->account, fields);
    for (const struct usage_field *field = fields; field < fields + FIELDS; field++)
        if (field->known && field->metric) {
            begin_metric(usage, field->metric, "_bytes", "gauge", field->help, out);
            fprintf(out, "%" PRIu64 "\n", field->bytes);
        }
    if (usage->account->aged)
        print_age(usage, &usage->account->reading, out);
}

/* ---- JSON ---- */

static void json_number_if(struct json *json, const char *name, bool known, uint64_t value)
{
    if (known)
        json_number(json, name, value);
    else
        json_null(json, name);
}

static void reading_json(const struct account *account, struct json *json)
{
    static const char *const states[] = {
        [GAUGES_NOT_FOUND] = "not_found",   [GAUGES_UNPROVEN] = "unproven",
        [GAUGES_UNREADABLE] = "unreadable", [GAUGES_NEVER] = "never_collected",
        [GAUGES_COLLECTING] = "collecting", [GAUGES_KNOWN] = "known"};
    const struct gauges_reading *reading = &account->reading;
    const struct stats_gauges *gauges = &reading->gauges;
    const bool known = gauges_known(reading);

    if (!account->has_reading) {
        json_null(json, "gauges");
        return;
    }
    json_object_begin(json, "gauges");
    json_text(json, "state", states[reading->state]);
    json_number_if(json, "epoch", reading->has_epoch, reading->epoch);
    json_number_if(json, "age_ns", reading->aged == AGE_KNOWN, reading->age_ns);
    json_number_if(json, "age_limit_ns", reading->aged != AGE_UNKNOWN, reading->age_ns);
    json_number_if(json, "allocated", known, gauges->allocated);
    json_number_if(json, "active", known, gauges->active);
    json_number_if(json, "metadata", known, gauges->metadata);
    json_number_if(json, "resident", known, gauges->resident);
    json_number_if(json, "mapped", known, gauges->mapped);
    json_number_if(json, "retained", known && gauges->has_retained, gauges->retained);
    json_object_end(json);
}

void usage_json(const struct usage *usage, struct json *json)
{
    static const char *const sources[] = {[ACCOUNT_RECORDS] = "records",
                                          [ACCOUNT_CALL] = "call",
                                          [ACCOUNT_AGED] = "aged",
                                          [ACCOUNT_NONE] = ""};
    const struct account *account = usage->account;
    struct usage_field fields[FIELDS];

    fill_fields(account, fields);
    json_text_or_null(json, "version", account->build.text);
    json_text_or_null(json, "source", sources[account->source]);
    for (const struct usage_field *field = fields; field < fields + FIELDS; field++)
        if (field->member)
            json_number_if(json, field->member, field->known, field->bytes);
    json_list_begin(json, "aged");
    for (const struct usage_field *field = fields; field < fields + FIELDS; field++)
        if (field->member && field->known && field->aged)
            json_item_text(json, field->member);
    json_list_end(json);
    reading_json(account, json);
}
