#include "jemalloc/stats.h"
#include "jemalloc/conf.h"
#include "jemalloc/faults.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- the gauges ---- */

enum {
    OP_EPOCH,
    OP_ALLOCATED,
    OP_ACTIVE,
    OP_METADATA,
    OP_RESIDENT,
    OP_MAPPED,
    OP_RETAINED, /* from here on: not in every version */
    OP_PINNED,
    GAUGE_OPS
};

/* The reads return what the write of epoch before them has collected (ctl.c, ctl_refresh). */
static const struct ctl_op gauge_ops[GAUGE_OPS] = {
    [OP_EPOCH] = {.name = "epoch", .type = CTL_SIZE, .writes = true, .new_value = 1},
    [OP_ALLOCATED] = {.name = "stats.allocated", .type = CTL_SIZE},
    [OP_ACTIVE] = {.name = "stats.active", .type = CTL_SIZE},
    [OP_METADATA] = {.name = "stats.metadata", .type = CTL_SIZE},
    [OP_RESIDENT] = {.name = "stats.resident", .type = CTL_SIZE},
    [OP_MAPPED] = {.name = "stats.mapped", .type = CTL_SIZE},
    [OP_RETAINED] = {.name = "stats.retained", .type = CTL_SIZE},
    [OP_PINNED] = {.name = "stats.pinned", .type = CTL_SIZE},
};

static fault_code take_gauges(struct stats_gauges *gauges, const struct ctl_op ops[GAUGE_OPS],
                              struct fault *fault)
{
    for (size_t i = OP_EPOCH; i < OP_RETAINED; i++)
        if (ops[i].rc != 0)
            return fault_set(fault, FAULT_CTL_REFUSED, ops[i].rc, "mallctl", "%s", ops[i].name);
    gauges->allocated = ops[OP_ALLOCATED].value;
    gauges->active = ops[OP_ACTIVE].value;
    gauges->metadata = ops[OP_METADATA].value;
    gauges->resident = ops[OP_RESIDENT].value;
    gauges->mapped = ops[OP_MAPPED].value;
    gauges->has_retained = ops[OP_RETAINED].rc == 0;
    gauges->retained = gauges->has_retained ? ops[OP_RETAINED].value : 0;
    gauges->has_pinned = ops[OP_PINNED].rc == 0;
    gauges->pinned = gauges->has_pinned ? ops[OP_PINNED].value : 0;
    return FAULT_NONE;
}

fault_code stats_read(struct injection *injection, const struct instance *instance,
                      struct build *build, struct stats_gauges *gauges, struct fault *fault)
{
    enum { VERSION, CONFIG_STATS, GAUGES };
    struct ctl_op ops[GAUGES + GAUGE_OPS] = {
        [VERSION] = {.name = "version", .type = CTL_STRING},
        [CONFIG_STATS] = {.name = "config.stats", .type = CTL_BOOL},
    };
    fault_code rc;

    memcpy(ops + GAUGES, gauge_ops, sizeof gauge_ops);
    memset(gauges, 0, sizeof *gauges);
    memset(build, 0, sizeof *build);
    rc = ctl_run(injection, instance, ops, ARRAY_LEN(ops), NULL, fault);
    if (rc == FAULT_NONE)
        (void)build_take(build, ops, GAUGES, fault);
    if (rc == FAULT_NONE && ops[CONFIG_STATS].rc == 0 && !ops[CONFIG_STATS].value)
        rc = fault_set(fault, FAULT_STATS_ABSENT, 0, "read config.stats", "jemalloc %s",
                       build->text[0] ? build->text : "of unknown version");
    if (rc == FAULT_NONE)
        rc = take_gauges(gauges, ops + GAUGES, fault);
    ctl_free(ops, ARRAY_LEN(ops));
    return rc;
}

/* ---- the report ---- */

/*
 * Takes the text that malloc_stats_print hands to a callback of the type
 * void (*)(void *context, const char *text). The target writes nothing.
 */
struct callback {
    struct injection *injection;
    struct sink *sink;
    bool gathers; /* through our callback; else at its writes to file descriptor 2 */
    struct gather gather;
    bool overflow;
    int err;
};

