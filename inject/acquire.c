#include "inject/acquire.h"
#include "attach/permit.h"
#include "inject/bounds.h"
#include "inject/candidates.h"
#include "inject/resume.h"
#include "inject/unwind.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

enum {
    PAUSE_MIN_NS = 4000, /* between two stops of one thread, random */
    PAUSE_SPAN_NS = 14000,
    PAUSE_SPAN_ALONE_NS = 4000, /* where there is one thread alone */
    PAUSE_GROWS_EVERY = 2048,   /* pauses after which they double */
    PAUSE_GROWTHS = 7,
    PATIENCE_NS = 250000000, /* until also threads are used that may never have allocated */
    STOP_WAIT_NS = 5000000000,
    DENIAL_NS = 1000000000, /* how long a refusal without a cause may last */
    UNWIND_EVERY = 16,      /* stops of running threads after which one is unwound */
    RELOAD_EVERY = 64,      /* stops after which threads and mappings are read again */
    IDLE_NS = 5000000,      /* until they are read again when none of the threads may be stopped */
    SAME_PROGRAM_EVERY = 64,
    STAY = 64,              /* stops of one running thread before the next one's turn */
    STAY_STOP_NS = 2000000, /* a stop that took longer: it has lost its processor */
};

/* One thread's stop: safe, unsafe (try another), or a fault that ends the search. */
enum attempt { ATTEMPT_SAFE, ATTEMPT_UNSAFE, ATTEMPT_FAULT };

/*
 * Until the interrupt's own stop; every other stop is passed on. Ctrl-C does
 * not end this wait: the thread has been woken already, and only the stop lets
 * its system call be made again.
 */
static enum fault_code wait_for_stop(struct session *session, const struct deadline *deadline,
                                     struct fault *fault)
{
    struct deadline soon = *deadline;
    enum fault_code rc;

    if (soon.at > clock_now() + STOP_WAIT_NS)
        soon.at = clock_now() + STOP_WAIT_NS;
    for (;;) {
        rc = session_wait(session, &soon, fault);
        if (rc == FAULT_CALL_DEADLINE)
            return fault_set(fault, FAULT_NO_STOP, ETIMEDOUT, "stop", "thread %d", session->tid);
        if (rc != FAULT_NONE || session->state != SESSION_SIGNAL)
            return rc;
        /* Any stop uses up the interrupt (kernel/signal.c, ptrace_stop): it is asked for again. */
        rc = session_continue(session, fault);
        if (rc == FAULT_NONE)
            rc = session_interrupt(session, fault);
        if (rc != FAULT_NONE)
            return rc;
    }
}

static enum fault_code judge_stop(struct session *session, struct fault *fault)
{
    switch (session->state) {
    case SESSION_EVENT:
        return FAULT_NONE;
    case SESSION_GROUP:
        return fault_set(fault, FAULT_STOPPED, 0, "stop", "thread %d", session->tid);
    case SESSION_EXECED:
        return fault_set(fault, FAULT_EXECED, 0, "stop", "thread %d", session->tid);
    default:
        return fault_set(fault, FAULT_GONE, ESRCH, "stop", "thread %d", session->tid);
    }
}

/*
 * A thread that runs and whose scan is not clean is most often in the
 * allocator in truth: to unwind it each time would only cost stops. One asleep
 * is worth the walk, and now and then one that is never clean.
 */
static bool is_worth_walking(const struct injection *injection)
{
    bool asleep = arch_syscall_nr(&injection->original) >= 0;

    return asleep || injection->report.attempts % UNWIND_EVERY == 0;
}

/*
 * An exec between the look at the target and the attach gives no event, and the
 * new program may even have its stack where the old one had it. The borrowed
 * code must still be where it was.
 */
static bool is_same_program(const struct injection_env *env)
{
    unsigned char code[ARCH_SIGRETURN_LEN];
    remote_addr at = env->plan->gadgets.sigreturn;

    return memory_is_same(env->memory, at) && memory_read(env->memory, at, code, sizeof code) &&
           arch_find_sigreturn(code, sizeof code) == 0;
}

