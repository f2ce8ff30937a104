#include "jemalloc/activate.h"
#include "attach/permit.h"
#include "jemalloc/faults.h"
#include "jemalloc/stripped/stripped.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum {
    STATIC_TLS_MAX = 1 << 20,  /* bytes of its block, which starts at the thread pointer */
    FIRST_SLICE_NS = 50000000, /* for one thread, before the next one; doubles each round */
    ROUNDS_WITHOUT_STOP = 3,   /* rounds in which a thread that does not stop is tried */
    FIRST_WAIT_NS = 1000000,   /* between rounds in which no thread needed its slice; doubles */
    WAIT_DOUBLINGS = 10,
    ROUNDS_MAX = 64,
};

/* From 5.1.0-89 (0f831365) to 5.2.1-20, before 9e031c1d. */
bool activation_needed(const char *version)
{
    const struct version parsed = version_parse(version);

    return version_since(parsed, VERSION_NUMBER(5, 1, 0), 89) &&
           !version_since(parsed, VERSION_NUMBER(5, 2, 1), 21);
}

bool activation_possible(const char *version)
{
    return activation_needed(version) || version_parse(version).number == 0;
}

/* The defect leaves it counting down from SSIZE_MAX: no thread allocates half of that. */
bool activation_is_asleep(int64_t bytes_until_sample)
{
    return bytes_until_sample > INT64_MAX / 2;
}

uint64_t activation_draw(uint64_t lg_sample, uint64_t random)
{
    if (lg_sample == 0)
        return 0;
    double unit = ((double)(random >> 11) + 1.0) / 9007199254740993.0; /* in (0, 1] */
    double bytes = log(unit) / log1p(-ldexp(1.0, -(int)(lg_sample < 63 ? lg_sample : 63)));

    return bytes < (double)(INT64_MAX / 2) ? (uint64_t)bytes + 1 : (uint64_t)INT64_MAX / 2;
}

/* ---- the byte of prof.active ---- */

static bool contradicts(const struct fact_variables *variables, enum fact_variable which,
                        remote_addr proven)
{
    return variables->at[which].address && variables->at[which].address != proven;
}

const char *prof_byte_find(struct prof_byte *byte, bool active, const struct instance *instance,
                           const struct modules *modules, const struct target *target,
                           struct memory *memory, struct prof_state *state)
{
    const struct fact_variables *variables = &byte->variables;
    const struct build *build = &state->build;
    struct globals globals;

    byte->at = byte->thread_init = 0;
    byte->visits = false;
    facts_locate(&byte->variables, instance, modules, target, memory);
    byte->located = true;
    facts_read(variables, memory, state);

    /* Both addresses must be proven by the code of this instance. */
    if (!stripped_globals(instance, target, memory, &globals))
        return "the tables of its mallctl were not found";
    if (!globals.prof_active || !globals.opt_prof)
        return "its code does not show which byte prof.active is";
    if (contradicts(variables, VARIABLE_PROF_ACTIVE, globals.prof_active) ||
        contradicts(variables, VARIABLE_OPT_PROF, globals.opt_prof))
        return "its code and its symbols name different bytes";
    byte->at = globals.prof_active;
    if (!contradicts(variables, VARIABLE_THREAD_INIT, globals.thread_init))
        byte->thread_init = globals.thread_init;

    if (build->opt_prof == FACT_UNKNOWN)
        return "opt.prof is unknown";
    if (build->opt_prof == FACT_NO && build->config_prof == FACT_UNKNOWN)
        return "opt.prof is false, and whether profiling is compiled in is unknown";
    if (build->opt_prof == FACT_NO)
        return NULL;
    /* Later versions may do more in prof_active_set. */
    if (!version_within(build->version, VERSION_NUMBER(4, 0, 0), VERSION_NUMBER(5, 99, 99)))
        return "its version is not known";
    if (state->prof_active == FACT_UNKNOWN)
        return "the byte of prof.active is neither 0 nor 1";
    byte->visits = active && activation_needed(build->text);
    return byte->visits ? "in this version, threads that allocated while prof.active was false do "
                          "not sample until they are visited"
                        : NULL;
}

fault_code prof_byte_write(const struct prof_byte *byte, bool active, struct memory *memory,
                           struct fault *fault)
{
    const unsigned char value = active;
    unsigned char now;

