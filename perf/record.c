#include "perf/record.h"

#include <linux/perf_event.h>
#include <string.h>

/* What is left of a record. */
struct rest {
    const unsigned char *at;
    size_t len;
};

static bool take_part(struct rest *rest, void *out, size_t len)
{
    if (rest->len < len)
        return false;
    memcpy(out, rest->at, len);
    rest->at += len;
    rest->len -= len;
    return true;
}

static bool take_u64(struct rest *rest, uint64_t *out)
{
    return take_part(rest, out, sizeof *out);
}

/* Takes { u64 nr; u64 ips[nr]; }, and leaves out the marks of contexts (PERF_CONTEXT_USER). */
static bool take_chain(struct rest *rest, struct sample_record *out)
{
    uint64_t count, word;

    if (!take_u64(rest, &count) || count > rest->len / sizeof word)
        return false;
    out->state.chain = out->chain;
    for (; count && take_u64(rest, &word); count--)
        if (word < PERF_CONTEXT_MAX && out->state.chain_len < CHAIN_MAX)
            out->chain[out->state.chain_len++] = word;
    return true;
}

/* Takes { u64 abi; u64 regs[bits of mask]; }. Those of a 32-bit program are not reported. */
static bool take_registers(struct rest *rest, struct user_state *state, uint64_t mask)
{
    uint64_t abi;

    if (!mask)
        return true;
    if (!take_u64(rest, &abi))
        return false;
    if (abi == PERF_SAMPLE_REGS_ABI_NONE)
        return true;
    for (unsigned i = 0; i < USER_REGS_MAX; i++)
        if (mask >> i & 1 && !take_u64(rest, &state->regs[i]))
            return false;
    if (abi == PERF_SAMPLE_REGS_ABI_64)
        state->mask = mask;
    return true;
}

/* Takes { u64 size; char data[size]; u64 dyn_size; }, the last two only if size is not 0. */
static bool take_stack_copy(struct rest *rest, struct user_state *state)
{
    const unsigned char *data;
    uint64_t size, copied;

    if (!take_u64(rest, &size) || size > rest->len)
        return false;
    if (size == 0)
        return true;
    data = rest->at;
    rest->at += size;
    rest->len -= size;
    if (!take_u64(rest, &copied))
        return false;
    state->stack = data;
    state->stack_len = copied < size ? copied : size;
    return true;
}

bool record_sample(struct sample_record *out, const unsigned char *bytes, size_t len,
                   uint64_t registers)
{
    struct rest rest = {bytes, len};

    memset(&out->state, 0, sizeof out->state);
    return take_part(&rest, &out->pid, sizeof out->pid) &&
           take_part(&rest, &out->tid, sizeof out->tid) && take_u64(&rest, &out->time_ns) &&
           take_u64(&rest, &out->addr) && take_u64(&rest, &out->event) && take_chain(&rest, out) &&
           take_registers(&rest, &out->state, registers) && take_stack_copy(&rest, &out->state);
}

/* struct { u32 pid, ppid, tid, ptid; u64 time; } (linux/perf_event.h) */
pid_t record_new_thread(const unsigned char *bytes, size_t len)
{
    uint32_t pids[2];

    if (len < sizeof pids)
        return 0;
    memcpy(pids, bytes, sizeof pids);
    return pids[0] == pids[1] ? (pid_t)pids[0] : 0;
}

uint64_t record_lost(const unsigned char *bytes, size_t len)
{
    struct rest rest = {bytes, len};
    uint64_t event, lost;

    return take_u64(&rest, &event) && take_u64(&rest, &lost) ? lost : 0;
}
