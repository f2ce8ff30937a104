#include "perf/page_faults.h"
#include "perf/faults.h"
#include "perf/pace.h"
#include "perf/refusal.h"
#include "perf/sources.h"

#include <errno.h>
#include <sys/resource.h>

enum {
    USUAL_RATE = 1000,    /* samples a second */
    USUAL_STACK = 8192,   /* bytes */
    STACK_MAX = 60 << 10, /* a record is shorter than 64 KiB */
    DEEPER = 4,           /* times as large is the next copy */
    COPIED_PER_S = 64 << 20,
    RECORD_REST = 4096, /* bytes of a sample beside its stack, at most: a chain of 127 calls */
    NAP_MS = 25,        /* between two looks into the rings */
    OTHERS_PART = 4,    /* for the pace, so many samples of other processes are one */
    RENEW_MS = 100,     /* between two lists of threads, at least */
    RENEW_PART = 20,    /* a list takes one part of so many of the time */
    PAUSE_MS = 100,     /* for which the rings are large enough if the tool does not run */
    FILES_OTHER = 64,   /* that the tool opens besides */
    NS_PER_MS = 1000000,
};

struct page_faults {
    struct sources sources;
    struct pace pace;
    struct page_fault_lack lack;
    uint64_t counted_before;       /* faults, before the events of CPUs */
    double own_weight, all_weight; /* of samples by the events of CPUs */
    uint64_t renewed_ns, renew_ns; /* the last list of threads, and how long until the next */
    uint64_t drained;              /* samples of one look into the rings */
    bool deepest;                  /* the copies of stacks cannot be larger */
    page_fault_action action;
    void *ctx;
};

/* ---- reading ---- */

static void handle_sample(struct page_faults *faults, const struct ring_record *record)
{
    const struct sources *sources = &faults->sources;
    struct sample_record sample;
    struct page_fault fault;

    if (!record_sample(&sample, record->body, record->len, sources->form.registers)) {
        faults->lack.lost++;
        return;
    }
    if (sources_is_double(&faults->sources, sample.tid, sample.event))
        return;
    faults->all_weight += (double)sources->form.period;
    if (sample.pid != sources->target->pid) {
        faults->drained += ++faults->lack.others % OTHERS_PART == 0;
        return;
    }
    faults->drained++;
    faults->own_weight += (double)sources->form.period;
    fault = (struct page_fault){
        .time_ns = sample.time_ns,
        .addr = sample.addr,
        .tid = sample.tid,
        .weight = sources->form.period,
        .state = sample.state,
    };
    faults->action(faults->ctx, &fault);
}

static void handle_record(struct page_faults *faults, const struct ring_record *record)
{
    uint64_t lost;

    if (record->type == PERF_RECORD_SAMPLE)
        handle_sample(faults, record);
    else if (record->type == PERF_RECORD_FORK)
        faults->lack.started +=
            record_new_thread(record->body, record->len) == faults->sources.target->pid;
    else if (record->type == PERF_RECORD_THROTTLE)
        faults->lack.throttled++;
    else if (record->type == PERF_RECORD_LOST) {
        lost = record_lost(record->body, record->len);
        faults->lack.lost += lost;
        faults->drained += lost; /* for the pace they are samples of the process */
    }
}

/* Reads a ring at most once around, as the target may fill it as fast as it is read. */
static void drain_ring(void *ctx, struct ring *ring)
{
    struct page_faults *faults = ctx;
    uint64_t start = ring_begin(ring), at = start;
    struct ring_record record;

    while (at - start < ring->size && ring_next(ring, &at, &record)) {
        handle_record(faults, &record);
        ring_release(ring, at);
    }
    ring_release(ring, at);
}

/* How much is observed, as far as it is known while the process lives. */
static void note_sources(struct page_faults *faults)
{
    bool by_cpu = faults->sources.way == SOURCES_OF_CPUS;

    faults->lack.threads = sources_missed(&faults->sources, &faults->lack.all_threads);
    faults->lack.threads_err = -faults->sources.refused_err;
    faults->lack.cpus_denied =
        faults->sources.cpus_err == -EACCES || faults->sources.cpus_err == -EPERM;
    faults->lack.listed |= faults->sources.way == SOURCES_LISTED;
    if (by_cpu && !faults->lack.by_cpu) {
        pace_loosen(&faults->pace);
        faults->counted_before = faults->sources.faults;
        faults->own_weight = faults->all_weight = 0;
    }
    faults->lack.by_cpu = by_cpu;
}