    if (!memory_is_same(memory, byte->at))
        return fault_set(fault, FAULT_EXECED, 0, "write prof.active", "%d", (int)memory->pid);
    if (!memory_write_running(memory, byte->at, &value, sizeof value))
        return fault_set(fault, FAULT_UNWRITABLE, errno, "write prof.active", "the kernel refused");
    if (!memory_read(memory, byte->at, &now, sizeof now))
        return fault_set(fault, FAULT_UNWRITABLE, errno, "write prof.active",
                         "it cannot be read back");
    if (now != value)
        return fault_set(fault, FAULT_UNWRITABLE, 0, "write prof.active",
                         "another value was read back, as if the process had written it too");
    return FAULT_NONE;
}

/* ---- which threads ---- */

/* True if nothing but a call makes an unseen thread sample. */
static bool needs_call(const struct activation_options *options)
{
    return !options->layout.known || options->switches_on;
}

static bool needs_visit(const struct activation_options *options, enum thread_sampling sampling)
{
    if (sampling == THREAD_UNKNOWN && options->no_calls && needs_call(options))
        return false;
    return sampling == THREAD_ASLEEP || (sampling == THREAD_OFF && options->switches_on) ||
           (sampling == THREAD_UNKNOWN && (options->may_sleep || options->switches_on));
}

bool activation_wanted(const struct activation_options *options)
{
    for (int i = 0; i <= THREAD_OFF; i++)
        if (options->seen->by_sampling[i] && needs_visit(options, (enum thread_sampling)i))
            return true;
    return false;
}

/* ---- one stopped thread ---- */

enum outcome { OUTCOME_SAMPLING, OUTCOME_WOKEN, OUTCOME_UNSURE };

/* A thread that may have to be visited. */
struct pending {
    struct tsd_thread thread;
    struct fault fault; /* why it has not been visited yet */
    bool wanted, done;
    bool asks;              /* a call is needed */
    bool woken, on, unsure; /* what the visit did */
    bool gone;              /* it has ended */
};

struct activation_visit {
    const struct instance *instance;
    const struct activation_options *options;
    struct activation *activation;
};

/*
 * Finds the address of the count: the word after the counter of deallocated
 * bytes, which follows that of allocated bytes. 0: unknown.
 */
static fault_code find_count(struct injection *injection, const struct instance *instance,
                             remote_addr *at, struct fault *fault)
{
    struct ctl_op ops[] = {
        {.name = "thread.allocatedp", .type = CTL_SIZE},
        {.name = "thread.deallocatedp", .type = CTL_SIZE},
    };
    fault_code rc = ctl_run(injection, instance, ops, ARRAY_LEN(ops), NULL, fault);
    bool known = rc == FAULT_NONE && ops[0].rc == 0 && ops[1].rc == 0 && ops[0].value % 8 == 0 &&
                 ops[1].value == ops[0].value + 8;

    *at = known ? ops[1].value + 8 : 0;
    return rc;
}

fault_code activation_learn(struct injection *injection, const struct instance *instance,
                            struct activation_layout *layout, struct fault *fault)
{
    remote_addr at;
    fault_code rc = find_count(injection, instance, &at, fault);

    layout->offset = (int64_t)(at - arch_tls(&injection->original));
    layout->counters = layout->offset - 2 * (int64_t)sizeof(uint64_t);
    /* Otherwise it is not in static TLS, or this thread has none. */
    layout->known = rc == FAULT_NONE && at && layout->offset > -STATIC_TLS_MAX &&
                    layout->offset < STATIC_TLS_MAX;
    return rc;
}

/* One aligned word in one write: no other state is visible. */
static fault_code wake_thread(struct injection *injection, remote_addr at, uint64_t lg_sample,
                              enum outcome *outcome, struct fault *fault)
{
    struct memory *memory = injection->env.memory;
    uint64_t random, count;
    int64_t now;

    if (!memory_read(memory, at, &now, sizeof now))
        return fault_set(fault, FAULT_INTERNAL, errno, "activate", "read the count");
    if (!activation_is_asleep(now)) {
        *outcome = OUTCOME_SAMPLING;
        return FAULT_NONE;
    }
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        random = clock_now() * 0x9e3779b97f4a7c15u;
    count = activation_draw(lg_sample, random);
    if (!memory_write(memory, at, &count, sizeof count) ||
        !memory_read(memory, at, &now, sizeof now) || activation_is_asleep(now))
        return fault_set(fault, FAULT_INTERNAL, errno, "activate", "write the count");
    *outcome = OUTCOME_WOKEN;
    return FAULT_NONE;
}

