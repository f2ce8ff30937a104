#include "run/account.h"
#include "base/text.h"
#include "base/util.h"
#include "run/faults.h"

#include <string.h>

enum { WASTE_LEAST_PERCENT = 10 };

/* The gauges that the parts are made of. */
#define PARTS_NEED                                                                                 \
    (1u << CTL_ALLOCATED | 1u << CTL_ACTIVE | 1u << CTL_METADATA | 1u << CTL_RESIDENT)

bool account_is_whole(const struct account *account)
{
    return (account->counted.known & PARTS_NEED) == PARTS_NEED;
}

static uint64_t sum_of_parts(const struct account_sum *sum)
{
    uint64_t bytes = 0;

    for (enum account_part part = 0; part < ACCOUNT_PARTS; part++)
        bytes += sum->bytes[part];
    return bytes;
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
    struct stats_gauges gauges;
    struct build build;
    fault_code rc =
        stats_read(&attachment->caller.injection, &attachment->instance, &build, &gauges, fault);

    if (rc != FAULT_NONE)
        return rc;
    counted->gauges = gauges;
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

/* Another jemalloc is one number: the memory that its records show to be present. */
static bool count_other(struct attachment *attachment, const struct instance *instance,
                        uint64_t *bytes)
{
    struct reader_source source = attachment_source(attachment, &attachment->deadline);
    struct account other = {.has_process = !attachment->target.record, .process.rss = UINT64_MAX};
    struct account_sum sum;
    struct extents *extents;
    struct fault ignored;
    bool read;

    source.instance = instance;
    if (extents_open(&extents, &source, &ignored) != FAULT_NONE)
        return false;
    read = counted_read(extents, &source, 0, &other.counted, &ignored) == FAULT_NONE;
    extents_close(extents);
    sum = account_sum_up(&other);
    *bytes = sum_of_parts(&sum) - sum.bytes[ACCOUNT_OUTSIDE];
    return read;
}

static void count_others(struct account *account, struct attachment *attachment)
{
    const struct instances *instances = &attachment->instances;
    uint64_t bytes, most = 0;

    for (size_t i = 0; i < instances->count; i++) {
        if (i == instances->chosen)
            continue;
        account->others++;
        if (!count_other(attachment, &instances->list[i], &bytes))
            continue;
        account->has_other = true;
        account->other += bytes;
        if (bytes < most)
            continue;
        most = bytes;
        account->largest = i + 1;
        snprintf(account->module, sizeof account->module, "%s",
                 text_base_name(instances->list[i].path));
    }
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
    struct fault ignored;
    fault_code rc;

    *account = (struct account){.source = ACCOUNT_NONE};
    if (!attachment->target.record) /* what it has mapped meanwhile is counted, too */
        attachment_map_again(attachment, &ignored);
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
    count_others(account, attachment);
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
        rc = account->build.config_stats != FACT_NO || account->source == ACCOUNT_NONE
                 ? count_by_call(account, attachment, fault)
                 : FAULT_NONE;
        if (rc == FAULT_STATS_ABSENT && account->source == ACCOUNT_RECORDS)
            rc = FAULT_NONE; /* the records tell what there is without statistics */
    }
    return rc == FAULT_NONE ? read_process(account, attachment, fault) : rc;
}

/* ---- the parts ---- */

static void set_part(struct account_sum *sum, enum account_part part, bool known, uint64_t bytes)
{
    sum->known[part] = known;
    sum->bytes[part] = known ? bytes : 0;
}

static bool both_known(const struct account *account, enum ctl_gauge a, enum ctl_gauge b)
{
    return counted_has(&account->counted, a) && counted_has(&account->counted, b);
}

/* What jemalloc counts as memory. */
static void set_counted_parts(struct account_sum *sum, const struct account *account)
{
    const struct counted *counted = &account->counted;
    const struct stats_gauges *gauges = &counted->gauges;
    const uint64_t in_use = counted->has_sampling ? counted->in_use : gauges->allocated;
    const uint64_t between = amount_above(gauges->active, in_use + counted->sampling);
    const bool has_between = both_known(account, CTL_ALLOCATED, CTL_ACTIVE);
    const bool resident = both_known(account, CTL_ACTIVE, CTL_RESIDENT);
    const uint64_t kept = gauges->active + gauges->pinned;
    const uint64_t free_pages = counted->has_free_pages
                                    ? counted->free_pages
                                    : amount_above(gauges->resident, kept + gauges->metadata);
    uint64_t slabs = counted->has_slabs ? counted->slabs : between;

    if (has_between && slabs > between)
        slabs = between;
    set_part(sum, ACCOUNT_IN_USE, counted_has(counted, CTL_ALLOCATED), in_use);
    set_part(sum, ACCOUNT_SAMPLING, counted->has_sampling, counted->sampling);
    set_part(sum, ACCOUNT_SLABS, counted->has_slabs || has_between, slabs);
    set_part(sum, ACCOUNT_PADDING, counted->has_slabs && has_between, between - slabs);
    set_part(sum, ACCOUNT_PAGES, counted->has_free_pages || resident, free_pages);
    set_part(sum, ACCOUNT_PINNED, counted_has(counted, CTL_PINNED), gauges->pinned);
    set_part(sum, ACCOUNT_OWN, resident, amount_above(gauges->resident, kept + free_pages));
}

