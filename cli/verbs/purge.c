/* jeattach purge */
#include "jemalloc/purge.h"
#include "base/units.h"
#include "cli/job.h"
#include "cli/message.h"
#include "cli/output/attachment_json.h"
#include "cli/verbs/verbs.h"
#include "run/account.h"

#include <stdio.h>

struct purge {
    struct purge_result result;
    uint64_t rss_before, rss_after; /* VmRSS in bytes; 0: unreadable */
    bool little;                    /* of it came back; the next two are known */
    struct account_sum rest;        /* afterwards */
    enum account_part largest;      /* of rest, that is not in use */
};

/* Less than this part of the RSS is little, if the process is not tiny. */
enum { LITTLE_PERCENT = 10, TINY_RSS = 8 << 20 };

/* Parts below this one of what remains have no line. */
enum { SHOWN_PERCENT = 1 };

static const struct {
    const char *name, *key, *meaning;
} rest_parts[ACCOUNT_PARTS] = {
    [ACCOUNT_IN_USE] = {"in use", "in_use", "by the program"},
    [ACCOUNT_SAMPLING] = {"sampling", "sampling", "what sampled objects take beyond their size"},
    [ACCOUNT_BETWEEN] = {"between", "between",
                         "free space between objects: its pages stay while one of them is in use"},
    [ACCOUNT_PAGES] = {"free pages", "free_pages", "freed since, or kept by extent hooks"},
    [ACCOUNT_PINNED] = {"pinned", "pinned", "free pages that extent hooks keep"},
    [ACCOUNT_OWN] = {"own data", "own_data", "jemalloc's own"},
    [ACCOUNT_OUTSIDE] = {"outside", "outside", "not jemalloc: code, stacks, files, other heaps"},
};

/* ---- why little came back ---- */

static bool is_worth_a_line(const struct account_sum *sum, enum account_part part)
{
    return sum->known[part] && (double)sum->bytes[part] * 100 >= (double)sum->whole * SHOWN_PERCENT;
}

/* From memory: another stop is not needed, and a failure only costs the explanation. */
static void read_rest(struct purge *purge, struct attachment *attachment)
{
    const uint64_t before = purge->rss_before, after = purge->rss_after;
    struct account_sum *sum = &purge->rest;
    struct account account;
    struct fault ignored;

    if (!after || before < TINY_RSS ||
        (after < before && (double)(before - after) * 100 >= (double)before * LITTLE_PERCENT))
        return;
    purge->little = account_read_records(&account, attachment, &ignored) == FAULT_NONE &&
                    account.source != ACCOUNT_NONE;
    if (!purge->little)
        return;
    *sum = account_sum_up(&account);
    if (!sum->known[ACCOUNT_BETWEEN]) { /* the sum has it in what is outside */
        sum->known[ACCOUNT_BETWEEN] = account.counted.between > 0;
        sum->bytes[ACCOUNT_BETWEEN] = account.counted.between;
        sum->bytes[ACCOUNT_OUTSIDE] -= sum->bytes[ACCOUNT_OUTSIDE] < account.counted.between
                                           ? sum->bytes[ACCOUNT_OUTSIDE]
                                           : account.counted.between;
    }
    purge->largest = ACCOUNT_BETWEEN;
    if (sum->bytes[ACCOUNT_OUTSIDE] > sum->bytes[ACCOUNT_BETWEEN])
        purge->largest = ACCOUNT_OUTSIDE;
    if (sum->bytes[ACCOUNT_IN_USE] > sum->bytes[purge->largest] &&
        (double)sum->bytes[purge->largest] * 100 < (double)sum->whole * LITTLE_PERCENT)
        purge->largest = ACCOUNT_IN_USE;
}