/* One byte of the thread's own data, which nobody else writes. */
static fault_code switch_thread_on(struct injection *injection, remote_addr at, struct fault *fault)
{
    struct memory *memory = injection->env.memory;
    unsigned char now;

    if (!memory_read(memory, at, &now, sizeof now) || now > 1)
        return fault_set(fault, FAULT_INTERNAL, errno, "activate", "read thread.prof.active");
    if (!memory_write(memory, at, &(unsigned char){1}, 1) ||
        !memory_read(memory, at, &now, sizeof now) || now != 1)
        return fault_set(fault, FAULT_INTERNAL, errno, "activate", "write thread.prof.active");
    return FAULT_NONE;
}

static enum thread_sampling see_again(const struct injection *injection,
                                      const struct activation_visit *visit, struct pending *pending)
{
    const struct activation_options *options = visit->options;

    return tsd_thread_reread(&pending->thread, arch_tls(&injection->original), options->seen,
                             options->source);
}

/* A thread may be off and asleep: each look sees one of the two. */
static fault_code activate_in_memory(struct injection *injection,
                                     const struct activation_visit *visit, struct pending *pending,
                                     struct fault *fault)
{
    const struct activation_options *options = visit->options;
    struct tsd_thread *thread = &pending->thread;
    enum outcome outcome = OUTCOME_SAMPLING;
    fault_code rc = FAULT_NONE;

    for (int i = 0; i < 2 && rc == FAULT_NONE; i++) {
        if (thread->sampling == THREAD_ASLEEP && thread->wait) {
            rc = wake_thread(injection, thread->wait, options->lg_sample, &outcome, fault);
            pending->woken |= rc == FAULT_NONE && outcome == OUTCOME_WOKEN;
        } else if (thread->sampling == THREAD_OFF && thread->active && options->switches_on) {
            rc = switch_thread_on(injection, thread->active, fault);
            pending->on |= rc == FAULT_NONE;
        } else {
            break;
        }
        see_again(injection, visit, pending);
    }
    return rc;
}

/*
 * Without knowledge from memory. Where the count is unknown, by calls only: that works if the
 * thread has no profiling data, or if its data have expired.
 */
static fault_code wake_unseen(struct injection *injection, const struct activation_visit *visit,
                              struct pending *pending, struct fault *fault)
{
    const struct activation_layout *layout = &visit->options->layout;
    struct activation *activation = visit->activation;
    struct ctl_op reset = {
        .name = "prof.reset", .type = CTL_STRING, .writes = true, .write_only = true};
    struct ctl_op read = {.name = "thread.prof.active", .type = CTL_BOOL};
    remote_addr at = arch_tls(&injection->original) + (uint64_t)layout->offset;
    enum outcome outcome = OUTCOME_UNSURE;
    fault_code rc = FAULT_NONE;

    if (!layout->known)
        rc = find_count(injection, visit->instance, &at, fault);
    if (rc == FAULT_NONE && at) {
        rc = wake_thread(injection, at, visit->options->lg_sample, &outcome, fault);
    } else if (rc == FAULT_NONE) {
        rc = hooks_check(injection, visit->instance, HOOKS_AUTOMATIC, visit->options->consent, NULL,
                         fault);
        if (rc == FAULT_NONE && visit->options->may_reset && !activation->did_reset) {
            rc = ctl_run(injection, visit->instance, &reset, 1, NULL, fault);
            activation->did_reset = rc == FAULT_NONE && reset.rc == 0;
        }
        if (rc == FAULT_NONE)
            rc = ctl_run(injection, visit->instance, &read, 1, NULL, fault);
        outcome = activation->did_reset && read.rc == 0 ? OUTCOME_WOKEN : OUTCOME_UNSURE;
    }
    pending->unsure = outcome == OUTCOME_UNSURE;
    pending->woken = outcome == OUTCOME_WOKEN;
    return rc;
}

/* thread.prof.active, by a call in the thread itself. */
static fault_code switch_on_by_call(struct injection *injection,
                                    const struct activation_visit *visit, struct pending *pending,
                                    struct fault *fault)
{
    struct ctl_op read = {.name = "thread.prof.active", .type = CTL_BOOL};
    struct ctl_op write = {
        .name = "thread.prof.active", .type = CTL_BOOL, .writes = true, .new_value = 1};
    fault_code rc = hooks_check(injection, visit->instance, HOOKS_AUTOMATIC,
                                visit->options->consent, NULL, fault);

