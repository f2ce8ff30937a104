#include "run/explain/explain.h"
#include "attach/permit.h"
#include "attach/threads.h"
#include "host/pressure.h"
#include "host/task.h"
#include "jemalloc/dump.h"
#include "jemalloc/extents/totals.h"
#include "jemalloc/reader/birth.h"
#include "run/faults.h"
#include "run/interrupt.h"
#include "run/pause.h"
#include "run/present.h"

#include <errno.h>
#include <string.h>

#define LOOK_NS      1000000000u /* from the first measurement to the last, at least */
#define STEP_NS      100000000u  /* between two of them */
#define FRESH_NS     (60 * 1000000000ull)
#define PARTS_BYTES  ((uint64_t)4 << 30) /* smaps took 5 ms per GiB of pages of 4 KiB */
#define SHARED_LEAST 0.8                 /* of the growth of the RSS is a growth of its cgroup */
#define SMAPS_LIMIT  ((size_t)32 << 20)
#define TEXT_LIMIT   ((size_t)32 << 20)  /* of a profile */
#define LIVE_LIMIT   ((uint64_t)8 << 30) /* of memory whose records are read */
#define FREE_LEAST   ((double)(8 << 20)) /* bytes of free memory that are worth a step */

enum { STACKS_MAX = 1024, PARTS_MAPPINGS = 20000 };

/* What is open from the first measurement to the last. */
struct look {
    struct explain *explain;
    struct limits limits;
    struct pressure_file pressure;
    struct pressure stalled;
    uint64_t began;
};

void explain_init(struct explain *explain, struct attachment *attachment)
{
    memset(explain, 0, sizeof *explain);
    explain->attachment = attachment;
    sites_init(&explain->sites);
}

void explain_free(struct explain *explain)
{
    sites_free(&explain->sites);
}

/* ---- measurements ---- */

/* A process that ends shows no memory; a leader that has ended shows none either. */
static void measure_process(struct look *look)
{
    struct explain *explain = look->explain;
    const struct target *target = &explain->attachment->target;
    struct resident now;

    if (resident_read(target->proc, target_via(target), &now) != 0)
        return;
    explain->resident = now;
    bool apart = now.anonymous || now.files || now.shared;
    rise_add(&explain->points, clock_now(), (apart ? now.anonymous : now.rss) + now.swap);
    rise_add(&explain->rss_points, clock_now(), now.rss);
}

static void measure_limit(struct look *look)
{
    struct explain *explain = look->explain;

    explain->limited = limits_use(&look->limits, 0, &explain->use);
    if (!explain->limited)
        return;
    explain->machine = explain->use.limit == look->limits.machine;
    rise_add(&explain->use_points, clock_now(), explain->use.used);
}

static void measure_all(struct look *look)
{
    measure_process(look);
    measure_limit(look);
}

static void begin_look(struct look *look, struct explain *explain)
{
    const struct target *target = &explain->attachment->target;
    pid_t via = target_via(target);

    *look = (struct look){.explain = explain, .limits = {.machine_fd = -1}, .began = clock_now()};
    limits_open(&look->limits, target->proc, via);
    explain->has_pressure = pressure_open(&look->pressure, target->proc, via) == 0 &&
                            pressure_read(&look->pressure, &look->stalled);
    explain->pressure_of_host = look->pressure.whole_host;
    measure_all(look);
}

static fault_code wait_and_measure(struct look *look, struct fault *fault)
{
    const struct target *target = &look->explain->attachment->target;
    uint64_t end = look->began + LOOK_NS;
    enum pause_end ended = PAUSE_OVER;

    for (uint64_t at = look->began; at < end && ended == PAUSE_OVER; at += STEP_NS) {
        const struct pause pause = {
            .until = at + STEP_NS, .interrupted = interrupt_flag(), .target = target};
        ended = pause_until(&pause);
        measure_all(look);
    }
    if (ended == PAUSE_INTERRUPTED)
        return fault_set(fault, FAULT_INTERRUPTED, EINTR, "look at the memory", "%d",
                         (int)target->pid);
    return target_check(target, fault);
}

/*
 * More shared memory and files in the RSS are new memory only if the cgroup uses more as well:
 * others may have made what this process touches first now.
 */
