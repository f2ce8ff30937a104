#include "run/account.h"
#include "run/faults.h"
#include "run/readout.h"

#include <string.h>

/* ---- by a call ---- */

static fault_code call_for_gauges(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct account *account = ctx;

    return stats_read(&attachment->injection, &attachment->instance, &account->build,
                      &account->counted.gauges, fault);
}

static unsigned gauges_all(const struct stats_gauges *gauges)
{
    unsigned known = (1u << CTL_GAUGES) - 1;

    if (!gauges->has_retained)
        known &= ~(1u << CTL_RETAINED);
    if (!gauges->has_pinned)
        known &= ~(1u << CTL_PINNED);
    return known;
}

static fault_code count_by_call(struct account *account, struct attachment *attachment,
                                struct fault *fault)
{
    fault_code rc;

    attachment->work = WORK_REFRESH;
    rc = readout_hold(attachment, call_for_gauges, account, fault);
    if (rc != FAULT_NONE)
        return rc;
    account->source = ACCOUNT_CALL;
    account->counted.known = gauges_all(&account->counted.gauges);
    account->counted.share = 1;
    return FAULT_NONE;
}

/* ---- from memory ---- */

static fault_code count_records(struct account *account, struct attachment *attachment,
                                struct fault *fault)
{
    const struct reader_source source = attachment_source(attachment, &attachment->deadline);
    struct extents *extents;
    fault_code rc = extents_open(&extents, &source, fault);

    if (rc == FAULT_NONE)
        rc = counted_read(extents, &source, 0, &account->counted, fault);
    extents_close(extents);
    if (rc == FAULT_NONE)
        account->source = ACCOUNT_RECORDS;
    return rc;
}

static void read_build(struct account *account, const struct reader_source *source)
{
    struct fact_variables variables;
    struct prof_state state;

    facts_locate(&variables, source->instance, source->modules, source->target, source->memory);
    facts_read(&variables, source->memory, &state);
    account->build = state.build;
}

static void read_aged(struct account *account, const struct reader_source *source)
{
    struct gauges_memory places;

    gauges_locate(&places, source);
    gauges_read(&places, &account->reading);
    if (!gauges_known(&account->reading))
        return;
    account->source = ACCOUNT_AGED;
    account->counted.gauges = account->reading.gauges;
    account->counted.known = gauges_all(&account->counted.gauges);
    account->counted.share = 1;
}

static fault_code account_count(struct account *account, struct attachment *attachment,
                                struct fault *fault)
{
    const struct reader_source source = attachment_source(attachment, NULL);
    enum way way = attachment->request.way;
    fault_code rc = FAULT_NONE;

    if (way != WAY_CALL) {
        read_build(account, &source);
        rc = count_records(account, attachment, fault);
    }
    if (rc == FAULT_UNREADABLE)
        account->why = *fault;
    else if (rc != FAULT_NONE || way != WAY_CALL)
        return rc;
    if (way != WAY_MEMORY)
        return count_by_call(account, attachment, fault);
    read_aged(account, &source);
    return FAULT_NONE;
}

fault_code account_read(struct account *account, struct attachment *attachment, struct fault *fault)
{
    fault_code rc;

    *account = (struct account){.source = ACCOUNT_NONE};
    rc = account_count(account, attachment, fault);
    if (rc == FAULT_NONE)
        rc = target_usage(&attachment->target, &account->process, &account->rss_source, fault);
    return rc;
}

/* ---- the parts ---- */

static uint64_t amount_above(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static void set_part(struct account_sum *sum, enum account_part part, bool known, uint64_t bytes)
{
    sum->known[part] = known;
    sum->bytes[part] = known ? bytes : 0;
}

static void set_jemalloc_parts(struct account_sum *sum, const struct counted *counted)
{
    const struct stats_gauges *gauges = &counted->gauges;
    bool active = counted_has(counted, CTL_ACTIVE), resident = counted_has(counted, CTL_RESIDENT);
    uint64_t kept = gauges->active + gauges->pinned;
    uint64_t pages = counted->has_free_pages
                         ? counted->free_pages
                         : amount_above(gauges->resident, kept + gauges->metadata);

    set_part(sum, ACCOUNT_IN_USE, counted_has(counted, CTL_ALLOCATED),
             amount_above(gauges->allocated, counted->sampling));
    set_part(sum, ACCOUNT_SAMPLING, counted->has_sampling, counted->sampling);
    set_part(sum, ACCOUNT_BETWEEN, active, amount_above(gauges->active, gauges->allocated));
    set_part(sum, ACCOUNT_PAGES, counted->has_free_pages || resident, pages);
    set_part(sum, ACCOUNT_PINNED, counted_has(counted, CTL_PINNED), gauges->pinned);
    set_part(sum, ACCOUNT_OWN, resident, amount_above(gauges->resident, kept + pages));
}

/* The counts are not of the same instant, and pages that nobody has touched are in no RSS. */
struct account_sum account_sum_up(const struct account *account)
{
    const uint64_t rss = account->process.rss;
    struct account_sum sum = {0};
    uint64_t jemalloc = 0;

    set_jemalloc_parts(&sum, &account->counted);
    for (size_t i = 0; i < ACCOUNT_OUTSIDE; i++)
        jemalloc += sum.bytes[i];
    set_part(&sum, ACCOUNT_OUTSIDE,
             account->source != ACCOUNT_NONE && account->source != ACCOUNT_AGED,
             amount_above(rss, jemalloc));
    sum.absent = amount_above(jemalloc, rss);
    sum.whole = rss + sum.absent;
    return sum;
}
