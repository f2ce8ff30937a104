/* jeattach purge */
#include "jemalloc/purge.h"
#include "base/units.h"
#include "cli/job.h"
#include "cli/message.h"
#include "cli/output/advice.h"
#include "cli/output/attachment_json.h"
#include "cli/output/usage.h"
#include "cli/verbs/verbs.h"
#include "run/account.h"

#include <stdio.h>

struct purge {
    struct purge_result result;
    uint64_t rss_before, rss_after; /* VmRSS in bytes; 0: unreadable */
    bool little;                    /* of it came back; the next two are known */
    struct account rest;            /* afterwards */
    enum account_part largest;      /* of rest; waste counts as slabs */
};

/* Less than this part of the RSS is little, if the process is not tiny. */
enum { LITTLE_PERCENT = 10, TINY_RSS = 8 << 20 };

/* ---- why little came back ---- */

/* From memory: another stop is not needed, and a failure only costs the explanation. */
static void read_rest(struct purge *purge, struct attachment *attachment)
{
    const uint64_t before = purge->rss_before, after = purge->rss_after;
    struct account_sum sum;
    struct fault ignored;
    uint64_t between;

    if (!after || before < TINY_RSS ||
        (after < before && (double)(before - after) * 100 >= (double)before * LITTLE_PERCENT))
        return;
    purge->little = account_read_records(&purge->rest, attachment, &ignored) == FAULT_NONE &&
                    purge->rest.source != ACCOUNT_NONE;
    if (!purge->little)
        return;
    sum = account_sum_up(&purge->rest);
    between = sum.bytes[ACCOUNT_SLABS] + sum.bytes[ACCOUNT_PADDING] + sum.bytes[ACCOUNT_RETAINED];
    purge->largest = ACCOUNT_SLABS;
    if (!account_is_wasteful(&sum) || sum.bytes[ACCOUNT_OUTSIDE] > between) {
        between = sum.bytes[ACCOUNT_OUTSIDE];
        purge->largest = ACCOUNT_OUTSIDE;
    }
    if (purge->largest == ACCOUNT_OUTSIDE && sum.bytes[ACCOUNT_IN_USE] > between)
        purge->largest = ACCOUNT_IN_USE;
}

/* Returns what the command shows. */
static const char *purge_next(const struct purge *purge, int pid, char command[ADVICE_COMMAND])
{
    const bool slabs = purge->largest == ACCOUNT_SLABS, outside = purge->largest == ACCOUNT_OUTSIDE;

    snprintf(command, ADVICE_COMMAND, "jeattach %s %d",
             slabs     ? "frag"
             : outside ? "explain"
                       : "peek",
             pid);
    return slabs     ? "this shows what keeps it"
           : outside ? "this shows what is outside jemalloc"
                     : "this shows what the objects in use are";
}

static void print_purge_rest(const struct purge *purge, int pid)
{
    char bytes[UNITS_TEXT], next[ADVICE_COMMAND];
    const char *shows = purge_next(purge, pid, next);

    printf("of the %s that remain:\n", units_bytes((double)purge->rss_after, bytes));
    usage_print_parts(&purge->rest, stdout);
    advice_print_next(next, shows, stdout);
}

static void json_rest(const struct purge *purge, int pid, struct json *json)
{
    const struct account_sum sum = account_sum_up(&purge->rest);
    char next[ADVICE_COMMAND];

    if (!purge->little) {
        JSON_MEMBERS(json, NOTHING("rest"), NOTHING("next"));
        return;
    }
    json_object_begin(json, "rest");
    usage_parts_json(&sum, json);
    json_object_end(json);
    (void)purge_next(purge, pid, next);
    json_text(json, "next", next);
}

/* ---- the result ---- */

static void print_purge_json(const struct attachment *attachment, const struct purge *purge)
{
    const struct purge_result *result = &purge->result;
    struct json json;

    attachment_json_begin(attachment, &json);
    JSON_MEMBERS(&json, NUMBER_IF(result->measured, "resident_before", result->resident_before),
                 NUMBER_IF(result->measured, "resident_after", result->resident_after),
                 NUMBER("rss_before", purge->rss_before), NUMBER("rss_after", purge->rss_after));
    json_rest(purge, (int)attachment->target.pid, &json);
    attachment_json(attachment, &json);
    json_end(&json);
}

/* "redis-server[17831] returned 26.6 MiB: RSS 39.4 MiB -> 12.8 MiB (exact)" */
static void print_purge_answer(const struct job *job, uint64_t before, uint64_t after)
{
    char name[PROCESS_TEXT], from[UNITS_TEXT], to[UNITS_TEXT], less[UNITS_TEXT];

    if (!before || !after) {
        printf("%s purged; how much came back is not known: its RSS could not be read\n",
               job_process(job, name));
        return;
    }
    printf("%s returned %s: RSS %s -> %s (exact)\n", job_process(job, name),
           after < before ? units_bytes((double)(before - after), less) : "no memory",
           units_bytes((double)before, from), units_bytes((double)after, to));
}

static void print_purge_text(const struct job *job, const struct purge *purge)
{
    const struct purge_result *result = &purge->result;
    char from[UNITS_TEXT], to[UNITS_TEXT];

    print_purge_answer(job, purge->rss_before, purge->rss_after);
    if (result->measured)
        printf("stats.resident: %s -> %s, jemalloc's upper bound\n",
               units_bytes((double)result->resident_before, from),
               units_bytes((double)result->resident_after, to));
    if (purge->little)
        print_purge_rest(purge, (int)job->attachment->target.pid);
}

static fault_code purge_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct purge *purge = ctx;

    return purge_run(&attachment->caller.injection, &attachment->instance,
                     &attachment->caller.hooks, &purge->result, fault);
}

static fault_code perform_purge(struct job *job, void *ctx, struct fault *fault)
{
    struct purge *purge = ctx;
    fault_code rc;

    purge->rss_before = target_rss(&job->attachment->target);
    rc = caller_hold(job->attachment, purge_held, purge, fault);
    if (rc != FAULT_NONE)
        return rc;
    purge->rss_after = target_rss(&job->attachment->target);
    read_rest(purge, job->attachment);
    if (job->options->json)
        print_purge_json(job->attachment, purge);
    else
        print_purge_text(job, purge);
    return FAULT_NONE;
}

static int purge_main(const struct options *options, pid_t pid)
{
    struct purge purge = {0};

    return job_run(options, pid, JOB_AS_ASKED, "purge the arenas of process", perform_purge,
                   &purge);
}

const struct verb verb_purge = {
    .name = "purge",
    .summary = "return unused memory from jemalloc to the kernel",
    .synopses = {"[options] PROCESS..."},
    .examples = {{"jeattach purge 4242", "return unused memory; RSS before and after"}},
    .takes = TAKES_HOOKS,
    .intro = "Makes jemalloc return the unused pages of all arenas to the kernel\n"
             "(arena.<i>.purge); prints the RSS of the process and what jemalloc counts of it\n"
             "before and after. Memory in use is not touched. One thread is stopped until it\n"
             "is done: the more memory there is to return, the longer. If less than a tenth of\n"
             "the RSS came back, says what the rest is, and which command shows more of it.\n",
    .run = purge_main,
};
