#include "cli/output/usage.h"
#include "base/units.h"
#include "cli/message.h"

#include <inttypes.h>
#include <string.h>

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
    bool known, wanted; /* wanted: unknown it is shown as ? */
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
                          gauges->has_pinned
                              ? "active, dirty, metadata and pinned pages, an upper bound"
                              : "active, dirty and metadata pages, an upper bound",
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
        fields[i].wanted = i != CTL_RETAINED || !account->counted.known;
    }
}

static void fill_fields(const struct account *account, struct usage_field fields[FIELDS])
{
    const struct account_sum sum = account_sum_up(account);
    struct usage_field *allocated = fields + FIELDS - 1;

    memcpy(fields, part_fields, sizeof part_fields);
    for (size_t i = 0; i < ACCOUNT_PARTS; i++) {
        fields[i].known = sum.known[i];
        fields[i].bytes = sum.bytes[i];
    }
    if (!account->has_process)
        fields[ACCOUNT_OUTSIDE].wanted = false;
    if (!sum.known[ACCOUNT_SAMPLING])
        fields[ACCOUNT_IN_USE].meaning = "by the program, and what sampling may add to it";

    fill_kernel(account, fields + ACCOUNT_PARTS);
    fill_gauges(account, fields + ACCOUNT_PARTS + KERNEL_FIELDS);
    *allocated = fields[ACCOUNT_IN_USE];
    allocated->name = allocated->member = NULL;
    allocated->metric = "allocated";
    allocated->help = "The same as jemalloc_in_use_bytes.";
}

/* ---- the table ---- */

static void print_field(const struct usage *usage, const struct usage_field *field, FILE *out)
{
    const struct account *account = usage->account;
    const bool whole = account_is_whole(account); /* all are of one moment */
    const uint64_t sum = account_sum_up(account).whole;
    char bytes[UNITS_TEXT], when[48] = ""; /* the moment, or else the share of a part */

    if (!field->known)
        snprintf(when, sizeof when, "?");
    else if (!whole)
        snprintf(when, sizeof when, "%s", account->has_process ? "now" : "");
    else if (sum && (field->kind == FIELD_PART || field->kind == FIELD_RSS))
        snprintf(when, sizeof when, "%.1f %%", 100.0 * (double)field->bytes / (double)sum);
    fprintf(out, "  %-13s %12s %*s  %s\n", field->name,
            field->known ? units_bytes((double)field->bytes, bytes) : "?", whole ? 9 : 14, when,
            field->meaning);
}

void usage_print_table(const struct usage *usage, FILE *out)
{
    const struct account *account = usage->account;
    const struct subject subject = {.pid = usage->pid, .name = usage->name};
    const char *known = account->build.text;
    struct usage_field fields[FIELDS];
    char name[64], version[VERSION_TEXT_MAX], bytes[UNITS_TEXT], cause[MESSAGE_LINE];

    fill_fields(account, fields);
    fprintf(out, "%s[%d]%s jemalloc %s\n", message_clean(usage->name, name, sizeof name),
            usage->pid, usage->origin ? usage->origin : "",
            *known ? message_clean(known, version, sizeof version) : "?");
    for (const struct usage_field *field = fields; field < fields + FIELDS; field++)
        if (field->kind == FIELD_ABSENT && field->known && field->bytes)
            fprintf(out, "  %s of these are not in memory: never touched, or swapped out\n",
                    units_bytes((double)field->bytes, bytes));
        else if (field->name && (field->known ? field->bytes > 0 : field->wanted))
            print_field(usage, field, out);

    /* Where the counts are from, and why some are not known. */
    if (account->source == ACCOUNT_CALL)
        fputs("counts: by jemalloc itself, in a call\n", out);
    else if (account->source == ACCOUNT_RECORDS)
        fputs("counts: from jemalloc's records, without a call\n", out);
    if (account->source == ACCOUNT_NONE && account->why.code != FAULT_NONE)
        fprintf(out, "counts: not known: %s\n",
                message_cause(&subject, &account->why, cause, sizeof cause));
    else if (!account_is_whole(account))
        fputs("?: not found in jemalloc's records\n", out);
}

/* ---- Prometheus ---- */

void usage_begin_labels(int pid, const char *name, FILE *out)
{
    fprintf(out, "{pid=\"%d\",process=\"", pid);
    /* A label value: quotes and backslashes escaped, valid UTF-8 (exposition formats). */
    for (const char *p = name; *p; p++) {
        if (*p == '"' || *p == '\\')
            fputc('\\', out);
        fputc((unsigned char)*p < 0x20 || (unsigned char)*p > 0x7e ? '?' : *p, out);
    }
    fputc('"', out);
}

void usage_print_metrics(const struct usage *usage, FILE *out)
{
    struct usage_field fields[FIELDS];

    fill_fields(usage->account, fields);
    for (const struct usage_field *field = fields; field < fields + FIELDS; field++) {
        const char *name = field->metric;
        if (!field->known || !name)
            continue;
        fprintf(out,
                "# HELP jemalloc_%s_bytes %s\n# TYPE jemalloc_%s_bytes gauge\njemalloc_%s_bytes",
                name, field->help, name, name);
        usage_begin_labels(usage->pid, usage->name, out);
        fprintf(out, "} %" PRIu64 "\n", field->bytes);
    }
}

/* ---- JSON ---- */

void usage_json(const struct usage *usage, struct json *json)
{
    static const char *const sources[] = {
        [ACCOUNT_RECORDS] = "records", [ACCOUNT_CALL] = "call", [ACCOUNT_NONE] = ""};
    const struct account *account = usage->account;
    struct usage_field fields[FIELDS];

    fill_fields(account, fields);
    json_text_or_null(json, "version", account->build.text);
    json_text_or_null(json, "source", sources[account->source]);
    for (const struct usage_field *field = fields; field < fields + FIELDS; field++)
        if (field->member)
            json_number_or_null(json, field->member, field->known, field->bytes);
}
