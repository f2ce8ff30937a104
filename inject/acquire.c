#include "inject/acquire.h"
#include "inject/attempt.h"
#include "inject/bounds.h"
#include "inject/candidates.h"
#include "inject/faults.h"
#include "inject/unwind.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/prctl.h>

enum {
    PAUSE_MIN_NS = 4000, /* pause between two stops of one thread, random */
    PAUSE_SPAN_NS = 14000,
    PAUSE_SPAN_ALONE_NS = 4000, /* span of the random pause if there is only one thread */
    PAUSE_GROWS_EVERY = 2048,   /* number of pauses after which they double */
    PAUSE_GROWTHS = 7,
    PATIENCE_NS = 250000000, /* then also tries threads that may never have allocated */
    RELOAD_EVERY = 64,       /* stops after which threads and mappings are read again */
    IDLE_NS = 5000000, /* time after which they are read again while no thread may be stopped */
    STAY = 64,         /* stops of one running thread before the next thread is tried */
    STAY_STOP_NS = 2000000, /* a stop that takes longer: the thread has lost its CPU */
};

/*
 * One search for a safe point: tries the candidates again and again until one
 * is at a safe point.
 */
struct search {
    struct injection *injection;
    struct candidates candidates;
    uint64_t begun, longest;
    unsigned pauses, skipped;
    unsigned loaded_at; /* number of stops and skips when the threads were last read */
    bool idle;          /* no thread was stopped in the last round */
    pid_t bound_tid;    /* the last thread that was skipped because of its bounds */
    enum proof bounds;
    unsigned seed;
};

/*
 * The longer the search takes, the more rarely the target is stopped, since the
 * stops may well be in vain. Several threads may share the tool's CPU: with too
 * short a pause the tool uses up its time slice and waits for its turn.
 */
static void pause_randomly(struct search *search)
{
    int span = search->candidates.count == 1 ? PAUSE_SPAN_ALONE_NS : PAUSE_SPAN_NS;
    unsigned growths = search->pauses++ / PAUSE_GROWS_EVERY;
    long ns = PAUSE_MIN_NS + rand_r(&search->seed) % span;
    struct timespec ts = {0, ns << (growths < PAUSE_GROWTHS ? growths : PAUSE_GROWTHS)};

    nanosleep(&ts, NULL);
}

static bool is_out_of_time(const struct search *search)
{
    return deadline_passed(search->injection->env.deadline) ||
           clock_now() - search->begun >= search->longest;
}

/*
 * True if the thread was running on a CPU, so that the stop did not first have
 * to wait until it got one.
 */
static bool is_on_cpu(const struct injection *injection)
{
    return arch_syscall_nr(&injection->original) < 0 && injection->stop_ns < STAY_STOP_NS;
}

/*
 * True if the thread waits in close(2) for a file server, or for the data of a
 * socket with SO_LINGER: the stop would end the call. This is checked before
 * the stop; a thread that enters the call just then can still be stopped in it.
 */
static bool is_let_be(struct search *search, const struct thread *thread)
{
    struct injection *injection = search->injection;
    struct proc_syscall now;

    if (!thread_read_syscall(thread, injection->env.target, &now) || !now.asleep ||
        !arch_bears_no_stop(now.nr))
        return false;
    search->skipped++;
    injection->summary.rejected = (struct evidence){.proof = PROOF_CLOSING};
    injection->summary.rejected_tid = thread->tid;
    return true;
}

/*
 * A running thread stops within microseconds, a thread that waits for a CPU
 * within milliseconds. So a thread that has a CPU is stopped again and again,
 * with short pauses, until it loses the CPU. (Four threads on two CPUs: 1.1 ms
 * per stop instead of 3.2.)
 */
static enum attempt stay_with(struct search *search, const struct ranked *ranked,
                              struct fault *fault)
{
    struct injection *injection = search->injection;

    if (is_let_be(search, &ranked->thread))
        return ATTEMPT_UNSAFE;
    enum attempt result = attempt_thread(injection, ranked, fault);
    for (unsigned stops = 1; result == ATTEMPT_UNSAFE && stops < STAY; stops++) {
        if (!is_on_cpu(injection) || bounds_hold(injection->summary.rejected.proof) ||
            deadline_interrupted(injection->env.deadline) || is_out_of_time(search))
            break;
        pause_randomly(search);
        result = attempt_thread(injection, ranked, fault);
    }
    return result;
}

/* A thread with bounds that forbid a call is skipped without a stop. */
static bool may_be_stopped(struct search *search, struct ranked *ranked)
{
    struct injection *injection = search->injection;
    enum proof bounds = injection->looks
                            ? PROOF_SAFE
                            : candidates_bounds(&search->candidates, ranked, &injection->env);

    injection->filters_max = injection->env.named ? UINT_MAX : search->candidates.fewest;
    if (bounds == PROOF_SAFE)
        return true;
    if (bounds == PROOF_FILTERED)
        injection->summary.withheld++;
    search->bound_tid = ranked->thread.tid;
    search->bounds = bounds;
    return false;
}