/* Begins again with another period: events of inheriting threads cannot be changed. */
static fault_code restart(struct page_faults *faults, struct fault *fault)
{
    int rc;

    sources_stop(&faults->sources);
    sources_each_ring(&faults->sources, drain_ring, faults);
    sources_clear(&faults->sources);
    faults->sources.form.period = faults->pace.period;
    rc = sources_open(&faults->sources);
    if (rc == 0)
        note_sources(faults);
    return rc ? refusal_explain(faults->sources.target, -rc, fault) : FAULT_NONE;
}

/*
 * Counts the faults of other processes for a part, as their samples: few of the samples may be
 * of this process.
 */
static uint64_t faults_to_pace(const struct page_faults *faults)
{
    uint64_t counted = sources_faults(&faults->sources);
    double all = (double)(counted - faults->counted_before), own = faults->own_weight;

    if (!faults->lack.by_cpu)
        return counted;
    return faults->counted_before + (uint64_t)(all / OTHERS_PART + own * (1 - 1.0 / OTHERS_PART));
}

static fault_code keep_pace(struct page_faults *faults, uint64_t now, struct fault *fault)
{
    struct pace *pace = &faults->pace;
    bool changed = pace_hurry(pace, faults->drained, now);

    faults->drained = 0;
    if (!changed && pace_is_due(pace, now))
        changed = pace_look(pace, faults_to_pace(faults), now);
    return changed ? restart(faults, fault) : FAULT_NONE;
}

/* A list of very many threads takes long: it may take a twentieth of the time. */
static void renew_sources(struct page_faults *faults, uint64_t now)
{
    uint64_t took;

    sources_renew(&faults->sources, drain_ring, faults);
    note_sources(faults);
    faults->renewed_ns = clock_now();
    took = faults->renewed_ns - now;
    faults->renew_ns = (uint64_t)RENEW_MS * NS_PER_MS;
    if (faults->renew_ns < RENEW_PART * took)
        faults->renew_ns = RENEW_PART * took;
    if (faults->lack.listed_ms < (faults->renew_ns + took) / NS_PER_MS)
        faults->lack.listed_ms = (unsigned)((faults->renew_ns + took) / NS_PER_MS);
}

fault_code page_faults_read(struct page_faults *faults, int timeout_ms, page_fault_action action,
                            void *ctx, struct fault *fault)
{
    fault_code rc = target_check(faults->sources.target, fault);
    struct timespec nap = {0};

    faults->action = action;
    faults->ctx = ctx;
    if (rc != FAULT_NONE) { /* those that it took before its end */
        sources_each_ring(&faults->sources, drain_ring, faults);
        return rc;
    }
    for (;; timeout_ms -= NAP_MS) {
        uint64_t now = clock_now(), samples;
        sources_each_ring(&faults->sources, drain_ring, faults);
        samples = faults->drained;
        if (now - faults->renewed_ns > faults->renew_ns && sources_outgrown(&faults->sources)) {
            rc = restart(faults, fault);
        } else {
            if (now - faults->renewed_ns > faults->renew_ns)
                renew_sources(faults, now);
            rc = keep_pace(faults, now, fault);
        }
        if (rc != FAULT_NONE || samples || timeout_ms <= 0)
            return rc;
        nap.tv_nsec = (long)(timeout_ms < NAP_MS ? timeout_ms : NAP_MS) * NS_PER_MS;
        if (nanosleep(&nap, NULL)) /* a signal ended it */
            return rc;
    }
}

/* ---- begin and end ---- */

static size_t power_of_two(size_t least)
{
    size_t size = 4096;

    while (size < least)
        size *= 2;
    return size;
}

static void plan_rings(struct page_faults *faults)
{
    struct sources *sources = &faults->sources;
    size_t sample = sources->form.stack_bytes + RECORD_REST;

    sources->ring_least = power_of_two(2 * sample);
    sources->ring_size = power_of_two(sample * faults->pace.most / 1000 * PAUSE_MS);
    if (sources->ring_size < sources->ring_least)
        sources->ring_size = sources->ring_least;
}

