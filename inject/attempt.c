#include "inject/attempt.h"
#include "attach/permit.h"
#include "inject/faults.h"
#include "inject/resume.h"
#include "inject/stoppers.h"
#include "inject/unwind.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    STOP_WAIT_NS = 5000000000,
    DENIAL_NS = 1000000000, /* how long a refusal without a visible cause is tolerated */
    UNWIND_EVERY = 16,      /* of this many stops of running threads, one is unwound */
    SAME_PROGRAM_EVERY = 64,
    INTERRUPT_NS = 50000, /* a thread that takes longer to stop has waited for a CPU before */
};

/*
 * Waits for the stop of the interrupt; passes signals on. Any other stop, as one by job control,
 * is a fault. Ctrl-C does not end this wait: the thread has been woken already, and only after
 * the stop can its system call be repeated.
 */
static fault_code wait_for_stop(struct session *session, const struct deadline *deadline,
                                struct fault *fault)
{
    struct deadline soon = *deadline;
    fault_code rc;

    if (soon.at > clock_now() + STOP_WAIT_NS)
        soon.at = clock_now() + STOP_WAIT_NS;
    for (;;) {
        rc = session_wait(session, &soon, fault);
        if (rc == FAULT_CALL_DEADLINE)
            return fault_set(fault, FAULT_NO_STOP, ETIMEDOUT, "stop", "thread %d", session->tid);
        if (rc != FAULT_NONE)
            return rc;
        switch (session->state) {
        case SESSION_EVENT:
            return FAULT_NONE;
        case SESSION_GROUP:
            return fault_set(fault, FAULT_STOPPED, 0, "stop", "thread %d", session->tid);
        case SESSION_EXECED:
            return fault_set(fault, FAULT_EXECED, 0, "stop", "thread %d", session->tid);
        case SESSION_SIGNAL:
            break;
        default:
            return fault_set(fault, FAULT_GONE, ESRCH, "stop", "thread %d", session->tid);
        }
        /*
         * Any stop uses up the interrupt (kernel/signal.c, ptrace_stop), so it is requested again.
         */
        rc = session_continue(session, fault);
        if (rc == FAULT_NONE)
            rc = session_interrupt(session, fault);
        if (rc != FAULT_NONE)
            return rc;
    }
}

/*
 * An exec between the inspection of the target and the attach causes no event,
 * and the new program may even have its stack at the same place. The borrowed
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
 * The first thread may sleep deeper in its stack than ever before, with less
 * memory below than the frames need. The kernel would extend the stack for a
 * signal frame; it also does so when that place is read.
 */
static bool grow_stack(const struct injection *injection)
{
    const struct injection_env *env = &injection->env;
    remote_addr sp = arch_sp(&injection->original), low = sp - arch_frames_size();
    const struct vma *vma = modules_vma_at(env->modules, sp);

    if (injection->session.tid != env->target->pid || !vma || !vma->stack || low >= sp ||
        vma->end - low > target_stack_limit(env->target) || !memory_grow_stack(env->memory, low))
        return false;
    modules_stack_grew(env->modules, low);
    modules_tell_memory(env->modules, env->memory);
    return true;
}

static struct evidence prove_once(const struct injection *injection)
{
    const struct injection_env *env = &injection->env;
    bool asleep = arch_syscall_nr(&injection->original) >= 0;
    /*
     * A running thread whose scan is not clean is most often really in the allocator: unwinding
     * it each time would only cost stops. A sleeping thread is worth the walk, and now and then
     * a running one whose scan is never clean.
     */
    bool worth_walking = asleep || injection->summary.attempts % UNWIND_EVERY == 0;

    return safepoint_prove(env->plan, env->modules, env->memory, injection->unwinder, worth_walking,
                           &injection->original, injection->session.tid == env->target->pid,
                           arch_frames_size());
}

/* Checks everything else that forbids a call in a thread at a safe point. */
static enum proof judge_surroundings(struct injection *injection)
{
    const struct injection_env *env = &injection->env;
    uint64_t mask;

    /*
     * It may have stopped the others for the C library, or be stopped for it: a call might wait
     * for a lock whose owner is stopped, while that waits for this thread.
     */
    if (injection->open &&
        (!session_get_sigmask(&injection->session, &mask) || mask & injection->open))
        return PROOF_SYNCCALL;
    if (!rseq_look(&env->plan->rseq, &injection->session, env->memory, &injection->original,
                   &injection->rseq_abort))
        return PROOF_RSEQ;
    return injection->looks ? PROOF_SAFE : bounds_of_stopped(injection);
}

static enum attempt judge_thread(struct injection *injection, struct fault *fault)
{
    struct evidence evidence;

