#include "inject/attempt.h"
#include "inject/candidates.h"
#include "inject/faults.h"
#include "inject/occupied.h"
#include "inject/syscalls.h"
#include "inject/unwind.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/prctl.h>

enum {
    PAUSE_MIN_NS = 4000, /* pause between two stops of one thread, random */
    PAUSE_SPAN_NS = 14000,
    PAUSE_SPAN_ALONE_NS = 4000, /* span of the random pause if there is only one thread */
    PAUSE_PIECE_NS = 10000000,  /* a longer pause looks this often whether it is to end */
    QUIET_DOUBLINGS = 14,       /* of the pause between rounds without a stop: to 66 ms */
    PATIENCE_NS = 250000000,    /* then also tries threads that may never have allocated */
    RELOAD_EVERY = 64,          /* stops after which threads and mappings are read again */
    IDLE_NS = 5000000, /* time after which they are read again while no thread may be stopped */
    UNOCCUPIED_NS = 20000000, /* for which a look at who may lock the address space holds good */
    STAY = 64,                /* stops of one running thread before the next thread is tried */
    STAY_STOP_NS = 2000000,   /* a stop that takes longer: the thread has lost its CPU */
};

/*
 * One search for a safe point: tries the candidates again and again until one
 * is at a safe point.
 */
struct search {
    struct injection *injection;
    struct candidates candidates;
    uint64_t begun, longest;
    unsigned skipped;
    unsigned quiet;     /* rounds without a stop since the last one */
    unsigned loaded_at; /* number of stops and skips when the threads were last read */
    bool idle;          /* no thread could be stopped in the last round */
    bool stopped;       /* one was */
    pid_t bound_tid;    /* the last thread that was skipped because of its bounds */
    enum proof bounds;
    unsigned seed;
};

static bool is_out_of_time(const struct search *search)
{
    return deadline_passed(search->injection->env.deadline) ||
           clock_now() - search->begun >= search->longest;
}

static void pause_ns(uint64_t ns)
{
    const struct timespec ts = {0, (long)ns};

    nanosleep(&ts, NULL);
}

/*
 * Several threads may share the tool's CPU: with too short a pause the tool uses
 * up its time slice and waits for its turn.
 */
static void pause_randomly(struct search *search)
{
    int span = search->candidates.count == 1 ? PAUSE_SPAN_ALONE_NS : PAUSE_SPAN_NS;

    pause_ns((uint64_t)(PAUSE_MIN_NS + rand_r(&search->seed) % span));
}

/*
 * Waits until the stops have cost the target so little of its time that another
 * one is allowed. A little longer at random, so that the stops do not keep step
 * with what the target does.
 */
static void await_credit(struct search *search)
{
    struct stops *stops = search->injection->stops;
    uint64_t ns = stops_until_credit(stops);

    if (ns)
        ns += (uint64_t)rand_r(&search->seed) % (ns / 2 + 1);
    for (uint64_t until = clock_now() + ns, now = until - ns; now < until; now = clock_now()) {
        if (is_out_of_time(search) || deadline_interrupted(search->injection->env.deadline))
            break;
        pause_ns(until - now < PAUSE_PIECE_NS ? until - now : PAUSE_PIECE_NS);
    }
}

static void skip_thread(struct search *search, pid_t tid, const struct evidence *evidence)
{
    struct injection_summary *report = &search->injection->summary;

    search->skipped++;
    report->rejected = *evidence;
    report->rejected_tid = tid;
}

/* True if the next stop should be of another thread, or later, or none. */
static bool is_to_be_left(struct search *search)
{
    const struct injection *injection = search->injection;
    /* On a CPU: the stop did not first have to wait until the thread got one. */
    bool on_cpu = arch_syscall_nr(&injection->original) < 0 && injection->stop_ns < STAY_STOP_NS;

    return !on_cpu || bounds_hold(injection->summary.rejected.proof) ||
           stops_until_credit(injection->stops) > 0 ||
           deadline_interrupted(injection->env.deadline) || is_out_of_time(search);
}

/*
 * Does not stop the thread if it must not be stopped where it sleeps, or if a stop would only
 * show what the last one has shown.
 *
 * A running thread stops within microseconds, a thread that waits for a CPU
 * within milliseconds. So a thread that has a CPU is stopped again and again,
 * with short pauses, until it loses the CPU. (Four threads on two CPUs: 1.1 ms
 * per stop instead of 3.2.)
 */
static enum attempt try_ranked(struct search *search, struct ranked *ranked, struct fault *fault)
{
    struct injection *injection = search->injection;
    const struct injection_summary *report = &injection->summary;
    const struct target *target = injection->env.target;
    const struct thread *thread = &ranked->thread;
    struct stop_record *record = stops_of(injection->stops, thread->tid);
    struct evidence sleeping = {.proof = PROOF_SYSCALL};
    enum attempt result = ATTEMPT_UNSAFE;
    struct proc_syscall now;

