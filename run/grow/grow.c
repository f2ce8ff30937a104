#include "run/grow/grow.h"
#include "host/task.h"
#include "perf/walk.h"
#include "run/faults.h"
#include "run/grow/grow_profile.h"
#include "run/interrupt.h"

#include <math.h>
#include <string.h>

#define SECOND_NS ((uint64_t)1000000000)

enum {
    TICK_MS = 100,            /* a Ctrl-C and the end of the process are seen as soon */
    FIRST_LOOK_NS = 50000000, /* between the first looks */
    LOOKS = 40,               /* in the whole time, at most */
    COST = 100,               /* looking takes one part of so many of the time */
    SAMPLES_PER_S = 2000,
    WALKS_FIRST_MS = 200, /* CPU time of walks, and one part of WALKS_PART of the time */
    WALKS_PART = 2,
    PROFILE_LIMIT = 1 << 30, /* bytes of its text */
};

/* A run of the verb. */
struct growing {
    struct grow *grow;
    struct attachment *attachment;
    struct page_faults *faults;
    struct walker *walker;
    struct modules modules;                    /* of the walker, unless they are the attachment's */
    uint64_t lost_before;                      /* walks, when it was made */
    uint64_t walks_ns;                         /* CPU time of all walks */
    uint64_t began, until, look_at, report_at; /* CLOCK_MONOTONIC, ns */
    struct deadline limit; /* until the sampling, then for the rest after its time; no timer */
};

void grow_init(struct grow *grow, const struct grow_request *request)
{
    memset(grow, 0, sizeof *grow);
    grow->request = *request;
    grow->pages.map.fd = -1;
    grow_sites_init(&grow->sites);
    capture_init(&grow->capture);
}

void grow_free(struct grow *grow)
{
    modules_free(&grow->former);
    grow_pages_close(&grow->pages);
    grow_sites_free(&grow->sites);
    capture_free(&grow->capture);
}

double grow_bytes(const struct grow *grow, double pages)
{
    return pages * grow->pages.map.page;
}

uint64_t grow_ns(const struct grow *grow)
{
    return grow->after.at_ns - grow->before.at_ns;
}

double grow_rss(const struct grow *grow)
{
    return (double)grow->after.usage.rss - (double)grow->before.usage.rss;
}

double grow_net(const struct grow *grow)
{
    const struct grow_sum *sum = &grow->sum;

    return grow_bytes(grow, sum->by_stack + sum->nobody - (double)sum->lost_late);
}

/*
 * The samples that the growth by stack should have. If it has more, some are of pages
 * that were given back and touched again by another stack, of which no sample was taken.
 */
static double true_samples(const struct grow *grow)
{
    const struct grow_sites *sites = &grow->sites;
    double each = sites->seen ? sites->weight / (double)sites->seen : 1;

    return fmin((double)grow->sum.samples, grow->sum.by_stack / fmax(each, 1));
}

/* The error of a share p of n samples is sqrt(p (1 - p) / n); of all or none of them, about 1 / n.
 */
double grow_error(const struct grow *grow, double bytes)
{
    double whole = grow_bytes(grow, grow->sum.by_stack), samples = true_samples(grow),
           share = whole > 0 ? fmin(fabs(bytes) / whole, 1) : 0;

    if (samples <= 0)
        return fabs(bytes);
    return 2 * whole * sqrt(share * (1 - share) / samples + 1 / (samples * samples));
}

/* ---- samples ---- */

static uint64_t walking_time(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * SECOND_NS + (uint64_t)ts.tv_nsec;
}

/* What a walk costs is up to the program: its call frame information may be made to take long. */
static bool may_walk(const struct growing *growing)
{
    return growing->walks_ns <
           (uint64_t)WALKS_FIRST_MS * 1000000 + (clock_now() - growing->began) / WALKS_PART;
}

static size_t walk_fault(struct growing *growing, const struct page_fault *fault,
                         remote_addr calls[WALK_DEPTH_MAX])
{
    struct grow *grow = growing->grow;
    uint64_t before = walking_time();
    size_t depth = 0;
    enum walk_end end = walker_walk(growing->walker, &fault->state, calls, &depth);

    growing->walks_ns += walking_time() - before;
    grow->walks++;
    grow->cut += end == WALK_CUT;
    grow->lost += end == WALK_LOST;
    grow->guessed += walker_guesses(growing->walker) > 0;
    return depth;
}

static void take_fault(void *ctx, const struct page_fault *fault)
{
    struct growing *growing = ctx;
    struct grow *grow = growing->grow;
    const struct grow_sample sample = {
        .page = fault->addr, .time_ns = fault->time_ns, .weight = (double)fault->weight};
    remote_addr calls[WALK_DEPTH_MAX];
    bool walks = may_walk(growing);
    size_t depth = walks ? walk_fault(growing, fault, calls) : 0;

    grow->unwalked += !walks;
    grow_sites_add(&grow->sites, &grow->pages, &sample, fault->tid, calls, depth);
}

