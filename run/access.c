#include "run/access.h"
#include "jemalloc/faults.h"
#include "run/activating.h"
#include "run/caller.h"
#include "run/faults.h"
#include "run/need.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What a read of memory failed at may be the end of its process. */
static fault_code check_end(const struct attachment *attachment, fault_code rc, struct fault *fault)
{
    struct fault end;

    if (rc != FAULT_NONE && rc != FAULT_UNREADABLE)
        return rc;
    if (target_check(&attachment->target, &end) != FAULT_NONE) {
        *fault = end;
        return end.code;
    }
    if (!memory_is_same(&attachment->memory, attachment->instance.mallctl))
        return fault_set(fault, FAULT_EXECED, 0, "read the profile", "%d",
                         (int)attachment->target.pid);
    if (rc == FAULT_UNREADABLE && attachment->memory.left_out)
        return need_explain_swapped(attachment, fault);
    return rc;
}

/* ---- the profile ---- */

void capture_init(struct capture *capture)
{
    memset(capture, 0, sizeof *capture);
    capture->most = CAPTURE_LIMIT;
    sink_init(&capture->text, CAPTURE_LIMIT);
}

void capture_free(struct capture *capture)
{
    sink_free(&capture->text);
}

void capture_write_early(struct capture *capture, struct output *output)
{
    capture->output = output->temporary ? output : NULL;
}

/* It was closed if the modules have changed. */
static fault_code find_profile(struct attachment *attachment, struct fault *fault)
{
    const struct reader_source source = attachment_source(attachment, &attachment->deadline);
    fault_code rc;

    if (attachment->reader_opened)
        return FAULT_NONE;
    rc = reader_open(&attachment->reader, &source, fault);
    attachment->reader_opened = rc == FAULT_NONE;
    return check_end(attachment, rc, fault);
}

/* From now on by calls, where they are allowed. */
static fault_code call_instead(struct attachment *attachment, struct fault *fault)
{
    if (attachment->request.way == WAY_MEMORY)
        return fault->code;
    attachment->unreadable = true;
    attachment_note(attachment, &(struct run_note){.kind = NOTE_UNREADABLE, .fault = fault});
    return FAULT_NONE;
}

fault_code access_open(struct attachment *attachment, const struct attach_request *request,
                       struct fault *fault)
{
    fault_code rc = attachment_find(attachment, request, fault);

    if (rc != FAULT_NONE || request->way == WAY_CALL)
        return rc;
    rc = find_profile(attachment, fault);
    return rc == FAULT_UNREADABLE ? call_instead(attachment, fault) : rc;
}

bool access_calls(const struct attachment *attachment)
{
    return attachment->request.way == WAY_CALL || attachment->unreadable;
}

bool access_reads(struct attachment *attachment)
{
    struct fault ignored;

    return !access_calls(attachment) && find_profile(attachment, &ignored) == FAULT_NONE;
}

fault_code access_read(struct attachment *attachment, struct sink *sink, struct fault *fault)
{
    struct read_summary *read = &attachment->read;
    struct reading reading;
    fault_code rc;

    if (deadline_interrupted(&attachment->deadline))
        return fault_set(fault, FAULT_INTERRUPTED, EINTR, "read the profile", "%d",
                         (int)attachment->target.pid);
    rc = find_profile(attachment, fault);
    if (rc == FAULT_NONE)
        rc = reader_read(&attachment->reader, sink, &reading, fault);
    rc = check_end(attachment, rc, fault);
    if (rc != FAULT_NONE)
        return rc;
    read->last = reading;
    read->count++;
    if (reading.ns > read->longest_ns)
        read->longest_ns = reading.ns;
    return FAULT_NONE;
}

/* True if memory tells that it cannot profile: no call could switch it on, or has to say so. */
static bool lacks_profiling(struct build *build)
{
    if (build->opt_prof == FACT_NO && build->config_prof == FACT_UNKNOWN)
        build->config_prof = FACT_YES; /* as reader_open does */
    return build->opt_prof == FACT_NO || build->config_prof == FACT_NO;
}

fault_code access_check_profiling(struct attachment *attachment, struct fault *fault)
{
    struct prof_state state;

    attachment_read_facts(attachment, &state);
    return lacks_profiling(&state.build) ? build_can_profile(&state.build, fault) : FAULT_NONE;
}

static void drain_to_output(void *ctx, const unsigned char *bytes, size_t len)
{
    output_write(ctx, bytes, len);
}

struct profile_call {
    struct capture *capture;
    const struct dump_after *after;
};

