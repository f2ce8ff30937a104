/*
 * Gathers the texts that a called function hands to a callback, and takes them
 * out in a few large pieces.
 */
#include "inject/call.h"

/*
 * fs.nr_open is below 2^30: if the tool dies, the thread's write fails with
 * EBADF and touches nothing. Odd, so that its call can be made void.
 */
enum { GATHER_FD = 0x3ffffffd };

_Static_assert(SCRATCH_CODE + SCRATCH_DATA + SCRATCH_GATHER < SCRATCH_LEN - (64 << 10),
               "space for the stack of any call");

bool injection_gather(struct injection *injection, struct gather *gather)
{
    const struct arch_gather head = {.size = SCRATCH_GATHER - sizeof head, .fd = GATHER_FD};
    size_t function, flush;

    if (injection->direct || !arch_gather_functions(&function, &flush))
        return false;
    *gather = (struct gather){
        .function = injection->scratch + function,
        .context = injection->scratch + SCRATCH_CODE + SCRATCH_DATA,
        .flush.function = injection->scratch + flush,
    };
    gather->flush.args[0] = gather->context;
    return memory_write(injection->env.memory, gather->context, &head, sizeof head);
}

bool gather_is_write(const struct gather *gather, uint64_t nr, const uint64_t args[6])
{
    return arch_is_write(nr) && args[0] == GATHER_FD &&
           args[1] == gather->context + sizeof(struct arch_gather) && args[2] <= SCRATCH_GATHER;
}
