#include "run/top_refresh.h"
#include "jemalloc/faults.h"
#include "run/activating.h"
#include "run/faults.h"
#include "run/interrupt.h"

#include <errno.h>
#include <string.h>

#define GLANCE_NS 2000000000u /* between two glances, unless refreshes are more frequent */

enum {
    SEARCH_NS = 500000000, /* to find a safe point; the next refresh tries again */
    STOP_NS = 40000,       /* approximate cost of a stop without a safe point */
    STOPPED_PART = 100,    /* a thread is stopped for at most this part of the time */
};

#define SINGLE_NS ((uint64_t)10000000000)

/* A larger profile would stop a thread for seconds. */
#define PROFILE_LIMIT ((size_t)256 << 20)

void top_refresh_init(struct top_refresh *refresh, const struct top_request *request)
{
    struct attachment *attachment = &refresh->attachment;

    refresh->samples = request->samples;
    capture_init(&refresh->capture);
    refresh->capture.most = PROFILE_LIMIT;
    sites_init(&refresh->sites);
    refresh->place = (struct symbols_target){.modules = &attachment->modules,
                                             .target = &attachment->target,
                                             .memory = &attachment->memory};
    refresh->names.options = (struct symbols_options){.target = &attachment->target,
                                                      .no_inlines = request->no_inlines,
                                                      .debuginfod = request->debuginfod,
                                                      .open = symbols_open_in_target,
                                                      .open_map = symbols_open_map_in_target,
                                                      .ctx = &refresh->place,
                                                      .deadline = &refresh->names_until};
    refresh->model = (struct top_model){.name = attachment->target.stat.comm,
                                        .pid = (int)attachment->target.pid,
                                        .version = "",
                                        .asked = request->interval_ns};
}

void top_refresh_free(struct top_refresh *refresh)
{
    if (refresh->looking)
        looks_close(&refresh->looks);
    name_cache_free(&refresh->names);
    sites_free(&refresh->sites);
    capture_free(&refresh->capture);
}

fault_code top_refresh_open(struct top_refresh *refresh, const struct attach_request *request,
                            struct fault *fault)
{
    fault_code rc = access_open(&refresh->attachment, request, fault);
    struct prof_state state;

    if (!fault_lacks_profiling(rc))
        return rc;
    attachment_read_facts(&refresh->attachment, &state);
    refresh->build = state.build;
    refresh->profile = rc == FAULT_PROF_ABSENT ? TOP_ABSENT : TOP_DISABLED;
    refresh->no_profile = true; /* which does not change while the process lives */
    return FAULT_NONE;
}

/* ---- the read ---- */

/* Why there is no profile, if rc says no more than that. */
static bool profile_lacks(fault_code rc, enum top_profile *why)
{
    static const struct {
        fault_code code;
        enum top_profile why;
    } lacks[] = {{FAULT_PROF_ABSENT, TOP_ABSENT},
                 {FAULT_PROF_DISABLED, TOP_DISABLED},
                 {FAULT_DUMP_HOOK, TOP_HOOKED},
                 {FAULT_HOOKS, TOP_EXTENT_HOOKS},
                 {FAULT_TOO_LARGE, TOP_TOO_LARGE}};

    for (size_t i = 0; i < ARRAY_LEN(lacks); i++)
        if (rc == lacks[i].code) {
            *why = lacks[i].why;
            return true;
        }
    return false;
}

static fault_code read_profile(struct top_refresh *refresh, struct fault *fault)
{
    struct attachment *attachment = &refresh->attachment;
    struct prof_state state;
    fault_code rc = FAULT_NONE;

    if (refresh->no_profile)
        return FAULT_NONE;
    attachment_read_facts(attachment, &state); /* enough for a look, and if there is no profile */
    if (!access_reads(attachment) &&
        (state.prof_active != FACT_NO || state.build.opt_prof != FACT_YES))
        rc = access_state(attachment, &state, fault);
    if (rc != FAULT_NONE && !profile_lacks(rc, &refresh->profile))
        return rc;
    refresh->build = state.build;
    if (state.prof_active == FACT_NO && state.build.opt_prof == FACT_YES)
        refresh->profile = TOP_INACTIVE;
    else if (rc == FAULT_NONE)
        refresh->profile = refresh->too_large ? TOP_TOO_LARGE : TOP_PROFILED;
    if (refresh->profile != TOP_PROFILED)
        return FAULT_NONE;
    refresh->capture.text.len = 0;
    rc = access_profile(attachment, &refresh->capture, NULL, fault);
    refresh->too_large = rc == FAULT_TOO_LARGE;
    return profile_lacks(rc, &refresh->profile) ? FAULT_NONE : rc;
}