static fault_code dump_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    const struct profile_call *call = ctx;
    const struct dump_request request = {.stream = &call->capture->text,
                                         .consent = &attachment->caller.hooks,
                                         .after =
                                             call->after ? *call->after : (struct dump_after){0}};
    struct dump_result result;

    call->capture->at_ns = clock_now();
    call->capture->time_ns = clock_ns(CLOCK_REALTIME);
    return dump_run(&attachment->caller.injection, &attachment->instance, &request, &result, fault);
}

fault_code access_profile(struct attachment *attachment, struct capture *capture,
                          const struct dump_after *after, struct fault *fault)
{
    struct profile_call call = {capture, after};
    struct sink *text = &capture->text;
    bool calls = access_calls(attachment);
    fault_code rc = FAULT_NONE;

    capture->at_ns = clock_now();
    text->limit = sink_affordable(&attachment->proc, capture->most);
    if (!calls) {
        text->drain = capture->output ? drain_to_output : NULL;
        text->drain_ctx = capture->output;
        rc = access_read(attachment, text, fault);
        text->drain = NULL;
        capture->time_ns = attachment->read.last.time_ns;
    }
    if (rc == FAULT_UNREADABLE && !text->drained) {
        rc = call_instead(attachment, fault);
        calls = rc == FAULT_NONE;
        text->len = 0;
    }
    if (rc == FAULT_NONE && calls)
        rc = caller_hold(attachment, dump_held, &call, fault);
    if (rc == FAULT_NONE)
        rc = dump_complete(&attachment->target, &attachment->memory, text, fault);
    capture->bytes = text->drained + text->len;
    capture->taken = rc == FAULT_NONE;
    return rc;
}

/* ---- the switch ---- */

const char *access_find_byte(struct attachment *attachment, bool active, struct prof_state *state)
{
    return prof_byte_find(&attachment->byte, active, &attachment->instance, &attachment->modules,
                          &attachment->target, &attachment->memory, state);
}

static fault_code read_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct prof_state *state = ctx;
    struct injection *injection = &attachment->caller.injection;
    fault_code rc = prof_read(injection, &attachment->instance, state, fault);

    if (rc == FAULT_NONE)
        rc = build_can_profile(&state->build, fault);
    if (rc == FAULT_NONE && access_calls(attachment))
        rc = dump_streamable(injection, &attachment->instance, state, &attachment->caller.hooks,
                             fault);
    return rc;
}

/* Why no byte is proven, where no call can be made; nothing is found in a memory that is gone. */
static fault_code refuse_switch(struct attachment *attachment, const char *why,
                                struct prof_state *state, struct fault *fault)
{
    const remote_addr known = attachment->instance.mallctl;
    struct build *build = &state->build;
    char byte;

    if (!memory_read(&attachment->memory, known, &byte, 1) &&
        target_check_end(&attachment->target, fault) != FAULT_NONE)
        return fault->code;
    if (!memory_is_same(&attachment->memory, known))
        return fault_set(fault, FAULT_EXECED, 0, "find prof.active", "%d",
                         (int)attachment->target.pid);
    if (attachment->memory.left_out)
        return need_explain_swapped(attachment, fault);
    if (lacks_profiling(build))
        return build_can_profile(build, fault);
    return fault_set(fault, FAULT_UNWRITABLE, 0, "find prof.active", "%s", why);
}

fault_code access_state(struct attachment *attachment, struct prof_state *state,
                        struct fault *fault)
{
    const bool asked = attachment->request.way == WAY_CALL; /* for a call */
    const char *why = asked ? NULL : access_find_byte(attachment, false, state);
    fault_code rc = access_calls(attachment) ? FAULT_NONE : find_profile(attachment, fault);

    if (rc == FAULT_UNREADABLE)
        rc = call_instead(attachment, fault);
    if (rc != FAULT_NONE)
        return rc;
    if (!why && !access_calls(attachment))
        return build_can_profile(&state->build, fault);
    if (attachment->request.way == WAY_MEMORY)
        return refuse_switch(attachment, why, state, fault);
    return caller_hold(attachment, read_held, state, fault);
}

static fault_code active_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    return prof_active_read(&attachment->caller.injection, &attachment->instance, ctx, fault);
}

fault_code access_active(struct attachment *attachment, bool *active, struct fault *fault)
{
    const bool asked = attachment->request.way == WAY_CALL; /* for a call */
    struct prof_state state;
    const char *why = asked ? NULL : access_find_byte(attachment, false, &state);

    if (!asked && !why) {
        *active = prof_is_active(&state);
        return FAULT_NONE;
    }
    if (attachment->request.way == WAY_MEMORY)
        return refuse_switch(attachment, why, &state, fault);
    return caller_hold(attachment, active_held, active, fault);
}