/* ---- looks ---- */

/* Looks often at first, as it may be ended early, and as seldom as the cost demands. */
static uint64_t look_after(const struct growing *growing, uint64_t now)
{
    const struct grow *grow = growing->grow;
    uint64_t pause = (now - growing->began) / 8, most = grow->request.duration_ns / LOOKS;
    uint64_t cost = grow->pages.spent_ns / grow->pages.looks * COST;

    if (pause > most)
        pause = most;
    if (pause < FIRST_LOOK_NS)
        pause = FIRST_LOOK_NS;
    if (grow->pages.looks >= GROW_LOOKS_MAX - 2) /* the last one is still to come */
        return UINT64_MAX;
    return now + (pause > cost ? pause : cost);
}

/*
 * Calls may be lost because code has been mapped since: by dlopen(3), by a JIT compiler. Its
 * names are those of the newer modules, too.
 */
static fault_code renew_walker(struct growing *growing, struct fault *fault)
{
    struct attachment *attachment = growing->attachment;
    struct modules *former = &growing->grow->former, now;

    if (growing->grow->lost == growing->lost_before)
        return FAULT_NONE;
    growing->lost_before = growing->grow->lost;
    if (modules_load(&now, &attachment->target, NULL) != FAULT_NONE) {
        modules_free(&now);
        return FAULT_NONE; /* the old ones will do */
    }
    walker_free(growing->walker);
    if (!former->list)
        *former = attachment->modules;
    else
        modules_free(&attachment->modules);
    attachment->modules = now;
    modules_tell_memory(&attachment->modules, &attachment->memory);
    growing->walker = walker_new(&attachment->target, &attachment->memory, &attachment->modules);
    return growing->walker ? FAULT_NONE
                           : fault_set(fault, FAULT_INTERNAL, ENOMEM, "prepare", "the walks");
}

static fault_code grow_look(struct growing *growing, struct fault *fault)
{
    struct grow *grow = growing->grow;
    struct attachment *attachment = growing->attachment;
    fault_code rc = grow_pages_look(&grow->pages, &attachment->target, &attachment->memory, fault);

    if (rc != FAULT_NONE)
        return rc;
    grow_sites_thin(&grow->sites, &grow->pages);
    growing->look_at = look_after(growing, clock_now());
    return renew_walker(growing, fault);
}

/* The memory of another program, which the process runs meanwhile, is not that of this one. */
static void read_grow_end(struct growing *growing, struct grow_end *end)
{
    const struct target *target = &growing->attachment->target;
    struct proc_usage usage;
    char text[8192];
    ssize_t n = procfs_read(target->proc, text, sizeof text, "%d/status", (int)target_via(target));

    if (n > 0 && parse_usage(text, (size_t)n, &usage) && usage.rss &&
        memory_is_same(&growing->attachment->memory, growing->grow->pages.anchor)) {
        end->usage = usage;
        end->at_ns = clock_now();
    }
}

/* ---- the time between ---- */

static void report_growth(struct growing *growing, uint64_t now)
{
    const struct run_events *events = growing->attachment->request.events;
    const struct run_progress progress = {.activity = RUN_GROWING,
                                          .done_ns = now - growing->began,
                                          .total_ns = growing->until - growing->began,
                                          .rss_bytes = target_rss(&growing->attachment->target)};

    if (!events || !events->progress || now < growing->report_at)
        return;
    events->progress(events->ctx, &progress);
    growing->report_at = now + SECOND_NS;
}

static int wait_ms(const struct growing *growing, uint64_t now)
{
    uint64_t next = growing->look_at < growing->until ? growing->look_at : growing->until;
    uint64_t ms = next > now ? (next - now) / 1000000 + 1 : 0;

    return ms < TICK_MS ? (int)ms : TICK_MS;
}

/* Keeps the usage of a process that may end before the end of the time. */
static fault_code grow_step(struct growing *growing, uint64_t now, struct fault *fault)
{
    struct grow *grow = growing->grow;
    fault_code rc =
        page_faults_read(growing->faults, wait_ms(growing, now), take_fault, growing, fault);

    if (rc == FAULT_NONE)
        rc = target_check(&growing->attachment->target, fault);
    if (rc == FAULT_NONE && clock_now() >= growing->look_at) {
        rc = grow_look(growing, fault);
        read_grow_end(growing, &grow->after);
    }
    report_growth(growing, now);
    return rc;
}

