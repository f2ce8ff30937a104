#include "run/sampling.h"
#include "base/units.h"
#include "cli/output/progress.h"
#include "jemalloc/dump.h"
#include "run/apart.h"
#include "run/faults.h"
#include "run/interrupt.h"

#include <errno.h>
#include <stdio.h>

enum { GIVE_UP_S = 30, RETRY_NS = 200000000, SECOND_NS = 1000000000 };

static const char *truth(bool value)
{
    return value ? "true" : "false";
}

/* From here on a death of the tool would leave something changed; the operator is told how to
 * look. */
static void be_patient(const struct attachment *attachment)
{
    static char farewell[160];

    snprintf(farewell, sizeof farewell,
             "\njeattach: left at once: prof.active may not be what it was; jeattach status %d "
             "tells, jeattach off %d switches it off\n",
             (int)attachment->target.pid, (int)attachment->target.pid);
    interrupt_patience(2, farewell);
}

fault_code sampling_begin(struct attachment *attachment, struct sampling *sampling,
                          struct fault *fault)
{
    struct injection *injection = &attachment->injection;
    const struct instance *instance = &attachment->instance;
    fault_code rc = prof_read(injection, instance, &sampling->former, fault);

    if (rc == FAULT_NONE)
        rc = build_can_profile(&sampling->former.build, fault);
    if (rc == FAULT_NONE)
        rc = dump_streamable(injection, instance, &sampling->former, &attachment->hooks, fault);
    if (rc == FAULT_NONE && activation_needed(sampling->former.build.text))
        rc = activation_learn(injection, instance, &sampling->layout, fault);
    sampling->active = prof_is_active(&sampling->former);
    if (rc != FAULT_NONE)
        return rc;
    be_patient(attachment);
    if (!sampling->active) {
        sampling->owed = true;
        rc = prof_active_write(injection, instance, true, fault);
        sampling->active = true;
    }
    sampling->began = clock_now();
    return rc;
}

struct visit {
    struct attachment *attachment;
    struct sampling *sampling;
    struct fault *fault;
    fault_code code;
};

static void visit_apart(void *ctx)
{
    struct visit *visit = ctx;
    struct attachment *attachment = visit->attachment;
    struct sampling *sampling = visit->sampling;
    const struct injection_env env = attachment_env(attachment);
    const struct activation_options options = {.layout = sampling->layout,
                                               .lg_sample = sampling->former.lg_sample,
                                               .consent = &attachment->hooks};

    visit->code =
        activation_run(&env, &attachment->instance, &options, &sampling->activation, visit->fault);
}

/* Threads of 5.2 that do not sample by themselves. */
static fault_code visit_threads(struct attachment *attachment, struct sampling *sampling,
                                struct fault *fault)
{
    const struct activation *activation = &sampling->activation;
    struct visit visit = {attachment, sampling, fault, FAULT_NONE};

    apart_run(visit_apart, &visit);
    if (activation->longest_ns > attachment->longest_ns)
        attachment->longest_ns = activation->longest_ns;
    if (activation->missed)
        message("%zu of %zu threads do not sample: they were not at a safe point in time, and "
                "jemalloc %s does not wake them by itself",
                activation->missed, activation->threads, sampling->former.build.text);
    if (activation->unsure)
        message("%zu of %zu threads sample only if they never did before: this build does not tell "
                "(jeattach on --help)",
                activation->unsure, activation->threads);
    return visit.code;
}

fault_code sampling_begun(struct attachment *attachment, struct sampling *sampling, fault_code rc,
                          struct fault *fault)
{
    const struct options *options = attachment->options;

    if (rc != FAULT_NONE)
        return rc;
    if (sampling->former.thread_active_init == FACT_NO)
        message("threads that start from now on are not sampled (prof.thread_active_init is "
                "false)");
    if (activation_needed(sampling->former.build.text))
        rc = visit_threads(attachment, sampling, fault);
    if (rc == FAULT_NONE && options->verbose && prof_is_active(&sampling->former))
        message("prof.active is true already, and stays so until the end");
    else if (rc == FAULT_NONE && options->verbose)
        message("prof.active: false -> true until the end; should jeattach be killed before, "
                "jeattach off %d switches it off",
                (int)attachment->target.pid);
    return rc;
}

fault_code sampling_look(struct attachment *attachment, struct sampling *sampling,
                         struct fault *fault)
{
    bool active;
    fault_code rc = prof_active_read(&attachment->injection, &attachment->instance, &active, fault);

    if (rc != FAULT_NONE || active == sampling->active)
        return rc;
    sampling->foreign = true;
    sampling->active = active;
    sampling->owed = false; /* what is there now is theirs */
    return FAULT_NONE;
}