static void judge_shared(struct explain *explain)
{
    const struct rise *all = &explain->rss_rise, *group = &explain->use_rise;

    if (explain->rise.state != RISE_GROWING && all->state == RISE_GROWING && explain->limited &&
        !explain->machine && group->state == RISE_GROWING &&
        group->per_second >= SHARED_LEAST * all->per_second)
        explain->rise = *all;
}

static void end_look(struct look *look)
{
    struct explain *explain = look->explain;
    uint64_t ns = clock_now() - look->began;
    struct pressure now;

    explain->rise = rise_judge(&explain->points);
    explain->rss_rise = rise_judge(&explain->rss_points);
    explain->use_rise = rise_judge(&explain->use_points);
    judge_shared(explain);
    explain->has_pressure =
        explain->has_pressure && ns && pressure_read(&look->pressure, &now) &&
        now.stalled_us[PRESSURE_SOME] >= look->stalled.stalled_us[PRESSURE_SOME];
    if (explain->has_pressure)
        explain->stalled =
            (double)(now.stalled_us[PRESSURE_SOME] - look->stalled.stalled_us[PRESSURE_SOME]) *
            1000 / (double)ns;
    pressure_close(&look->pressure);
    limits_close(&look->limits);
}

/* ---- the parts of the RSS ---- */

static int compare_pointers(const void *a, const void *b)
{
    remote_addr x = *(const remote_addr *)a, y = *(const remote_addr *)b;

    return (x > y) - (x < y);
}

/* The stack pointers of threads that sleep, ascending. A thread that runs has none to read. */
static size_t read_stack_pointers(struct explain *explain, remote_addr pointers[STACKS_MAX])
{
    const struct target *target = &explain->attachment->target;
    struct proc_syscall asleep;
    struct threads threads;
    struct fault ignored;
    size_t count = 0;

    if (threads_list(&threads, target, &ignored) != FAULT_NONE)
        return 0;
    explain->threads = threads.count;
    for (size_t i = 0; i < threads.count && count < STACKS_MAX; i++)
        if (thread_read_syscall(&threads.list[i], target, &asleep))
            pointers[count++] = asleep.sp;
    threads_free(&threads);
    qsort(pointers, count, sizeof *pointers, compare_pointers);
    return count;
}

/* The kernel walks the page tables, and mmap and munmap wait meanwhile: only where it is quick. */
static void read_parts(struct explain *explain)
{
    const struct attachment *attachment = explain->attachment;
    const struct target *target = &attachment->target;
    uint64_t bytes = explain->resident.rss + explain->resident.swap;
    remote_addr pointers[STACKS_MAX];
    size_t count = read_stack_pointers(explain, pointers);

    if (bytes > PARTS_BYTES || attachment->modules.vma_count > PARTS_MAPPINGS) {
        explain->parts_state = PARTS_TOO_LARGE;
        return;
    }
    explain->parts_err = -resident_parts_read(target->proc, target_via(target), SMAPS_LIMIT,
                                              pointers, count, &explain->parts);
    explain->parts_state = explain->parts_err ? PARTS_DENIED : PARTS_READ;
    if (explain->parts_err)
        return;
    explain->resident.rss = explain->parts.rss; /* exact: the other is summed up in batches */
    if (explain->resident.peak < explain->parts.rss)
        explain->resident.peak = explain->parts.rss;
}

/* ---- jemalloc ---- */

static void read_jemalloc_counts(struct explain *explain)
{
    struct attachment *attachment = explain->attachment;
    const struct reader_source source = attachment_source(attachment, NULL);
    struct fact_variables variables;
    struct gauges_memory places;

    facts_locate(&variables, source.instance, source.modules, source.target, source.memory);
    facts_read(&variables, source.memory, &explain->prof);
    gauges_locate(&places, &source);
    gauges_read(&places, &explain->gauges);
}

static void keep_largest_class(struct explain_live *live, struct explain_class class)
{
    for (size_t i = 0; i < EXPLAIN_CLASSES; i++)
        if (class.bytes > live->largest[i].bytes) {
            struct explain_class less = live->largest[i];
            live->largest[i] = class;
            class = less;
        }
}

static void sum_up_live(struct explain_live *live, const struct extent_totals *totals)
{
    *live = (struct explain_live){.share = totals->pass.share};
    for (unsigned i = 0; i < totals->classes.count; i++) {
        const struct class_total read = totals_of_class(totals, i);
        const struct explain_class class = {.size = totals->classes.list[i].size,
                                            .objects = totals_estimate(totals, read.objects),
                                            .bytes = totals_estimate(totals, read.bytes)};
        live->in_use += class.bytes;
        live->slack += totals_estimate(totals, read.free);
        keep_largest_class(live, class);
    }
}

