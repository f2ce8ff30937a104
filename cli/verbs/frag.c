/* jeattach frag */
#include "run/frag.h"
#include "cli/job.h"
#include "cli/output/attachment_json.h"
#include "cli/output/frag_view.h"
#include "cli/presentation.h"
#include "cli/verbs/verbs.h"

#include <stdio.h>
#include <unistd.h>

struct frag_verb {
    struct attachment attachment;
    struct job job;
    struct presentation presentation;
    const struct options *options;
    struct frag frag;
    struct advice_setup setup;
};

/* samples NULL: there is no profile. */
static bool show_frag(struct frag_verb *verb, const struct samples *samples)
{
    const struct frag *frag = &verb->frag;
    struct display *display = &verb->presentation.display;
    struct waste waste;
    const struct frag_view view = {.frag = frag,
                                   .setup = &verb->setup,
                                   .samples = samples,
                                   .waste = &waste,
                                   .display = display,
                                   .name = verb->attachment.target.stat.comm,
                                   .pid = (int)verb->attachment.target.pid,
                                   .in_program = verb->attachment.instance.in_program,
                                   .verbose = verb->options->verbose};
    struct json json;
    bool good = waste_make(&waste, frag->classes, frag->class_count, samples);

    display->colors = isatty(STDOUT_FILENO);
    if (good && verb->options->json) {
        attachment_json_begin(&verb->attachment, &json);
        frag_json(&view, &json);
        json_end(&json);
    } else if (good) {
        frag_print(&view, stdout);
    }
    fflush(stdout); /* before the messages */
    waste_free(&waste);
    return good;
}

static void read_setup(struct frag_verb *verb)
{
    struct attachment *attachment = &verb->attachment;
    struct advice_setup *setup = &verb->setup;
    const struct account_sum sum = account_sum_up(&verb->frag.account);
    const enum account_part most = account_most_waste(&sum);
    struct threads threads;
    struct fault ignored;

    attachment_read_facts(attachment, &setup->prof);
    conf_read(&setup->conf, &attachment->instance, &attachment->modules, &attachment->target,
              &attachment->memory);
    /* Only the advice for these asks for an option that a build may have set. */
    if (most == ACCOUNT_PAGES || most == ACCOUNT_PADDING)
        conf_read_built_in(&setup->conf, &attachment->instance, &attachment->target,
                           &attachment->memory);
    if (threads_list(&threads, &attachment->target, &ignored) != FAULT_NONE)
        return;
    for (size_t i = 0; i < threads.count; i++)
        setup->purges |= tsd_is_background(threads.list[i].comm);
    threads_free(&threads);
}

static fault_code perform_frag(struct frag_verb *verb, struct fault *fault)
{
    struct frag *frag = &verb->frag;
    struct presented presented = {.count = 0};
    fault_code rc = frag_take(frag, &verb->attachment, fault);
    const bool taken = frag->capture.taken;

    if (rc != FAULT_NONE)
        return rc;
    read_setup(verb);
    verb->presentation.events = &verb->job.events;
    if (taken)
        rc = capture_read(&verb->attachment, &verb->presentation,
                          &(struct present_source){.text = &frag->capture.text}, 1, &presented,
                          fault);
    if (rc == FAULT_NONE && !show_frag(verb, taken ? &presented.samples : NULL))
        rc = fault_set(fault, FAULT_INTERNAL, ENOMEM, "share the free space", "out of memory");
    if (rc == FAULT_NONE && taken) {
        present_notes(&presented);
        rc = present_write(&presented, NULL, fault);
    }
    present_free(&presented);
    return rc;
}

static int frag_main(const struct options *options, pid_t pid)
{
    struct frag_verb verb = {.options = options};
    struct attach_request request;
    struct fault fault;
    fault_code rc;
    int code = EXIT_USAGE;

    frag_init(&verb.frag);
    if (presentation_init(&verb.presentation, options, FORMAT_TEXT)) {
        job_init(&verb.job, &verb.attachment, options, "look for fragmentation in process");
        request = job_look_request(&verb.job, pid);
        request.way = WAY_MEMORY;
        rc = attachment_find(&verb.attachment, &request, &fault);
        if (rc == FAULT_NONE)
            rc = perform_frag(&verb, &fault);
        code = job_finish(&verb.job, rc, &fault);
    }
    presentation_free(&verb.presentation);
    frag_free(&verb.frag);
    return code;
}

const struct verb verb_frag = {
    .name = "frag",
    .summary = "show which stacks keep free memory from being returned",
    .synopses = {"[options] PROCESS..."},
    .examples = {{"jeattach frag 4242", "what holds free memory back, and what helps"},
                 {"jeattach frag 4242 -v", "with whole stacks"}},
    .takes = TAKES_FRAG | TAKES_WAY,
    .intro = "Shows what of the memory of a process is free but not returned to the kernel,\n"
             "and why. The first line is the answer: where most of it is. The rows below it\n"
             "are those of stats, and add up to the RSS. The last lines say what helps.\n"
             "\n"
             "A slab holds objects of one size, and stays as long as one of them is in use.\n"
             "The free space in the slabs of each size is shared out to the stacks whose\n"
             "objects are in them, the largest share first. That needs a profile (opt.prof);\n"
             "without one the rows are size classes.\n"
             "\n"
             "All of it is read from jemalloc's own records in the memory of the process: no\n"
             "call is made and no thread stopped.\n",
    .notes = "The shares are in proportion to the objects of each stack, as estimated from the\n"
             "samples of the same size: no sampled object is in a slab. A line above the table\n"
             "says how much is known by samples. Where memory does not tell the sizes of\n"
             "samples, it is inferred: a stack counts for the size class of the mean size of\n"
             "its objects; if that is between two classes, for both, marked \"mixed sizes\".\n"
             "Objects that no sample explains have rows [not sampled], with the number of\n"
             "samples that would be expected where that is small.\n"
             "\n"
             "The table is shown where there is waste, or with --rows or -v, which shows whole\n"
             "stacks. jeattach purge returns free pages, not the space in slabs.\n",
    .options =
        {
            {"rows", NULL, "show at most N rows of the table (default 10); 0: all, however small"},
        },
    .run = frag_main,
};
