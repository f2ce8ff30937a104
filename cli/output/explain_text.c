#include "cli/output/explain_text.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/faults.h"
#include "cli/output/columns.h"
#include "cli/output/explain_words.h"
#include "cli/output/language_hint.h"
#include "cli/output/sparkline.h"
#include "cli/output/stdout.h"
#include "cli/output/usage.h"
#include "cli/verdict.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

enum { LINES = 24, COLUMNS = 80, LABEL = 13, TEXT = 1024, ROW_LINES = 2 };
enum { SPARK_COLUMNS = 11 };
enum { CALL_LEAST = 14 }; /* columns into which an arrow and a name fit */

/* ---- lines ---- */

/* Returns how much of the text fits into so many columns, at the end of a word. */
static size_t fitting_words(const char *text, size_t columns)
{
    size_t len = strlen(text), most = 0, fits;

    for (size_t used = 0; most < len; most++) {
        used += ((unsigned char)text[most] & 0xc0) != 0x80; /* all but the later bytes of UTF-8 */
        if (used > columns)
            break;
    }
    if (most == len)
        return len;
    /* A number stays with its unit. */
    for (fits = most; fits > 0 && (text[fits] != ' ' || isdigit((unsigned char)text[fits - 1]));)
        fits--;
    return fits ? fits : most;
}

/* Prints a text behind a label, in at most `lines` lines; the rest is left out. */
static void print_row_text(const char *label, const char *text, size_t lines, FILE *out)
{
    size_t indent = *label ? LABEL : 0;

    for (size_t i = 0; i < lines && *text; i++) {
        size_t fits = fitting_words(text, COLUMNS - indent);
        fprintf(out, "%-*s%.*s\n", (int)indent, i ? "" : label, (int)fits, text);
        text += fits;
        text += strspn(text, " ");
    }
}

__attribute__((format(printf, 3, 4))) static void print_labelled(FILE *out, const char *label,
                                                                 const char *fmt, ...)
{
    char text[TEXT];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    print_row_text(label, text, ROW_LINES, out);
}

/* ---- the limit and the growth ---- */

static void print_limit(const struct explain *explain, FILE *out)
{
    const struct limit_use *use = &explain->use;
    char limit[UNITS_TEXT], used[UNITS_TEXT], left[UNITS_TEXT], peak[UNITS_TEXT + 16] = "";
    char text[UNITS_TEXT];

    if (!explain->limited) {
        print_labelled(out, "limit", "not known");
        return;
    }
    units_bytes((double)use->limit, limit);
    units_bytes((double)use->used, used);
    units_bytes((double)explain_space_left(explain), left);
    /* The peak is that of the innermost cgroup. */
    if (explain->events.has_peak && !explain->machine && use->level == 0)
        snprintf(peak, sizeof peak, " (peak %s)", units_bytes((double)explain->events.peak, text));
    print_labelled(out, "limit", "%s (%s): %s used%s, %s left", limit,
                   explain->machine ? "machine, no cgroup limit" : "its cgroup", used, peak, left);
}

static void print_pressure(const struct explain *explain, FILE *out)
{
    const char *whose = explain->pressure_of_host ? "of the machine" : "of its cgroup";
    char kills[80] = "";

    if (explain->events.known && explain->events.oom_kills)
        snprintf(kills, sizeof kills, "; the kernel has killed %" PRIu64 " in the cgroup",
                 explain->events.oom_kills);
    if (!explain->has_pressure || explain->stalled < 0.001) {
        if (*kills)
            print_labelled(out, "pressure", "none now%s", kills);
    } else
        print_labelled(out, "pressure", "some task %s waited for memory %.1f %% of the time%s",
                       whose, 100 * explain->stalled, kills);
}

/* Of the memory that the first line is about. The RSS is shown where its change is another. */
static void print_explained_change(const struct explain *explain, FILE *out)
{
    const struct rise *rise = &explain->rise, *rss = &explain->rss_rise;
    const struct rise_points *points =
        explain->with_shared ? &explain->shared_points : &explain->points;
    char change[UNITS_TEXT], more[UNITS_TEXT + 24] = "", time[UNITS_TEXT], text[UNITS_TEXT];
    char peak[UNITS_TEXT], age[UNITS_TEXT], spark[SPARKLINE_TEXT];
    int64_t apart = rss->change - rise->change;

    if (apart > RISE_LEAST || apart < -RISE_LEAST)
        snprintf(more, sizeof more, ", RSS %s", units_change((double)rss->change, text));
    sparkline(points->bytes, points->count, SPARK_COLUMNS, locale_is_utf8(), spark);
    print_labelled(out, explain->with_shared ? "own+shared" : "own memory",
                   "%s %s in %s%s; RSS peak %s; age %s", spark,
                   rise->change ? units_change((double)rise->change, change) : "unchanged",
                   units_duration(rise->ns, time), more,
                   units_bytes((double)explain->resident.peak, peak),
                   units_duration(explain->age_ns, age));
}