static fault_code read_live(struct explain *explain, struct fault *fault)
{
    struct attachment *attachment = explain->attachment;
    const struct reader_source source = attachment_source(attachment, &attachment->deadline);
    struct extent_totals totals;
    struct extents *extents;
    fault_code rc = extents_open(&extents, &source, fault);

    if (rc != FAULT_NONE)
        return rc;
    rc = totals_read(extents, LIVE_LIMIT, &totals, fault);
    if (rc == FAULT_NONE)
        sum_up_live(&explain->live, &totals);
    extents_close(extents);
    return rc;
}

/* With names from symbol tables only: quick also for programs with much debug information. */
static fault_code build_sites(struct explain *explain, const struct heap_profile *profile,
                              struct fault *fault)
{
    struct attachment *attachment = explain->attachment;
    const struct samples_options options = {.short_names = true};
    struct symbols_target place = {&attachment->modules, &attachment->target, &attachment->memory,
                                   NULL};
    struct name_cache names = {.options = {.target = &attachment->target,
                                           .no_inlines = true,
                                           .no_build_ids = true,
                                           .open = symbols_open_in_target,
                                           .open_map = symbols_open_map_in_target,
                                           .ctx = &place,
                                           .deadline = &attachment->deadline}};
    struct symbols *symbols = name_cache_symbols(&names, profile);
    struct samples samples;
    bool good = false;

    if (symbols) {
        good = samples_build(&samples, &options, profile, symbols, NULL, NULL) &&
               sites_update(&explain->sites, &samples, 1);
        samples_free(&samples);
        present_coverage(attachment->request.events, symbols, true);
    }
    name_cache_free(&names);
    return good ? FAULT_NONE : fault_set(fault, FAULT_INTERNAL, ENOMEM, "explain", "the profile");
}

static fault_code parse_sites(struct explain *explain, struct sink *text, struct fault *fault)
{
    struct heap_profile profile;
    fault_code rc = dump_complete(&explain->attachment->target, text, fault);

    if (rc != FAULT_NONE)
        return rc;
    rc = heap_parse(&profile, (const char *)text->bytes, text->len, fault);
    if (rc == FAULT_NONE)
        rc = build_sites(explain, &profile, fault);
    heap_free(&profile);
    return rc;
}

/* Only the state in memory tells whether there is a profile. */
static fault_code read_sites(struct explain *explain, struct fault *fault)
{
    struct sink text;
    fault_code rc;

    sink_init(&text, TEXT_LIMIT);
    rc = readout_take(explain->attachment, &text, fault);
    if (rc == FAULT_NONE)
        rc = parse_sites(explain, &text, fault);
    sink_free(&text);
    return rc;
}

static void read_jemalloc(struct explain *explain)
{
    read_jemalloc_counts(explain);
    explain->no_live.code = read_live(explain, &explain->no_live);
    if (prof_judge(&explain->prof) >= PROF_DENSE)
        explain->no_profile.code = read_sites(explain, &explain->no_profile);
}

/* ---- the answer ---- */

static double share_of(const struct explain *explain, uint64_t bytes, uint64_t less)
{
    double free = (double)bytes - (double)less, rss = (double)explain->resident.rss;

    return free < FREE_LEAST || rss <= 0 ? 0 : free / rss;
}

static bool has_fresh_gauges(const struct explain *explain)
{
    const struct gauges_reading *gauges = &explain->gauges;

    return gauges_known(gauges) && gauges->aged == AGE_KNOWN && gauges->age_ns <= FRESH_NS;
}

static bool has_live(const struct explain *explain)
{
    return explain->no_heap.code == FAULT_NONE && explain->no_live.code == FAULT_NONE;
}

/* Without new counts, memory without a file that has no objects may be free pages, or anything. */
static bool is_unclear(const struct explain *explain)
{
    const struct explain_live *live = &explain->live;

    if (has_fresh_gauges(explain))
        return false;
    return !has_live(explain) || share_of(explain, explain->resident.anonymous,
                                          live->in_use + live->slack) >= EXPLAIN_FREE_PAGES;
}