    search->idle = false;
    if (!candidates_bear_stop(thread, target, &now, &sleeping.what)) {
        skip_thread(search, thread->tid, &sleeping);
        return ATTEMPT_UNSAFE;
    }
    if (stops_is_unchanged(record, thread, target, &now) || clock_now() < record->not_before) {
        skip_thread(search, thread->tid, &record->last);
        return ATTEMPT_UNSAFE;
    }
    stops_look(record, thread, target, &now);

    search->stopped = true;
    for (unsigned stops = 0; result == ATTEMPT_UNSAFE && stops < STAY; stops++) {
        if (stops > 0 && is_to_be_left(search))
            break;
        if (stops > 0)
            pause_randomly(search);
        result = attempt_thread(injection, ranked, fault);
    }
    if (result == ATTEMPT_UNSAFE && report->rejected_tid == thread->tid &&
        bounds_hold(report->rejected.proof))
        ranked->bounds = report->rejected.proof;
    return result;
}

static enum attempt try_round(struct search *search, bool all, struct fault *fault)
{
    struct injection *injection = search->injection;
    struct candidates *candidates = &search->candidates;
    const struct injection_env *env = &injection->env;
    size_t count = all || !candidates->seasoned ? candidates->count : candidates->seasoned;

    search->idle = true;
    search->stopped = false;
    injection->summary.withheld = 0;
    for (size_t i = 0; i < count || (search->idle && i < candidates->count); i++) {
        struct ranked *ranked = &candidates->list[i];
        enum proof bounds =
            injection->looks ? PROOF_SAFE : candidates_bounds(candidates, ranked, env);
        injection->filters_max = env->named ? UINT_MAX : candidates->fewest;
        if (bounds != PROOF_SAFE) { /* they forbid a call: it is skipped without a stop */
            injection->summary.withheld += bounds == PROOF_FILTERED;
            search->bound_tid = ranked->thread.tid;
            search->bounds = bounds;
            continue;
        }
        await_credit(search);
        enum attempt result = try_ranked(search, ranked, fault);
        if (result != ATTEMPT_UNSAFE)
            return result;
        if (deadline_interrupted(env->deadline)) {
            fault_set(fault, FAULT_INTERRUPTED, EINTR, "find a safe point", "%d", env->target->pid);
            return ATTEMPT_FAULT;
        }
        if (is_out_of_time(search))
            break;
    }
    return ATTEMPT_UNSAFE;
}

/*
 * Waits, with no thread stopped, while another one seems to keep the address space locked: a
 * mapping would wait for the lock, and perhaps even a page fault.
 */
static fault_code heed_occupant(struct search *search, struct fault *fault)
{
    struct injection *injection = search->injection;
    const struct injection_env *env = &injection->env;
    struct stops *stops = injection->stops;
    struct occupied occupied;
    const char *name;

    if (injection->looks ||
        (stops->unoccupied_at && clock_now() - stops->unoccupied_at < UNOCCUPIED_NS))
        return FAULT_NONE;
    do {
        occupied_look(env->target, env->deadline, &occupied);
        if (deadline_interrupted(env->deadline))
            return fault_set(fault, FAULT_INTERRUPTED, EINTR, "choose a thread", "%d",
                             env->target->pid);
    } while (occupied.occupancy != OCCUPANCY_NONE && !is_out_of_time(search));
    if (occupied.occupancy == OCCUPANCY_NONE) {
        stops->unoccupied_at = clock_now();
        return FAULT_NONE;
    }
    if (occupied.occupancy == OCCUPANCY_SHARED)
        return fault_set(fault, FAULT_OCCUPIED, ETIMEDOUT, "choose a thread",
                         "thread %d does not leave the kernel", (int)occupied.tid);
    name = occupied.nr >= 0 ? syscall_name(occupied.nr) : NULL;
    return fault_set(fault, FAULT_OCCUPIED, ETIMEDOUT, "choose a thread",
                     "thread %d waits for it in %s", (int)occupied.tid,
                     name ? name : "a page fault");
}

/*
 * Lists the threads. If all usable threads are in an uninterruptible wait (a
 * vfork, or a fork or a fault of another thread that holds the memory map),
 * waits until one leaves it or the deadline passes.
 */
static fault_code await_candidates(struct search *search, struct fault *fault)
{
    const struct injection_env *env = &search->injection->env;
    fault_code rc;

    for (;;) {
        rc = candidates_list(&search->candidates, env, fault);
        if (rc != FAULT_NO_STOP || deadline_passed(env->deadline))
            return rc;
        if (deadline_interrupted(env->deadline))
            return fault_set(fault, FAULT_INTERRUPTED, EINTR, "choose a thread", "%d",
                             env->target->pid);
        pause_randomly(search);
    }
}

