/* jeattach dump */
#include "attach/target_paths.h"
#include "cli/faults.h"
#include "cli/job.h"
#include "cli/output/attachment_json.h"
#include "cli/presentation.h"
#include "cli/verbs/core.h"
#include "cli/verbs/verbs.h"
#include "cli/words.h"
#include "run/access.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct dump {
    struct attachment attachment;
    struct job job;
    struct output output;
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
    JSON_MEMBERS(&json, TEXT("path", dump->path),
                 TEXT_IF(!output, "target_path", dump->result.target_path),
                 NUMBER("bytes", output ? dump->capture.bytes : dump->result.bytes));
    way_json(attachment, access_calls(attachment), &json);
    attachment_json(attachment, &json);
    json_end(&json);
}

/* Prints nothing with -o -: then stdout is the profile. */
static void print_result(const struct dump *dump)
{
    const struct options *options = dump->job.options;
    char clean[sizeof dump->path];
    bool control = false;

    if (options_to_stdout(options))
        return;
    if (options->json) {
        print_dump_json(dump);
        return;
    }
    if (options->output) {
        printf("%s\n", dump->path);
        return;
    }

    /* One line, whatever name the target chose; for a script all bytes but control characters. */
    for (const char *p = dump->path; *p; p++)
        control = control || (unsigned char)*p < 0x20 || *p == 0x7f;
    message_clean(dump->path, clean, sizeof clean);
    if (!control && !isatty(STDOUT_FILENO)) {
        printf("%s\n", dump->path);
    } else {
        printf("%s\n", clean);
        if (strcmp(clean, dump->path) != 0)
            message("the name contains characters that cannot be printed on a terminal: --json "
                    "shows them");
    }
    if (!options->quiet && strcmp(dump->path, dump->result.target_path) != 0)
        message("path in the target: %s",
                message_clean(dump->result.target_path, clean, sizeof clean));
}

static fault_code dump_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct dump *dump = ctx;

    return dump_run(&attachment->caller.injection, &attachment->instance, &dump->request,
                    &dump->result, fault);
}

/* Before the target is touched. A file with an expanded name is always a new one. */
static fault_code open_output(struct dump *dump, const char *template, struct fault *fault)
{
    const char *extension = format_extension(dump->presentation.format);
    const struct options *options = dump->job.options;
    struct filename_facts facts;
    fault_code rc;

    if (!filename_has_directives(template) && !filename_is_directory(template)) {
        snprintf(dump->path, sizeof dump->path, "%s", template);
        return output_open_named(&dump->output, template, options->force, options->mode, fault);
    }
    filename_facts(&facts, &dump->attachment.target);
    if (!filename_expand(template, extension, &facts, dump->path, sizeof dump->path))
        return fault_set(fault, FAULT_OUTPUT, ENAMETOOLONG, "write output", "%s", template);
    rc = output_open_new(&dump->output, dump->path, true, fault);
    if (rc == FAULT_NONE)
        output_set_mode(&dump->output, options->mode);
    return rc;
}

static fault_code run_streamed(struct dump *dump, struct fault *fault)
{
    struct attachment *attachment = &dump->attachment;
    fault_code rc = open_output(dump, dump->job.options->output, fault);

    if (rc != FAULT_NONE)
        return rc;
    if (dump->presentation.format == FORMAT_RAW)
        capture_write_early(&dump->capture, &dump->output);
    rc = access_profile(attachment, &dump->capture, NULL, fault);
    if (rc == FAULT_NONE)
        rc = capture_write(attachment, &dump->presentation, &dump->capture, &dump->output, fault);
    if (rc == FAULT_NONE && !options_to_stdout(dump->job.options)) /* it may have a number now */
        snprintf(dump->path, sizeof dump->path, "%s", dump->output.path);
    return rc;
}

/* The target writes the file, in a call. */
static fault_code run_in_target(struct dump *dump, struct fault *fault)
{
    struct attachment *attachment = &dump->attachment;
    fault_code rc = dump_check(&attachment->target, &dump->request, fault);

    if (rc == FAULT_NONE)
        rc = access_check_profiling(attachment, fault);
    if (rc == FAULT_NONE)
        rc = caller_hold(attachment, dump_held, dump, fault);
    if (rc != FAULT_NONE)
        return rc;
    pid_t seen_by = dump->result.seen_by ? dump->result.seen_by : attachment->target.via;
    const struct target view = target_seen_by(&attachment->target, seen_by);
    target_path_from_here(&view, dump->result.target_path, dump->path, sizeof dump->path);
    return FAULT_NONE;
}

static int dump_main(const struct options *options, pid_t pid)
{
    static const char verb[] = "dump the profile of process";
    struct dump dump = {.output.fd = -1};
    struct attach_request request;
    const char *wrong = NULL;
    struct fault fault;
    fault_code rc;

    if (options->core)
        return core_dump_main(options);
    if (!presentation_init(&dump.presentation, options, FORMAT_RAW)) {
        presentation_free(&dump.presentation);
        return EXIT_USAGE;
    }
    if (options->output && filename_has_directives(options->output))
        wrong = filename_flaw_text(filename_check(options->output));
    if (wrong) {
        message("%s", wrong);
        presentation_free(&dump.presentation);
        return EXIT_USAGE;
    }

    if (options->output) {
        rc = job_open_profile(&dump.job, &dump.attachment, options, pid, verb, &fault);
    } else {
        job_init(&dump.job, &dump.attachment, options, verb);
        dump.job.instead = options->path ? NULL : "use -o FILE, which needs no call";
        request = job_request(&dump.job, pid);
        rc = attachment_find(&dump.attachment, &request, &fault);
    }
    dump.presentation.events = &dump.job.events;
    capture_init(&dump.capture);
    dump.request = (struct dump_request){
        .path = options->path, .replace = options->force, .consent = &dump.attachment.caller.hooks};
    if (rc == FAULT_NONE)
        rc = options->output ? run_streamed(&dump, &fault) : run_in_target(&dump, &fault);
    if (rc == FAULT_NONE)
        print_result(&dump);
    output_close(&dump.output);
    capture_free(&dump.capture);
    presentation_free(&dump.presentation);
    return job_finish(&dump.job, rc, &fault);
}

const struct verb verb_dump = {
    .name = "dump",
    .summary = "write a heap profile, here (-o) or in the target",
    .synopses = {"[options] PROCESS...", "--core FILE [--exe FILE] [--root DIR] [options]"},
    .examples = {{"jeattach dump 4242 -o now.heap", "the profile as it is now"},
                 {"jeattach dump 4242 -o now.html", "the same as a flame graph"},
                 {"jeattach dump core.4242 -o then.heap", "of a process that has died"}},
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
             "space. If FILE is a directory (DIR/ makes it), or contains %p, %n, %t, ... (see "
             "jeattach record "
             "--help), each process gets a new file"},
            {"force", NULL,
             "replace the file of -o or --path if it exists; without it, existing files are never "
             "overwritten"},
        },
    .run = dump_main,
};
