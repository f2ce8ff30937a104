#include "run/grow/grow.h"
#include "host/task.h"
#include "run/explain/heap_kind.h"
#include "run/faults.h"
#include "run/interrupt.h"

#include <math.h>
#include <string.h>

#define SECOND_NS ((uint64_t)1000000000)

enum {
    TICK_MS = 100,             /* a Ctrl-C and the end of the process are seen as soon */
    FIRST_LOOK_NS = 50000000,  /* between the first looks */
    BLIND_LOOK_NS = 500000000, /* between readings of the usage alone */
    LOOKS = 40,                /* in the whole time, at most */
    COST = 100,                /* looking takes one part of so many of the time */
    SAMPLES_PER_S = 2000,
    WALKS_FIRST_MS = 200, /* CPU time of walks, and one part of WALKS_PART of the time */
    WALKS_PART = 2,
    COPIES = 100,            /* of stacks, before more is decided from them */
    SHALLOW_PART = 30,       /* one part of so many may be cut short */
    PROFILE_LIMIT = 1 << 30, /* bytes of its text */
};

static void end_sampling(struct grow *grow)
{
    struct growing *growing = &grow->growing;

    page_faults_close(growing->faults);
    walker_free(growing->walker);
    *growing = (struct growing){
        .attachment = growing->attachment, .began = growing->began, .modules = growing->modules};
}

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
    end_sampling(grow);
    grow_pages_close(&grow->pages);
    grow_sites_free(&grow->sites);
    capture_free(&grow->capture);
    grow_stacks_free(&grow->stacks);
    modules_free(&grow->growing.modules);
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

/* The error of a share p of n samples is sqrt(p (1 - p) / n); of all or none of them, about 1 / n.
 */
double grow_error(const struct grow *grow, enum grow_kind kind, double bytes)
{
    double pages = 0, each = 1, samples, whole, share;
    size_t all = 0;

    for (enum grow_kind i = 0; i < GROW_KINDS; i++)
        if (kind == GROW_KINDS ? i != GROW_FILES : i == kind) {
            pages += grow->sum.parts[i].by_stack;
            all += grow->sum.parts[i].samples;
        }
    /*
     * If it has more than its pages should have, some are of pages that were given back and touched
     * again by another stack, of which no sample was taken.
     */
    if (grow->sites.seen)
        each = fmax(each, grow->sites.weight / (double)grow->sites.seen);
    samples = fmin((double)all, pages / each);
    whole = grow_bytes(grow, pages);
    share = whole > 0 ? fmin(fabs(bytes) / whole, 1) : 0;
    if (samples <= 0)
        return fabs(bytes);
    return 2 * whole * sqrt(share * (1 - share) / samples + 1 / (samples * samples));
}

bool grow_touched(const struct grow *grow, uint64_t size, struct grow_touched *touched)
{
    *touched =
        (struct grow_touched){.bytes = calloc(grow->stacks.count + 1, sizeof *touched->bytes)};
    if (!touched->bytes)
        return false;
    for (size_t i = 0; i < grow->sites.sample_count; i++) {
        const struct grow_sample *sample = &grow->sites.samples[i];
        const double bytes = grow_bytes(grow, sample->weight);
        if (sample->size != size)
            continue;
        touched->bytes[grow->stacks.of_site[sample->site]] += bytes;
        touched->whole += bytes;
        touched->samples++;
    }
    return true;
}

/* ---- samples ---- */

static uint64_t walking_time(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * SECOND_NS + (uint64_t)ts.tv_nsec;
}

static size_t walk_fault(struct grow *grow, const struct page_fault *fault,
                         remote_addr calls[WALK_DEPTH_MAX])
{
    struct growing *growing = &grow->growing;
    uint64_t before = walking_time();
    size_t depth = 0;
    enum walk_end end = walker_walk(growing->walker, &fault->state, calls, &depth);

    growing->walks_ns += walking_time() - before;
    grow->walks++;
    grow->cut += end == WALK_CUT;
    growing->copies++;
    growing->shallow += end == WALK_CUT && depth < WALK_DEPTH_MAX &&
                        fault->state.stack_len >= page_faults_stack_bytes(growing->faults);
    grow->lost += end == WALK_LOST;
    grow->guessed += walker_guesses(growing->walker) > 0;
    return depth;
}