/*
 * Most stops of a busy thread are in code where it may not be used, whatever
 * program that is: they are not made longer by the question, but now and then,
 * since a new program may have code at the same place.
 */
static bool wants_same_program(const struct injection *injection, enum proof proof)
{
    return proof != PROOF_PC || injection->report.attempts % SAME_PROGRAM_EVERY == 0;
}

/* What must be mapped below its stack pointer, bytes. */
static size_t stack_room(const struct injection *injection)
{
    return arch_frames_room() + (injection->own_stack ? INJECTION_OWN_STACK : 0);
}

/* A call might wait for a lock whose owner the collector has stopped, and it for this thread. */
static bool serves_collector(struct injection *injection)
{
    const struct injection_env *env = &injection->env;
    uint64_t mask;

    return injection->open && (!session_get_sigmask(&injection->session, &mask) ||
                               collector_uses(&env->plan->collector, env->target, env->memory,
                                              injection->session.tid, injection->open, mask));
}

/*
 * The first thread may sleep deeper in its stack than it ever was, with less
 * below it than the frames need. The kernel would make the stack larger for a
 * signal's frame; it does so for a look at that place, too.
 */
static bool grow_stack(const struct injection *injection)
{
    const struct injection_env *env = &injection->env;
    remote_addr sp = arch_sp(&injection->original), low = sp - stack_room(injection);
    const struct vma *vma = modules_vma_at(env->modules, sp);

    if (injection->session.tid != env->target->pid || !vma || !vma->stack || low >= sp ||
        vma->end - low > target_stack_limit(env->target) || !memory_grow_stack(env->memory, low))
        return false;
    modules_stack_grew(env->modules, low);
    return true;
}

static struct evidence prove_once(const struct injection *injection)
{
    const struct injection_env *env = &injection->env;

    return safepoint_prove(env->plan, env->modules, env->memory, injection->unwinder,
                           is_worth_walking(injection), &injection->original,
                           injection->session.tid == env->target->pid, stack_room(injection));
}

/* Where it stands: outside all code that may hold a lock, on a stack of its own. */
static struct evidence prove(const struct injection *injection)
{
    struct evidence evidence = prove_once(injection);

    if (evidence.proof == PROOF_NO_ROOM && grow_stack(injection))
        evidence = prove_once(injection);
    if (evidence.proof == PROOF_MAYBE_ENDING && injection->seasoned && !injection->unwinder)
        evidence.proof = PROOF_SAFE;
    return evidence;
}

/* What else of a thread at a safe point forbids a call. */
static enum proof judge_surroundings(struct injection *injection)
{
    const struct injection_env *env = &injection->env;

    if (serves_collector(injection))
        return PROOF_COLLECTOR;
    if (!rseq_look(&env->plan->rseq, &injection->session, env->memory, &injection->original,
                   &injection->rseq_abort))
        return PROOF_RSEQ;
    return injection->looks ? PROOF_SAFE : bounds_of_stopped(injection);
}

static enum attempt judge_thread(struct injection *injection, struct fault *fault)
{
    const struct injection_env *env = &injection->env;
    struct evidence evidence;

    errno = 0;
    if (!arch_get_regs(&injection->session, &injection->original) ||
        !arch_is_native(&injection->original)) {
        fault_set(fault, errno == ESRCH ? FAULT_GONE : FAULT_FOREIGN_ABI, errno, "read registers",
                  "thread %d", injection->session.tid);
        return ATTEMPT_FAULT;
    }
    resume_note_sleep(injection);
    injection->report.syscall_nr = arch_syscall_nr(&injection->original);
    evidence = prove(injection);
    if (wants_same_program(injection, evidence.proof) && !is_same_program(env)) {
        fault_set(fault, FAULT_EXECED, 0, "stop", "thread %d", injection->session.tid);
        return ATTEMPT_FAULT;
    }
    if (evidence.proof == PROOF_SAFE)
        evidence.proof = judge_surroundings(injection);
    if (evidence.proof != PROOF_SAFE) {
        injection->report.rejected = evidence;
        injection->report.rejected_tid = injection->session.tid;
        return ATTEMPT_UNSAFE;
    }
    injection->report.safe = evidence;
    injection->report.pc = arch_pc(&injection->original);
    if (resume_save(injection))
        return ATTEMPT_SAFE;
    /* ESRCH of a stopped thread: it has just been killed (ptrace(2)). */
    fault_set(fault, errno == ESRCH ? FAULT_GONE : FAULT_INTERNAL, errno, "save registers",
              "thread %d", injection->session.tid);
    return ATTEMPT_FAULT;
}

