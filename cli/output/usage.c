#include "cli/output/usage.h"
#include "base/units.h"
#include "cli/message.h"
#include "cli/output/wrap.h"

#include <inttypes.h>
#include <string.h>

enum row_kind {
    ROW_PART, /* of the RSS: it has a share */
    ROW_RSS,
    ROW_KERNEL,
    ROW_GAUGE, /* of jemalloc */
};

struct usage_field {
    enum row_kind kind;
    const char *name; /* in the table; NULL: not there */
    const char *member, *metric, *meaning, *help;
    bool known, wanted; /* wanted: unknown it is shown as ? */
    uint64_t bytes;
};

enum { OTHER_TEXT = 160 };

enum { KERNEL_FIELDS = 4, FIELDS = ACCOUNT_PARTS + KERNEL_FIELDS + CTL_GAUGES + 1 };

/* ---- the fields ---- */

const struct usage_part usage_parts[ACCOUNT_PARTS] = {
    [ACCOUNT_IN_USE] = {"in use", "in_use", "by the program", "In use by the program.", NULL, ""},
    [ACCOUNT_SAMPLING] = {"sampling", "sampling", "what sampled objects take beyond their size",
                          "What sampled objects take beyond their size class.",
                          "the cost of sampling", ""},
    [ACCOUNT_SLABS] = {"slabs", "slabs", "free space between objects; no purge helps",
                       "Free space between objects, in pages that hold some.",
                       "free space between objects", ", which no purge returns"},
    [ACCOUNT_PADDING] = {"padding", "padding", "free space behind large objects",
                         "Free space behind large objects, in their last pages.",
                         "free space behind large objects", ""},
    [ACCOUNT_PAGES] = {"free pages", "free_pages", "not in use; jeattach purge returns them",
                       "Free pages that are not yet returned to the kernel.", "free pages",
                       ", which jeattach purge returns"},
    [ACCOUNT_PINNED] = {"pinned", "pinned", "free pages that extent hooks keep",
                        "Free pages that are pinned (stats.pinned).",
                        "free pages that extent hooks keep", ""},
    [ACCOUNT_RETAINED] = {"retained RSS", "retained_resident",
                          "free, though jemalloc counts it as returned",
                          "Free memory that jemalloc counts as returned (of stats.retained).",
                          "free memory that jemalloc counts as returned", ": no purge returns it"},
    [ACCOUNT_OWN] = {"own data", "own_data", "of jemalloc itself",
                     "Data structures of jemalloc itself that are in memory.",
                     "jemalloc's own data", ""},
    [ACCOUNT_OTHER] = {"other", "other", "of other jemallocs", "Of other jemallocs.",
                       "of another jemalloc", ""},
    [ACCOUNT_OUTSIDE] = {"outside", "outside", "code, stacks, files, other allocators",
                         "RSS outside jemalloc.", NULL, ""},
};

const char *usage_source_name(enum account_source source)
{
    static const char *const names[] = {
        [ACCOUNT_RECORDS] = "records", [ACCOUNT_CALL] = "call", [ACCOUNT_NONE] = NULL};

    return names[source];
}

const char *usage_gauge_name(enum gauge gauge, bool json)
{
    if (gauge == GAUGE_RSS)
        return json ? "rss" : "RSS";
    if (gauge == GAUGE_ABSENT)
        return "absent";
    return json ? usage_parts[gauge].key : usage_parts[gauge].name;
}

static const char absent_meaning[] = "counted by jemalloc, but not in memory";

static void fill_kernel(const struct account *account, struct usage_field fields[KERNEL_FIELDS])
{
    static const char *const sources[] = {[USAGE_ROLLUP] =
                                              "as counted by the kernel (smaps_rollup)",
                                          [USAGE_SMAPS] = "as counted by the kernel (smaps)",
                                          [USAGE_STATUS] = "as counted by the kernel (status)"};
    const struct proc_usage *process = &account->process;
    const struct account_sum sum = account_sum_up(account);
    const bool known = account->has_process;
    const struct usage_field all[KERNEL_FIELDS] = {
        {ROW_RSS, "RSS", "rss", "process_resident", sources[account->rss_source],
         "Memory of the whole process (RSS).", .known = known, .bytes = process->rss},
        {ROW_KERNEL, "absent", "absent", "absent", absent_meaning,
         "Counted by jemalloc, but not in memory: never touched, or swapped out.",
         .known = known && account->source != ACCOUNT_NONE, .bytes = sum.absent},
        {ROW_KERNEL, "lazy free", "lazy_free", "process_lazy_free",
         "of the RSS: the kernel may reclaim it", "Part of the RSS that the kernel may reclaim.",
         .known = known && account->rss_source != USAGE_STATUS, .bytes = process->lazy_free},
        {ROW_KERNEL, "swapped", "swap", "process_swap", "not in the RSS",
         "Memory of the process that is swapped out.", .known = known, .bytes = process->swap},
    };

    memcpy(fields, all, sizeof all);
}