static void take_fault(void *ctx, const struct page_fault *fault)
{
    struct grow *grow = ctx;
    const struct grow_sample sample = {
        .page = fault->addr, .time_ns = fault->time_ns, .weight = (double)fault->weight};
    remote_addr calls[WALK_DEPTH_MAX];
    /* What a walk costs is up to the program: its call frame information may take long. */
    bool walks = grow->growing.walks_ns < (uint64_t)WALKS_FIRST_MS * 1000000 +
                                              (clock_now() - grow->growing.began) / WALKS_PART;
    size_t depth = walks ? walk_fault(grow, fault, calls) : 0;

    grow->unwalked += !walks;
    grow_sites_add(&grow->sites, &grow->pages, &sample, fault->tid,
                   walk_stack_pointer(&fault->state), calls, depth);
}

/* ---- looks ---- */

/*
 * Modules of its own, as the attachment replaces those that it has when it is renewed: of the
 * mappings of the last look.
 */
static fault_code make_walker(struct grow *grow, struct fault *fault)
{
    struct growing *growing = &grow->growing;
    struct attachment *attachment = growing->attachment;
    struct modules now;

    if (!modules_parse(&now, grow->pages.maps, grow->pages.maps_len))
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "prepare", "the walks");
    walker_free(growing->walker);
    modules_free(&growing->modules);
    growing->modules = now;
    modules_tell_memory(&growing->modules, &attachment->memory);
    growing->walker = walker_new(&attachment->target, &attachment->memory, &growing->modules);
    return growing->walker ? FAULT_NONE
                           : fault_set(fault, FAULT_INTERNAL, ENOMEM, "prepare", "the walks");
}

static fault_code grow_look(struct grow *grow, struct fault *fault)
{
    struct growing *growing = &grow->growing;
    struct attachment *attachment = growing->attachment;
    fault_code rc = grow_pages_look(&grow->pages, &attachment->target, &attachment->memory,
                                    &growing->limit, fault);

    if (rc == FAULT_TOO_LATE)
        growing->look_at = UINT64_MAX; /* but for the last one */
    if (rc != FAULT_NONE)
        return rc;
    grow_sites_thin(&grow->sites, &grow->pages);
    /* Looks often at first, as it may be ended early, and as seldom as the cost demands. */
    uint64_t now = clock_now(), most = grow->request.duration_ns / LOOKS;
    uint64_t pause = (now - growing->began) / 8;
    uint64_t cost = grow->pages.spent_ns / grow->pages.looks * COST;
    if (pause > most)
        pause = most;
    if (pause < FIRST_LOOK_NS)
        pause = FIRST_LOOK_NS;
    growing->look_at = now + (pause > cost ? pause : cost);
    if (grow->pages.looks >= GROW_LOOKS_MAX - 2) /* the last one is still to come */
        growing->look_at = UINT64_MAX;
    /* Calls may be lost because code has been mapped since: by dlopen(3), by a JIT compiler. */
    if (!growing->faults || (growing->walker && grow->lost == growing->lost_before))
        return FAULT_NONE;
    growing->lost_before = grow->lost;
    return make_walker(grow, fault);
}

/* The memory of another program, which the process runs meanwhile, is not that of this one. */
static void read_grow_end(struct grow *grow, struct grow_end *end)
{
    const struct attachment *attachment = grow->growing.attachment;
    struct proc_usage usage;

    if (target_status_usage(&attachment->target, &usage) &&
        memory_is_same(&attachment->memory, grow->pages.anchor)) {
        end->usage = usage;
        end->at_ns = clock_now();
    }
}

/* A look at what is permitted: at all pages, or only at the usage, which it keeps in any case. */
static fault_code look_and_keep(struct grow *grow, struct fault *fault)
{
    fault_code rc = FAULT_NONE;

    if (grow->blind.code == FAULT_NONE)
        rc = grow_look(grow, fault);
    else
        grow->growing.look_at = clock_now() + BLIND_LOOK_NS;
    if (rc == FAULT_NONE)
        read_grow_end(grow, &grow->after);
    return rc;
}

/* ---- the beginning ---- */

