#include "inject/ways.h"

/* Only code that cannot change: what is followed must be what the thread will execute. */
static bool read_code(void *ctx, remote_addr addr, unsigned char *buf, size_t size, size_t *len)
{
    const struct leave_query *query = ctx;
    size_t whole = MEMORY_PAGE - addr % MEMORY_PAGE;

    if (!memory_is_unchanging(query->memory, addr))
        return false;
    *len = size;
    if (memory_is_unchanging(query->memory, addr + size - 1) &&
        memory_read_cached(query->memory, addr, buf, size))
        return true;
    *len = whole < size ? whole : size;
    return memory_read_cached(query->memory, addr, buf, *len);
}

static bool read_slot(void *ctx, remote_addr addr, uint64_t *value)
{
    const struct leave_query *query = ctx;

    return addr % 8 == 0 && addr < query->stack_end && query->stack_end - addr >= sizeof *value &&
           query->word(query->ctx, addr, value);
}

/* True if the word may be a return address: behind a call in the code of a module. */
static bool may_be_return(const struct leave_query *query, remote_addr word)
{
    const struct module *module = modules_at(query->modules, word - 1);
    unsigned char before[8];

    if (!module || word <= module->exec_start || word > module->exec_end)
        return false;
    return !memory_read_cached(query->memory, word - sizeof before, before, sizeof before) ||
           arch_follows_call(before);
}

enum called { CALLED_NOT, CALLED_MAYBE, CALLED };

/*
 * Judges whether the call before an address led to the place. Not: it is a call
 * of a known function all ways from which are known, and none leads there.
 * (Handlers of exceptions, to which no way leads, need call frame information.)
 */
static enum called judge_call(struct ways *ways, const struct way_reader *reader,
                              remote_addr address, remote_addr place)
{
    const struct leave_query *query = reader->ctx;
    unsigned char before[8];
    struct ways_found found;

    if (!memory_read_cached(query->memory, address - sizeof before, before, sizeof before) ||
        !arch_follows_direct_call(before))
        return CALLED_MAYBE;
    struct way begin = arch_way_at(arch_call_target(before, address));
    arch_follow_ways(ways, reader, &begin, place, &found);
    if (found.sought)
        return CALLED;
    return found.open || found.too_many ? CALLED_MAYBE : CALLED_NOT;
}

/*
 * If not all ways are known, the right return may be missing, and a wrong one
 * must not take its place.
 */
bool ways_leave(struct ways *ways, const struct leave_query *query, unsigned *left, struct way *at)
{
    const struct way_reader reader = {read_code, read_slot, (void *)(uintptr_t)query, left};
    struct ways_found found;
    const struct way *only = NULL; /* of the returns that remain */
    remote_addr address = 0;
    enum called called = CALLED_NOT;

    arch_follow_ways(ways, &reader, at, 0, &found);
    if (found.too_many)
        return false;
    for (size_t i = 0; i < found.count; i++) {
        uint64_t word;
        if (!read_slot(reader.ctx, arch_sp(&found.returns[i].regs), &word) ||
            !may_be_return(query, word))
            continue;
        enum called judged = judge_call(ways, &reader, word, arch_pc(&at->regs));
        if (judged == CALLED_NOT)
            continue;
        if (only)
            return false;
        only = &found.returns[i];
        address = word;
        called = judged;
    }
    if (!only || ((found.open || found.lost) && called != CALLED) ||
        arch_sp(&only->regs) < arch_sp(&at->regs))
        return false;
    *at = *only;
    arch_take_return(at, address);
    return true;
}