static void write_purge_next(const struct purge *purge, int pid, char *out, size_t size)
{
    if (purge->largest == ACCOUNT_BETWEEN)
        snprintf(out, size, "jeattach frag %d shows what keeps the space between objects", pid);
    else if (purge->largest == ACCOUNT_OUTSIDE)
        snprintf(out, size, "jeattach explain %d shows what is outside jemalloc", pid);
    else
        snprintf(out, size, "jeattach peek %d shows what the objects in use are", pid);
}

static void print_purge_rest(const struct purge *purge, int pid)
{
    char bytes[UNITS_TEXT], next[128];

    printf("little came back; of the %s that remain:\n",
           units_bytes((double)purge->rss_after, bytes));
    for (enum account_part i = 0; i < ACCOUNT_PARTS; i++)
        if (is_worth_a_line(&purge->rest, i))
            printf("  %-10s %9s  %s\n", rest_parts[i].name,
                   units_bytes((double)purge->rest.bytes[i], bytes), rest_parts[i].meaning);
    if (purge->rest.absent)
        printf("  %s of this are counted, but not in memory\n",
               units_bytes((double)purge->rest.absent, bytes));
    write_purge_next(purge, pid, next, sizeof next);
    printf("next: %s\n", next);
}

static void json_rest(const struct purge *purge, int pid, struct json *json)
{
    char next[128];

    if (!purge->little) {
        json_null(json, "rest");
        json_null(json, "next");
        return;
    }
    json_object_begin(json, "rest");
    for (enum account_part i = 0; i < ACCOUNT_PARTS; i++)
        if (purge->rest.known[i])
            json_number(json, rest_parts[i].key, purge->rest.bytes[i]);
        else
            json_null(json, rest_parts[i].key);
    json_number(json, "absent", purge->rest.absent);
    json_object_end(json);
    write_purge_next(purge, pid, next, sizeof next);
    json_text(json, "next", next);
}

/* ---- the result ---- */

static void print_purge_json(const struct attachment *attachment, const struct purge *purge)
{
    struct json json;

    attachment_json_begin(attachment, &json);
    if (purge->result.measured) {
        json_number(&json, "resident_before", purge->result.resident_before);
        json_number(&json, "resident_after", purge->result.resident_after);
    } else {
        json_null(&json, "resident_before");
        json_null(&json, "resident_after");
    }
    json_number(&json, "rss_before", purge->rss_before);
    json_number(&json, "rss_after", purge->rss_after);
    json_rest(purge, (int)attachment->target.pid, &json);
    attachment_json(attachment, &json);
    json_end(&json);
}

static void print_purge_row(const char *name, uint64_t before, uint64_t after, const char *what)
{
    char from[UNITS_TEXT], to[UNITS_TEXT];

    printf("%s: %llu -> %llu bytes (%s -> %s), %s\n", name, (unsigned long long)before,
           (unsigned long long)after, units_bytes((double)before, from),
           units_bytes((double)after, to), what);
}

static void print_purge_text(const struct job *job, const struct purge *purge)
{
    job_print_head(job);
    if (purge->result.measured)
        print_purge_row("resident", purge->result.resident_before, purge->result.resident_after,
                        "of jemalloc (stats.resident)");
    else
        printf("resident: not known, this jemalloc was built without statistics\n");
    print_purge_row("rss", purge->rss_before, purge->rss_after, "of the process");
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

    return job_run(options, pid, "purge the arenas of process", perform_purge, &purge);
}

const struct verb verb_purge = {
    .name = "purge",
    .summary = "return unused memory from jemalloc to the kernel",
    .synopses = {"[options] PID..."},
    .takes = TAKES_HOOKS,
    .intro = "Makes jemalloc return the unused pages of all arenas to the kernel\n"
             "(arena.<i>.purge); prints the resident memory of jemalloc and of the process\n"
             "before and after. Memory in use is not touched. One thread is stopped until it\n"
             "is done: the more memory there is to return, the longer. If less than a tenth of\n"
             "the RSS came back, says what the rest is, and which command shows more of it.\n",
    .run = purge_main,
};
