#include "cli/verbs/bins.h"
#include "cli/faults.h"
#include "cli/job.h"
#include "cli/output/attachment_json.h"
#include "cli/output/bins_view.h"
#include "cli/presentation.h"
#include "cli/verbs/verbs.h"
#include "cli/words.h"
#include "jemalloc/facts.h"
#include "run/faults.h"

#include <stdio.h>
#include <string.h>

enum { BINS_ROWS = 15 };

struct bins_verb {
    size_t rows;
    enum bins_order order;
};

static bool set_bins(const struct options *options, struct bins_verb *verb)
{
    static const char *const names[] = {
        [BINS_BY_LIVE] = "live", [BINS_BY_WASTE] = "waste", [BINS_BY_SIZE] = "size"};
    const struct profile_options *report = &options->report;

    verb->rows = BINS_ROWS;
    if (report->rows && !presentation_number("--rows", report->rows, "rows", &verb->rows))
        return false;
    return !report->sort ||
           words_choose("order", report->sort, names, ARRAY_LEN(names), &verb->order);
}

/* Objects and slabs are in jemalloc's records since 5.0; nothing is called or stopped. */
static fault_code read_totals(struct extent_totals *totals, struct attachment *attachment,
                              struct fault *fault)
{
    const struct reader_source source = attachment_source(attachment, &attachment->deadline);
    struct extents *extents;
    fault_code rc = extents_open(&extents, &source, fault);

    if (rc == FAULT_UNREADABLE)
        rc = fault->code = FAULT_OBJECTS_UNREADABLE;
    if (rc != FAULT_NONE)
        return rc;
    rc = totals_read(extents, 0, totals, fault);
    extents_close(extents);
    return rc == FAULT_NONE ? target_check(&attachment->target, fault) : rc;
}

static void print_bins(const struct job *job, const struct bins_verb *verb,
                       const struct extent_totals *totals)
{
    struct attachment *attachment = job->attachment;
    struct fact_variables variables;
    const struct bins_view view = {.totals = totals,
                                   .version = variables.version,
                                   .name = attachment->target.stat.comm,
                                   .pid = (int)attachment->target.pid,
                                   .rows = verb->rows,
                                   .order = verb->order};
    struct json json;

    facts_locate(&variables, &attachment->instance, &attachment->modules, &attachment->target,
                 &attachment->memory);
    if (job->options->json) {
        attachment_json_begin(attachment, &json);
        bins_view_json(&view, &json);
        json_end(&json);
    } else if (job->options->prometheus) {
        bins_view_metrics(&view, stdout);
    } else {
        bins_view_print(&view, stdout);
    }
}

/* Works on a process that is stopped, frozen or traced, too. */
static fault_code perform_bins(struct job *job, void *verb, struct fault *fault)
{
    struct extent_totals totals;
    fault_code rc = read_totals(&totals, job->attachment, fault);

    if (rc == FAULT_NONE)
        print_bins(job, verb, &totals);
    return rc;
}

int bins_main(const struct options *options, pid_t pid)
{
    struct bins_verb verb = {.order = BINS_BY_LIVE};

    if (!set_bins(options, &verb))
        return EXIT_USAGE;
    return job_run(options, pid, JOB_AS_ASKED, "read the size classes of process", perform_bins,
                   &verb);
}
