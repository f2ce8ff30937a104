#include "cli/output/usage.h"
#include "base/units.h"
#include "cli/message.h"

#include <inttypes.h>
#include <string.h>

/* The counts are not read at the same instant: a difference, exact modulo 2^64, can be negative. */
static int64_t difference(uint64_t a, uint64_t b)
{
    return (int64_t)(a - b);
}

void usage_rows(const struct usage *usage, struct usage_row rows[USAGE_ROWS])
{
    static const struct usage_row all[USAGE_ROWS] = {
        {"allocated", "in use by the program", "allocated", "In use by the program.", 0},
        {"fragmentation", "free space in pages that contain allocations (active - allocated)",
         "fragmentation", "Free space in pages that contain allocations.", 0},
        {"dirty pages", "free pages not yet returned to the kernel (resident - active - metadata)",
         "dirty", "Free pages not yet returned to the kernel.", 0},
        {"metadata", "jemalloc's own data structures that are in memory", "metadata_resident",
         "Data structures of jemalloc itself that are in memory.", 0},
        {"pinned", "free pages that extent hooks have pinned: no purge returns them", "pinned",
         "Free pages that are pinned (stats.pinned).", 0},
        {"other", "outside jemalloc: code, stacks, files, other allocators (RSS - resident)",
         "other", "RSS outside jemalloc; negative: counted by jemalloc, but not in memory.", 0},
    };
    const struct stats_gauges *gauges = usage->gauges;

    memcpy(rows, all, sizeof all);
    rows[USAGE_ALLOCATED].bytes = (int64_t)gauges->allocated;
    rows[USAGE_FRAGMENTATION].bytes = difference(gauges->active, gauges->allocated);
    rows[USAGE_DIRTY].bytes =
        difference(gauges->resident, gauges->active + gauges->metadata + gauges->pinned);
    /* Some metadata is only reserved, and some is in active pages (base.c, arena.c). */
    if (rows[USAGE_DIRTY].bytes < 0)
        rows[USAGE_DIRTY].bytes = 0;
    rows[USAGE_METADATA].bytes = difference(
        gauges->resident, gauges->active + gauges->pinned + (uint64_t)rows[USAGE_DIRTY].bytes);
    rows[USAGE_PINNED].bytes = (int64_t)gauges->pinned;
    if (!gauges->has_pinned)
        rows[USAGE_PINNED].name = NULL;
    else
        rows[USAGE_DIRTY].meaning =
            "free pages not yet returned to the kernel (resident - active - "
            "metadata - pinned)";
    rows[USAGE_OTHER].bytes = difference(usage->process.rss, gauges->resident);
    if (rows[USAGE_OTHER].bytes < 0)
        rows[USAGE_OTHER].meaning =
            "counted by jemalloc, but never touched or swapped out (RSS - resident)";
}

const char *usage_resident_meaning(const struct stats_gauges *gauges)
{
    return gauges->has_pinned ? "active, dirty, metadata and pinned pages, an upper bound"
                              : "active, dirty and metadata pages, an upper bound";
}

static void print_part(const struct usage *usage, const char *name, int64_t bytes,
                       const char *meaning, FILE *out)
{
    uint64_t rss = usage->process.rss;
    char text[UNITS_TEXT], share[16];

    snprintf(share, sizeof share, "%.1f %%", rss ? 100.0 * (double)bytes / (double)rss : 0);
    fprintf(out, "  %-13s %12s %9s  %s\n", name, units_bytes((double)bytes, text), share, meaning);
}

static void print_count(const char *name, uint64_t bytes, const char *meaning, FILE *out)
{
    char text[UNITS_TEXT];

    fprintf(out, "  %-13s %12s %9s  %s\n", name, units_bytes((double)bytes, text), "", meaning);
}

void usage_print_table(const struct usage *usage, FILE *out)
{
    static const char *const sources[] = {
        [USAGE_ROLLUP] = "smaps_rollup", [USAGE_SMAPS] = "smaps", [USAGE_STATUS] = "status"};
    const struct stats_gauges *gauges = usage->gauges;
    struct usage_row rows[USAGE_ROWS];
    char name[64], version[VERSION_TEXT_MAX], meaning[96];

    usage_rows(usage, rows);
    fprintf(out, "%s[%d] jemalloc %s\n", message_clean(usage->name, name, sizeof name), usage->pid,
            message_clean(usage->build->text, version, sizeof version));
    for (size_t i = 0; i < USAGE_ROWS; i++)
        if (rows[i].name)
            print_part(usage, rows[i].name, rows[i].bytes, rows[i].meaning, out);
    snprintf(meaning, sizeof meaning, "in memory, as counted by the kernel (%s)",
             sources[usage->source]);
    print_part(usage, "RSS", (int64_t)usage->process.rss, meaning, out);
    if (usage->process.lazy_free)
        print_count("lazy free", usage->process.lazy_free,
                    "part of the RSS: muzzy pages, which the kernel reclaims when it needs memory",
                    out);
    print_count("swapped", usage->process.swap, "not in the RSS", out);
    print_count("active", gauges->active, "pages that contain allocations", out);
    print_count("resident", gauges->resident, usage_resident_meaning(gauges), out);
    print_count("mapped", gauges->mapped, "address space of active extents", out);
    if (gauges->has_retained)
        print_count("retained", gauges->retained,
                    "address space kept for later use, without memory", out);
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

void usage_print_labels(const struct usage *usage, FILE *out)
{
    usage_begin_labels(usage->pid, usage->name, out);
    fputc('}', out);
}

void usage_print_metric(const struct usage *usage, const char *name, const char *help,
                        int64_t value, FILE *out)
{
    fprintf(out, "# HELP jemalloc_%s_bytes %s\n# TYPE jemalloc_%s_bytes gauge\n", name, help, name);
    fprintf(out, "jemalloc_%s_bytes", name);
    usage_print_labels(usage, out);
    fprintf(out, " %" PRId64 "\n", value);
}

void usage_print_metrics(const struct usage *usage, FILE *out)
{
    const struct stats_gauges *gauges = usage->gauges;
    struct usage_row rows[USAGE_ROWS];

    usage_rows(usage, rows);
    for (size_t i = 0; i < USAGE_ROWS; i++)
        if (rows[i].name)
            usage_print_metric(usage, rows[i].metric, rows[i].help, rows[i].bytes, out);
    usage_print_metric(usage, "active", "Pages that contain allocations (stats.active).",
                       (int64_t)gauges->active, out);
    usage_print_metric(usage, "resident",
                       "Active, dirty, metadata and pinned pages (stats.resident).",
                       (int64_t)gauges->resident, out);
    usage_print_metric(usage, "metadata", "Data structures of jemalloc itself (stats.metadata).",
                       (int64_t)gauges->metadata, out);
    usage_print_metric(usage, "mapped", "Address space of active extents (stats.mapped).",
                       (int64_t)gauges->mapped, out);
    if (gauges->has_retained)
        usage_print_metric(usage, "retained", "Address space kept for later use (stats.retained).",
                           (int64_t)gauges->retained, out);
    usage_print_metric(usage, "process_resident", "Memory of the whole process (RSS).",
                       (int64_t)usage->process.rss, out);
    usage_print_metric(usage, "process_swap", "Memory of the process that is swapped out.",
                       (int64_t)usage->process.swap, out);
}
