#include "run/explain/explain.h"
#include "attach/permit.h"
#include "attach/target.h"
#include "host/pressure.h"
#include "host/task.h"
#include "jemalloc/dump.h"
#include "jemalloc/extents/totals.h"
#include "run/faults.h"
#include "run/interrupt.h"
#include "run/pause.h"
#include "run/present.h"

#include <errno.h>
#include <string.h>

#define LOOK_NS       1000000000u         /* from the first measurement to the last, at least */
#define STEP_NS       100000000u          /* between two of them */
#define PARTS_BYTES   ((uint64_t)4 << 30) /* smaps took 5 ms per GiB of pages of 4 KiB */
#define SHARED_LEAST  0.8                 /* of the growth of the RSS is a growth of its cgroup */
#define SMAPS_LIMIT   ((size_t)32 << 20)
#define TEXT_LIMIT    ((size_t)32 << 20)  /* of a profile */
#define OBJECTS_LIMIT ((uint64_t)8 << 30) /* of memory whose records are read */
#define FREE_LEAST    ((double)(8 << 20)) /* bytes of memory that are worth a step */
#define OTHERS_LEAST  1.25                /* times its own rate: others of its cgroup grow, too */
#define MOSTLY        0.5
#define SAMPLES_LEAST 8.0 /* of what is in use, on average: else a profile may have none */
#define GOES_ON       0.5 /* of a growth is one that goes on */
#define OWN_LEAST     0.7 /* of what a cgroup uses, to be what fills it */

enum { STACKS_MAX = 1024, PARTS_MAPPINGS = 20000 };

/* What is open from the first measurement to the last. */
struct measuring {
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
    if (explain->look_ns)
        leak_free(&explain->watch.leak);
}

/* ---- measurements ---- */

static void measure_all(void *ctx)
{
    struct measuring *look = ctx;
    /* A process that ends shows no memory; a leader that has ended shows none either. */
    struct explain *explain = look->explain;
    const struct target *target = &explain->attachment->target;
    const uint64_t at = clock_now();
    struct resident now;

    if (resident_read(target->proc, target_via(target), &now) == 0) {
        explain->resident = now;
        bool apart = now.anonymous || now.files || now.shared;
        const uint64_t own = (apart ? now.anonymous : now.rss) + now.swap;
        rise_add(&explain->points, at, own);
        rise_add(&explain->shared_points, at, own + now.shared);
        rise_add(&explain->rss_points, at, now.rss);
    }
    explain->limited = limits_use(&look->limits, 0, &explain->use);
    if (!explain->limited)
        return;
    explain->machine = explain->use.limit == look->limits.machine;
    if (!explain->use_points.count)
        explain->cached_before = explain->use.cached;
    rise_add(&explain->use_points, at, explain->use.used);
}

/* ---- a longer look ---- */

/*
 * What grows is what leak finds; how fast is what the memory shows, and if most of that is a growth
 * of objects that goes on, it is a steady one.
 */
static void judge_watched(struct explain *explain)
{
    struct explain_watch *watch = &explain->watch;
    struct leak *leak = &watch->leak;
    struct rise *rise = &explain->rise;
    double steady = 0; /* bytes */

    leak_judge(leak);
    if (leak->judged)
        parts_of_objects(&watch->parts, leak, &leak->verdict, NULL);
    if (leak->grows)
        parts_of_memory(&watch->parts, leak, leak->judged ? &leak->verdict : NULL);
    for (size_t i = 0; i < watch->parts.count; i++) {
        const struct part *part = &watch->parts.list[i];
        const bool goes_on = part->state <= PART_ONE_OF;
        if (part->memory == GROW_FILES)
            continue;
        steady += goes_on && grow_kind_is_private(part->memory) ? part->bytes : 0;
        explain->parts_grow = true;
        explain->objects_grow |= goes_on && part->kind == PART_OBJECTS;
    }
    if (rise->change > 0 && steady >= GOES_ON * (double)rise->change &&
        (rise->state == RISE_STEP || rise->state == RISE_SWINGING))
        rise->state = RISE_GROWING;
}