static fault_code watch_growth(struct growing *growing, struct fault *fault)
{
    const volatile sig_atomic_t *interrupted = interrupt_flag();
    const struct run_events *events = growing->attachment->request.events;
    fault_code rc = FAULT_NONE;
    uint64_t now;

    while (rc == FAULT_NONE && !*interrupted && (now = clock_now()) < growing->until)
        rc = grow_step(growing, now, fault);
    if (events && events->progress)
        events->progress(events->ctx, NULL);
    growing->grow->interrupted = *interrupted != 0;
    return rc;
}

/*
 * The samples of the last moment are in the buffers of the kernel. The Ctrl-C that has ended the
 * sampling is not one of this part.
 */
static fault_code finish_growing(struct growing *growing, struct fault *fault)
{
    struct grow *grow = growing->grow;
    fault_code rc;

    growing->limit = (struct deadline){.at = clock_now() + growing->attachment->request.timeout_ns};
    rc = grow_look(growing, fault);
    if (rc == FAULT_NONE)
        read_grow_end(growing, &grow->after);
    if (rc == FAULT_NONE)
        rc = page_faults_read(growing->faults, 0, take_fault, growing, fault);
    if (rc == FAULT_NONE)
        grow->stacks_unsure =
            !grow_pages_mark_stacks(&grow->pages, &growing->attachment->target, &growing->limit);
    if (rc == FAULT_NONE && grow->objects_before.known)
        object_look_take(&grow->objects_after, growing->attachment, &growing->limit);
    return rc;
}

/* ---- the result ---- */

static fault_code make_growth(struct growing *growing, struct fault *fault)
{
    struct grow *grow = growing->grow;
    struct capture *capture = &grow->capture;
    struct timespec now;
    fault_code rc;

    if (!grow_sites_share(&grow->sites, &grow->pages, grow->lack.counted, &grow->sum))
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "share out", "the pages");
    capture->text.limit = sink_affordable(&growing->attachment->proc, PROFILE_LIMIT);
    rc = grow_profile_make(&grow->sites, &grow->pages, &growing->attachment->target, &capture->text,
                           fault);
    clock_gettime(CLOCK_REALTIME, &now);
    capture->time_ns = (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
    capture->bytes = capture->text.len;
    capture->taken = rc == FAULT_NONE;
    return rc;
}

/* The sampling comes first: a page that is touched after the first look is seen. */
static fault_code begin_growing(struct growing *growing, struct fault *fault)
{
    struct attachment *attachment = growing->attachment;
    struct grow *grow = growing->grow;
    const struct page_fault_request request = {
        .period = grow->request.period, .most_per_s = SAMPLES_PER_S, .deadline = &growing->limit};
    fault_code rc = grow_pages_open(&grow->pages, &attachment->target, fault);

    if (rc != FAULT_NONE)
        return rc;
    growing->limit =
        (struct deadline){.at = attachment->deadline.at, .interrupted = interrupt_flag()};
    object_look_take(&grow->objects_before, attachment, &growing->limit);
    growing->walker = walker_new(&attachment->target, &attachment->memory, &attachment->modules);
    if (!growing->walker)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "prepare", "the walks");
    grow->pages.anchor = attachment->modules.vma_count ? attachment->modules.vmas[0].start : 0;
    if (deadline_interrupted(&growing->limit))
        return fault_set(fault, FAULT_INTERRUPTED, EINTR, "sample page faults", "%d",
                         (int)attachment->target.pid);
    if (deadline_passed(&growing->limit))
        return fault_set(fault, FAULT_TOO_LATE, ETIMEDOUT, "sample page faults", "%d",
                         (int)attachment->target.pid);
    rc = page_faults_open(&growing->faults, &attachment->target, &request, fault);
    growing->began = clock_now();
    growing->until = growing->began + grow->request.duration_ns;
    growing->limit.at = growing->until + attachment->request.timeout_ns;
    if (rc == FAULT_NONE)
        rc = grow_look(growing, fault);
    read_grow_end(growing, &grow->before);
    grow->after = grow->before;
    return rc;
}

fault_code grow_run(struct grow *grow, struct attachment *attachment, struct fault *fault)
{
    struct growing growing = {.grow = grow, .attachment = attachment};
    fault_code rc = begin_growing(&growing, fault);

    attachment_rest(attachment);
    if (rc == FAULT_NONE) {
        rc = watch_growth(&growing, fault);
        if (rc == FAULT_NONE)
            rc = finish_growing(&growing, fault);
        if (fault_is_gone(rc)) {
            grow->ended = *fault;
            rc = FAULT_NONE;
        }
        grow->lack = page_faults_lack(growing.faults);
        if (rc == FAULT_NONE)
            rc = make_growth(&growing, fault);
    }
    page_faults_close(growing.faults);
    walker_free(growing.walker);
    return attachment_explain(attachment, rc, fault);
}
