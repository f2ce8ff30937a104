#include "run/capture.h"
#include "run/faults.h"

#include <stdio.h>
#include <string.h>

/* Limits the memory for one profile: some five million stacks. */
#define STREAM_LIMIT ((size_t)1 << 30)

void capture_init(struct capture *capture)
{
    memset(capture, 0, sizeof *capture);
    sink_init(&capture->text, STREAM_LIMIT);
}

void capture_free(struct capture *capture)
{
    sink_free(&capture->text);
}

void capture_write_early(struct capture *capture, struct output *output)
{
    capture->output = output->temporary ? output : NULL;
}

struct taking {
    struct capture *capture;
    struct capture_steps steps;
};

static fault_code stream_held(struct attachment *attachment, const struct taking *taking,
                              struct fault *fault)
{
    const struct dump_after *after = taking->steps.after;
    const struct dump_request request = {.stream = &taking->capture->text,
                                         .consent = &attachment->hooks,
                                         .after = after ? *after : (struct dump_after){0}};
    struct dump_result result;
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    taking->capture->time_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    return dump_run(&attachment->injection, &attachment->instance, &request, &result, fault);
}

static fault_code take_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct taking *taking = ctx;
    const struct capture_steps *steps = &taking->steps;
    struct fault ignored;
    fault_code rc = FAULT_NONE;

    if (steps->first)
        rc = steps->first(attachment, steps->ctx, fault);
    if (rc == FAULT_NONE)
        rc = stream_held(attachment, taking, fault);
    if (rc == FAULT_NONE && steps->last)
        (void)steps->last(attachment, steps->ctx, &ignored);
    return rc;
}

static fault_code take_by_call(struct attachment *attachment, struct taking *taking,
                               struct fault *fault)
{
    return attachment_hold(attachment, take_held, taking, fault);
}

static void drain_to_output(void *ctx, const unsigned char *bytes, size_t len)
{
    output_write(ctx, bytes, len);
}

static fault_code take_reading_early(struct attachment *attachment, struct capture *capture,
                                     struct fault *fault)
{
    struct sink *text = &capture->text;
    fault_code rc;

    if (capture->output) {
        text->drain = drain_to_output;
        text->drain_ctx = capture->output;
    }
    rc = readout_take(attachment, text, fault);
    text->drain = NULL;
    return rc;
}

static fault_code take_from_memory(struct attachment *attachment, struct taking *taking,
                                   struct fault *fault)
{
    struct capture *capture = taking->capture;
    struct capture_steps *steps = &taking->steps;
    struct fault ignored;
    fault_code rc = FAULT_NONE;

    if (steps->first)
        rc = readout_act(attachment, steps->first, steps->ctx, fault);
    steps->first = NULL;
    if (rc == FAULT_NONE)
        rc = take_reading_early(attachment, capture, fault);
    if (rc == FAULT_NONE && steps->last)
        (void)readout_act(attachment, steps->last, steps->ctx, &ignored);
    capture->time_ns = attachment->read.last.time_ns;
    if (rc != FAULT_UNREADABLE || capture->text.drained)
        return rc;
    rc = readout_call_instead(attachment, fault);
    capture->text.len = 0;
    return rc == FAULT_NONE ? take_by_call(attachment, taking, fault) : rc;
}

fault_code capture_take(struct attachment *attachment, struct capture *capture,
                        const struct capture_steps *steps, struct fault *fault)
{
    struct taking taking = {.capture = capture};
    fault_code rc;

    if (steps)
        taking.steps = *steps;
    capture->text.limit = sink_affordable(&attachment->proc, STREAM_LIMIT);
    if (attachment->reads)
        rc = take_from_memory(attachment, &taking, fault);
    else
        rc = take_by_call(attachment, &taking, fault);
    if (rc == FAULT_NONE)
        rc = dump_complete(&attachment->target, &capture->text, fault);
    capture->bytes = capture->text.drained + capture->text.len;
    capture->taken = rc == FAULT_NONE;
    return rc;
}

fault_code capture_write_series(struct attachment *attachment, struct presentation *presentation,
                                struct present_source *sources, size_t count, struct output *output,
                                struct fault *fault)
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
    for (size_t i = 0; i < count; i++)
        sources[i].symbols = &symbols;
    snprintf(presentation->title, sizeof presentation->title, "%s[%d]%s",
             attachment->target.stat.comm, (int)attachment->target.pid,
             presentation->cut_short ? ", cut short: it ended" : "");
    return present(presentation, sources, count, output, fault);
}

fault_code capture_write(struct attachment *attachment, struct presentation *presentation,
                         struct capture *capture, struct output *output, struct fault *fault)
{
    struct present_source source = {.text = &capture->text, .time_ns = capture->time_ns};

    return capture_write_series(attachment, presentation, &source, 1, output, fault);
}