static int open_deeper(struct page_faults *faults, uint32_t stack_bytes, unsigned most)
{
    struct sources *sources = &faults->sources;

    sources_clear_rings(sources);
    sources->form.stack_bytes = stack_bytes;
    pace_set_most(&faults->pace, most);
    plan_rings(faults);
    return sources_open(sources);
}

/*
 * With a ring for each thread, larger ones would leave threads without. What the tool may not lock
 * into memory for larger rings (-EPERM, -ENOMEM), it may for those that it had.
 */
fault_code page_faults_deepen(struct page_faults *faults, struct fault *fault)
{
    struct sources *sources = &faults->sources;
    const uint32_t former = sources->form.stack_bytes,
                   wanted = former < STACK_MAX / DEEPER ? former * DEEPER : STACK_MAX;
    /* As many samples a second as permitted copies are. */
    const unsigned most = faults->pace.most, copies = COPIED_PER_S / wanted;
    int rc;

    if (faults->deepest || former >= STACK_MAX || sources->way == SOURCES_LISTED)
        return FAULT_NONE;
    sources_stop(sources);
    sources_each_ring(sources, drain_ring, faults);
    rc = open_deeper(faults, wanted, copies < most ? copies : most);
    if (rc || sources->way == SOURCES_LISTED) {
        faults->deepest = true;
        rc = open_deeper(faults, former, most);
    }
    if (rc == 0)
        note_sources(faults);
    return rc ? refusal_explain(sources->target, -rc, fault) : FAULT_NONE;
}

uint32_t page_faults_stack_bytes(const struct page_faults *faults)
{
    return faults->sources.form.stack_bytes;
}

/* Faults in system calls need a right of their own (perf_allow_kernel): else without them. */
static int open_sources(struct page_faults *faults)
{
    struct sources *sources = &faults->sources;
    int rc;

    sources->form.kernel = true;
    rc = sources_open(sources);
    if (rc != -EACCES && rc != -EPERM)
        return rc;
    sources_clear(sources);
    sources->form.kernel = false;
    faults->lack.kernel = true;
    return sources_open(sources);
}

fault_code page_faults_open(struct page_faults **out, const struct target *target,
                            const struct page_fault_request *request, struct fault *fault)
{
    struct page_faults *faults = calloc(1, sizeof *faults);
    uint32_t stack = request->stack_bytes ? request->stack_bytes : USUAL_STACK;
    struct sources *sources;
    struct rlimit limit;
    int rc;

    *out = faults;
    if (!faults)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "sample page faults", "%d", target->pid);
    if (refusal_of_filter(target, fault) != FAULT_NONE)
        return FAULT_PERF_SECCOMP;
    sources = &faults->sources;
    pace_start(&faults->pace, request->period,
               request->most_per_s ? request->most_per_s : USUAL_RATE, clock_now());
    faults->renewed_ns = clock_now();
    faults->renew_ns = (uint64_t)RENEW_MS * NS_PER_MS;
    faults->lack.listed_ms = RENEW_MS;
    sources->target = target;
    sources->deadline = request->deadline;
    sources->form.stack_bytes = (stack < STACK_MAX ? stack : STACK_MAX) & ~7u;
    sources->form.period = faults->pace.period;
    plan_rings(faults);
    /* How many events there may be; cli/main.c has raised the limit of open files. */
    if (getrlimit(RLIMIT_NOFILE, &limit))
        sources->files_max = FILES_OTHER;
    else if (limit.rlim_cur > FILES_OTHER)
        sources->files_max = (size_t)limit.rlim_cur - FILES_OTHER;
    rc = event_form_probe(&sources->form);
    if (rc == 0)
        rc = open_sources(faults);
    if (rc == 0)
        note_sources(faults);
    return rc ? refusal_explain(target, -rc, fault) : FAULT_NONE;
}

struct page_fault_lack page_faults_lack(const struct page_faults *faults)
{
    struct page_fault_lack lack = faults->lack;

    lack.counted = sources_faults(&faults->sources);
    if (lack.by_cpu) {
        double all = (double)(lack.counted - faults->counted_before),
               share = faults->all_weight > 0 ? faults->own_weight / faults->all_weight : 0;
        lack.counted = faults->counted_before + (uint64_t)(share * all);
    }
    return lack;
}

void page_faults_close(struct page_faults *faults)
{
    if (!faults)
        return;
    sources_close(&faults->sources);
    free(faults);
}