/* ---- the parts ---- */

static void print_kinds(const struct explain *explain, FILE *out)
{
    const size_t found = explain->parts.thread_stacks + 1; /* [stack] is that of the first thread */
    const bool detailed = explain_detailed(explain);
    uint64_t kinds[OUTSIDE_KINDS];
    const uint64_t all = explain_kinds(explain, kinds);
    char size[UNITS_TEXT], stacks[64];

    snprintf(stacks, sizeof stacks, "stacks of %zu of %zu threads", found, explain->threads);
    for (enum explain_outside kind = 0; kind < OUTSIDE_KINDS; kind++) {
        const char *meaning = kind_labels[kind].meaning;
        if (kind == OUTSIDE_ANONYMOUS && !detailed)
            meaning = "heaps, stacks, variables";
        else if (kind == OUTSIDE_STACKS && found > 1)
            meaning = stacks;
        if (kinds[kind])
            fprintf(out, "  %-11s%9s %6.1f %%  %s\n", kind_labels[kind].name,
                    units_bytes((double)kinds[kind], size), 100 * (double)kinds[kind] / (double)all,
                    meaning);
    }
    if (!detailed && explain->parts_state == PARTS_TOO_LARGE)
        print_labelled(out, "", "  (no details: reading them could delay a process of this size)");
}

static void add_rss_note(char *text, uint64_t bytes, const char *words)
{
    char size[UNITS_TEXT];

    if (bytes)
        text_append(text, TEXT, "%s%s %s", *text ? ", " : "", units_bytes((double)bytes, size),
                    words);
}

/*
 * "other processes (worker[77] 30 MiB, sh[80] 9 MiB, 3 more)"; "other processes (of the first 900:
 * worker[77] 30 MiB)"
 */
static void write_group_processes(const struct group_account *group, uint64_t least, char *out,
                                  size_t size)
{
    char name[PROCESS_TEXT], own[UNITS_TEXT];
    char before[48] = " (";
    size_t named = 0;

    snprintf(out, size, "%s", group_labels[GROUP_PROCESSES].words);
    if (!group->whole)
        snprintf(before, sizeof before, " (of the first %zu: ", group->processes);

    for (; named < GROUP_LARGEST && group->largest[named].own > least; named++) {
        const struct group_process *process = &group->largest[named];
        text_append(out, size, "%s%s %s", named ? ", " : before,
                    message_process(process->comm, (int)process->pid, name),
                    units_bytes((double)process->own, own));
    }
    if (group->whole && group->processes > named && named)
        text_append(out, size, ", %zu more", group->processes - named);
    if (named)
        text_append(out, size, ")");
    else if (!group->whole && group->processes)
        text_append(out, size, " (of its first %zu none is large)", group->processes);
}

/* What else its cgroup has, the largest first; less than a part in fifty is left out. */
static void print_group(const struct explain *explain, FILE *out)
{
    const struct group_account *group = &explain->group;
    const uint64_t least = explain->use.used / 50;
    uint64_t kinds[GROUP_KINDS];
    char text[TEXT] = "", processes[TEXT / 2];

    memcpy(kinds, group->kinds, sizeof kinds);
    write_group_processes(group, least, processes, sizeof processes);
    for (size_t i = 0; group->known && i < GROUP_KINDS; i++) {
        enum group_kind most = 0;
        for (enum group_kind kind = 1; kind < GROUP_KINDS; kind++)
            most = kinds[kind] > kinds[most] ? kind : most;
        if (kinds[most] > least)
            add_rss_note(text, kinds[most],
                         most == GROUP_PROCESSES ? processes : group_labels[most].words);
        kinds[most] = 0;
    }
    if (*text)
        print_row_text("its cgroup", text, ROW_LINES + 1, out);
}

/*
 * In one row, where the parts of jemalloc have a table. A half of a percent and less is left out.
 */
static void add_kinds(const struct explain *explain, char *text)
{
    uint64_t kinds[OUTSIDE_KINDS];

    explain_kinds(explain, kinds);
    for (enum explain_outside kind = 0; kind < OUTSIDE_KINDS; kind++)
        if (kinds[kind] > explain->resident.rss / 200)
            add_rss_note(text, kinds[kind], kind_labels[kind].name);
}