/* A count may take a tenth of the time: until then the former one is shown. */
static fault_code read_gauges(struct top_refresh *refresh, struct fault *fault)
{
    const uint64_t began = clock_now();
    fault_code rc = FAULT_NONE;

    if (began >= refresh->counted_at + 10 * refresh->count_ns) {
        /* For the counts alone no thread is stopped. */
        rc = refresh->profile == TOP_PROFILED && access_calls(&refresh->attachment)
                 ? account_read(&refresh->account, &refresh->attachment, fault)
                 : account_read_records(&refresh->account, &refresh->attachment, fault);
        refresh->counted_at = clock_now();
        refresh->count_ns = refresh->counted_at - began;
    }
    refresh->counted = rc == FAULT_NONE && refresh->account.source != ACCOUNT_NONE;
    /* A profile is shown without counts, too. */
    return rc == FAULT_STATS_ABSENT || (refresh->profile == TOP_PROFILED && fault_is_transient(rc))
               ? FAULT_NONE
               : rc;
}

/* What they allocate is in the counts, but in no sample. */
static bool threads_are_silent(struct attachment *attachment)
{
    struct thread_view view;
    struct fault ignored;
    bool silent = thread_view_read(&view, attachment, 0, &ignored) == FAULT_NONE &&
                  (view.threads.by_sampling[THREAD_ASLEEP] || view.threads.by_sampling[THREAD_OFF]);

    thread_view_free(&view);
    return silent;
}

/*
 * Counts live objects, which bound the growth that samples show. A count that fails, or would
 * take more than a tenth of the time, leaves the samples alone.
 */
static void count_objects(struct top_refresh *refresh)
{
    struct looks *looks = &refresh->looks;

    if (refresh->profile != TOP_PROFILED || !refresh->model.asked ||
        !access_reads(&refresh->attachment))
        return;
    if (!refresh->looking) {
        looks_open(looks, &refresh->attachment, true);
        looks->until_ns = UINT64_MAX;
        refresh->looking = true;
        refresh->silent = threads_are_silent(&refresh->attachment);
    }
    if (!looks->live || looks->next_ns > clock_now())
        return;
    if (looks_keep(looks, SITES_HISTORY - 1))
        looks_add(looks, &refresh->attachment);
    else
        looks->next_ns = UINT64_MAX;
}

/*
 * A refresh that waited for a CPU says nothing about the next one: alone, it causes a pause of 10 s
 * at most, or of ten times its cost.
 */
static uint64_t slow_down(struct top_refresh *refresh, uint64_t cost)
{
    const uint64_t lesser = refresh->cost < cost ? refresh->cost : cost;
    const uint64_t single = cost > SINGLE_NS / 10 ? 10 * cost : SINGLE_NS;
    uint64_t pause = STOPPED_PART * cost;

    refresh->cost = cost;
    if (pause > single)
        pause = STOPPED_PART * lesser > single ? STOPPED_PART * lesser : single;
    return pause > refresh->model.asked ? pause : refresh->model.asked;
}

static fault_code look_once(struct top_refresh *refresh, struct fault *fault)
{
    struct attachment *attachment = &refresh->attachment;
    const struct caller *caller = &attachment->caller;
    struct top_model *model = &refresh->model;
    const uint64_t held = caller->held_ns;
    const unsigned holds = caller->holds, attempts = caller->attempts;
    fault_code rc = FAULT_NONE;

    refresh->counted = false;
    if (model->refreshes) {
        attachment->request.search_ns = SEARCH_NS;
        attachment->request.every = attachment->instances.count > 1;
        rc = attachment_renew(attachment, interrupt_flag(), fault);
    }
    if (rc == FAULT_NONE)
        rc = read_profile(refresh, fault);
    if (rc == FAULT_NONE)
        rc = read_gauges(refresh, fault);
    if (rc == FAULT_NONE)
        count_objects(refresh);
    attachment_rest(attachment);
    model->reads = caller->attempts == attempts;
    model->held = model->reads ? attachment->read.last.ns : caller->held_ns - held;
    if (model->held > model->longest)
        model->longest = model->held;
    model->interval = model->asked;
    if (!model->reads && model->asked)
        model->interval = slow_down(refresh, model->held + STOP_NS * (caller->attempts - attempts -
                                                                      (caller->holds - holds)));
    return rc;
}

/* ---- its results ---- */

static void set_gauge(struct gauge_values *values, enum gauge gauge, uint64_t bytes)
{
    values->known[gauge] = true;
    values->bytes[gauge] = bytes;
}

/* A rate of counts that are older than two refreshes would be false. */
static bool gauges_aged(const struct top_refresh *refresh)
{
    return clock_now() > refresh->counted_at + 2 * refresh->model.asked;
}

static void watch_rss(struct top_refresh *refresh, uint64_t rss, uint64_t time)
{
    struct gauge_values values = {.time = time};

    if (rss)
        set_gauge(&values, GAUGE_RSS, rss);
    trends_add(&refresh->model.watched, &values);
}

bool top_refresh_glance(struct top_refresh *refresh)
{
    const struct trends *watched = &refresh->model.watched;
    const struct gauge_values *last = trends_now(watched);
    uint64_t now = clock_now(), rss, former = last ? last->bytes[GAUGE_RSS] : 0;

    if (last && now - last->time < GLANCE_NS && now - last->time < refresh->model.asked)
        return false;
    rss = target_rss(&refresh->attachment.target);
    watch_rss(refresh, rss, now);
    return rss != former;
}

