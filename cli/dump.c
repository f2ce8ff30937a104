/* jeattach dump */
#include "jemalloc/dump.h"
#include "cli/attachment.h"
#include "cli/json.h"
#include "cli/output.h"
#include "cli/verbs.h"

#include <stdio.h>
#include <string.h>

/* A target that never stops writing must not fill the tool's host. */
#define STREAM_LIMIT ((size_t)4 << 30)

struct dump {
    struct attachment attachment;
    struct output output;
    struct sink sink;
    struct dump_result result;
    char path[DUMP_PATH_MAX + 32]; /* as it can be opened from here */
};

static void print_json(const struct dump *dump)
{
    const struct attachment *attachment = &dump->attachment;
    const char *output = attachment->options->output;
    struct json json;

    json_begin(&json, stdout);
    json_number(&json, "pid", (uint64_t)attachment->target.pid);
    json_text(&json, "name", attachment->target.stat.comm);
    json_text(&json, "path", output ? output : dump->path);
    if (output)
        json_null(&json, "target_path");
    else
        json_text(&json, "target_path", dump->result.target_path);
    json_number(&json, "bytes", dump->result.bytes);
    json_number(&json, "thread", (uint64_t)attachment->injection.report.tid);
    json_number(&json, "held_ns", attachment->injection.report.held_ns);
    json_number(&json, "calls", attachment->injection.report.calls);
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

static enum fault_code call_dump(struct dump *dump, struct fault *fault)
{
    struct attachment *attachment = &dump->attachment;
    const struct options *options = attachment->options;
    struct dump_request request = {options->path, options->output ? &dump->sink : NULL};
    enum fault_code rc = dump_check(&attachment->target, &request, fault), released;

    if (rc == FAULT_NONE)
        rc = attachment_hold(attachment, fault);
    if (rc != FAULT_NONE)
        return rc;
    rc = dump_run(&attachment->injection, &attachment->instance, &request, &dump->result, fault);
    released = attachment_release(attachment, rc == FAULT_NONE ? fault : NULL);
    return rc == FAULT_NONE ? released : rc;
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
    rc = call_dump(dump, fault);
    if (rc == FAULT_NONE && options->output)
        rc = output_finish(&dump->output, dump->sink.bytes, dump->sink.len, fault);
    if (rc == FAULT_NONE && !options->output)
        target_path_from_here(&dump->attachment.target, dump->result.target_path, dump->path,
                              sizeof dump->path);
    if (rc == FAULT_NONE)
        print_result(dump);
    return rc == FAULT_NONE ? output_stdout_check(fault) : rc;
}

int verb_dump(const struct options *options, pid_t pid)
{
    struct dump dump = {.output.fd = -1};
    struct fault fault;
    int code = EXIT_DONE;
    enum fault_code rc =
        attachment_open(&dump.attachment, options, pid, "dump the profile of", &fault);

    sink_init(&dump.sink, STREAM_LIMIT);
    /* Before the target is touched: there is no point in holding it for nothing. */
    if (rc == FAULT_NONE && options->output && !options->dry_run)
        rc = output_open(&dump.output, options->output, &fault);
    if (rc == FAULT_NONE)
        rc = run(&dump, &fault);
    if (rc != FAULT_NONE)
        code = message_fault(&dump.attachment.subject, &fault);
    attachment_closing_line(&dump.attachment);
    output_close(&dump.output);
    sink_free(&dump.sink);
    attachment_close(&dump.attachment);
    return code;
}