static enum attempt try_ranked(struct search *search, struct ranked *ranked, struct fault *fault)
{
    const struct injection_summary *report = &search->injection->summary;
    enum attempt result;

    search->idle = false;
    result = stay_with(search, ranked, fault);
    if (result == ATTEMPT_UNSAFE && report->rejected_tid == ranked->thread.tid &&
        bounds_hold(report->rejected.proof))
        ranked->bounds = report->rejected.proof;
    return result;
}

static enum attempt try_round(struct search *search, bool all, struct fault *fault)
{
    struct candidates *candidates = &search->candidates;
    const struct injection_env *env = &search->injection->env;
    size_t count = all || !candidates->seasoned ? candidates->count : candidates->seasoned;

    search->idle = true;
    search->injection->summary.withheld = 0;
    for (size_t i = 0; i < count || (search->idle && i < candidates->count); i++) {
        enum attempt result;
        if (!may_be_stopped(search, &candidates->list[i]))
            continue;
        result = try_ranked(search, &candidates->list[i], fault);
        if (result != ATTEMPT_UNSAFE)
            return result;
        if (deadline_interrupted(env->deadline)) {
            fault_set(fault, FAULT_INTERRUPTED, EINTR, "find a safe point", "%d", env->target->pid);
            return ATTEMPT_FAULT;
        }
        if (deadline_passed(env->deadline))
            break;
    }
    return ATTEMPT_UNSAFE;
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

/*
 * True if all threads are skipped and no other can be used later. If some have
 * a filter that others do not have, the others exist, or existed a moment ago.
 */
static bool is_hopeless(const struct search *search)
{
    const struct injection *injection = search->injection;

    return search->idle && !search->candidates.later &&
           (!injection->summary.withheld || injection->env.only_thread);
}

static fault_code refuse_bounds(const struct search *search, fault_code code, struct fault *fault)
{
    if (search->bounds == PROOF_MAY_DISPATCH)
        code = FAULT_WITHHELD;
    return fault_set(fault, code, 0, "find a safe point",
                     "none of its threads can make the call: thread %d %s", (int)search->bound_tid,
                     proof_text(search->bounds));
}

/* No thread was stopped, so a longer pause costs the target nothing. */
static void pause_between_rounds(struct search *search)
{
    const struct timespec idle = {0, IDLE_NS};

    if (search->idle)
        nanosleep(&idle, NULL);
    else
        pause_randomly(search);
}

static bool wants_reload(const struct search *search)
{
    unsigned looks = search->injection->summary.attempts + search->skipped;

    return search->idle || looks - search->loaded_at >= RELOAD_EVERY;
}

static fault_code find_safe_point(struct search *search, struct fault *fault)
{
    struct injection *injection = search->injection;
    uint64_t patience = search->begun + PATIENCE_NS;
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
        if (is_hopeless(search))
            return refuse_bounds(search, FAULT_UNSUPPORTED, fault);
        if (is_out_of_time(search))
            return injection->summary.attempts || search->skipped
                       ? attempt_none(injection, fault)
                       : refuse_bounds(search, FAULT_NO_SAFE_POINT, fault);
        pause_between_rounds(search);
        if (wants_reload(search) && (rc = reload_threads(search, fault)) != FAULT_NONE)
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
    prctl(PR_SET_TIMERSLACK, 1);  /* the pauses are shorter than the default timer slack of 50 us */
    rc = await_candidates(&search, fault);
    if (rc == FAULT_NONE)
        rc = find_safe_point(&search, fault);
    candidates_free(&search.candidates);
    unwinder_free(injection->unwinder);
    injection->unwinder = NULL;
    injection->summary.search_ns = clock_now() - begun;
    return rc;
}

fault_code acquire_preview(const struct injection_env *env, struct preview *preview,
                           struct fault *fault)
{
    struct candidates candidates;
    fault_code rc = candidates_list(&candidates, env, fault);
    size_t first = 0;

    if (rc != FAULT_NONE)
        return rc;
    memset(preview, 0, sizeof *preview);
    while (first + 1 < candidates.count &&
           candidates_bounds(&candidates, &candidates.list[first], env) != PROOF_SAFE)
        first++;
    preview->thread = candidates.list[first].thread;
    preview->candidates = candidates.count;
    candidates_free(&candidates);
    if (!thread_read_syscall(&preview->thread, env->target, &preview->asleep) ||
        !preview->asleep.asleep)
        return FAULT_NONE;
    if (arch_bears_no_stop(preview->asleep.nr))
        preview->evidence.proof = PROOF_CLOSING;
    else
        preview->evidence = safepoint_look(env->plan, env->modules, env->memory, preview->asleep.sp,
                                           preview->asleep.pc);
    return FAULT_NONE;
}