static fault_code set(struct attachment *attachment, struct sampling *sampling, bool active,
                      struct fault *fault)
{
    fault_code rc = sampling_look(attachment, sampling, fault);

    if (rc == FAULT_NONE && !sampling->foreign && sampling->active != active) {
        sampling->owed = true;
        rc = prof_active_write(&attachment->injection, &attachment->instance, active, fault);
        if (rc == FAULT_NONE)
            sampling->active = active;
    }
    if (rc == FAULT_NONE && !sampling->ended)
        sampling->ended = clock_now();
    if (rc == FAULT_NONE)
        sampling->owed =
            !sampling->foreign && sampling->active != prof_is_active(&sampling->former);
    return rc;
}

fault_code sampling_stop(struct attachment *attachment, struct sampling *sampling,
                         struct fault *fault)
{
    return set(attachment, sampling, false, fault);
}

fault_code sampling_end(struct attachment *attachment, struct sampling *sampling,
                        struct fault *fault)
{
    return set(attachment, sampling, prof_is_active(&sampling->former), fault);
}

/* ---- waiting ---- */

struct wait {
    const struct attachment *attachment;
    const char *doing;
    uint64_t since, until;
};

/* Whole seconds: a progress line changes no more often. */
static uint64_t to_seconds(uint64_t ns)
{
    return (ns + SECOND_NS / 2) / SECOND_NS * SECOND_NS;
}

static void show_wait(void *ctx)
{
    const struct wait *wait = ctx;
    const struct target *target = &wait->attachment->target;
    char name[64], rss[UNITS_TEXT], done[UNITS_TEXT], whole[UNITS_TEXT];

    message_clean(target->stat.comm, name, sizeof name);
    units_bytes((double)target_rss(target), rss);
    units_duration(to_seconds(clock_now() - wait->since), done);
    if (wait->until == UINT64_MAX)
        progress_show(wait->attachment->options, "%s %s[%d]: %s, RSS %s (Ctrl-C: end it)",
                      wait->doing, name, (int)target->pid, done, rss);
    else
        progress_show(wait->attachment->options, "%s %s[%d]: %s of %s, RSS %s (Ctrl-C: end it now)",
                      wait->doing, name, (int)target->pid, done,
                      units_duration(to_seconds(wait->until - wait->since), whole), rss);
}

enum pause_end sampling_wait(struct attachment *attachment, struct sampling *sampling,
                             const char *doing, uint64_t until)
{
    struct wait wait = {attachment, doing, clock_now(), until};
    const struct pause pause = {.until = until,
                                .interrupted = interrupt_flag(),
                                .target = &attachment->target,
                                .tick = show_wait,
                                .ctx = &wait};
    enum pause_end end;

    attachment_rest(attachment);
    end = pause_until(&pause);
    progress_clear(attachment->options);
    sampling->interrupted |= end == PAUSE_INTERRUPTED;
    return end;
}

fault_code sampling_lost(const struct attachment *attachment, struct fault *fault)
{
    fault_code rc = target_check_end(&attachment->target, fault);

    if (rc == FAULT_NONE)
        rc = fault_set(fault, FAULT_GONE, ESRCH, "wait", "%d", (int)attachment->target.pid);
    return rc;
}

/* ---- the end ---- */

/* A hold that is tried again until it comes about. */
struct reach {
    struct attachment *attachment;
    struct capture *capture; /* NULL: the action alone */
    held_action action;
    void *ctx;
    const volatile sig_atomic_t *interrupted; /* gives it up; NULL: nothing does */
    const char *what;                         /* is not done yet */
};

static fault_code try_once(const struct reach *reach, struct fault *fault)
{
    struct attachment *attachment = reach->attachment;
    fault_code rc = attachment_renew(attachment, reach->interrupted, fault);

    if (reach->capture) {
        capture_free(reach->capture);
        capture_init(reach->capture);
    }
    if (rc == FAULT_NONE && reach->capture)
        rc = capture_take(attachment, reach->capture, reach->action, reach->ctx, fault);
    else if (rc == FAULT_NONE)
        rc = attachment_hold(attachment, reach->action, reach->ctx, fault);
    attachment_rest(attachment);
    return rc;
}

/* A debugger, or a SIGSTOP, at just that moment must not cost what was recorded. */
static fault_code try_until(const struct reach *reach, uint64_t until, struct fault *fault)
{
    char cause[512];
    bool told = false;
    fault_code rc;

    while ((rc = try_once(reach, fault)) != FAULT_NONE && fault_is_transient(rc) &&
           clock_now() < until) {
        const struct pause pause = {.until = clock_now() + RETRY_NS,
                                    .interrupted = reach->interrupted,
                                    .target = &reach->attachment->target};
        if (!told)
            message("%s, trying on: %s", reach->what,
                    message_cause(&reach->attachment->subject, fault, cause, sizeof cause));
        told = true;
        if (pause_until(&pause) == PAUSE_INTERRUPTED)
            return fault_set(fault, FAULT_INTERRUPTED, EINTR, "hold", "%d",
                             (int)reach->attachment->target.pid);
    }
    return rc;
}

