/* --core: a process that has ended */
#include "cli/verbs/core.h"
#include "base/units.h"
#include "cli/faults.h"
#include "cli/job.h"
#include "cli/output/attachment_json.h"
#include "cli/presentation.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MODULES_SHOWN = 5 };

struct core_request core_request_of(const struct options *options, const struct run_events *events)
{
    return (struct core_request){.file = options->core,
                                 .program = options->program,
                                 .root = options->report.root,
                                 .instance = (size_t)options->instance,
                                 .events = events};
}

/* " (core file, signal 6, Aborted)" */
static void describe_core(const struct core_file *file, char *out, size_t size)
{
    int number = file->core.signal;
    const char *text = number > 0 ? sigdescr_np(number) : NULL;

    if (number > 0)
        snprintf(out, size, " (core file, signal %d%s%s)", number, text ? ", " : "",
                 text ? text : "");
    else
        snprintf(out, size, " (core file)");
}

/* ---- what lacks ---- */

void core_print_lacks(const struct options *options, const struct core_file *file)
{
    const struct core_memory *memory = &file->memory;
    const struct core_module *state;
    const struct module *module;
    char have[UNITS_TEXT], whole[UNITS_TEXT], path[512];
    const char *why;
    size_t at = 0;

    if (options->quiet)
        return;
    if (core_is_truncated(&file->core))
        message("the core file is truncated: it has %s of %s",
                units_bytes((double)file->core.size, have),
                units_bytes((double)file->core.whole, whole));
    if (!memory->lacks)
        return;
    message("%zu%s page%s that were needed are not in the core file:", memory->lacks,
            memory->lacks >= CORE_LACKS_COUNTED ? " or more" : "", memory->lacks == 1 ? "" : "s");
    for (int shown = 0; shown < MODULES_SHOWN && (module = core_memory_lack(memory, &at, &state));
         shown++) {
        if (state->fd >= 0)
            why = "memory that the process could write";
        else
            why = state->err == ESTALE ? "another file has this path now"
                                       : strerrordesc_np(state->err);
        message("  %zu of %s: %s", state->lacks, message_clean(module->path, path, sizeof path),
                why);
    }
    if (memory->anonymous_lacks)
        message("  %zu of anonymous memory", memory->anonymous_lacks);
}

int core_run(const struct options *options, const char *verb, job_perform perform, void *ctx)
{
    struct attachment attachment = {.opened = false};
    struct core_file core = {.maps = NULL};
    struct job job;
    struct fault fault;
    char origin[96];
    int code;

    job_init(&job, &attachment, options, verb);
    const struct core_request request = core_request_of(options, &job.events);
    fault_code rc = core_file_open(&core, &attachment, &request, &fault);
    describe_core(&core, origin, sizeof origin);
    job.origin = origin;
    if (rc == FAULT_NONE)
        rc = perform(&job, ctx, &fault);
    core_print_lacks(options, &core);
    code = job_finish(&job, rc, &fault);
    core_file_close(&core);
    return code;
}

/* ---- dump ---- */

struct core_dump {
    struct attachment attachment;
    struct core_file file;
    struct job job;
    struct presentation presentation;
    struct capture capture;
    struct output output;
};

static void print_core_result(const struct core_dump *dump)
{
    const struct options *options = dump->job.options;
    const struct reading *reading = &dump->attachment.read.last;
    char name[PROCESS_TEXT], took[UNITS_TEXT];
    struct json json;

    if (options->json) {
        attachment_json_begin(&dump->attachment, &json);
        JSON_MEMBERS(&json, TEXT("core", options->core), TEXT("path", dump->output.path),
                     NUMBER("bytes", dump->capture.bytes), NUMBER("stacks", reading->stacks),
                     NUMBER("unread_stacks", reading->unsettled),
                     NUMBER("threads", reading->threads),
                     NUMBER("missing_pages", dump->file.memory.lacks),
                     FLAG("truncated", core_is_truncated(&dump->file.core)));
        json_end(&json);
    } else if (!options_to_stdout(options)) {
        printf("%s\n", dump->output.path);
    }
    if (reading->unsettled)
        message("warning: %zu stack%s could not be read and %s not in the profile",
                reading->unsettled, reading->unsettled == 1 ? "" : "s",
                reading->unsettled == 1 ? "is" : "are");
    fflush(stdout); /* the result comes before the closing line */
    if (options->quiet)
        return;
    message("%s profile read from its core file in %s: %zu stack%s, %zu thread%s",
            job_process(&dump->job, name), units_duration(reading->ns, took), reading->stacks,
            reading->stacks == 1 ? "" : "s", reading->threads, reading->threads == 1 ? "" : "s");
}

static fault_code perform_core_dump(struct core_dump *dump, struct fault *fault)
{
    struct attachment *attachment = &dump->attachment;
    const struct core_request request = core_request_of(dump->job.options, &dump->job.events);
    fault_code rc = core_file_open(&dump->file, attachment, &request, fault);

    if (rc == FAULT_NONE)
        rc = output_open_named(&dump->output, dump->job.options->output, dump->job.options->force,
                               dump->job.options->mode, fault);
    if (rc == FAULT_NONE)
        rc = core_file_read(&dump->file, attachment, &dump->capture, fault);
    if (rc == FAULT_NONE)
        rc = capture_write(attachment, &dump->presentation, &dump->capture, &dump->output, fault);
    if (rc != FAULT_CORE_PROGRAM)
        core_print_lacks(dump->job.options, &dump->file);
    if (rc == FAULT_NONE)
        print_core_result(dump);
    return rc;
}

int core_dump_main(const struct options *options)
{
    struct core_dump dump = {.output.fd = -1};
    struct fault fault;
    int code = EXIT_USAGE;

    if (presentation_init(&dump.presentation, options, FORMAT_RAW)) {
        job_init(&dump.job, &dump.attachment, options, "dump the profile of core file");
        dump.presentation.events = &dump.job.events;
        capture_init(&dump.capture);
        fault_code rc = perform_core_dump(&dump, &fault);
        code = job_finish(&dump.job, rc, &fault);
        core_file_close(&dump.file);
    }
    output_close(&dump.output);
    capture_free(&dump.capture);
    presentation_free(&dump.presentation);
    return code;
}
