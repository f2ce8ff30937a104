#include "jemalloc/callback.h"
#include "jemalloc/faults.h"

#include <errno.h>
#include <unistd.h>

/* Takes count bytes at addr into the sink; a hostile target may give any count. */
static int64_t take_piece(struct callback *callback, remote_addr addr, uint64_t count)
{
    unsigned char *space = sink_reserve(callback->sink, count);

    if (!space) {
        callback->overflow = true;
    } else if (!memory_read(callback->injection->env.memory, addr, space, count)) {
        callback->err = errno;
        return -EFAULT;
    } else {
        callback->sink->len += count;
    }
    /* Since 5.3.1 jemalloc repeats a short write, forever if nothing is written. */
    return (int64_t)count;
}

static enum intercept_verdict callback_enter(void *ctx, uint64_t nr, const uint64_t args[6],
                                             int64_t *result)
{
    struct callback *callback = ctx;
    bool ours = callback->gathers ? gather_is_write(&callback->gather, nr, args)
                                  : arch_is_write(nr) && args[0] == STDERR_FILENO;

    if (!ours)
        return INTERCEPT_PASS;
    *result = take_piece(callback, args[1], args[2]);
    return INTERCEPT_STAND_IN;
}

static void callback_leave(void *ctx, uint64_t nr, const uint64_t args[6], int64_t result)
{
    (void)ctx;
    (void)nr;
    (void)args;
    (void)result;
}

void callback_begin(struct callback *callback, struct injection *injection, struct sink *sink)
{
    *callback = (struct callback){.injection = injection, .sink = sink};
    callback->intercept =
        (struct intercept){.enter = callback_enter, .leave = callback_leave, .ctx = callback};
    callback->gathers = injection_gather(injection, &callback->gather);
}

fault_code callback_end(const struct callback *callback, const char *stage, struct fault *fault)
{
    if (callback->overflow)
        return sink_refuse(callback->sink, stage, fault);
    if (callback->err)
        return fault_set(fault, FAULT_INTERNAL, callback->err, stage, "its report");
    return FAULT_NONE;
}