/* A process that has been killed refuses an attach before /proc shows that it is ending. */
static bool denial_may_pass(struct injection *injection)
{
    uint64_t now = clock_now();

    if (!injection->denied_since)
        injection->denied_since = now;
    return now - injection->denied_since < DENIAL_NS;
}

/*
 * A thread may end at any moment (the kernel says ESRCH, or EPERM while it is
 * ending); only the end of the process ends the search. EPERM may also have
 * come from another tracer that has left again: then no cause is to be seen.
 */
static enum attempt lost_thread(struct injection *injection, const struct thread *thread,
                                enum fault_code code, struct fault *fault)
{
    const struct injection_env *env = &injection->env;
    struct thread now = *thread;

    if (code != FAULT_DENIED && (code != FAULT_GONE || env->only_thread))
        return ATTEMPT_FAULT;
    if (thread_refresh(&now, env->target))
        return code == FAULT_DENIED && permit_explain(env->target, thread->tid, fault) == code &&
                       denial_may_pass(injection)
                   ? ATTEMPT_UNSAFE
                   : ATTEMPT_FAULT;
    if (env->only_thread)
        return ATTEMPT_FAULT;
    return target_check(env->target, fault) == FAULT_NONE ? ATTEMPT_UNSAFE : ATTEMPT_FAULT;
}

static enum fault_code no_safe_point(const struct injection *injection, struct fault *fault)
{
    const struct injection_report *report = &injection->report;
    bool unjudged = injection->unwinder_tried && !injection->unwinder;
    char withheld[80] = "";

    if (report->withheld)
        snprintf(withheld, sizeof withheld, "; not tried: %zu with a seccomp filter of their own",
                 report->withheld);
    return fault_set(fault, unjudged ? FAULT_NO_UNWINDER : FAULT_NO_SAFE_POINT, 0,
                     "find a safe point", "%u stops; the last, thread %d, %s%s%s%s",
                     report->attempts, (int)report->rejected_tid,
                     proof_text(report->rejected.proof), report->rejected.what ? " " : "",
                     report->rejected.what ? report->rejected.what : "", withheld);
}

/*
 * The time may be over while a thread is waited for. After stops of other kinds that is no sign
 * that it would not have come: what they showed is the cause.
 */
static enum fault_code late_stop(const struct injection *injection, struct fault *fault)
{
    uint64_t waited = clock_now() - injection->session.stopped_at;

    if (!injection->report.rejected_tid || waited >= STOP_WAIT_NS)
        return FAULT_NO_STOP;
    return no_safe_point(injection, fault);
}

static enum attempt try_thread(struct injection *injection, const struct thread *thread,
                               struct fault *fault)
{
    const struct injection_env *env = &injection->env;
    struct session *session = &injection->session;
    enum attempt result;
    enum fault_code rc;

    injection->report.attempts++;
    rc = session_seize(session, env->target, thread->tid, env->gate, fault);
    if (rc == FAULT_NONE)
        rc = session_interrupt(session, fault);
    if (rc == FAULT_NONE)
        rc = wait_for_stop(session, env->deadline, fault);
    if (rc == FAULT_NONE)
        rc = judge_stop(session, fault);
    else if (rc == FAULT_NO_STOP)
        rc = late_stop(injection, fault);
    injection->stop_ns = rc == FAULT_NONE ? clock_now() - session->stopped_at : UINT64_MAX;
    env->memory->stopped_tid = thread->tid;
    result = rc == FAULT_NONE ? judge_thread(injection, fault)
                              : lost_thread(injection, thread, rc, fault);
    if (result != ATTEMPT_SAFE) {
        resume_untouched(injection);
        env->memory->stopped_tid = 0;
        return result;
    }
    injection->stopped_at = session->stopped_at;
    injection->report.tid = thread->tid;
    memcpy(injection->report.comm, thread->comm, sizeof injection->report.comm);
    return ATTEMPT_SAFE;
}