static fault_code write_byte(struct attachment *attachment, bool active,
                             const struct prof_state *state, struct fault *fault)
{
    struct fault end;
    fault_code rc = build_can_profile(&state->build, fault);

    if (rc == FAULT_NONE)
        rc = target_check(&attachment->target, fault);
    if (rc != FAULT_NONE || prof_is_active(state) == active)
        return rc;
    rc = prof_byte_write(&attachment->byte, active, &attachment->memory, fault);
    if (rc != FAULT_NONE && target_check(&attachment->target, &end) != FAULT_NONE)
        *fault = end;
    return rc == FAULT_NONE ? FAULT_NONE : fault->code;
}

struct switch_call {
    bool active;
    struct prof_state *former;
};

static fault_code switch_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    const struct switch_call *call = ctx;

    return prof_switch(&attachment->caller.injection, &attachment->instance, call->active,
                       call->former, fault);
}

fault_code access_switch(struct attachment *attachment, bool active,
                         struct access_switched *switched, struct fault *fault)
{
    const enum way way = attachment->request.way;
    struct switch_call call = {active, &switched->former};
    const char *why =
        way == WAY_CALL ? NULL : access_find_byte(attachment, active, &switched->former);
    fault_code rc;

    if (why && attachment->byte.visits && activating_is_seen(attachment))
        why = NULL;
    switched->in_memory = !why && way != WAY_CALL;
    if (switched->in_memory) {
        rc = write_byte(attachment, active, &switched->former, fault);
        if (rc != FAULT_UNWRITABLE || way == WAY_MEMORY)
            return rc;
        switched->in_memory = false;
        why = "its memory cannot be written";
    } else if (way == WAY_MEMORY ||
               (way == WAY_DEFAULT && lacks_profiling(&switched->former.build))) {
        return refuse_switch(attachment, why, &switched->former, fault);
    }
    if (way == WAY_DEFAULT)
        attachment_note(attachment, &(struct run_note){.kind = NOTE_CALL_NEEDED, .why = why});
    return caller_hold(attachment, switch_held, &call, fault);
}

/* ---- the output ---- */

/* What else a page says of the process in its title; of a core file, or after its end, the time. */
static void describe_process(const struct attachment *attachment, struct presentation *presentation,
                             uint64_t time_ns)
{
    const struct target *target = &attachment->target;
    struct display *display = &presentation->display;
    char *words = presentation->command;
    struct fault ignored;
    ssize_t len;

    display->time_ns = time_ns;
    if (!target->stat.pid || target_check(target, &ignored) != FAULT_NONE)
        return;
    len = procfs_read(target->proc, words, sizeof presentation->command, "%d/cmdline",
                      (int)target_via(target));
    while (len > 0 && !words[len - 1])
        len--;
    for (ssize_t i = 0; i < len; i++)
        words[i] = (unsigned char)words[i] < ' ' ? ' ' : words[i]; /* lines of a script, too */
    display->command = len > 0 ? words : NULL;
    display->rss = target_rss(target);
}

fault_code capture_read(struct attachment *attachment, struct presentation *presentation,
                        const struct present_source *sources, size_t count,
                        struct presented *presented, struct fault *fault)
{
    struct symbols_target live = {&attachment->modules, &attachment->target, &attachment->memory,
                                  &attachment->kept_files};
    const struct symbols_options symbols = {.root = attachment->root,
                                            .target = &attachment->target,
                                            .no_inlines = presentation->no_inlines,
                                            .debuginfod = presentation->debuginfod,
                                            .open = symbols_open_in_target,
                                            .open_map = symbols_open_map_in_target,
                                            .ctx = &live};

    presentation->until = attachment->deadline.at;
    if (deadline_passed(&attachment->deadline))
        presentation->until = clock_now() + attachment->request.timeout_ns;
    snprintf(presentation->title, sizeof presentation->title, "%s[%d]%s",
             attachment->target.stat.comm, (int)attachment->target.pid,
             presentation->cut_short ? ", cut short: it ended" : "");
    if (!access_calls(attachment)) {
        presentation->display.unread_stacks = attachment->read.last.unsettled;
        presentation->display.read_stacks = attachment->read.last.stacks;
    }
    if (presentation->format == FORMAT_FLAME)
        describe_process(attachment, presentation, sources[0].time_ns);
    return present_read(presented, presentation, &symbols, sources, count, fault);
}

fault_code capture_write(struct attachment *attachment, struct presentation *presentation,
                         struct capture *capture, struct output *output, struct fault *fault)
{
    const struct present_source source = {.text = &capture->text, .time_ns = capture->time_ns};
    struct presented presented;
    fault_code rc = capture_read(attachment, presentation, &source, 1, &presented, fault);

    return present_end(&presented, rc, output, fault);
}
