/* jeattach reset */
#include "jemalloc/reset.h"
#include "base/units.h"
#include "cli/job.h"
#include "cli/output/attachment_json.h"
#include "cli/verbs/verbs.h"

#include <math.h>
#include <stdio.h>

struct reset {
    int lg_sample;
    struct reset_result result;
};

static void print_reset_json(const struct attachment *attachment, const struct reset_result *result)
{
    struct json json;

    attachment_json_begin(attachment, &json);
    json_number(&json, "old_lg_sample", result->old_lg_sample);
    json_number(&json, "new_lg_sample", result->new_lg_sample);
    attachment_json(attachment, &json);
    json_end(&json);
}

static void print_reset_text(const struct job *job, const struct reset_result *result)
{
    char name[64], period[UNITS_TEXT] = "unknown";

    if (job->options->pid_count > 1)
        printf("%s[%d] ", message_clean(job->attachment->target.stat.comm, name, sizeof name),
               (int)job->attachment->target.pid);
    if (result->new_lg_sample < 64)
        units_bytes(ldexp(1, (int)result->new_lg_sample), period);
    printf("prof.reset: all samples taken so far were dropped; prof.lg_sample: ");
    if (result->old_lg_sample != result->new_lg_sample)
        printf("%llu -> ", (unsigned long long)result->old_lg_sample);
    printf("%llu (%sa sample every %s)\n", (unsigned long long)result->new_lg_sample,
           result->old_lg_sample == result->new_lg_sample ? "unchanged; " : "", period);
}

static fault_code reset_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct reset *reset = ctx;

    return reset_run(&attachment->injection, &attachment->instance, reset->lg_sample,
                     &attachment->hooks, &reset->result, fault);
}

static fault_code perform_reset(struct job *job, void *ctx, struct fault *fault)
{
    struct reset *reset = ctx;
    fault_code rc;

    rc = attachment_hold(job->attachment, reset_held, reset, fault);
    if (rc != FAULT_NONE)
        return rc;
    if (job->options->json)
        print_reset_json(job->attachment, &reset->result);
    else
        print_reset_text(job, &reset->result);
    return FAULT_NONE;
}

static int reset_main(const struct options *options, pid_t pid)
{
    struct reset reset = {.lg_sample = options->lg_sample};

    return job_run(options, pid, "reset the profile of process", perform_reset, &reset);
}

const struct verb verb_reset = {
    .name = "reset",
    .summary = "drop all samples, optionally change the sampling period",
    .synopses = {"[options] PID..."},
    .takes = TAKES_LG_SAMPLE | TAKES_HOOKS,
    .intro = "Drops all samples taken so far (prof.reset); prints prof.lg_sample, the\n"
             "logarithm of the sampling period, before and after. Profiling stays on or off.\n",
    .run = reset_main,
};