static void load_unwinder(struct injection *injection)
{
    if (!injection->unwinder_tried)
        injection->unwinder = unwinder_new(injection->env.memory, injection->env.modules);
    injection->unwinder_tried = true;
}

/* A thread that only the unwinder can judge is tried again at once, with it. */
static enum attempt try_with_unwinder(struct injection *injection, const struct ranked *ranked,
                                      struct fault *fault)
{
    const struct thread *thread = &ranked->thread;
    bool had = injection->unwinder_tried;
    enum attempt result;

    /* Of a thread other than the first it is asked each time. */
    if (thread->tid != injection->env.target->pid)
        load_unwinder(injection);
    injection->seasoned = ranked->seasoned;
    result = try_thread(injection, thread, fault);
    if (result != ATTEMPT_UNSAFE || had || injection->unwinder ||
        !safepoint_wants_unwinder(injection->report.rejected.proof))
        return result;
    load_unwinder(injection);
    return injection->unwinder ? try_thread(injection, thread, fault) : result;
}

/* One look for a safe point: over and over through the candidates until there is one. */
struct search {
    struct injection *injection;
    struct candidates candidates;
    uint64_t begun, longest;
    unsigned pauses, skipped;
    unsigned loaded_at; /* stops and skips there had been when the threads were last read */
    bool idle;          /* none was stopped in the last round */
    pid_t bound_tid;    /* the last that was passed over for its bounds */
    enum proof bounds;
    unsigned seed;
};

/*
 * The longer none is found, the less is a target worn out with stops that may
 * well be in vain. Several threads may share the tool's processor: with a pause
 * too short it uses up its own share, and waits for its turn.
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

/* It ran, and on a processor: it was not first waited for until it got one. */
static bool is_on_processor(const struct injection *injection)
{
    return arch_syscall_nr(&injection->original) < 0 && injection->stop_ns < STAY_STOP_NS;
}

/*
 * A close(2) that waits, for a file server or for the bytes of a socket with
 * SO_LINGER, ends when its thread is stopped. Seen before the stop, which a
 * thread that enters it just then can still get.
 */
static bool is_let_be(struct search *search, const struct thread *thread)
{
    struct injection *injection = search->injection;
    struct proc_syscall now;

    if (!thread_asleep(thread, injection->env.target, &now) || !now.asleep ||
        !arch_bears_no_stop(now.nr))
        return false;
    search->skipped++;
    injection->report.rejected = (struct evidence){.proof = PROOF_CLOSING};
    injection->report.rejected_tid = thread->tid;
    return true;
}

/*
 * A running thread stops within microseconds, one that waits for a processor
 * within milliseconds. So the one that has a processor is stopped again and
 * again, a moment apart, until it loses it. (Four threads on two processors:
 * 1.1 ms a stop instead of 3.2.)
 */
static enum attempt stay_with(struct search *search, const struct ranked *ranked,
                              struct fault *fault)
{
    struct injection *injection = search->injection;

    if (is_let_be(search, &ranked->thread))
        return ATTEMPT_UNSAFE;
    enum attempt result = try_with_unwinder(injection, ranked, fault);
    for (unsigned stops = 1; result == ATTEMPT_UNSAFE && stops < STAY; stops++) {
        if (!is_on_processor(injection) || bounds_hold(injection->report.rejected.proof) ||
            deadline_interrupted(injection->env.deadline) || is_out_of_time(search))
            break;
        pause_randomly(search);
        result = try_with_unwinder(injection, ranked, fault);
    }
    return result;
}

/* One that the kernel has put under bounds of its own is passed over without a stop. */
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
        injection->report.withheld++;
    search->bound_tid = ranked->thread.tid;
    search->bounds = bounds;
    return false;
}