/* Also then no thread is stopped for more than a tenth of the time. */
uint64_t top_refresh_soonest(const struct top_refresh *refresh)
{
    return refresh->ended + 10 * refresh->model.held;
}

static void take_gauges(struct top_refresh *refresh, uint64_t time)
{
    const struct account_sum sum = account_sum_up(&refresh->account);
    struct gauge_values values = {.time = time, .aged = gauges_aged(refresh)};
    uint64_t rss = target_rss(&refresh->attachment.target);

    refresh->model.has_stats = refresh->counted;
    for (unsigned part = 0; refresh->counted && part < ACCOUNT_PARTS; part++)
        if (sum.known[part])
            set_gauge(&values, (enum gauge)part, sum.bytes[part]);
    if (refresh->counted)
        set_gauge(&values, GAUGE_ABSENT, sum.absent);
    if (rss)
        set_gauge(&values, GAUGE_RSS, rss);
    watch_rss(refresh, rss, time);
    trends_add(&refresh->model.trends, &values);
}

/* Bounds the growth of the sites; the stacks of sampled objects have the names of the profile's. */
static bool judge_sites(struct top_refresh *refresh, const struct heap_profile *profile,
                        struct symbols *symbols)
{
    struct verdict verdict = {0};
    struct heap_profile stacks, named;
    struct samples samples = {0};
    uint32_t *site_of = NULL;
    bool good = looks_stacks(&refresh->looks, &stacks) &&
                (site_of = reallocarray(NULL, stacks.stack_count + 1, sizeof *site_of));

    if (good) {
        named = *profile;
        named.addresses = stacks.addresses;
        named.address_count = stacks.address_count;
        named.frames = stacks.frames;
        named.stacks = stacks.stacks;
        named.lines = stacks.lines;
        named.line_count = stacks.line_count;
        named.thread_count = named.thread_line_count = 0;
        memset(site_of, 0xff, (stacks.stack_count + 1) * sizeof *site_of);
        good = samples_build(&samples, refresh->samples, &named, symbols, NULL, NULL);
    }
    if (good) {
        sites_number(&refresh->sites, &samples, site_of);
        good = looks_judge(&refresh->looks, profile->period, refresh->sites.count, refresh->silent,
                           site_of, stacks.stack_count, &verdict);
    }
    if (good)
        sites_judge(&refresh->sites, &verdict);
    verdict_free(&verdict);
    samples_free(&samples);
    heap_free(&stacks);
    free(site_of);
    return good;
}

static fault_code take_samples(struct top_refresh *refresh, const struct heap_profile *profile,
                               uint64_t time, struct fault *fault)
{
    struct symbols *symbols = name_cache_symbols(&refresh->names, profile);
    struct samples samples;
    bool good = false;

    refresh->names_until.at = clock_now() + refresh->attachment.request.timeout_ns;
    if (symbols) {
        good = samples_build(&samples, refresh->samples, profile, symbols, NULL, NULL) &&
               sites_update(&refresh->sites, &samples, time) &&
               (!refresh->looking || !looks_counted(&refresh->looks) ||
                judge_sites(refresh, profile, symbols));
        refresh->sites.awaits_counts =
            refresh->looking && refresh->looks.live && refresh->sites.evidence != EVIDENCE_COUNTS;
        samples_free(&samples);
    }
    return good ? FAULT_NONE : fault_set(fault, FAULT_INTERNAL, ENOMEM, "report", "the profile");
}

static fault_code add_profile(struct top_refresh *refresh, uint64_t time, struct fault *fault)
{
    struct heap_profile profile;
    const struct sink *text = &refresh->capture.text;
    fault_code rc = heap_parse(&profile, (const char *)text->bytes, text->len, fault);

    if (rc == FAULT_NONE)
        rc = take_samples(refresh, &profile, time, fault);
    heap_free(&profile);
    return rc;
}

static fault_code refresh_once(struct top_refresh *refresh, struct fault *fault)
{
    struct top_model *model = &refresh->model;
    fault_code rc = look_once(refresh, fault);
    uint64_t time = clock_now();

    if (rc != FAULT_NONE)
        return rc;
    model->version = refresh->build.text;
    take_gauges(refresh, time);
    model->sites = NULL;
    if (refresh->profile == TOP_PROFILED) {
        rc = add_profile(refresh, time, fault);
        model->sites = &refresh->sites;
    }
    model->refreshes += rc == FAULT_NONE;
    return rc;
}

/* A failed hold leaves nothing attached (apart.h), so a transient fault costs only one refresh. */
fault_code top_refresh_run(struct top_refresh *refresh, struct fault *fault)
{
    fault_code rc = refresh_once(refresh, fault);

    refresh->ended = clock_now();
    refresh->model.missed = false;
    if (rc == FAULT_NONE || !refresh->model.refreshes || !fault_is_transient(rc))
        return rc;
    refresh->model.missed = true;
    return FAULT_NONE;
}