/* New threads have new stacks, so the mappings are read again together with the threads. */
static fault_code reload_threads(struct search *search, struct fault *fault)
{
    struct injection *injection = search->injection;
    struct modules fresh;
    fault_code rc = modules_load(&fresh, injection->env.target, fault);

    if (rc != FAULT_NONE)
        return rc;
    modules_free(injection->env.modules);
    *injection->env.modules = fresh;
    modules_tell_memory(&fresh, injection->env.memory);
    candidates_free(&search->candidates);
    search->loaded_at = injection->summary.attempts + search->skipped;
    return await_candidates(search, fault);
}

static fault_code refuse_bounds(const struct search *search, fault_code code, struct fault *fault)
{
    if (search->bounds == PROOF_MAY_DISPATCH)
        code = FAULT_WITHHELD;
    return fault_set(fault, code, 0, "find a safe point",
                     "none of its threads can make the call: thread %d %s", (int)search->bound_tid,
                     proof_text(search->bounds));
}

/*
 * Without a stop a longer pause costs the target nothing. The threads that could
 * be stopped have slept since their last one, and may go on at any moment.
 */
static void pause_between_rounds(struct search *search)
{
    search->quiet = search->stopped ? 0 : search->quiet + 1;
    if (search->idle)
        pause_ns(IDLE_NS);
    else if (search->stopped)
        pause_randomly(search);
    else
        pause_ns((uint64_t)PAUSE_MIN_NS
                 << (search->quiet < QUIET_DOUBLINGS ? search->quiet : QUIET_DOUBLINGS));
}

/* Nothing more is to be expected of this search; otherwise FAULT_NONE. */
static fault_code judge_search(const struct search *search, struct fault *fault)
{
    const struct injection *injection = search->injection;
    const struct injection_env *env = &injection->env;
    bool late = is_out_of_time(search), useless = env->brief && !search->stopped;
    /*
     * All threads are skipped and no other can be used later. If some have a filter that others
     * do not have, the others exist, or existed a moment ago.
     */
    bool hopeless = search->idle && !search->candidates.later &&
                    (!injection->summary.withheld || env->only_thread);

    if (hopeless)
        return refuse_bounds(search, FAULT_UNSUPPORTED, fault);
    if (!late && !useless)
        return FAULT_NONE;
    return injection->summary.attempts || search->skipped
               ? attempt_none(injection, fault)
               : refuse_bounds(search, FAULT_NO_SAFE_POINT, fault);
}

static fault_code find_safe_point(struct search *search, struct fault *fault)
{
    uint64_t patience = search->begun + PATIENCE_NS;
    unsigned looks;
    fault_code rc;

    for (;;) {
        switch (try_round(search, clock_now() > patience, fault)) {
        case ATTEMPT_SAFE:
            return FAULT_NONE;
        case ATTEMPT_FAULT:
            return fault->code;
        case ATTEMPT_UNSAFE:
            break;
        }
        if ((rc = judge_search(search, fault)) != FAULT_NONE)
            return rc;
        pause_between_rounds(search);
        looks = search->injection->summary.attempts + search->skipped;
        if ((search->idle || search->quiet >= QUIET_DOUBLINGS ||
             looks - search->loaded_at >= RELOAD_EVERY) &&
            (rc = reload_threads(search, fault)) != FAULT_NONE)
            return rc;
        if ((rc = heed_occupant(search, fault)) != FAULT_NONE)
            return rc;
    }
}

fault_code acquire_thread(struct injection *injection, struct fault *fault)
{
    uint64_t begun = clock_now(), longest = injection->env.search_ns;
    struct search search = {.injection = injection,
                            .begun = begun,
                            .longest = longest ? longest : UINT64_MAX,
                            .loaded_at = injection->summary.attempts,
                            .seed = (unsigned)begun};
    struct fault own;
    fault_code rc;

    fault = fault ? fault : &own; /* the search reads the fault's code */
    AUTO_FREE struct stops *fresh = injection->env.stops ? NULL : calloc(1, sizeof *fresh);
    injection->stops = fresh ? fresh : injection->env.stops;
    if (!injection->stops)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "find a safe point", "its stops");
    prctl(PR_SET_TIMERSLACK, 1); /* the pauses are shorter than the default timer slack of 50 us */
    rc = heed_occupant(&search, fault);
    if (rc == FAULT_NONE)
        rc = await_candidates(&search, fault);
    if (rc == FAULT_NONE)
        rc = find_safe_point(&search, fault);
    candidates_free(&search.candidates);
    unwinder_free(injection->unwinder);
    injection->unwinder = NULL;
    injection->stops = NULL;
    injection->summary.search_ns = clock_now() - begun;
    return rc;
}