static enum attempt try_ranked(struct search *search, struct ranked *ranked, struct fault *fault)
{
    const struct injection_report *report = &search->injection->report;
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
    search->injection->report.withheld = 0;
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
 * The threads there are. When all that may be used are in an uninterruptible
 * wait (a vfork, a fork or a fault of another that holds the memory map), one
 * comes out of it in time, or the deadline passes.
 */
static enum fault_code await_candidates(struct search *search, struct fault *fault)
{
    const struct injection_env *env = &search->injection->env;
    enum fault_code rc;

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

/* New threads have new stacks: the mappings are read again together with the threads. */
static enum fault_code reload(struct search *search, struct fault *fault)
{
    struct injection *injection = search->injection;
    struct modules fresh;
    enum fault_code rc = modules_load(&fresh, injection->env.target, fault);

    if (rc != FAULT_NONE)
        return rc;
    modules_free(injection->env.modules);
    *injection->env.modules = fresh;
    modules_tell_memory(&fresh, injection->env.memory);
    candidates_free(&search->candidates);
    search->loaded_at = injection->report.attempts + search->skipped;
    return await_candidates(search, fault);
}

/*
 * All are passed over, and no other may be used later. Where some have a filter
 * that others do not have, there are others, or were a moment ago.
 */
static bool is_hopeless(const struct search *search)
{
    const struct injection *injection = search->injection;

    return search->idle && !search->candidates.later &&
           (!injection->report.withheld || injection->env.only_thread);
}

static enum fault_code refuse_bounds(const struct search *search, enum fault_code code,
                                     struct fault *fault)
{
    if (search->bounds == PROOF_MAY_DISPATCH)
        code = FAULT_WITHHELD;
    return fault_set(fault, code, 0, "find a safe point",
                     "no thread of it can make the call: thread %d %s", (int)search->bound_tid,
                     proof_text(search->bounds));
}

/* Nothing was stopped: so nothing is lost by a longer wait. */
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
    unsigned looks = search->injection->report.attempts + search->skipped;

    return search->idle || looks - search->loaded_at >= RELOAD_EVERY;
}

static enum fault_code find_safe_point(struct search *search, struct fault *fault)
{
    struct injection *injection = search->injection;
    uint64_t patience = search->begun + PATIENCE_NS;
    enum fault_code rc;

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
            return injection->report.attempts || search->skipped
                       ? no_safe_point(injection, fault)
                       : refuse_bounds(search, FAULT_NO_SAFE_POINT, fault);
        pause_between_rounds(search);
        if (wants_reload(search) && (rc = reload(search, fault)) != FAULT_NONE)
            return rc;
    }
}

enum fault_code acquire_thread(struct injection *injection, struct fault *fault)
{
    uint64_t begun = clock_now(), longest = injection->env.search_ns;
    struct search search = {.injection = injection,
                            .begun = begun,
                            .longest = longest ? longest : UINT64_MAX,
                            .loaded_at = injection->report.attempts,
                            .seed = (unsigned)begun};
    struct fault own;
    enum fault_code rc;

    fault = fault ? fault : &own; /* the search reads the code back */
    prctl(PR_SET_TIMERSLACK, 1);  /* the pauses are shorter than the default slack of 50 us */
    rc = await_candidates(&search, fault);
    if (rc == FAULT_NONE)
        rc = find_safe_point(&search, fault);
    candidates_free(&search.candidates);
    unwinder_free(injection->unwinder);
    injection->unwinder = NULL;
    injection->report.search_ns = clock_now() - begun;
    return rc;
}

enum fault_code acquire_preview(const struct injection_env *env, struct preview *preview,
                                struct fault *fault)
{
    struct candidates candidates;
    enum fault_code rc = candidates_list(&candidates, env, fault);
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
    if (!thread_asleep(&preview->thread, env->target, &preview->asleep) || !preview->asleep.asleep)
        return FAULT_NONE;
    if (arch_bears_no_stop(preview->asleep.nr))
        preview->evidence.proof = PROOF_CLOSING;
    else
        preview->evidence = safepoint_look(env->plan, env->modules, env->memory, preview->asleep.sp,
                                           preview->asleep.pc);
    return FAULT_NONE;
}