/* The names of the program for them; allocated is the same as in use. */
static void fill_gauges(const struct account *account, struct usage_field fields[CTL_GAUGES])
{
    const struct stats_gauges *gauges = &account->counted.gauges;
    const struct usage_field all[CTL_GAUGES] = {
        [CTL_ALLOCATED] = {ROW_GAUGE, NULL, "stats_allocated", "stats_allocated", NULL,
                           "What jemalloc counts as allocated, with what sampling adds "
                           "(stats.allocated).",
                           .bytes = gauges->allocated},
        [CTL_ACTIVE] = {ROW_GAUGE, "stats.active", "stats_active", "active",
                        "pages that contain allocations",
                        "Pages that contain allocations (stats.active).", .bytes = gauges->active},
        [CTL_METADATA] = {ROW_GAUGE, NULL, "stats_metadata", "metadata", NULL,
                          "Data structures of jemalloc itself (stats.metadata).",
                          .bytes = gauges->metadata},
        [CTL_RESIDENT] = {ROW_GAUGE, "stats.resident", "stats_resident", "resident",
                          gauges->has_pinned ? "active, dirty, metadata, pinned: at most"
                                             : "active, dirty, metadata: an upper bound",
                          "Active, dirty, metadata and pinned pages (stats.resident).",
                          .bytes = gauges->resident},
        [CTL_MAPPED] = {ROW_GAUGE, "stats.mapped", "stats_mapped", "mapped",
                        "address space of active extents",
                        "Address space of active extents (stats.mapped).", .bytes = gauges->mapped},
        [CTL_RETAINED] = {ROW_GAUGE, "stats.retained", "stats_retained", "retained",
                          "address space kept for later use",
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

    for (enum account_part part = 0; part < ACCOUNT_PARTS; part++) {
        const struct usage_part *words = &usage_parts[part];
        fields[part] = (struct usage_field){
            .kind = ROW_PART,
            .name = words->name,
            .member = words->key,
            .metric = words->key,
            .meaning = words->meaning,
            .help = words->help,
            .known = sum.known[part],
            .wanted = part == ACCOUNT_IN_USE || part == ACCOUNT_SLABS || part == ACCOUNT_PAGES ||
                      part == ACCOUNT_OWN || (part == ACCOUNT_OUTSIDE && account->has_process),
            .bytes = sum.bytes[part]};
    }
    if (!sum.known[ACCOUNT_SAMPLING])
        fields[ACCOUNT_IN_USE].meaning = "by the program, and what sampling may add to it";

    fill_kernel(account, fields + ACCOUNT_PARTS);
    fill_gauges(account, fields + ACCOUNT_PARTS + KERNEL_FIELDS);
    *allocated = (struct usage_field){.kind = ROW_GAUGE,
                                      .metric = "allocated",
                                      .help = "The same as jemalloc_in_use_bytes.",
                                      .known = fields[ACCOUNT_IN_USE].known,
                                      .bytes = fields[ACCOUNT_IN_USE].bytes};
}

/* ---- the table ---- */

/* "jemalloc of libengine.so: --instance 2" */
static const char *other_meaning(const struct account *account, char out[OTHER_TEXT])
{
    char module[ACCOUNT_NAME], more[32] = "";

    message_clean(account->module, module, sizeof module);
    if (account->others > 1)
        snprintf(more, sizeof more, ", and %zu more", account->others - 1);
    snprintf(out, OTHER_TEXT, "jemalloc of %s (--instance %zu)%s", module, account->largest, more);
    return out;
}

static void print_field(const struct account *account, const struct usage_field *field, FILE *out)
{
    const bool is_share = field->kind == ROW_PART || field->kind == ROW_RSS;
    const uint64_t whole = account_sum_up(account).whole;
    char bytes[UNITS_TEXT] = "?", share[16] = "", other[OTHER_TEXT];

    if (field->known)
        units_bytes((double)field->bytes, bytes);
    if (field->known && is_share && whole)
        snprintf(share, sizeof share, "%.1f %%", 100 * (double)field->bytes / (double)whole);
    fprintf(out, "  %-14s %9s %7s  %s\n", field->name, bytes, share,
            field->name == usage_parts[ACCOUNT_OTHER].name ? other_meaning(account, other)
                                                           : field->meaning);
}

void usage_print_parts(const struct account *account, FILE *out)
{
    struct usage_field fields[FIELDS];

    fill_fields(account, fields);
    for (const struct usage_field *field = fields; field < fields + FIELDS; field++)
        if ((field->known ? field->bytes > 0 : field->wanted) &&
            (field->kind == ROW_PART || field->meaning == absent_meaning))
            print_field(account, field, out);
}

/* "120 MiB (80 %) in use" */
static void print_share(const struct account_sum *sum, enum account_part part, FILE *out)
{
    char bytes[UNITS_TEXT];

    fprintf(out, "%s (%.0f %%) %s", units_bytes((double)sum->bytes[part], bytes),
            sum->whole ? 100 * (double)sum->bytes[part] / (double)sum->whole : 0,
            usage_parts[part].name);
}

/* "server[7] uses 150 MiB: 120 MiB (80 %) in use, 20 MiB (13 %) slabs (exact); jemalloc 5.3.0" */
static void print_usage_answer(const struct usage *usage, FILE *out)
{
    const struct account_sum sum = account_sum_up(usage->account);
    const char *known = usage->account->build.text;
    char name[PROCESS_TEXT], version[VERSION_TEXT_MAX], bytes[UNITS_TEXT];
    enum account_part most = ACCOUNT_SAMPLING;
    const struct counted *counted = &usage->account->counted;
    const char *exact = !counted->known ? "" : counted->share < 1 ? " (estimate)" : " (exact)";
    struct wrap wrap;
    FILE *line = wrap_begin(&wrap, out);

    for (enum account_part part = ACCOUNT_SAMPLING; part < ACCOUNT_PARTS; part++)
        most = sum.bytes[part] > sum.bytes[most] ? part : most;
    message_clean(*known ? known : "?", version, sizeof version);
    version[strcspn(version, "-")] = '\0';
    fprintf(line, "%s%s %s %s", message_process(usage->name, usage->pid, name),
            usage->origin ? usage->origin : "", usage->account->has_process ? "uses" : "had",
            units_bytes((double)sum.whole, bytes));
    if (sum.known[ACCOUNT_IN_USE]) {
        fputs(usage->account->has_process ? ": " : " in jemalloc: ", line);
        print_share(&sum, ACCOUNT_IN_USE, line);
    }
    if (sum.bytes[most]) {
        fputs(sum.known[ACCOUNT_IN_USE] ? ", " : ": ", line);
        print_share(&sum, most, line);
    }
    fprintf(line, "%s; jemalloc %s\n", exact, version);
    wrap_end(&wrap, 0, out);
}

void usage_print_table(const struct usage *usage, FILE *out)
{
    const struct account *account = usage->account;
    const struct subject subject = {.pid = usage->pid, .name = usage->name};
    struct usage_field fields[FIELDS];
    char cause[MESSAGE_LINE];

    fill_fields(account, fields);
    print_usage_answer(usage, out);
    for (const struct usage_field *field = fields; field < fields + FIELDS; field++)
        if (field->name && (field->known ? field->bytes > 0 : field->wanted))
            print_field(account, field, out);

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

void usage_begin_metric(const char *name, const char *help, FILE *out)
{
    fprintf(out, "# HELP jemalloc_%s %s\n# TYPE jemalloc_%s gauge\n", name, help, name);
}

void usage_begin_sample(const char *name, int pid, const char *process, FILE *out)
{
    fprintf(out, "jemalloc_%s{pid=\"%d\",process=\"", name, pid);
    /* A label value: quotes and backslashes escaped, valid UTF-8 (exposition formats). */
    for (const char *p = process; *p; p++) {
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
        char name[64];
        if (!field->known || !field->metric)
            continue;
        snprintf(name, sizeof name, "%s_bytes", field->metric);
        usage_begin_metric(name, field->help, out);
        usage_begin_sample(name, usage->pid, usage->name, out);
        fprintf(out, "} %" PRIu64 "\n", field->bytes);
    }
}

/* ---- JSON ---- */

void usage_parts_json(const struct account_sum *sum, struct json *json)
{
    for (enum account_part part = 0; part < ACCOUNT_PARTS; part++)
        json_number_or_null(json, usage_parts[part].key, sum->known[part], sum->bytes[part]);
    json_number(json, "absent", sum->absent);
}

void usage_json(const struct usage *usage, struct json *json)
{
    const struct account *account = usage->account;
    struct usage_field fields[FIELDS];

    fill_fields(account, fields);
    JSON_MEMBERS(json, TEXT_OR_NULL("version", account->build.text),
                 TEXT_OR_NULL("source", usage_source_name(account->source)));
    for (const struct usage_field *field = fields; field < fields + FIELDS; field++)
        if (field->member)
            json_number_or_null(json, field->member, field->known, field->bytes);
}
