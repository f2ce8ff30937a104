#include "run/bins_look.h"
#include "jemalloc/reader/birth.h"
#include "run/interrupt.h"
#include "run/pause.h"

#include <string.h>

struct bins_held {
    bool each;
    struct bins *bins;
};

static fault_code bins_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    const struct bins_held *held = ctx;

    return bins_read(&attachment->injection, &attachment->instance, held->each, held->bins, fault);
}

/* Waits for the second look; the end of the target shows at its attach. */
static fault_code bins_wait(struct bins_looks *looks, struct attachment *attachment,
                            uint64_t wait_ns, struct fault *fault)
{
    const struct pause pause = {.until = looks->first.time_ns + wait_ns,
                                .interrupted = interrupt_flag(),
                                .target = &attachment->target};

    attachment_rest(attachment);
    looks->interrupted = pause_until(&pause) == PAUSE_INTERRUPTED;
    return attachment_renew(attachment, NULL, fault);
}

/* Up to 4.5 only the start of the process is known, which is a little earlier. */
static uint64_t bins_age(const struct bins *bins, const struct attachment *attachment)
{
    return bins->arenas[0].uptime_ns ? bins->arenas[0].uptime_ns
                                     : birth_uptime_limit(&attachment->target);
}

fault_code bins_look(struct bins_looks *looks, struct attachment *attachment,
                     const struct bins_look_request *request, struct fault *fault)
{
    struct bins_held held = {request->each, &looks->first};
    fault_code rc = FAULT_NONE;

    memset(looks, 0, sizeof *looks);
    looks->two = request->wait_ns > 0;
    if (looks->two)
        rc = attachment_hold(attachment, bins_held, &held, fault);
    if (looks->two && rc == FAULT_NONE)
        rc = bins_wait(looks, attachment, request->wait_ns, fault);
    held.bins = &looks->last;
    if (rc == FAULT_NONE)
        rc = attachment_hold(attachment, bins_held, &held, fault);
    if (rc == FAULT_NONE)
        looks->interval_ns = looks->two ? looks->last.time_ns - looks->first.time_ns
                                        : bins_age(&looks->last, attachment);
    return rc;
}

void bins_looks_free(struct bins_looks *looks)
{
    bins_free(&looks->first);
    bins_free(&looks->last);
}

const struct arena_bins *bins_look_former(const struct bins_looks *looks,
                                          const struct arena_bins *arena)
{
    for (size_t i = 0; i < looks->first.count; i++)
        if (looks->first.arenas[i].arena == arena->arena)
            return &looks->first.arenas[i];
    return NULL;
}