    errno = 0;
    if (!arch_get_regs(&injection->session, &injection->original) ||
        !arch_is_native(&injection->original)) {
        fault_set(fault, errno == ESRCH ? FAULT_GONE : FAULT_FOREIGN_ABI, errno, "read registers",
                  "thread %d", injection->session.tid);
        return ATTEMPT_FAULT;
    }
    resume_note_sleep(injection);
    injection->summary.syscall_nr = arch_syscall_nr(&injection->original);
    evidence = prove_once(injection); /* outside all code that may hold a lock, on its own stack */
    if (evidence.proof == PROOF_NO_SPACE && grow_stack(injection))
        evidence = prove_once(injection);
    if (evidence.proof == PROOF_MAYBE_ENDING && injection->seasoned && !injection->unwinder)
        evidence.proof = PROOF_SAFE;
    /*
     * Most stops of a busy thread are in code where it cannot be used, whatever the program.
     * Those stops are not prolonged by this check, except now and then, since a new program may
     * have code at the same place.
     */
    if ((evidence.proof != PROOF_PC || injection->summary.attempts % SAME_PROGRAM_EVERY == 0) &&
        !is_same_program(&injection->env)) {
        fault_set(fault, FAULT_EXECED, 0, "stop", "thread %d", injection->session.tid);
        return ATTEMPT_FAULT;
    }
    if (evidence.proof == PROOF_SAFE)
        evidence.proof = judge_surroundings(injection);
    if (evidence.proof != PROOF_SAFE) {
        injection->summary.rejected = evidence;
        injection->summary.rejected_tid = injection->session.tid;
        injection->judged = true;
        return ATTEMPT_UNSAFE;
    }
    injection->summary.safe = evidence;
    injection->summary.pc = arch_pc(&injection->original);
    if (resume_save(injection))
        return ATTEMPT_SAFE;
    /* ESRCH for a stopped thread: it has just been killed (ptrace(2)). */
    fault_set(fault, errno == ESRCH ? FAULT_GONE : FAULT_INTERNAL, errno, "save registers",
              "thread %d", injection->session.tid);
    return ATTEMPT_FAULT;
}

/*
 * A thread may end at any moment (the kernel returns ESRCH, or EPERM while it
 * is ending); only the end of the process ends the search. EPERM may also have
 * been caused by another tracer that has detached since: then no cause is
 * visible.
 */
static enum attempt lost_thread(struct injection *injection, const struct thread *thread,
                                fault_code code, struct fault *fault)
{
    const struct injection_env *env = &injection->env;
    struct thread now = *thread;

    if (code != FAULT_DENIED && (code != FAULT_GONE || env->only_thread))
        return ATTEMPT_FAULT;
    if (thread_refresh(&now, env->target)) {
        if (code != FAULT_DENIED || permit_explain(env->target, thread->tid, fault) != code)
            return ATTEMPT_FAULT;
        /* A process that has been killed refuses an attach before /proc shows that it is ending. */
        uint64_t at = clock_now();
        if (!injection->denied_since)
            injection->denied_since = at;
        return at - injection->denied_since < DENIAL_NS ? ATTEMPT_UNSAFE : ATTEMPT_FAULT;
    }
    if (env->only_thread)
        return ATTEMPT_FAULT;
    return target_check(env->target, fault) == FAULT_NONE ? ATTEMPT_UNSAFE : ATTEMPT_FAULT;
}

fault_code attempt_none(const struct injection *injection, struct fault *fault)
{
    const struct injection_summary *report = &injection->summary;
    bool unjudged = injection->unwinder_tried && !injection->unwinder;
    char withheld[80] = "", in_code[48] = "";

    if (report->in_code)
        snprintf(in_code, sizeof in_code, ", %u of them in code to be avoided", report->in_code);
    if (report->withheld)
        snprintf(withheld, sizeof withheld, "; not tried: %zu with a seccomp filter of their own",
                 report->withheld);
    return fault_set(fault, unjudged ? FAULT_NO_UNWINDER : FAULT_NO_SAFE_POINT, 0,
                     "find a safe point", "%u stops%s; the last, thread %d, %s%s%s%s",
                     report->attempts, in_code, (int)report->rejected_tid,
                     proof_text(report->rejected.proof), report->rejected.what ? " " : "",
                     report->rejected.what ? report->rejected.what : "", withheld);
}

/* Does not stop a thread, for that reason. */
static enum attempt leave_unstopped(struct injection *injection, pid_t tid,
                                    struct evidence evidence)
{
    priority_restore(&injection->priority);
    injection->summary.rejected = evidence;
    injection->summary.rejected_tid = tid;
    injection->stop_ns = UINT64_MAX;
    return ATTEMPT_UNSAFE;
}