fault_code sampling_hold(struct attachment *attachment, struct sampling *sampling,
                         struct capture *capture, held_action action, void *ctx,
                         struct fault *fault)
{
    const struct reach reach = {
        attachment, capture, action, ctx, interrupt_again_flag(), "the process cannot be held yet"};
    fault_code rc = try_until(&reach, clock_now() + attachment->options->timeout_ns, fault);

    sampling_tell_foreign(attachment, sampling);
    return rc;
}

static fault_code end_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    return sampling_end(attachment, ctx, fault);
}

/* Ctrl-C does not keep it from that: only the third one does. */
static fault_code give_back(struct attachment *attachment, struct sampling *sampling,
                            struct fault *fault)
{
    char what[64];
    const struct reach reach = {attachment, NULL, end_held, sampling, NULL, what};

    snprintf(what, sizeof what, "prof.active is not %s again yet",
             truth(prof_is_active(&sampling->former)));
    return try_until(&reach, clock_now() + (uint64_t)GIVE_UP_S * SECOND_NS, fault);
}

/* FAULT_NONE also when there is nothing to be given back to any more. */
static fault_code settle(struct attachment *attachment, struct sampling *sampling,
                         struct fault *fault)
{
    static char verb[80];
    fault_code rc;

    if (!sampling->owed)
        return FAULT_NONE;
    rc = give_back(attachment, sampling, fault);
    sampling->gone |= fault_is_gone(rc);
    if (rc == FAULT_NONE || sampling->gone)
        return FAULT_NONE;
    snprintf(verb, sizeof verb, "make prof.active %s again in process",
             truth(prof_is_active(&sampling->former)));
    attachment->subject.verb = verb;
    return rc;
}

uint64_t sampling_ns(const struct sampling *sampling)
{
    return (sampling->ended ? sampling->ended : clock_now()) - sampling->began;
}

void sampling_tell_foreign(const struct attachment *attachment, struct sampling *sampling)
{
    if (!sampling->foreign || sampling->foreign_told)
        return;
    sampling->foreign_told = true;
    message("prof.active of %d was switched %s by somebody else meanwhile; it is left so",
            (int)attachment->target.pid, sampling->active ? "on" : "off");
}

static void tell(const struct attachment *attachment, const struct sampling *sampling)
{
    const char *how = sampling->interrupted ? "interrupted; " : "";
    char time[UNITS_TEXT];

    if (attachment->options->quiet || !sampling->began || sampling->gone || sampling->foreign)
        return;
    units_duration(sampling_ns(sampling), time);
    if (prof_is_active(&sampling->former))
        message("%ssampled for %s; prof.active was true before, and is", how, time);
    else
        message("%ssampled for %s; prof.active is false again", how, time);
}

/* The second Ctrl-C: it can be said that nothing was changed when that is so again. */
static bool left_without_result(const struct sampling *sampling, fault_code rc)
{
    return rc == FAULT_INTERRUPTED && sampling->began;
}

int sampling_finish(struct attachment *attachment, struct sampling *sampling, fault_code rc,
                    struct fault *fault)
{
    fault_code settled;
    int code = EXIT_DONE, last;
    struct fault own;
    char time[UNITS_TEXT];

    sampling->gone |= fault_is_gone(rc);
    if (rc != FAULT_NONE && !left_without_result(sampling, rc))
        code = message_fault(&attachment->subject, fault);
    if (sampling->gone && sampling->began)
        message("it was recorded for %s; what was sampled since the last profile ended with it",
                units_duration(sampling_ns(sampling), time));
    settled = settle(attachment, sampling, &own);
    sampling_tell_foreign(attachment, sampling);
    if (settled == FAULT_NONE && left_without_result(sampling, rc))
        code = message_fault(&attachment->subject, fault);
    if (settled == FAULT_NONE)
        tell(attachment, sampling);
    last = attachment_finish(attachment, settled, &own);
    if (last != EXIT_DONE)
        return last;
    if (code != EXIT_DONE)
        return code;
    return sampling->interrupted ? EXIT_INTERRUPTED : EXIT_DONE;
}

void sampling_json(const struct sampling *sampling, struct json *json)
{
    json_number(json, "sampled_ns", sampling_ns(sampling));
    json_bool(json, "old", prof_is_active(&sampling->former));
    json_bool(json, "new", sampling->active);
    json_bool(json, "toggled_by_other", sampling->foreign);
    json_bool(json, "interrupted", sampling->interrupted);
}
