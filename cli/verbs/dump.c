/* jeattach dump */
#include "attach/target_paths.h"
#include "cli/faults.h"
#include "cli/filename_text.h"
#include "cli/job.h"
#include "cli/output/attachment_json.h"
#include "cli/presentation.h"
#include "cli/verbs/core.h"
#include "cli/verbs/verbs.h"
#include "run/access.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct dump {
    struct attachment attachment;
    struct job job;
    struct output output;
    bool made; /* the file name is expanded, or in a directory */
    struct presentation presentation;
    struct capture capture; /* with -o */
    struct dump_request request;
    struct dump_result result;
    /* As it can be opened from here; with -o the output file. */
    char path[FILENAME_MAX_BYTES > DUMP_PATH_MAX + 32 ? FILENAME_MAX_BYTES : DUMP_PATH_MAX + 32];
};

static void print_dump_json(const struct dump *dump)
{
    const struct attachment *attachment = &dump->attachment;
    const char *output = dump->job.options->output;
    struct json json;

    attachment_json_begin(attachment, &json);
    json_text(&json, "path", dump->path);
    if (output)
        json_null(&json, "target_path");
    else
        json_text(&json, "target_path", dump->result.target_path);
    json_number(&json, "bytes", output ? dump->capture.bytes : dump->result.bytes);
    way_json(attachment, &json);
    attachment_json(attachment, &json);
    json_end(&json);
}

/* Prints one line, whatever name the target chose; for a script all bytes but control characters.
 */
static void print_path(const char *path)
{
    char clean[sizeof((struct dump *)NULL)->path];
    bool control = false;

    for (const char *p = path; *p; p++)
        control = control || (unsigned char)*p < 0x20 || *p == 0x7f;
    if (!control && !isatty(STDOUT_FILENO)) {
        printf("%s\n", path);
        return;
    }
    printf("%s\n", message_clean(path, clean, sizeof clean));
    if (strcmp(clean, path) != 0)
        message(
            "the name contains characters that cannot be printed on a terminal: --json shows them");
}

/* Prints nothing with -o -: then stdout is the profile. */
static void print_result(const struct dump *dump)
{
    const struct options *options = dump->job.options;

    if (options_to_stdout(options))
        return;
    if (options->json) {
        print_dump_json(dump);
    } else if (options->output) {
        printf("%s\n", dump->path);
    } else {
        print_path(dump->path);
    }
}

/* Prints the path as the target sees it, if that differs. */
static void tell_target_path(const struct dump *dump)
{
    const struct options *options = dump->job.options;
    char clean[DUMP_PATH_MAX];

    if (options->output || options->quiet || options->json ||
        strcmp(dump->path, dump->result.target_path) == 0)
        return;
    message("path in the target: %s", message_clean(dump->result.target_path, clean, sizeof clean));
}

static fault_code dump_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct dump *dump = ctx;

    return dump_run(&attachment->caller.injection, &attachment->instance, &dump->request,
                    &dump->result, fault);
}

/* A file with an expanded name is always a new one. */
static fault_code open_output(struct dump *dump, const char *template, struct fault *fault)
{
    const char *extension = format_extension(dump->presentation.format);
    struct filename_facts facts;
    fault_code rc;

    dump->made = filename_has_directives(template) || filename_is_directory(template);
    filename_facts(&facts, &dump->attachment.target);
    if (!dump->made)
        snprintf(dump->path, sizeof dump->path, "%s", template);
    else if (!filename_expand(template, extension, &facts, dump->path, sizeof dump->path))
        return fault_set(fault, FAULT_OUTPUT, ENAMETOOLONG, "write output", "%s", template);
    if (!dump->made)
        return output_open_named(&dump->output, template, dump->job.options->force,
                                 dump->job.options->mode, fault);
    rc = output_open_new(&dump->output, dump->path, true, fault);
    if (rc == FAULT_NONE)
        output_set_mode(&dump->output, dump->job.options->mode);
    return rc;
}

/* Checks the output before the target is touched. */
static fault_code prepare_dump(struct dump *dump, const struct options *options,
                               struct fault *fault)
{
    dump->presentation.events = &dump->job.events;
    capture_init(&dump->capture);
    dump->request = (struct dump_request){.path = options->path,
                                          .replace = options->force,
                                          .consent = &dump->attachment.caller.hooks};
    if (options->output)
        return open_output(dump, options->output, fault);
    return dump_check(&dump->attachment.target, &dump->request, fault);
}