static fault_code stop_in_time(struct injection *injection, pid_t tid, struct fault *fault)
{
    const struct injection_env *env = &injection->env;
    struct session *session = &injection->session;
    fault_code rc = session_seize(session, env->target, tid, env->gate, fault);

    if (rc == FAULT_NONE)
        rc = session_interrupt(session, fault);
    if (rc == FAULT_NONE)
        rc = wait_for_stop(session, env->deadline, fault);
    /*
     * The time may run out while the tool waits for a thread. After stops of other kinds this
     * does not mean that the thread would not have stopped: the reason that those stops gave is
     * the cause.
     */
    if (rc == FAULT_NO_STOP && injection->summary.rejected_tid &&
        clock_now() - session->stopped_at < STOP_WAIT_NS)
        rc = attempt_none(injection, fault);
    injection->stop_ns = rc == FAULT_NONE ? clock_now() - session->stopped_at : UINT64_MAX;
    return rc;
}

static enum attempt try_thread(struct injection *injection, const struct thread *thread,
                               struct fault *fault)
{
    const struct injection_env *env = &injection->env;
    struct evidence asleep = {.proof = PROOF_SYSCALL};
    struct proc_syscall now;
    uint64_t cpu_ns, waited, ns;
    enum attempt result;
    fault_code rc;

    injection->judged = false;
    if (!injection->looks &&
        stoppers_refuse(env, &injection->stops->watched_at, fault) != FAULT_NONE)
        return ATTEMPT_FAULT;
    if (!priority_raise(&injection->priority, thread->tid)) /* those like it get the CPU first */
        return leave_unstopped(injection, thread->tid, (struct evidence){.proof = PROOF_REALTIME});
    /* It may have begun another call since the last look; microseconds remain in which it can. */
    if (!candidates_bear_stop(thread, env->target, &now, &asleep.what))
        return leave_unstopped(injection, thread->tid, asleep);
    injection->summary.attempts++;
    cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    rc = stop_in_time(injection, thread->tid, fault);
    env->memory->stopped_tid = thread->tid;
    result = rc == FAULT_NONE ? judge_thread(injection, fault)
                              : lost_thread(injection, thread, rc, fault);
    if (result != ATTEMPT_SAFE) {
        resume_untouched(injection);
        priority_restore(&injection->priority);
        /* The time in which it could not run, without what it had to wait for a CPU before. */
        waited = injection->stop_ns;
        ns = clock_now() - injection->session.stopped_at;
        if (waited > INTERRUPT_NS)
            ns = waited < ns ? ns - waited + INTERRUPT_NS : 0;
        stops_charge(injection->stops, stops_of(injection->stops, injection->session.tid), ns,
                     clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns + INTERRUPT_NS);
        env->memory->stopped_tid = 0;
        return result;
    }
    injection->stopped_at = injection->session.stopped_at;
    injection->summary.tid = thread->tid;
    memcpy(injection->summary.comm, thread->comm, sizeof injection->summary.comm);
    return ATTEMPT_SAFE;
}

static void load_unwinder(struct injection *injection)
{
    if (!injection->unwinder_tried)
        injection->unwinder =
            unwinder_new(injection->env.memory, injection->env.modules, injection->env.deadline);
    injection->unwinder_tried = true;
}

enum attempt attempt_thread(struct injection *injection, const struct ranked *ranked,
                            struct fault *fault)
{
    struct injection_summary *report = &injection->summary;
    struct evidence *evidence = &report->rejected;
    const struct thread *thread = &ranked->thread;
    bool had = injection->unwinder_tried;
    enum attempt result;

    injection->seasoned = ranked->seasoned;
    /* Of a thread other than the first, the walk is wanted each time. */
    if (thread->tid != injection->env.target->pid)
        load_unwinder(injection);
    result = try_thread(injection, thread, fault);
    /* A thread that only the unwinder can judge is tried again at once, with the unwinder. */
    if (result == ATTEMPT_UNSAFE && !had && !injection->unwinder &&
        safepoint_wants_unwinder(evidence->proof)) {
        load_unwinder(injection);
        if (injection->unwinder)
            result = try_thread(injection, thread, fault);
    }
    if (result != ATTEMPT_UNSAFE || !injection->judged)
        return result;
    if (safepoint_wants_unwinder(evidence->proof) && !injection->unwinder)
        evidence->unfollowed = true;
    report->in_code += evidence->proof == PROOF_PC;
    stops_note(stops_of(injection->stops, injection->session.tid), evidence,
               arch_pc(&injection->original), arch_sp(&injection->original));
    return result;
}