static void take_off(struct account_sum *sum, enum account_part part, uint64_t *excess)
{
    const uint64_t less = sum->bytes[part] < *excess ? sum->bytes[part] : *excess;

    sum->bytes[part] -= less;
    *excess -= less;
}

/*
 * Sampled objects take whole extents and touch one page (arena_prof_promote), and such extents are
 * free pages later. The counts and the RSS are not of the same instant, either.
 */
static void leave_in_memory(struct account_sum *sum, const struct account *account)
{
    static const enum account_part order[] = {ACCOUNT_SAMPLING, ACCOUNT_PADDING, ACCOUNT_PAGES,
                                              ACCOUNT_RETAINED, ACCOUNT_IN_USE,  ACCOUNT_OWN,
                                              ACCOUNT_PINNED,   ACCOUNT_OTHER,   ACCOUNT_SLABS};
    const struct counted_present *present = &account->counted.present;
    const uint64_t found[ACCOUNT_PARTS] = {
        [ACCOUNT_IN_USE] = present->in_use,    [ACCOUNT_SAMPLING] = present->sampling,
        [ACCOUNT_SLABS] = present->slabs,      [ACCOUNT_PADDING] = present->padding,
        [ACCOUNT_PAGES] = present->free_pages, [ACCOUNT_PINNED] = present->pinned};
    uint64_t excess;

    for (enum account_part part = 0; present->known && part <= ACCOUNT_PINNED; part++)
        if (sum->bytes[part] > found[part])
            sum->bytes[part] = found[part];
    if (present->known && present->has_own && sum->known[ACCOUNT_OWN])
        sum->bytes[ACCOUNT_OWN] = present->own;
    if (present->known && !present->has_own && account->process.anonymous) {
        /* They count as resident when they are reserved: at most what else is anonymous is. */
        excess = amount_above(sum_of_parts(sum), account->process.anonymous);
        take_off(sum, ACCOUNT_OWN, &excess);
    }
    /* Without the page tables: at most the memory without a file, as jemalloc's is. */
    const bool apart = !present->known && account->process.anonymous;
    excess =
        amount_above(sum_of_parts(sum), apart ? account->process.anonymous : account->process.rss);
    if (!account->counted.has_slabs) /* with what sampling and large objects leave unwritten */
        take_off(sum, ACCOUNT_SLABS, &excess);
    for (size_t i = 0; i < ARRAY_LEN(order); i++)
        take_off(sum, order[i], &excess);
}

struct account_sum account_sum_up(const struct account *account)
{
    const struct counted_present *present = &account->counted.present;
    struct account_sum sum = {.absent = 0};
    uint64_t counted, all;

    set_counted_parts(&sum, account);
    counted = sum_of_parts(&sum);
    set_part(&sum, ACCOUNT_OTHER, account->has_other, account->other);
    if (!account->has_process) {
        sum.whole = sum_of_parts(&sum);
        return sum;
    }
    set_part(&sum, ACCOUNT_RETAINED, present->has_retained, present->retained);
    leave_in_memory(&sum, account);
    all = sum_of_parts(&sum);
    sum.absent =
        amount_above(counted, all - sum.bytes[ACCOUNT_RETAINED] - sum.bytes[ACCOUNT_OTHER]);
    sum.whole = account->process.rss;
    set_part(&sum, ACCOUNT_OUTSIDE, account_is_whole(account), amount_above(sum.whole, all));
    return sum;
}

uint64_t account_waste(const struct account_sum *sum)
{
    uint64_t waste = 0;

    for (enum account_part part = ACCOUNT_SLABS; part <= ACCOUNT_RETAINED; part++)
        waste += sum->bytes[part];
    return waste;
}

bool account_is_wasteful(const struct account_sum *sum)
{
    const uint64_t waste = account_waste(sum);

    return waste >= ACCOUNT_WASTE_LEAST &&
           (double)waste * 100 >= (double)sum->whole * WASTE_LEAST_PERCENT;
}

enum account_part account_most_waste(const struct account_sum *sum)
{
    enum account_part most = ACCOUNT_SLABS;

    if (!account_is_wasteful(sum))
        return ACCOUNT_PARTS;
    for (enum account_part part = ACCOUNT_SLABS; part <= ACCOUNT_RETAINED; part++)
        if (sum->bytes[part] > sum->bytes[most])
            most = part;
    return most;
}