/* True if the kernel refuses something, so that it goes on without; else the run is over. */
static bool goes_without(fault_code rc, const struct fault *fault)
{
    return !fault_is_gone(rc) && rc != FAULT_INTERRUPTED && rc != FAULT_TOO_LATE &&
           !fault_is_out_of_memory(fault);
}

/* Without its pagemap, samples would be of pages of which nothing is known. */
static fault_code begin_pages(struct grow *grow, struct fault *fault)
{
    struct attachment *attachment = grow->growing.attachment;
    fault_code rc = grow_pages_open(&grow->pages, &attachment->target, fault);

    rc = attachment_explain(attachment, rc, fault);
    if (rc == FAULT_NONE || !goes_without(rc, fault))
        return rc;
    grow->blind = grow->refused = *fault;
    return FAULT_NONE;
}

static fault_code open_faults(struct grow *grow, struct fault *fault)
{
    struct growing *growing = &grow->growing;
    const struct page_fault_request request = {
        .period = grow->request.period, .most_per_s = SAMPLES_PER_S, .deadline = &growing->limit};
    fault_code rc =
        page_faults_open(&growing->faults, &growing->attachment->target, &request, fault);

    rc = attachment_explain(growing->attachment, rc, fault);
    if (rc == FAULT_NONE || !goes_without(rc, fault))
        return rc;
    page_faults_close(growing->faults);
    growing->faults = NULL;
    grow->refused = *fault;
    return FAULT_NONE;
}

/* The sampling comes first: a page that is touched after the first look is seen. */
static fault_code begin_growing(struct grow *grow, struct fault *fault)
{
    struct growing *growing = &grow->growing;
    struct attachment *attachment = growing->attachment;
    fault_code rc = begin_pages(grow, fault);

    if (rc != FAULT_NONE)
        return rc;
    grow->pages.anchor = attachment->modules.vma_count ? attachment->modules.vmas[0].start : 0;
    if (deadline_interrupted(&growing->limit))
        rc = fault_set(fault, FAULT_INTERRUPTED, EINTR, "sample page faults", "%d",
                       (int)attachment->target.pid);
    else if (deadline_passed(&growing->limit))
        rc = fault_set(fault, FAULT_TOO_LATE, ETIMEDOUT, "sample page faults",
                       "nothing was sampled yet");
    if (grow->request.quiet)
        grow->refused.code = FAULT_PERF_ABSENT;
    if (rc == FAULT_NONE && grow->refused.code == FAULT_NONE)
        rc = open_faults(grow, fault);
    growing->began = clock_now();
    if (rc == FAULT_NONE)
        rc = look_and_keep(grow, fault);
    read_grow_end(grow, &grow->before);
    grow->after = grow->before;
    if (rc != FAULT_NONE)
        return rc;
    grow->stacks_unsure =
        !grow_pages_mark_stacks(&grow->pages, &attachment->target, &growing->limit);
    return grow_pages_keep_former(&grow->pages)
               ? FAULT_NONE
               : fault_set(fault, FAULT_INTERNAL, ENOMEM, "look", "the mappings");
}

fault_code grow_begin(struct grow *grow, struct attachment *attachment, struct fault *fault)
{
    grow->growing.attachment = attachment;
    grow->growing.limit =
        (struct deadline){.at = attachment->deadline.at, .interrupted = interrupt_flag()};
    return attachment_explain(attachment, begin_growing(grow, fault), fault);
}

/* ---- the time between ---- */

static fault_code take_faults(struct grow *grow, int timeout_ms, struct fault *fault)
{
    if (grow->growing.faults)
        return page_faults_read(grow->growing.faults, timeout_ms, take_fault, grow, fault);
    /* Without samples: as long as page_faults_read would. A signal ends it. */
    if (timeout_ms > 0)
        nanosleep(&(struct timespec){.tv_nsec = (long)timeout_ms * 1000000}, NULL);
    return FAULT_NONE;
}