static enum intercept_verdict callback_enter(void *ctx, uint64_t nr, const uint64_t args[6],
                                             int64_t *result)
{
    struct callback *callback = ctx;
    const uint64_t count = args[2]; /* a hostile target may give any */
    bool ours = callback->gathers ? gather_is_write(&callback->gather, nr, args)
                                  : arch_is_write(nr) && args[0] == STDERR_FILENO;
    unsigned char *space;

    if (!ours)
        return INTERCEPT_PASS;
    /* Since 5.3.1 jemalloc repeats a short write, forever if nothing is written. */
    *result = (int64_t)count;
    space = sink_reserve(callback->sink, count);
    if (!space) {
        callback->overflow = true;
    } else if (!memory_read(callback->injection->env.memory, args[1], space, count)) {
        callback->err = errno;
        *result = -EFAULT;
    } else {
        callback->sink->len += count;
    }
    return INTERCEPT_STAND_IN;
}

static void callback_leave(void *ctx, uint64_t nr, const uint64_t args[6], int64_t result)
{
    (void)ctx;
    (void)nr;
    (void)args;
    (void)result;
}

/* Checks whether the report can be taken at file descriptor 2: in pieces of 64 KiB since 5.3.0. */
static fault_code check_direct(struct injection *injection, const struct instance *instance,
                               const struct stats_request *request, struct fault *fault)
{
    struct ctl_op op = {.name = "version", .type = CTL_STRING};
    fault_code rc;

    if (variable_value(request->message_at, injection->env.memory))
        return fault_set(fault, FAULT_STATS_MESSAGE, 0, "malloc_stats_print", "malloc_message");
    if (request->allow_slow)
        return FAULT_NONE;
    rc = ctl_run(injection, instance, &op, 1, NULL, fault);
    if (rc == FAULT_NONE && !version_within(version_parse(op.text), VERSION_NUMBER(5, 3, 0), 0))
        rc = fault_set(fault, FAULT_STATS_SLOW, 0, "malloc_stats_print", "jemalloc %s",
                       op.text ? op.text : "of unknown version");
    ctl_free(&op, 1);
    return rc;
}

/* void malloc_stats_print(void (*write_cb)(void *, const char *), void *, const char *opts) */
fault_code stats_print(struct injection *injection, const struct instance *instance,
                       const struct stats_request *request, struct fault *fault)
{
    struct callback callback = {.injection = injection, .sink = request->sink};
    const struct intercept intercept = {
        .enter = callback_enter, .leave = callback_leave, .ctx = &callback};
    struct arch_call calls[2] = {{.function = instance->stats_print}};
    fault_code rc = hooks_check(injection, instance, 0, request->consent, NULL, fault);

    if (rc == FAULT_NONE && !instance->stats_print)
        rc = fault_set(fault, FAULT_STATS_NOT_FOUND, 0, "malloc_stats_print", "%s",
                       instance->module.path);
    if (rc != FAULT_NONE)
        return rc;
    /*
     * Without executable memory there is no callback: both arguments are null pointers, and
     * jemalloc writes to file descriptor 2, unless the program has set malloc_message (5.3.0
     * malloc_io.c, malloc_write).
     */
    callback.gathers = injection_gather(injection, &callback.gather);
    if (!callback.gathers)
        rc = check_direct(injection, instance, request, fault);
    if (rc != FAULT_NONE)
        return rc;
    calls[0].args[0] = callback.gather.function;
    calls[0].args[1] = callback.gather.context;
    calls[0].args[2] = injection_put(injection, request->options, strlen(request->options) + 1);
    calls[1] = callback.gather.flush;
    rc = injection_call(injection, calls, callback.gathers ? 2 : 1, &intercept, fault);
    if (rc == FAULT_NONE && callback.overflow)
        rc = sink_refuse(callback.sink, "malloc_stats_print", fault);
    else if (rc == FAULT_NONE && callback.err)
        rc = fault_set(fault, FAULT_INTERNAL, callback.err, "malloc_stats_print", "its report");
    if (rc == FAULT_NONE && request->sink->len == 0)
        rc = fault_set(fault, FAULT_INTERNAL, 0, "malloc_stats_print", "it wrote no report");
    return rc;
}
