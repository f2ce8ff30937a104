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

/* The returns that remain. */
struct choice {
    const struct way *only;
    remote_addr address;
    enum called called;
    size_t count;
};

static struct choice choose_return(struct ways *ways, const struct way_reader *reader,
                                   const struct ways_found *found, remote_addr place)
{
    const struct leave_query *query = reader->ctx;
    struct choice choice = {.count = 0};

    for (size_t i = 0; i < found->count && choice.count < 2; i++) {
        uint64_t word;
        if (!read_slot(reader->ctx, arch_sp(&found->returns[i].regs), &word) ||
            !may_be_return(query, word))
            continue;
        enum called called = judge_call(ways, reader, word, place);
        if (called == CALLED_NOT)
            continue;
        choice = (struct choice){&found->returns[i], word, called, choice.count + 1};
    }
    return choice;
}

/*
 * If not all ways are known, the right return may be missing, and a wrong one
 * must not take its place.
 */
bool ways_leave(struct ways *ways, const struct leave_query *query, unsigned *left, struct way *at)
{
    const struct way_reader reader = {read_code, read_slot, (void *)(uintptr_t)query, left};
    struct ways_found found;
    remote_addr slot;

    arch_follow_ways(ways, &reader, at, 0, &found);
    if (found.too_many)
        return false;
    struct choice choice = choose_return(ways, &reader, &found, arch_pc(&at->regs));
    if (choice.count != 1 || ((found.open || found.lost) && choice.called != CALLED))
        return false;
    slot = arch_sp(&choice.only->regs);
    if (slot < arch_sp(&at->regs))
        return false;
    *at = *choice.only;
    arch_take_return(at, choice.address);
    return true;
}