/* Keeps what is known of a process that may end before the end of the time. */
fault_code grow_step(struct grow *grow, uint64_t until_ns, struct fault *fault)
{
    struct growing *growing = &grow->growing;
    uint64_t now = clock_now();
    uint64_t next = growing->look_at < until_ns ? growing->look_at : until_ns;
    uint64_t ms = next > now ? (next - now) / 1000000 + 1 : 0;
    fault_code rc;

    growing->limit.at = now + growing->attachment->request.timeout_ns;
    rc = take_faults(grow, ms < TICK_MS ? (int)ms : TICK_MS, fault);
    if (rc == FAULT_NONE && growing->copies >= COPIES) {
        /* Deep stacks need larger copies; a few do not decide for all. */
        bool many = growing->shallow * SHALLOW_PART > growing->copies;
        growing->copies = growing->shallow = 0;
        if (many)
            rc = page_faults_deepen(growing->faults, fault);
    }
    if (rc == FAULT_NONE)
        rc = target_check(&growing->attachment->target, fault);
    if (rc == FAULT_NONE && clock_now() >= growing->look_at)
        rc = look_and_keep(grow, fault);
    if (fault_is_gone(rc))
        grow->ended = *fault;
    return attachment_explain(growing->attachment, rc, fault);
}

/* ---- the result ---- */

static fault_code look_last(struct grow *grow, struct fault *fault)
{
    struct growing *growing = &grow->growing;
    struct attachment *attachment = growing->attachment;
    fault_code rc;

    growing->limit = (struct deadline){.at = clock_now() + attachment->request.timeout_ns,
                                       .interrupted = interrupt_again_flag()};
    rc = look_and_keep(grow, fault);
    if (rc == FAULT_NONE)
        rc = take_faults(grow, 0, fault);
    if (rc == FAULT_NONE && grow->blind.code == FAULT_NONE) {
        /*
         * The samples of the last moment are in the buffers of the kernel. The Ctrl-C that has
         * ended the sampling is not one of this part.
         */
        grow->heaps =
            heap_kinds_find(&attachment->modules, &attachment->target, &attachment->memory);
        grow->stacks_unsure |=
            !grow_pages_mark_stacks(&grow->pages, &attachment->target, &growing->limit);
        grow_pages_recall_stacks(&grow->pages);
        for (size_t i = 0; i < grow->sites.count; i++) /* those of threads that run now, too */
            grow_pages_mark_stack(&grow->pages, grow->sites.list[i].sp);
        grow_sites_thin(&grow->sites, &grow->pages);
        rc = grow_kinds_find(&grow->owners, &grow->pages, &grow->sites, attachment, grow->heaps,
                             &growing->limit, fault);
    }
    return rc;
}

static uint64_t pages_of(const struct grow *grow, uint64_t bytes)
{
    return bytes / grow->pages.map.page;
}

static fault_code make_growth(struct grow *grow, struct fault *fault)
{
    struct attachment *attachment = grow->growing.attachment;
    struct capture *capture = &grow->capture;
    fault_code rc;

    if (!grow_sites_share(&grow->sites, &grow->pages, grow->lack.counted, &grow->sum))
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "share out", "the pages");
    grow_sites_share_files(&grow->sites, pages_of(grow, grow->before.usage.file),
                           pages_of(grow, grow->after.usage.file), &grow->sum);
    capture->text.limit = sink_affordable(&attachment->proc, PROFILE_LIMIT);
    rc = grow_profile_make(&grow->sites, &grow->pages, &attachment->target, &capture->text,
                           &grow->stacks, fault);
    capture->time_ns = clock_ns(CLOCK_REALTIME);
    capture->bytes = capture->text.len;
    capture->taken = rc == FAULT_NONE;
    return rc;
}

fault_code grow_finish(struct grow *grow, struct fault *fault)
{
    struct growing *growing = &grow->growing;
    fault_code rc = FAULT_NONE;

    if (grow->ended.code == FAULT_NONE)
        rc = look_last(grow, fault);
    if (fault_is_gone(rc)) {
        grow->ended = *fault;
        rc = FAULT_NONE;
    }
    if (growing->faults) {
        grow->lack = page_faults_lack(growing->faults);
        grow->stack_bytes = page_faults_stack_bytes(growing->faults);
    }
    if (rc == FAULT_NONE && grow->blind.code == FAULT_NONE)
        rc = make_growth(grow, fault);
    rc = attachment_explain(growing->attachment, rc, fault);
    end_sampling(grow);
    return rc;
}

void grow_hand_over_modules(struct grow *grow)
{
    struct growing *growing = &grow->growing;
    struct modules former = growing->attachment->modules;

    if (!growing->modules.list)
        return;
    growing->attachment->modules = growing->modules;
    growing->modules = former;
}
