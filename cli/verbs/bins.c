#include "cli/verbs/bins.h"
#include "base/units.h"
#include "cli/faults.h"
#include "cli/job.h"
#include "cli/output/attachment_json.h"
#include "cli/output/bins_view.h"
#include "cli/verbs/verbs.h"
#include "cli/words.h"

#include <stdio.h>
#include <string.h>

enum { BINS_ROWS = 15, BINS_ROWS_MAX = 1000000 };

struct bins_verb {
    size_t rows;
    enum bins_order order;
};

static bool set_rows_of_bins(struct bins_verb *verb, const char *text)
{
    uint64_t rows = BINS_ROWS;
    const char *rest = "";
    char clean[64];

    if (text && (!units_parse_digits(text, BINS_ROWS_MAX, &rows, &rest) || *rest)) {
        message("--rows '%s' is not a number: use a whole number; 0 shows all rows",
                message_clean(text, clean, sizeof clean));
        return false;
    }
    verb->rows = rows;
    return true;
}

static bool set_bins_order(struct bins_verb *verb, const char *name)
{
    static const char *const names[] = {[BINS_BY_LIVE] = "live",
                                        [BINS_BY_WASTE] = "waste",
                                        [BINS_BY_REQUESTS] = "requests",
                                        [BINS_BY_SIZE] = "size"};

    for (enum bins_order i = BINS_BY_LIVE; i < ARRAY_LEN(names); i++)
        if (!name || strcmp(names[i], name) == 0) {
            verb->order = i;
            return true;
        }
    return words_refuse("order", name, names, ARRAY_LEN(names));
}

static bool print_bins_json(const struct job *job, const struct bins_view *view)
{
    const struct attachment *attachment = job->attachment;
    struct json json;

    attachment_json_begin(attachment, &json);
    bool good = bins_view_json(view, &json);
    if (!view->looks->memory) {
        json_number(&json, "holds", attachment->holds);
        json_number(&json, "longest_held_ns", attachment->longest_ns);
        attachment_json(attachment, &json);
    }
    json_end(&json);
    return good;
}

static fault_code print_bins(const struct job *job, const struct bins_verb *verb,
                             const struct bins_looks *looks, struct fault *fault)
{
    const struct options *options = job->options;
    const struct bins_view view = {.looks = looks,
                                   .name = job->attachment->target.stat.comm,
                                   .pid = (int)job->attachment->target.pid,
                                   .classes = options->bins,
                                   .arenas = options->arenas,
                                   .rows = verb->rows,
                                   .order = verb->order};
    bool good;

    if (options->json)
        good = print_bins_json(job, &view);
    else
        good =
            options->prometheus ? bins_view_metrics(&view, stdout) : bins_view_print(&view, stdout);
    if (!good)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "print", "size classes");
    return FAULT_NONE;
}

static fault_code perform_bins(struct job *job, const struct bins_verb *verb, struct fault *fault)
{
    const struct bins_look_request request = {.each = job->options->arenas,
                                              .wait_ns = job->options->duration_ns};
    struct bins_looks looks;
    fault_code rc;

    rc = bins_look(&looks, job->attachment, &request, fault);
    if (rc == FAULT_NONE)
        rc = print_bins(job, verb, &looks, fault);
    bins_looks_free(&looks);
    return rc;
}

/* The records have no requests and no arenas. */
static bool asks_for_records(const struct bins_verb *verb, const struct attachment *attachment,
                             const struct options *options)
{
    return attachment->request.way != WAY_CALL && !options->arenas && !options->duration_ns &&
           verb->order != BINS_BY_REQUESTS;
}

/* Works on a process that is stopped, frozen or traced, too. */
static fault_code perform_records(struct job *job, const struct bins_verb *verb,
                                  struct fault *fault)
{
    struct attachment *attachment = job->attachment;
    struct bins_looks looks;
    fault_code rc = bins_look_memory(&looks, attachment, fault);

    if (rc == FAULT_NONE)
        rc = target_check(&attachment->target, fault);
    if (rc == FAULT_NONE)
        rc = print_bins(job, verb, &looks, fault);
    bins_looks_free(&looks);
    return rc;
}

static fault_code perform_either(struct job *job, const struct bins_verb *verb, struct fault *fault)
{
    struct attachment *attachment = job->attachment;

    if (asks_for_records(verb, attachment, job->options)) {
        fault_code rc = perform_records(job, verb, fault);
        if (rc != FAULT_OBJECTS_UNREADABLE || attachment->request.way == WAY_MEMORY)
            return rc;
        attachment_note(attachment, &(struct run_note){.kind = NOTE_UNREADABLE, .fault = fault});
    }
    fault_code rc = attachment_prepare(attachment, fault);
    return rc == FAULT_NONE ? perform_bins(job, verb, fault) : rc;
}

int bins_main(const struct options *options, pid_t pid)
{
    struct bins_verb verb = {.order = BINS_BY_LIVE};
    struct attachment attachment;
    struct attach_request request;
    struct job job;
    struct fault fault;

    if (!set_rows_of_bins(&verb, options->report.rows) ||
        !set_bins_order(&verb, options->report.sort))
        return EXIT_USAGE;
    job_init(&job, &attachment, options, "read the size classes of process");
    request = job_request(&job, pid);
    fault_code rc = attachment_find(&attachment, &request, &fault);
    if (rc == FAULT_NONE)
        rc = perform_either(&job, &verb, &fault);
    return job_finish(&job, rc, &fault);
}