static void print_explained_rss(const struct explain *explain, FILE *out)
{
    const struct resident_parts *parts = &explain->parts;
    uint64_t kinds[OUTSIDE_KINDS];
    char rss[UNITS_TEXT], more[TEXT] = "";

    if (explain_counted(explain))
        add_kinds(explain, more);
    add_rss_note(more, parts->huge, "in huge pages");
    add_rss_note(more, parts->lazy_free, "lazily freed");
    add_rss_note(more, explain->resident.swap, "more swapped out");
    add_rss_note(more, explain->resident.huge_tlb, "more of hugetlbfs");
    units_bytes((double)explain_kinds(explain, kinds), rss);
    print_labelled(out, "RSS", "%s%s%s", rss, *more ? ": " : "", more);
    if (!explain_counted(explain))
        print_kinds(explain, out);
}

/* ---- jemalloc ---- */

/* What jemalloc has: its parts in their order, without those of which there is nothing. */
static void print_jemalloc_counts(const struct explain *explain, const char *version,
                                  const struct subject *subject, FILE *out)
{
    const struct account *account = &explain->account;
    const struct fault *why =
        explain->no_account.code ? &explain->no_account : &explain->account.why;
    char cause[MESSAGE_LINE];

    if (!explain_counted(explain)) {
        print_labelled(out, "jemalloc", "%s: what it has in use is not known: %s", version,
                       message_cause(subject, why, cause, sizeof cause));
        return;
    }
    print_labelled(out, "jemalloc", "%s, counted %s%s", version,
                   explain->core ? "at its end" : "now",
                   account->counted.share < 1 ? ", estimated from a part" : "");
    usage_print_parts(account, out);
}

static void print_allocators(const struct explain *explain, const struct subject *subject,
                             FILE *out)
{
    char version[VERSION_TEXT_MAX], others[160], cause[MESSAGE_LINE];
    const char *build = explain->prof.build.text;
    const bool heap = explain->outside == OUTSIDE_ANONYMOUS || explain->outside == OUTSIDE_BRK;
    struct language_hint hint;
    /* A language's own tool shows the objects in its heap, if that may be what the memory is. */
    const bool known = !explain->core &&
                       (heap || heap_kinds_collector(explain->heaps) != HEAP_KINDS) &&
                       language_hint(explain->heaps, &explain->attachment->target, &hint);

    heap_kinds_text(explain->heaps, others, sizeof others);
    if (explain->no_heap.code == FAULT_NONE) {
        message_clean(*build ? build : "?", version, sizeof version);
        version[strcspn(version, "-")] = '\0';
        print_jemalloc_counts(explain, version, subject, out);
        if (known && heap && explain->outside_bytes >= explain_whole(explain) / 5)
            print_labelled(out, "language", "%s; for its objects: %s",
                           heap_kind_name(heap_kinds_language(explain->heaps)), hint.command);
        return;
    }
    message_cause(subject, &explain->no_heap, cause, sizeof cause);
    if (!explain->facts.readable || explain->no_heap.code != FAULT_NO_ALLOCATOR) {
        print_labelled(out, explain->facts.readable ? "allocator" : "not read", "%s", cause);
        return;
    }
    print_labelled(out, "allocator", "%s; no jemalloc%s%s", *others ? others : "not recognized",
                   known ? "; for its objects: " : "", known ? hint.command : "");
}

static void print_explained_site(const struct sites *sites, const struct site *site, FILE *out)
{
    double bytes = (double)site->now.bytes, all = (double)sites->bytes.now;
    const char *call = site->calls;
    char text[TEXT], size[UNITS_TEXT];
    struct line line;

    line_init(&line, text, sizeof text, COLUMNS);
    line_printf(&line, "  %9s %5.1f %%  ", units_bytes(bytes, size),
                all > 0 ? 100 * bytes / all : 0);
    for (uint32_t i = 0; i < site->call_count && line_space(&line) >= CALL_LEAST; i++) {
        if (i)
            line_add(&line, " <- ");
        line_add(&line, call);
        call = i + 1 < site->call_count ? site_next_call(call) : call;
    }
    fprintf(out, "%s\n", text);
}

static void print_explained_sites(const struct explain *explain, size_t rows, FILE *out)
{
    const struct sites *sites = &explain->sites;
    const struct site **list = sites_sorted(sites, SITES_BY_SIZE);

    for (size_t i = 0; list && i < sites->count && i < EXPLAIN_SITES && i < rows; i++)
        if (list[i]->now.bytes > 0)
            print_explained_site(sites, list[i], out);
    free(list);
}