    if (rc == FAULT_NONE)
        rc = ctl_run(injection, visit->instance, &read, 1, NULL, fault);
    if (rc != FAULT_NONE || ctl_is_true(&read))
        return rc;
    rc = ctl_run(injection, visit->instance, &write, 1, NULL, fault);
    if (rc == FAULT_NONE)
        rc = ctl_run(injection, visit->instance, &read, 1, NULL, fault);
    pending->on = rc == FAULT_NONE && ctl_is_true(&read);
    if (rc == FAULT_NONE && !pending->on)
        pending->thread.sampling = THREAD_OFF; /* EAGAIN: it is ending */
    return rc;
}

/* Where memory shows nothing after all, the thread is visited again for a call. */
static fault_code activate_stopped(struct injection *injection,
                                   const struct activation_visit *visit, struct pending *pending,
                                   struct fault *fault)
{
    const struct activation_options *options = visit->options;
    fault_code rc = FAULT_NONE;

    pending->done = true;
    if (see_again(injection, visit, pending) != THREAD_UNKNOWN)
        return activate_in_memory(injection, visit, pending, fault);
    if (needs_call(options) && !pending->asks) {
        pending->asks = !options->no_calls;
        pending->done = !pending->asks;
        return FAULT_NONE;
    }
    if (options->may_sleep)
        rc = wake_unseen(injection, visit, pending, fault);
    if (rc == FAULT_NONE && options->switches_on && pending->asks)
        rc = switch_on_by_call(injection, visit, pending, fault);
    if (rc == FAULT_NONE && !pending->unsure && pending->thread.sampling != THREAD_OFF)
        pending->thread.sampling = THREAD_SAMPLES;
    return rc;
}

static fault_code stop_and_activate(const struct injection_env *env,
                                    const struct activation_visit *visit, struct pending *pending,
                                    struct fault *fault)
{
    struct activation *activation = visit->activation;
    struct injection injection;
    fault_code rc, ended;

    if (!pending->asks)
        rc = injection_stop(&injection, env, fault);
    else if ((rc = hooks_judge_interposed(env, visit->options->consent, fault)) == FAULT_NONE)
        rc = injection_begin(&injection, env, fault);
    if (rc != FAULT_NONE)
        return rc;
    rc = activate_stopped(&injection, visit, pending, fault);
    ended = injection_end(&injection, rc == FAULT_NONE ? fault : NULL);
    rc = rc == FAULT_NONE ? ended : rc;
    if (rc != FAULT_NONE)
        return rc;
    activation->visited++;
    activation->calls += injection.summary.calls;
    if (injection.summary.held_ns > activation->longest_ns)
        activation->longest_ns = injection.summary.held_ns;
    return FAULT_NONE;
}

/* ---- all threads ---- */

static bool is_background_thread(const struct injection_env *env, const struct thread *thread)
{
    for (size_t i = 0; i < env->plan->avoid_count; i++)
        if (strcmp(thread->comm, env->plan->avoid[i]) == 0)
            return true;
    return false;
}

static struct pending *list_seen(const struct injection_env *env, const struct tsd_threads *seen,
                                 const struct activation_options *options,
                                 struct activation *activation)
{
    struct pending *list = calloc(seen->count ? seen->count : 1, sizeof *list);

    for (size_t i = 0; i < seen->count && list; i++) {
        const struct tsd_thread *thread = &seen->list[i];
        if (thread->background || is_background_thread(env, &thread->thread) ||
            (env->only_thread && env->only_thread != thread->thread.tid))
            continue;
        list[activation->threads++] =
            (struct pending){.thread = *thread,
                             .wanted = needs_visit(options, thread->sampling),
                             .asks = thread->sampling == THREAD_UNKNOWN && needs_call(options)};
    }
    return list;
}

static bool is_worth_retrying(const struct pending *pending, unsigned round)
{
    return pending->wanted && !pending->done &&
           (round < ROUNDS_WITHOUT_STOP || pending->fault.code == FAULT_NONE ||
            pending->fault.code == FAULT_NO_SAFE_POINT || pending->fault.code == FAULT_NO_UNWINDER);
}

static fault_code visit_one(const struct injection_env *env, const struct activation_visit *visit,
                            struct pending *pending, uint64_t slice, struct fault *fault)
{
    struct injection_env own = *env;
    fault_code rc;

