/*
 * Registers, a piece of stack and a kernel's chain, for a program that is at a fixed address of
 * this program's own memory: all of them from the input, the call frame information, too.
 */
#include "own_pages.h"
#include "perf/walk.h"

#include <string.h>

enum { REGISTERS = 40, CHAIN = 8, STACK = 2048 };

struct head {
    uint64_t registers[REGISTERS], mask, chain[CHAIN];
    unsigned char stack[STACK];
};

static void walk_input(const struct head *head)
{
    static char path[] = "input";
    struct module module = {.path = path,
                            .start = base,
                            .end = base + PAGES * PAGE,
                            .exec_start = base,
                            .exec_end = base + PAGES * PAGE};
    struct vma vma = {module.start, module.end, MAP_READ | MAP_EXEC, false, 0};
    struct modules modules = {.vmas = &vma, .vma_count = 1, .list = &module, .count = 1};
    struct user_state state = {.mask = head->mask,
                               .stack = head->stack,
                               .stack_len = sizeof head->stack,
                               .chain = head->chain,
                               .chain_len = CHAIN};
    struct walker *walker = walker_new(&target, &memory, &modules);
    remote_addr calls[WALK_DEPTH_MAX];
    size_t count;

    expect(walker != NULL);
    memcpy(state.regs, head->registers, sizeof head->registers);
    for (unsigned round = 0; round < 2; round++) {
        enum walk_end end = walker_walk(walker, &state, calls, &count);
        expect(end == WALK_COMPLETE || end == WALK_CUT || end == WALK_LOST);
        expect(count <= WALK_DEPTH_MAX && walker_guesses(walker) <= count);
    }
    walker_free(walker);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static size_t former;
    static struct head head;
    size_t rest;

    if (size < sizeof head)
        return 0;
    if (!former)
        own_pages_prepare();
    rest = size - sizeof head < PAGES * PAGE ? size - sizeof head : PAGES * PAGE;
    memcpy(&head, data, sizeof head);
    memcpy((void *)base, data + sizeof head, rest);
    if (former > rest)
        memset((char *)base + rest, 0, former - rest);
    former = rest ? rest : 1;
    memory_forget(&memory);
    walk_input(&head);
    return 0;
}