/* Where there are no sites. */
static void print_classes(const struct explain *explain, size_t rows, FILE *out)
{
    const struct explain_live *live = &explain->live;
    char size[UNITS_TEXT], bytes[UNITS_TEXT];

    if (rows < 2 || !live->largest[0].bytes)
        return;
    print_labelled(out, "objects", "%s, touched or not; the sizes that have most of it:",
                   units_bytes((double)live->in_use, bytes));
    for (size_t i = 0; i < EXPLAIN_CLASSES && i + 1 < rows && live->largest[i].bytes; i++)
        fprintf(out, "  %9s  %s%" PRIu64 " object%s of %s\n",
                units_bytes((double)live->largest[i].bytes, bytes), live->share < 1 ? "about " : "",
                live->largest[i].objects, live->largest[i].objects == 1 ? "" : "s",
                units_bytes((double)live->largest[i].size, size));
}

static void print_profiling(const struct explain *explain, const struct subject *subject, FILE *out)
{
    char cause[MESSAGE_LINE], size[UNITS_TEXT];

    if (explain->no_heap.code != FAULT_NONE)
        return;
    if (explain->no_profile.code != FAULT_NONE)
        print_labelled(out, "profile", "%s; not read: %s", verdict_text(explain->facts.prof),
                       message_cause(subject, &explain->no_profile, cause, sizeof cause));
    else if (explain->sites.count)
        print_labelled(out, "profile", "%s: its samples stand for %s in use",
                       verdict_text(explain->facts.prof),
                       units_bytes((double)explain->sites.bytes.now, size));
    else
        print_labelled(out, "profile", "%s%s", verdict_text(explain->facts.prof),
                       explain->facts.prof >= PROF_DENSE ? "; no samples yet" : "");
}

/* ---- all ---- */

/* All before the rows of stacks or sizes. */
static void print_explained_head(const struct explain *explain, const struct subject *subject,
                                 FILE *out)
{
    const struct explain_mapped *mapped = &explain->mapped;
    char verdict[EXPLAIN_VERDICT], growth[EXPLAIN_VERDICT], texts[3][UNITS_TEXT];
    char own[OWN_LIMIT_TEXT];

    print_row_text("", explain_verdict(explain, verdict), ROW_LINES + 4, out);
    print_row_text("growth", explain_growth(explain, growth), ROW_LINES + 1, out);
    if (explain->core) {
        print_labelled(out, "core",
                       "%zu threads; %zu mappings: %s without a file, %s of files; %s of "
                       "both are in the core file",
                       explain->threads, mapped->mappings,
                       units_bytes((double)mapped->anonymous, texts[0]),
                       units_bytes((double)mapped->files, texts[1]),
                       units_bytes((double)mapped->dumped, texts[2]));
    } else {
        print_limit(explain, out);
        print_group(explain, out);
        /* Few processes have one, and then malloc fails before any other limit. */
        if (explain->space != UINT64_MAX)
            print_labelled(out, "RLIMIT_AS", "%s of address space: %s are mapped",
                           units_bytes((double)explain->space, texts[0]),
                           units_bytes((double)explain->resident.size, texts[1]));
        if (own_limit_text(&explain->own_limit, explain->attachment->target.stat.comm, own))
            print_labelled(out, "own limit", "%s", own);
        print_pressure(explain, out);
        print_explained_change(explain, out);
        print_explained_rss(explain, out);
    }
    print_allocators(explain, subject, out);
    print_profiling(explain, subject, out);
}

static void print_explained_tail(const struct explain *explain, const struct subject *subject,
                                 FILE *out)
{
    char command[EXPLAIN_COMMAND], reason[EXPLAIN_COMMAND], cause[MESSAGE_LINE];
    struct advice advice;

    explain_advice(explain, &advice);
    if (advice.count)
        print_row_text("helps", advice.lines[0] + strcspn(advice.lines[0], " ") + 1, ROW_LINES,
                       out);
    if (!explain->core && explain->refusal.code != FAULT_NONE && explain->facts.readable)
        print_labelled(out, "attach", "not possible: %s",
                       message_cause(subject, &explain->refusal, cause, sizeof cause));
    advice_print_next(explain_command(explain, subject, command), explain_reason(explain, reason),
                      out);
}

static size_t count_lines(const char *text)
{
    size_t lines = 0;

    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

/* The rows of stacks or sizes get the lines that are left. */
void explain_print(const struct explain *explain, const struct subject *subject, FILE *out)
{
    AUTO_FREE char *head = NULL, *tail = NULL;
    size_t head_len, tail_len, used, rows;
    FILE *first = open_memstream(&head, &head_len), *last = open_memstream(&tail, &tail_len);

    if (first)
        print_explained_head(explain, subject, first);
    if (last)
        print_explained_tail(explain, subject, last);
    if (!first || !last || fclose(first) || fclose(last))
        return;
    used = count_lines(head) + count_lines(tail);
    rows = used < LINES ? LINES - used : 0;
    fputs(head, out);
    if (explain->sites.count)
        print_explained_sites(explain, rows, out);
    else
        print_classes(explain, rows, out);
    fputs(tail, out);
}
