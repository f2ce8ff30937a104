#include "run/account.h"
#include "run/faults.h"

#include <string.h>

/* The gauges that the parts are made of. */
#define PARTS_NEED                                                                                 \
    (1u << CTL_ALLOCATED | 1u << CTL_ACTIVE | 1u << CTL_METADATA | 1u << CTL_RESIDENT)

bool account_is_whole(const struct account *account)
{
    return (account->counted.known & PARTS_NEED) == PARTS_NEED;
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

/* ---- by a call ---- */

static fault_code call_for_gauges(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct account *account = ctx;
    struct counted *counted = &account->counted;
    /* Of the records: what sampling adds to allocated, or leaves out of it. */
    const uint64_t apart = counted->in_use - counted->gauges.allocated;
    struct build build;
    fault_code rc = stats_read(&attachment->caller.injection, &attachment->instance, &build,
                               &counted->gauges, fault);

    if (rc != FAULT_NONE)
        return rc;
    counted->in_use = counted->gauges.allocated + (counted->has_sampling ? apart : 0);
    memcpy(account->build.text, build.text, sizeof build.text);
    account->build.config_stats = build.config_stats;
    return FAULT_NONE;
}

static fault_code count_by_call(struct account *account, struct attachment *attachment,
                                struct fault *fault)
{
    fault_code rc = caller_hold(attachment, call_for_gauges, account, fault);

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

    if (rc != FAULT_NONE)
        return rc;
    rc = counted_read(extents, &source, 0, &account->counted, fault);
    extents_close(extents);
    if (rc == FAULT_NONE)
        account->source = ACCOUNT_RECORDS;
    return rc;
}

static fault_code read_process(struct account *account, const struct attachment *attachment,
                               struct fault *fault)
{
    account->has_process = !attachment->target.record;
    if (!account->has_process)
        return FAULT_NONE;
    return target_usage(&attachment->target, &account->process, &account->rss_source, fault);
}

fault_code account_count(struct account *account, struct attachment *attachment,
                         struct fault *fault)
{
    struct prof_state state;
    fault_code rc;

    *account = (struct account){.source = ACCOUNT_NONE};
    attachment_read_facts(attachment, &state);
    account->build = state.build;
    rc = count_records(account, attachment, fault);
    if (rc == FAULT_UNREADABLE) {
        account->why = *fault;
        account->why.code = FAULT_OBJECTS_UNREADABLE;
    } else if (rc != FAULT_NONE) {
        return rc;
    }
    if (!account->counted.has_sampling && account->build.opt_prof == FACT_NO) {
        account->counted.in_use = account->counted.gauges.allocated;
        account->counted.has_sampling = true;
    }
    return FAULT_NONE;
}

fault_code account_read_records(struct account *account, struct attachment *attachment,
                                struct fault *fault)
{
    fault_code rc = account_count(account, attachment, fault);

    return rc == FAULT_NONE ? read_process(account, attachment, fault) : rc;
}

fault_code account_read(struct account *account, struct attachment *attachment, struct fault *fault)
{
    const bool may_call = !attachment->target.record && attachment->request.way != WAY_MEMORY;
    fault_code rc = account_count(account, attachment, fault);

    if (rc == FAULT_NONE && may_call && !account_is_whole(account)) {
        if (account->why.code != FAULT_NONE && !attachment->unreadable && !attachment->counts_noted)
            attachment_note(attachment,
                            &(struct run_note){.kind = NOTE_UNREADABLE, .fault = &account->why});
        attachment->counts_noted = true;
        rc = count_by_call(account, attachment, fault);
    }
    return rc == FAULT_NONE ? read_process(account, attachment, fault) : rc;
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

static bool both_known(const struct account *account, enum ctl_gauge a, enum ctl_gauge b)
{
    return counted_has(&account->counted, a) && counted_has(&account->counted, b);
}

static void set_jemalloc_parts(struct account_sum *sum, const struct account *account)
{
    const struct counted *counted = &account->counted;
    const struct stats_gauges *gauges = &counted->gauges;
    uint64_t in_use = counted->has_sampling ? counted->in_use : gauges->allocated;
    bool resident = both_known(account, CTL_ACTIVE, CTL_RESIDENT);
    bool pages = counted->has_free_pages || resident;
    uint64_t kept = gauges->active + gauges->pinned;
    uint64_t free_pages = counted->has_free_pages
                              ? counted->free_pages
                              : amount_above(gauges->resident, kept + gauges->metadata);

    set_part(sum, ACCOUNT_IN_USE, counted_has(counted, CTL_ALLOCATED), in_use);
    set_part(sum, ACCOUNT_SAMPLING, counted->has_sampling, counted->sampling);
    set_part(sum, ACCOUNT_BETWEEN, both_known(account, CTL_ALLOCATED, CTL_ACTIVE),
             amount_above(gauges->active, in_use + sum->bytes[ACCOUNT_SAMPLING]));
    set_part(sum, ACCOUNT_PAGES, pages, free_pages);
    set_part(sum, ACCOUNT_PINNED, counted_has(counted, CTL_PINNED), gauges->pinned);
    set_part(sum, ACCOUNT_OWN, resident, amount_above(gauges->resident, kept + free_pages));
}

/* Own data count as resident when they are reserved: at most what else is anonymous is in memory.
 */
static void set_present(struct account_sum *sum, const struct counted_present *present,
                        uint64_t anonymous)
{
    uint64_t others = 0;

    sum->has_present = true;
    sum->present[ACCOUNT_IN_USE] = present->in_use;
    sum->present[ACCOUNT_SAMPLING] = present->sampling;
    sum->present[ACCOUNT_BETWEEN] = present->between;
    sum->present[ACCOUNT_PAGES] = present->free_pages;
    sum->present[ACCOUNT_PINNED] = present->pinned;
    sum->present[ACCOUNT_OWN] = sum->bytes[ACCOUNT_OWN];
    for (size_t i = 0; i < ACCOUNT_OUTSIDE; i++) {
        if (sum->present[i] > sum->bytes[i])
            sum->present[i] = sum->bytes[i];
        others += i == ACCOUNT_OWN ? 0 : sum->present[i];
    }
    if (anonymous && sum->present[ACCOUNT_OWN] > amount_above(anonymous, others))
        sum->present[ACCOUNT_OWN] = amount_above(anonymous, others);
}

/* The counts are not of the same instant, and pages that nobody has touched are in no RSS. */
struct account_sum account_sum_up(const struct account *account)
{
    const uint64_t rss = account->process.rss;
    struct account_sum sum = {.has_rss = account->has_process && account_is_whole(account)};
    uint64_t jemalloc = 0, present = 0;

    set_jemalloc_parts(&sum, account);
    if (account->counted.present.known && sum.has_rss)
        set_present(&sum, &account->counted.present, account->process.anonymous);
    for (size_t i = 0; i < ACCOUNT_OUTSIDE; i++) {
        jemalloc += sum.bytes[i];
        present += sum.has_present ? sum.present[i] : sum.bytes[i];
    }
    set_part(&sum, ACCOUNT_OUTSIDE, sum.has_rss, amount_above(rss, present));
    sum.present[ACCOUNT_OUTSIDE] = sum.bytes[ACCOUNT_OUTSIDE];
    sum.whole = jemalloc + sum.bytes[ACCOUNT_OUTSIDE];
    sum.absent = sum.has_rss ? amount_above(sum.whole, rss) : 0;
    return sum;
}
