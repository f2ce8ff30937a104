/* jeattach dump */
#include "cli/capture.h"
#include "cli/verbs.h"

#include <stdio.h>
#include <string.h>

struct dump {
    struct attachment attachment;
    struct output output;
    struct presentation presentation;
    struct capture capture; /* with -o */
    struct dump_request request;
    struct dump_result result;
    char path[DUMP_PATH_MAX + 32]; /* as it can be opened from here */
};

static void print_json(const struct dump *dump)
{
    const struct attachment *attachment = &dump->attachment;
    const char *output = attachment->options->output;
    struct json json;

    attachment_json_begin(attachment, &json);
    json_text(&json, "path", output ? output : dump->path);
    if (output)
        json_null(&json, "target_path");
    else
        json_text(&json, "target_path", dump->result.target_path);
    json_number(&json, "bytes", output ? dump->capture.bytes : dump->result.bytes);
    attachment_json(attachment, &json);
    json_end(&json);
}

/* stdout carries the profile itself with -o -. */
static void print_result(const struct dump *dump)
{
    const struct options *options = dump->attachment.options;

    if (options->output && strcmp(options->output, "-") == 0)
        return;
    if (options->json)
        print_json(dump);
    else
        printf("%s\n", options->output ? options->output : dump->path);
}

static enum fault_code dump_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct dump *dump = ctx;

    return dump_run(&attachment->injection, &attachment->instance, &dump->request, &dump->result,
                    fault);
}

/* What can be refused is refused before the target is touched. */
static enum fault_code prepare(struct dump *dump, const struct options *options,
                               struct fault *fault)
{
    capture_init(&dump->capture);
    dump->request = (struct dump_request){options->path, NULL};
    if (options->dry_run)
        return FAULT_NONE;
    if (options->output)
        return output_open(&dump->output, options->output, fault);
    return dump_check(&dump->attachment.target, &dump->request, fault);
}

static enum fault_code run_streamed(struct dump *dump, struct fault *fault)
{
    struct attachment *attachment = &dump->attachment;
    enum fault_code rc = capture_take(attachment, &dump->capture, NULL, NULL, fault);

    if (rc == FAULT_NONE)
        rc = capture_write(attachment, &dump->presentation, &dump->capture, NULL, &dump->output,
                           fault);
    return rc;
}

static enum fault_code run_in_target(struct dump *dump, struct fault *fault)
{
    struct attachment *attachment = &dump->attachment;
    enum fault_code rc = attachment_hold(attachment, dump_held, dump, fault);

    if (rc == FAULT_NONE)
        target_path_from_here(&attachment->target, dump->result.target_path, dump->path,
                              sizeof dump->path);
    return rc;
}

static enum fault_code run(struct dump *dump, struct fault *fault)
{
    static const char *const calls[] = {
        "mallctl version, config.prof, opt.prof, prof.active, ... (read)",
        "mallctl prof.dump",
    };
    const struct options *options = dump->attachment.options;
    enum fault_code rc;

    if (options->dry_run)
        return attachment_describe(&dump->attachment, calls, ARRAY_LEN(calls), fault);
    rc = options->output ? run_streamed(dump, fault) : run_in_target(dump, fault);
    if (rc != FAULT_NONE)
        return rc;
    print_result(dump);
    if (dump->result.hook)
        message("the application's own hook for finished dumps ran in the call "
                "(experimental.hooks.prof_dump at %#llx)",
                (unsigned long long)dump->result.hook);
    return FAULT_NONE;
}

int verb_dump(const struct options *options, pid_t pid)
{
    struct dump dump = {.output.fd = -1};
    struct fault fault;
    enum fault_code rc;

    if (!presentation_init(&dump.presentation, options, FORMAT_RAW)) {
        presentation_free(&dump.presentation);
        return EXIT_USAGE;
    }
    rc = attachment_open(&dump.attachment, options, pid, "dump the profile of process", &fault);
    if (rc == FAULT_NONE)
        rc = prepare(&dump, options, &fault);
    if (rc == FAULT_NONE)
        rc = run(&dump, &fault);
    output_close(&dump.output);
    capture_free(&dump.capture);
    presentation_free(&dump.presentation);
    return attachment_finish(&dump.attachment, rc, &fault);
}