/* Nothing but reads: no page fault is sampled, and profiling stays as it is. */
static fault_code watch_longer(struct measuring *look, struct fault *fault)
{
    struct explain *explain = look->explain;
    struct leak *leak = &explain->watch.leak;
    fault_code rc = leak_watch(leak, explain->attachment, fault);

    if (rc == FAULT_NONE && leak->ended.code != FAULT_NONE) {
        *fault = leak->ended;
        rc = fault->code;
    }
    return rc;
}

static fault_code wait_and_measure(struct measuring *look, struct fault *fault)
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

static void end_look(struct measuring *look)
{
    struct explain *explain = look->explain;
    uint64_t ns = clock_now() - look->began;
    struct pressure now;

    explain->use_rise = rise_judge(&explain->use_points);
    explain->rise = rise_judge(&explain->points);
    explain->rss_rise = rise_judge(&explain->rss_points);
    /*
     * More shared memory in the RSS is new memory only if the cgroup uses more as well: others may
     * have made what this process touches first now. Pages of files can be reclaimed.
     */
    const struct rise shared = rise_judge(&explain->shared_points), *group = &explain->use_rise;
    explain->with_shared = explain->rise.state != RISE_GROWING && shared.state == RISE_GROWING &&
                           explain->limited && !explain->machine && group->state == RISE_GROWING &&
                           !explain_group_caches(explain) &&
                           group->per_second >= SHARED_LEAST * shared.per_second;
    if (explain->with_shared)
        explain->rise = shared;
    if (explain->look_ns)
        judge_watched(explain);
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

/*
 * Beside the counts of jemalloc, of the same moment. The kernel walks the page tables, and mmap and
 * munmap wait meanwhile: only where it is quick.
 */
static void read_parts(struct explain *explain)
{
    const struct attachment *attachment = explain->attachment;
    const struct target *target = &attachment->target;
    remote_addr pointers[STACKS_MAX];
    const size_t count = read_stack_pointers(explain, pointers);
    struct resident now;

    if (resident_read(target->proc, target_via(target), &now) == 0)
        explain->resident = now;
    const uint64_t bytes = explain->resident.rss + explain->resident.swap;
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

static void keep_largest_class(struct explain_live *live, struct explain_class class)
{
    for (size_t i = 0; i < EXPLAIN_CLASSES; i++)
        if (class.bytes > live->largest[i].bytes) {
            struct explain_class less = live->largest[i];
            live->largest[i] = class;
            class = less;
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
    rc = totals_read(extents, OBJECTS_LIMIT, &totals, fault);
    if (rc == FAULT_NONE) {
        explain->live = (struct explain_live){.share = totals.pass.share, .ns = totals.pass.ns};
        for (unsigned i = 0; i < totals.classes.count; i++) {
            const struct class_total read = totals_of_class(&totals, i);
            const struct explain_class class = {.size = totals.classes.list[i].size,
                                                .objects = totals_estimate(&totals, read.objects),
                                                .bytes = totals_estimate(&totals, read.bytes)};
            explain->live.in_use += class.bytes;
            explain->live.slack += totals_estimate(&totals, read.free);
            keep_largest_class(&explain->live, class);
        }
    }
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
        present_coverage(attachment->request.events, symbols, NULL);
    }
    name_cache_free(&names);
    return good ? FAULT_NONE : fault_set(fault, FAULT_INTERNAL, ENOMEM, "explain", "the profile");
}

static void count_account(struct explain *explain)
{
    explain->no_account.code =
        account_count(&explain->account, explain->attachment, &explain->no_account);
}

static void sum_up_account(struct explain *explain)
{
    struct account *account = &explain->account;

    account->process.rss = explain->resident.rss;
    account->process.swap = explain->resident.swap;
    account->process.anonymous = explain->resident.anonymous;
    account->process.huge = explain->parts.huge;
    account->has_process = !explain->core;
    explain->sum = account_sum_up(account);
}

static void read_jemalloc(struct explain *explain)
{
    struct fault *fault = &explain->no_profile;
    struct heap_profile profile = {0};
    struct sink text;
    fault_code rc;

    attachment_read_facts(explain->attachment, &explain->prof);
    sum_up_account(explain);
    explain->no_live.code = read_live(explain, &explain->no_live);
    /* Only the state in memory tells whether there is a profile. */
    if (prof_judge(&explain->prof) < PROF_DENSE)
        return;
    sink_init(&text, TEXT_LIMIT);
    rc = access_read(explain->attachment, &text, fault);
    if (rc == FAULT_NONE)
        rc = dump_complete(&explain->attachment->target, NULL, &text, fault);
    if (rc == FAULT_NONE)
        rc = heap_parse(&profile, (const char *)text.bytes, text.len, fault);
    if (rc == FAULT_NONE)
        rc = build_sites(explain, &profile, fault);
    heap_free(&profile);
    sink_free(&text);
    fault->code = rc;
}

/* ---- the answer ---- */

static double share_of(const struct explain *explain, uint64_t bytes)
{
    const double part = (double)bytes, rss = (double)explain->resident.rss;

    return part < FREE_LEAST || rss <= 0 ? 0 : part < rss ? part / rss : 1;
}

static bool has_live(const struct explain *explain)
{
    return explain->no_heap.code == FAULT_NONE && explain->no_live.code == FAULT_NONE;
}

bool explain_counted(const struct explain *explain)
{
    const enum account_source source = explain->account.source;

    if (explain->no_heap.code != FAULT_NONE || explain->no_account.code != FAULT_NONE)
        return false;
    return source != ACCOUNT_NONE;
}

/* Without all counts of jemalloc, what is outside is at least what cannot be its memory. */
static uint64_t outside_amount(const struct explain *explain)
{
    const struct resident *resident = &explain->resident;
    const struct resident_parts *parts = &explain->parts;

    if (explain->no_heap.code != FAULT_NONE)
        return resident->rss;
    if (explain->sum.known[ACCOUNT_OUTSIDE])
        return explain->sum.bytes[ACCOUNT_OUTSIDE];
    return explain->parts_state == PARTS_READ
               ? parts->stacks + parts->files + parts->shared + parts->devices + parts->written
               : resident->files + resident->shared;
}

enum account_part explain_part(enum explain_headline fact)
{
    static const enum account_part parts[HEADLINES] = {
        [HEADLINE_LIMIT] = ACCOUNT_PARTS,       [HEADLINE_GROWTH] = ACCOUNT_PARTS,
        [HEADLINE_SWAPPED] = ACCOUNT_PARTS,     [HEADLINE_HUGE] = ACCOUNT_PARTS,
        [HEADLINE_SLABS] = ACCOUNT_SLABS,       [HEADLINE_PADDING] = ACCOUNT_PADDING,
        [HEADLINE_PAGES] = ACCOUNT_PAGES,       [HEADLINE_PINNED] = ACCOUNT_PINNED,
        [HEADLINE_RETAINED] = ACCOUNT_RETAINED, [HEADLINE_IN_USE] = ACCOUNT_IN_USE,
        [HEADLINE_SAMPLING] = ACCOUNT_SAMPLING, [HEADLINE_OWN] = ACCOUNT_OWN,
        [HEADLINE_OTHER] = ACCOUNT_OTHER,       [HEADLINE_OUTSIDE] = ACCOUNT_OUTSIDE,
    };

    return parts[fact];
}

uint64_t explain_amount(const struct explain *explain, enum explain_headline fact)
{
    if (fact == HEADLINE_SWAPPED)
        return explain->resident.swap;
    if (fact == HEADLINE_HUGE)
        return explain->resident.huge_tlb;
    if (fact == HEADLINE_OUTSIDE)
        return outside_amount(explain);
    return fact < HEADLINE_SLABS ? 0 : explain->sum.bytes[explain_part(fact)];
}

uint64_t explain_whole(const struct explain *explain)
{
    return explain->core ? explain->sum.whole : explain->resident.rss;
}

/* Without counts, memory without a file that has no objects may be free pages, or anything. */
static bool is_unclear(const struct explain *explain)
{
    const struct explain_live *live = &explain->live;
    const uint64_t known = live->in_use + live->slack, all = explain->resident.anonymous;

    if (explain_counted(explain) && explain->sum.known[ACCOUNT_PAGES])
        return false;
    return !has_live(explain) ||
           share_of(explain, all > known ? all - known : 0) >= EXPLAIN_FREE_PAGES;
}

/* ---- outside jemalloc ---- */

bool explain_detailed(const struct explain *explain)
{
    return explain->parts_state == PARTS_READ && explain->parts.rss;
}

uint64_t explain_kinds(const struct explain *explain, uint64_t kinds[OUTSIDE_KINDS])
{
    const struct resident_parts unread = {.rss = 0};
    const struct resident *resident = &explain->resident;
    const bool detailed = explain_detailed(explain);
    const struct resident_parts *parts = detailed ? &explain->parts : &unread;
    const uint64_t all[OUTSIDE_KINDS] = {
        [OUTSIDE_ANONYMOUS] = detailed ? parts->anonymous : resident->anonymous,
        [OUTSIDE_BRK] = parts->heap,
        [OUTSIDE_STACKS] = parts->stacks,
        [OUTSIDE_VARIABLES] = parts->written,
        [OUTSIDE_FILES] = detailed ? parts->files : resident->files,
        [OUTSIDE_SHARED] = detailed ? parts->shared : resident->shared,
        [OUTSIDE_DEVICES] = parts->devices};

    memcpy(kinds, all, sizeof all);
    return detailed ? parts->rss : resident->rss;
}

/* The largest kind of it. */
static void judge_outside(struct explain *explain)
{
    uint64_t kinds[OUTSIDE_KINDS], jemalloc = 0;

    explain_kinds(explain, kinds);
    for (enum account_part part = 0; part < ACCOUNT_OUTSIDE; part++)
        jemalloc += explain->sum.bytes[part];
    kinds[OUTSIDE_ANONYMOUS] -=
        jemalloc < kinds[OUTSIDE_ANONYMOUS] ? jemalloc : kinds[OUTSIDE_ANONYMOUS];
    if (explain->no_heap.code == FAULT_NONE && !explain->sum.known[ACCOUNT_OUTSIDE])
        kinds[OUTSIDE_ANONYMOUS] = kinds[OUTSIDE_BRK] = 0; /* may be jemalloc's */
    for (enum explain_outside kind = 0; kind < OUTSIDE_KINDS; kind++)
        if (kinds[kind] > explain->outside_bytes) {
            explain->outside = kind;
            explain->outside_bytes = kinds[kind];
        }
}

static void rank_facts(struct explain *explain)
{
    struct explain_amounts amounts = {.whole = explain_whole(explain) + explain->resident.swap};

    for (enum explain_headline fact = HEADLINE_SLABS; fact < HEADLINES; fact++)
        amounts.parts[fact] = explain_amount(explain, fact);
    if (explain->core) { /* what is mostly never touched: a core file does not tell which pages */
        amounts.whole -= amounts.parts[HEADLINE_SAMPLING] + amounts.parts[HEADLINE_PADDING];
        amounts.parts[HEADLINE_SAMPLING] = amounts.parts[HEADLINE_PADDING] = 0;
    }
    if (explain->rise.state == RISE_GROWING && !explain->facts.halted)
        amounts.per_second = explain->rise.per_second;
    amounts.watched_s = (double)explain->rise.ns / 1e9;
    amounts.limited = explain_time_left(explain, &amounts.limit_ns);
    if (explain->limited && !explain->machine && explain->use.limit)
        amounts.full = (double)explain->use.used / (double)explain->use.limit;
    explain->order_count = explain_rank(&amounts, explain->order);
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

/* Objects that grow into free pages are the next step's, too. */
static enum rise_state judge_growth(const struct explain *explain)
{
    if (explain->objects_grow)
        return RISE_GROWING;
    return explain->parts_grow && explain->rise.state != RISE_GROWING ? RISE_STEP
                                                                      : explain->rise.state;
}

static void judge_samples(const struct explain *explain, struct explain_facts *facts)
{
    const struct prof_state *prof = &explain->prof;
    const double in_use = (double)explain->account.counted.in_use;

    if (!explain_counted(explain) || !explain->sum.known[ACCOUNT_IN_USE])
        return;
    facts->sparse = (double)explain->sites.bytes.now < MOSTLY * in_use;
    facts->few = prof->lg_sample_known && prof->lg_sample < 63 &&
                 in_use < SAMPLES_LEAST * (double)(1ull << prof->lg_sample);
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
        .rise = judge_growth(explain),
        .wasteful = account_is_wasteful(&explain->sum),
        .free_pages = share_of(explain, explain->sum.bytes[ACCOUNT_PAGES]),
        .slack = share_of(explain, explain->sum.bytes[ACCOUNT_SLABS] +
                                       explain->sum.bytes[ACCOUNT_PADDING] +
                                       explain->sum.bytes[ACCOUNT_RETAINED]),
        .outside = share_of(explain, outside_amount(explain)),
    };
    judge_samples(explain, &explain->facts);
    judge_outside(explain);
    /*
     * A cgroup is charged with what its processes touched first: shared memory and pages of files
     * may be another's, and pages of hugetlbfs are nobody's. An ancestor counts other cgroups as
     * well.
     */
    const double used = (double)explain->use.used;
    explain->counts_rss = explain->limited && !explain->machine &&
                          (double)explain->resident.rss <= used &&
                          (double)explain->resident.anonymous >= OWN_LEAST * used;
    rank_facts(explain);
    /* A growth that is no steady one is less than any notable waste. */
    const enum explain_headline first = explain->order_count ? explain->order[0] : HEADLINES;
    explain->facts.minor = first != HEADLINE_LIMIT && first != HEADLINE_GROWTH;
    explain->step = explain_decide(&explain->facts);
}

/* Another program has another stack, if the kernel shows where it starts. */
static fault_code check_to_its_end(struct explain *explain, struct fault *fault)
{
    const struct target *target = &explain->attachment->target;
    const fault_code rc = target_check(target, fault);
    const remote_addr before = target->stat.stack_start;

    if (process_stat(target->proc, target->pid, &explain->stat) != 0)
        explain->stat = target->stat;
    const remote_addr now = explain->stat.stack_start;
    if (rc == FAULT_NONE && before && now && before != now)
        return fault_set(fault, FAULT_EXECED, 0, "look at the memory", "%d", (int)target->pid);
    return rc;
}

fault_code explain_read(struct explain *explain, const struct fault *found, struct fault *fault)
{
    const struct target *target = &explain->attachment->target;
    const pid_t via = target_via(target);
    struct measuring look = {.explain = explain, .limits = {.machine_fd = -1}};
    fault_code rc;
    bool certain;

    explain->no_heap = *found;
    if (explain->look_ns) {
        const struct leak_request request = {
            .duration_ns = explain->look_ns, .quiet = true, .looked = measure_all, .ctx = &look};
        leak_init(&explain->watch.leak, &request);
    }
    look.began = clock_now();
    limits_open(&look.limits, target->proc, via);
    explain->has_pressure = pressure_open(&look.pressure, target->proc, via) == 0 &&
                            pressure_read(&look.pressure, &look.stalled);
    explain->pressure_of_host = look.pressure.whole_host;
    if (!explain->look_ns)
        measure_all(&look);
    rc = explain->look_ns ? watch_longer(&look, fault) : wait_and_measure(&look, fault);
    end_look(&look);
    if (rc != FAULT_NONE)
        return rc;
    if (found->code == FAULT_NONE) /* its mappings as of now, as it may have grown */
        rc = attachment_renew(
            explain->attachment,
            explain->watch.leak.interrupted ? interrupt_again_flag() : interrupt_flag(), fault);
    if (rc != FAULT_NONE)
        return rc;
    explain->space = target_space_limit(target);
    explain->age_ns = process_age_ns(&target->stat);
    group_events_read(target->proc, target_via(target), &explain->events);
    if (explain->limited && !explain->machine &&
        (double)explain->resident.rss < MOSTLY * (double)explain->use.used)
        group_account_read(target->proc, target_via(target), explain->use.level, &explain->group);
    permit_forecast(target, 0, &certain, &explain->refusal);
    if (is_open_to_reads(explain))
        explain->heaps =
            heap_kinds_find(&explain->attachment->modules, target, &explain->attachment->memory);
    explain->own_limit = own_limit_find(explain->heaps, target, &explain->attachment->memory);
    if (found->code == FAULT_NONE)
        count_account(explain);
    read_parts(explain);
    if (found->code == FAULT_NONE)
        read_jemalloc(explain);
    if (*interrupt_flag() && !explain->watch.leak.interrupted)
        return fault_set(fault, FAULT_INTERRUPTED, EINTR, "look at the memory", "%d",
                         (int)target->pid);
    rc = check_to_its_end(explain, fault);
    if (rc == FAULT_NONE)
        judge_explained(explain);
    return rc;
}

/* ---- a core file ---- */

static void sum_up_mappings(struct explain *explain)
{
    const struct core *core = &explain->core->core;
    struct explain_mapped *mapped = &explain->mapped;

    mapped->mappings = core->segment_count;
    for (size_t i = 0; i < core->segment_count; i++) {
        const struct core_segment *segment = &core->segments[i];
        const bool file = core_mapping_at(core, segment->start) != NULL;
        *(file ? &mapped->files : &mapped->anonymous) += segment->end - segment->start;
        mapped->dumped += segment->dumped;
    }
}

static fault_code read_core_sites(struct explain *explain, struct fault *fault)
{
    struct heap_profile profile = {0};
    struct capture capture;
    fault_code rc;

    capture_init(&capture);
    rc = core_file_read(explain->core, explain->attachment, &capture, fault);
    if (rc == FAULT_NONE)
        rc = heap_parse(&profile, (const char *)capture.text.bytes, capture.text.len, fault);
    if (rc == FAULT_NONE)
        rc = build_sites(explain, &profile, fault);
    heap_free(&profile);
    capture_free(&capture);
    return rc;
}

fault_code explain_read_core(struct explain *explain, const struct core_file *core,
                             const struct fault *found, struct fault *fault)
{
    explain->attachment->request.way = WAY_MEMORY;
    explain->core = core;
    explain->no_heap = *found;
    explain->threads = core->core.threads;
    explain->heaps = heap_kinds_of_modules(&explain->attachment->modules);
    sum_up_mappings(explain);
    if (found->code == FAULT_NONE) {
        attachment_read_facts(explain->attachment, &explain->prof);
        count_account(explain);
        sum_up_account(explain);
        explain->no_live.code = read_live(explain, &explain->no_live);
        if (prof_judge(&explain->prof) >= PROF_DENSE)
            explain->no_profile.code = read_core_sites(explain, &explain->no_profile);
    }
    if (*interrupt_flag())
        return fault_set(fault, FAULT_INTERRUPTED, EINTR, "read the core file", "%s", "it");
    explain->facts = (struct explain_facts){
        .readable = true,
        .ended = true,
        .jemalloc = found->code == FAULT_NONE,
        .objects = has_live(explain),
        .profile = explain->sites.count > 0,
        .prof = judge_profiling(&explain->prof),
    };
    rank_facts(explain);
    explain->step = explain_decide(&explain->facts);
    return FAULT_NONE;
}

uint64_t explain_space_left(const struct explain *explain)
{
    const struct limit_use *use = &explain->use;

    return explain->limited && use->limit > use->used ? use->limit - use->used : 0;
}

bool explain_group_caches(const struct explain *explain)
{
    return (double)amount_above(explain->use.cached, explain->cached_before) >
           MOSTLY * (double)explain->use_rise.change;
}

/* Other processes of the cgroup use up the same space; those of the machine are too many. */
double explain_group_rate(const struct explain *explain)
{
    const struct rise *group = &explain->use_rise;

    if (!explain->limited || explain->machine || group->state != RISE_GROWING ||
        explain_group_caches(explain) ||
        OTHERS_LEAST * explain->rise.per_second > group->per_second)
        return 0;
    return group->per_second;
}

/* Objects of jemalloc where they are counted: what a program counts itself is about that. */
static uint64_t own_limit_used(const struct explain *explain)
{
    if (explain_counted(explain) && explain->sum.known[ACCOUNT_IN_USE])
        return explain->sum.bytes[ACCOUNT_IN_USE];
    return explain->resident.anonymous + explain->resident.swap;
}

static uint64_t own_space_left(const struct explain *explain)
{
    return amount_above(explain->own_limit.bytes, own_limit_used(explain));
}

bool explain_own_time_left(const struct explain *explain, uint64_t *ns)
{
    const uint64_t left = own_space_left(explain);

    *ns = 0;
    return explain->rise.state == RISE_GROWING && own_limit_is_of_memory(&explain->own_limit) &&
           left && explain_group_rate(explain) <= 0 &&
           (!explain->limited || left < explain_space_left(explain)) &&
           rise_time_left(left, explain->rise.per_second, ns);
}

bool explain_time_left(const struct explain *explain, uint64_t *ns)
{
    const double group = explain_group_rate(explain);

    if (!explain->limited || explain->rise.state != RISE_GROWING ||
        explain_own_time_left(explain, ns)) {
        *ns = 0;
        return false;
    }
    return rise_time_left(explain_space_left(explain), group > 0 ? group : explain->rise.per_second,
                          ns);
}