    own.only_thread = pending->thread.thread.tid;
    own.search_ns = slice;
    own.brief = true;
    memset(&pending->fault, 0, sizeof pending->fault);
    rc = stop_and_activate(&own, visit, pending, &pending->fault);
    pending->done &= rc == FAULT_NONE;
    if (rc == FAULT_GONE && (rc = target_check(env->target, fault)) != FAULT_NONE)
        return rc;
    if (pending->fault.code == FAULT_GONE && !thread_refresh(&pending->thread.thread, env->target))
        pending->done = pending->gone = true;
    if (rc == FAULT_NONE)
        return FAULT_NONE;
    /*
     * A thread that was asked to stop and has not stopped yet stays attached until the tool
     * ends: once it stops, it stays stopped that long. So the tool must end soon.
     */
    if (fault_is_of_thread(pending->fault.code) &&
        !(pending->fault.code == FAULT_NO_STOP && pending->fault.err == ETIMEDOUT))
        return FAULT_NONE;
    *fault = pending->fault;
    return rc;
}

/* All that are left have slept since their last stop: none of them needed its slice. */
static void await_change(const struct injection_env *env, unsigned round)
{
    uint64_t now = clock_now(),
             until = now +
                     ((uint64_t)FIRST_WAIT_NS << (round < WAIT_DOUBLINGS ? round : WAIT_DOUBLINGS));

    for (; now < until; now = clock_now()) {
        const struct timespec rest = {(time_t)((until - now) / 1000000000),
                                      (long)((until - now) % 1000000000)};
        if (deadline_is_over(env->deadline))
            break;
        nanosleep(&rest, NULL); /* ends early at each tick of the deadline */
    }
}

/* Tries each in turn, longer in each round: a thread that is never at a safe point must not use up
 * the time of the others. */
static fault_code visit_all(const struct injection_env *env, const struct activation_visit *visit,
                            struct pending *list, size_t count, struct fault *fault)
{
    uint64_t slice = FIRST_SLICE_NS;

    for (unsigned round = 0; round < ROUNDS_MAX; round++, slice *= slice < UINT64_MAX / 4 ? 2 : 1) {
        uint64_t begun = clock_now();
        bool left = false;
        for (size_t i = 0; i < count; i++) {
            fault_code rc;
            if (!is_worth_retrying(&list[i], round))
                continue;
            if (deadline_passed(env->deadline))
                return FAULT_NONE;
            if (deadline_interrupted(env->deadline))
                return fault_set(fault, FAULT_INTERRUPTED, EINTR, "activate", "thread %d",
                                 (int)list[i].thread.thread.tid);
            rc = visit_one(env, visit, &list[i], slice, fault);
            if (rc != FAULT_NONE)
                return rc;
            left |= !list[i].done;
        }
        if (!left)
            break;
        if (clock_now() - begun < slice)
            await_change(env, round);
    }
    return FAULT_NONE;
}

static void sum_up(struct activation *activation, const struct injection_env *env,
                   const struct pending *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct pending *pending = &list[i];
        if (pending->wanted && !pending->done) {
            if (activation->missed < ACTIVATION_NAMED) {
                struct activation_missed *missed = &activation->first_missed[activation->missed];
                missed->tid = pending->thread.thread.tid;
                memcpy(missed->comm, pending->thread.thread.comm, sizeof missed->comm);
                missed->fault = pending->fault;
                if (missed->fault.code == FAULT_DENIED)
                    permit_explain(env->target, missed->tid, &missed->fault);
            }
            activation->missed++;
        }
        if (pending->gone) {
            activation->threads--;
            continue;
        }
        activation->counts[pending->thread.sampling]++;
        activation->woken += pending->woken;
        activation->switched_on += pending->on;
        activation->unsure += pending->unsure;
    }
}

fault_code activation_run(const struct injection_env *env, const struct instance *instance,
                          const struct activation_options *options, struct activation *activation,
                          struct fault *fault)
{
    const struct activation_visit visit = {instance, options, activation};
    fault_code rc;

    memset(activation, 0, sizeof *activation);
    AUTO_FREE struct pending *list = list_seen(env, options->seen, options, activation);
    if (!list)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "activate", "list of threads");
    size_t count = activation->threads;
    rc = visit_all(env, &visit, list, count, fault);
    sum_up(activation, env, list, count);
    return rc;
}