static fault_code run_streamed(struct dump *dump, struct fault *fault)
{
    struct attachment *attachment = &dump->attachment;
    fault_code rc;

    if (dump->presentation.format == FORMAT_RAW)
        capture_write_early(&dump->capture, &dump->output);
    rc = access_profile(attachment, &dump->capture, NULL, fault);
    if (rc == FAULT_NONE)
        rc = capture_write(attachment, &dump->presentation, &dump->capture, &dump->output, fault);
    if (rc == FAULT_NONE && !options_to_stdout(dump->job.options)) /* it may have a number now */
        snprintf(dump->path, sizeof dump->path, "%s", dump->output.path);
    return rc;
}

static fault_code run_in_target(struct dump *dump, struct fault *fault)
{
    struct attachment *attachment = &dump->attachment;
    fault_code rc;

    rc = caller_hold(attachment, dump_held, dump, fault);
    if (rc != FAULT_NONE)
        return rc;
    pid_t seen_by = dump->result.seen_by ? dump->result.seen_by : attachment->target.via;
    const struct target view = target_seen_by(&attachment->target, seen_by);
    target_path_from_here(&view, dump->result.target_path, dump->path, sizeof dump->path);
    return FAULT_NONE;
}

static fault_code perform_dump(struct dump *dump, struct fault *fault)
{
    fault_code rc =
        dump->job.options->output ? run_streamed(dump, fault) : run_in_target(dump, fault);

    if (rc != FAULT_NONE)
        return rc;
    print_result(dump);
    tell_target_path(dump);
    return FAULT_NONE;
}

static bool is_good_name(const struct options *options)
{
    bool made = options->output && filename_has_directives(options->output);
    const char *wrong = made ? filename_flaw_text(filename_check(options->output)) : NULL;

    if (wrong)
        message("%s", wrong);
    return !wrong;
}

/* A file of the target is written by the target, in a call. */
static fault_code open_job(struct dump *dump, const struct options *options, pid_t pid,
                           struct fault *fault)
{
    static const char verb[] = "dump the profile of process";
    struct attach_request request;

    if (options->output)
        return job_open_profile(&dump->job, &dump->attachment, options, pid, verb, fault);
    job_init(&dump->job, &dump->attachment, options, verb);
    dump->job.instead = options->path ? NULL : "use -o FILE, which needs no call";
    request = job_request(&dump->job, pid);
    return attachment_find(&dump->attachment, &request, fault);
}

static int dump_main(const struct options *options, pid_t pid)
{
    struct dump dump = {.output.fd = -1};
    struct fault fault;
    fault_code rc;

    if (options->core)
        return core_dump_main(options);
    if (!presentation_init(&dump.presentation, options, FORMAT_RAW) || !is_good_name(options)) {
        presentation_free(&dump.presentation);
        return EXIT_USAGE;
    }
    rc = open_job(&dump, options, pid, &fault);
    if (rc == FAULT_NONE)
        rc = prepare_dump(&dump, options, &fault);
    if (rc == FAULT_NONE)
        rc = perform_dump(&dump, &fault);
    output_close(&dump.output);
    capture_free(&dump.capture);
    presentation_free(&dump.presentation);
    return job_finish(&dump.job, rc, &fault);
}

const struct verb verb_dump = {
    .name = "dump",
    .summary = "write a heap profile, here (-o) or in the target",
    .synopses = {"[options] PID...", "--core FILE [--exe FILE] [--root DIR] [options]"},
    .takes = TAKES_OUTPUT | TAKES_PATH | TAKES_FORMAT | TAKES_HOOKS | TAKES_WAY | TAKES_CALL |
             TAKES_CORE,
    .intro = "With -o, reads the heap profile out of the memory of the process: no call, no\n"
             "thread stopped. Where that is not possible, and always without -o, a thread of\n"
             "the process calls prof.dump. Without -o the process writes the file: prints the\n"
             "path under which it can be opened from here; by default jemalloc chooses the\n"
             "name (opt.prof_prefix).\n"
             "\n"
             "With --core the process has ended: its profile is read from its core file and\n"
             "written here, by default to stdout. The core file must contain its anonymous\n"
             "memory; the code comes from the files that it had mapped, if their build-ids\n"
             "agree.\n",
    .options =
        {
            {"output", NULL,
             "write the profile to this file, here, completely or not at all; - is stdout. On the "
             "target's side nothing is created: it needs no file, no file descriptor and no disk "
             "space. If FILE is a directory, or contains %p, %n, %t, ... (see jeattach record "
             "--help), each process gets a new file"},
            {"force", NULL,
             "replace the file of -o or --path if it exists; without it, existing files are never "
             "overwritten"},
        },
    .run = dump_main,
};
