#include "run/capture.h"

#include <stdio.h>
#include <string.h>

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