/* The share of free space between objects; 0 also if it is not known. */
static double slack_share(const struct explain *explain)
{
    const struct stats_gauges *gauges = &explain->gauges.gauges;

    if (has_live(explain))
        return share_of(explain, explain->live.slack, 0);
    return has_fresh_gauges(explain) ? share_of(explain, gauges->active, gauges->allocated) : 0;
}

static double free_share(const struct explain *explain)
{
    const struct stats_gauges *gauges = &explain->gauges.gauges;

    if (!has_fresh_gauges(explain))
        return 0;
    return share_of(explain, gauges->resident, gauges->active + gauges->metadata);
}

static bool is_open_to_reads(const struct explain *explain)
{
    fault_code code = explain->no_heap.code;

    return fault_class_of(code) != FAULT_CLASS_DENIED || code == FAULT_UNSUPPORTED ||
           code == FAULT_FOREIGN_ABI;
}

/* Whether profiling was compiled in does not matter where it was not enabled. */
static enum prof_verdict judge_profiling(const struct prof_state *state)
{
    enum prof_verdict verdict = prof_judge(state);

    return verdict == PROF_UNKNOWN && state->build.opt_prof == FACT_NO ? PROF_DISABLED : verdict;
}

static void judge_explained(struct explain *explain)
{
    explain->facts = (struct explain_facts){
        .readable = is_open_to_reads(explain),
        .callable = explain->refusal.code == FAULT_NONE && explain->stat.state != 'T',
        .halted = explain->stat.state == 'T' || explain->refusal.code == FAULT_FROZEN,
        .jemalloc = explain->no_heap.code == FAULT_NONE,
        .objects = has_live(explain),
        .profile = explain->sites.count > 0,
        .unclear = is_unclear(explain),
        .counts = explain->prof.build.config_stats != FACT_NO,
        .prof = judge_profiling(&explain->prof),
        .rise = explain->rise.state,
        .free_pages = free_share(explain),
        .slack = slack_share(explain),
    };
    explain->step = explain_decide(&explain->facts);
}

static void read_circumstances(struct explain *explain)
{
    const struct target *target = &explain->attachment->target;
    bool certain;

    if (process_stat(target->proc, target->pid, &explain->stat) != 0)
        explain->stat = target->stat;
    explain->space = target_space_limit(target);
    explain->age_ns = birth_uptime_limit(target);
    group_events_read(target->proc, target_via(target), &explain->events);
    permit_forecast(target, 0, &certain, &explain->refusal);
    if (is_open_to_reads(explain))
        explain->heaps =
            heap_kinds_find(&explain->attachment->modules, target, &explain->attachment->memory);
}

fault_code explain_read(struct explain *explain, const struct fault *found, struct fault *fault)
{
    struct look look;
    fault_code rc;

    explain->no_heap = *found;
    begin_look(&look, explain);
    rc = wait_and_measure(&look, fault);
    if (rc == FAULT_NONE)
        read_parts(explain);
    end_look(&look);
    if (rc != FAULT_NONE)
        return rc;
    if (found->code == FAULT_NONE) /* its mappings as of now, as it may have grown */
        rc = attachment_renew(explain->attachment, interrupt_flag(), fault);
    if (rc != FAULT_NONE)
        return rc;
    read_circumstances(explain);
    if (found->code == FAULT_NONE)
        read_jemalloc(explain);
    if (*interrupt_flag())
        return fault_set(fault, FAULT_INTERRUPTED, EINTR, "look at the memory", "%d",
                         (int)explain->attachment->target.pid);
    rc = target_check(&explain->attachment->target, fault);
    if (rc == FAULT_NONE)
        judge_explained(explain);
    return rc;
}

uint64_t explain_space_left(const struct explain *explain)
{
    const struct limit_use *use = &explain->use;

    return explain->limited && use->limit > use->used ? use->limit - use->used : 0;
}

/* Other processes of the cgroup use up the same space; those of the machine are too many. */
bool explain_time_left(const struct explain *explain, uint64_t *ns)
{
    double rate = explain->rise.per_second;

    *ns = 0;
    if (!explain->limited || explain->rise.state != RISE_GROWING)
        return false;
    if (!explain->machine && explain->use_rise.state == RISE_GROWING &&
        explain->use_rise.per_second > rate)
        rate = explain->use_rise.per_second;
    return rise_time_left(explain_space_left(explain), rate, ns);
}
