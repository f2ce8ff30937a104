#include "inject/call.h"
#include "host/task.h"
#include "inject/acquire.h"
#include "inject/faults.h"
#include "inject/perform.h"
#include "inject/resume.h"
#include "inject/run.h"
#include "inject/scratch.h"

#include <errno.h>
#include <string.h>

enum { ENDING_NS = 2000000000 }; /* least time for the ending, if the call used up the time limit */

/* ---- the start ---- */

static fault_code prepare_injection(struct injection *injection, const struct injection_env *env,
                                    struct fault *fault)
{
    memset(injection, 0, sizeof *injection);
    injection->env = *env;
    injection->until = *env->deadline;
    injection->sleeps = env->sleeps ? env->sleeps : injection->own_sleeps;
    injection->data_used = SCRATCH_ARGUMENTS;
    injection->data = calloc(1, SCRATCH_DATA);
    if (!injection->data)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "begin", "%d bytes", SCRATCH_DATA);
    injection->open = env->plan->musl ? 1ull << (MUSL_SYNCCALL - 1) : 0;
    return FAULT_NONE;
}

static fault_code stop_thread(struct injection *injection, const struct injection_env *env,
                              bool looks, struct fault *fault)
{
    fault_code rc = prepare_injection(injection, env, fault);

    injection->looks = looks;
    if (rc == FAULT_NONE)
        rc = acquire_thread(injection, fault);
    if (rc != FAULT_NONE)
        injection_end(injection, NULL);
    return rc;
}

fault_code injection_stop(struct injection *injection, const struct injection_env *env,
                          struct fault *fault)
{
    return stop_thread(injection, env, true, fault);
}

fault_code injection_begin(struct injection *injection, const struct injection_env *env,
                           struct fault *fault)
{
    fault_code rc = stop_thread(injection, env, false, fault);

    if (rc != FAULT_NONE)
        return rc;
    rc = scratch_map(injection, fault);
    if (rc != FAULT_NONE)
        injection_end(injection, NULL);
    return rc;
}

/* ---- the call ---- */

remote_addr injection_put(struct injection *injection, const void *bytes, size_t len)
{
    size_t at = injection->data_used, padded = (len + 7) & ~(size_t)7;

    if (padded < len || padded > SCRATCH_DATA - at)
        return 0;
    memcpy(injection->data + at, bytes, len);
    injection->data_used = at + padded;
    return injection->scratch + SCRATCH_CODE + at;
}

bool injection_get(struct injection *injection, remote_addr addr, void *out, size_t len)
{
    uint64_t at = addr - injection->scratch - SCRATCH_CODE;

    if (at > SCRATCH_DATA || len > SCRATCH_DATA - at)
        return false;
    memcpy(out, injection->data + at, len);
    return true;
}

fault_code injection_call(struct injection *injection, struct arch_call *calls, size_t count,
                          const struct intercept *intercept, struct fault *fault)
{
    if (count > INJECTION_CALLS_MAX)
        return fault_set(fault, FAULT_INTERNAL, E2BIG, "call", "%zu calls at once", count);
    return perform_calls(injection, calls, count, intercept, fault);
}

/* ---- the end ---- */

/* Sets the registers last: until then the frame can still do everything. */
static fault_code restore_thread(struct injection *injection, struct fault *fault)
{
    struct session *session = &injection->session;
    arch_regs regs;

    resume_by_tool(injection, &regs);
    if (!arch_set_fp(session, &injection->fp) || !session_set_sigmask(session, injection->mask) ||
        !arch_set_regs(session, &regs))
        return run_broken(injection, "restore registers", fault);
    return FAULT_NONE;
}

/*
 * The thread is as it was, and so becomes the memory below its red zone. That is mostly dead,
 * but a later function may leave part of it unwritten, and a look at its stack would take the
 * frames for those of a running handler. If the thread is a coroutine whose stack is an array on
 * the stack of the thread, the bytes below the array are in use.
 */
static void remove_frames(struct injection *injection)
{
    const struct arch_frames *frames = &injection->frames;

    (void)memory_write(injection->env.memory, frames->addr, injection->beneath, frames->len);
}

static bool is_held(const struct injection *injection)
{
    return injection->session.state == SESSION_SYSCALL || injection->session.state == SESSION_EVENT;
}

static fault_code undo_injection(struct injection *injection, struct fault *fault)
{
    fault_code rc = FAULT_NONE;
    bool back = true;

    perform_restore_errno(injection);
    if (injection->scratch)
        rc = scratch_unmap(injection, fault);
    if (rc == FAULT_NONE)
        rc = perform_last(injection, &back, fault);
    if (!back)
        injection->summary.outcome = INJECTION_LEFT;
    if (rc == FAULT_NONE && back)
        rc = restore_thread(injection, fault);
    if (rc == FAULT_NONE && back)
        remove_frames(injection);
    return rc;
}

fault_code injection_end(struct injection *injection, struct fault *fault)
{
    fault_code rc = FAULT_NONE;

    injection->until.at = clock_now() + ENDING_NS;
    if (injection->until.at < injection->env.deadline->at)
        injection->until.at = injection->env.deadline->at;
    if (is_held(injection) && injection->stage == STAGE_UNTOUCHED) {
        resume_untouched(injection);
    } else if (is_held(injection) && injection->stage != STAGE_IN_CALL) {
        rc = undo_injection(injection, fault);
    }
    session_detach(&injection->session);
    if (injection->summary.tid && !injection->summary.held_ns)
        injection->summary.held_ns = clock_now() - injection->stopped_at;
    priority_restore(&injection->priority);
    injection->env.memory->stopped_tid = 0;
    free(injection->data);
    injection->data = NULL;
    return rc;
}
