/* Code bytes: the finders read the given bytes and no byte more. */
#include "fuzz.h"
#include "inject/arch.h"
#include "inject/refs.h"
#include "inject/ways.h"

#include <limits.h>
#include <string.h>

typedef size_t (*finder)(const unsigned char *code, size_t len);

/* A find is repeated if the code begins or ends there. */
static void check_finder(finder find, const uint8_t *data, size_t size)
{
    size_t at = find(data, size);

    if (at == SIZE_MAX)
        return;
    expect(at < size);
    expect(find(data, at) == SIZE_MAX || find(data, at) < at);
}

static void check_store(const uint8_t *data, size_t size)
{
    size_t at = arch_find_store(data, size);
    struct arch_gadgets gadgets = {0};

    if (at == SIZE_MAX || size - at < 8)
        return;
    arch_decode_store(&gadgets, 1, data + at);
    expect(gadgets.store == 1 && gadgets.store_form != ARCH_STORE_NONE);
}

/* Each return address in a scan: 8 bytes alone. */
static void check_calls(const uint8_t *data, size_t size)
{
    unsigned char *before = malloc(8);

    expect(before != NULL);
    for (size_t at = 0; at + 8 <= size; at++)
        arch_follows_call(memcpy(before, data + at, 8));
    free(before);
}

static void check_threads(const uint8_t *data, size_t size)
{
    int64_t target;
    size_t call = refs_find_thread_end(data, size, &target);
    size_t end = refs_find_exit_loop(data, size);

    expect(call == SIZE_MAX || (call < size && target >= INT32_MIN));
    expect(end == SIZE_MAX || end <= size);
}

/* The code at this address, the stack at the next: both are the same bytes. */
enum { CODE_AT = 0x10000, STACK_AT = 0x7f0000 };

struct bytes {
    const uint8_t *data;
    size_t size;
};

static bool read_code(void *ctx, remote_addr addr, unsigned char *buf, size_t size, size_t *len)
{
    const struct bytes *bytes = ctx;

    if (addr - CODE_AT >= bytes->size)
        return false;
    *len = bytes->size - (addr - CODE_AT);
    *len = *len < size ? *len : size;
    memcpy(buf, bytes->data + (addr - CODE_AT), *len);
    return true;
}

static bool read_stack(void *ctx, remote_addr addr, uint64_t *value)
{
    const struct bytes *bytes = ctx;

    if (addr - STACK_AT >= bytes->size || bytes->size - (addr - STACK_AT) < sizeof *value)
        return false;
    memcpy(value, bytes->data + (addr - STACK_AT), sizeof *value);
    return true;
}

/* All ways from the first byte end. */
static void check_ways(const uint8_t *data, size_t size)
{
    static struct ways *ways;
    struct bytes bytes = {data, size};
    unsigned left = UINT_MAX;
    const struct way_reader reader = {read_code, read_stack, &bytes, &left};
    struct ways_found found;
    arch_regs regs;

    memset(&regs, 0, sizeof regs);
    regs.rip = CODE_AT;
    regs.rsp = STACK_AT;
    regs.rbp = STACK_AT + 64;
    struct way way = arch_way_of(&regs);
    ways = ways ? ways : ways_new();
    expect(ways != NULL);
    arch_follow_ways(ways, &reader, &way, CODE_AT + 8, &found);
    expect(found.count <= WAY_RETURNS_MAX);
    for (size_t i = 0; i < found.count; i++)
        expect(found.returns[i].known >> 7 & 1); /* the stack pointer */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const finder finders[] = {arch_find_syscall_return, arch_find_sigreturn,
                                     arch_find_store,          arch_find_store_pops,
                                     refs_find_fork,           refs_find_thread_flags};

    for (size_t i = 0; i < ARRAY_LEN(finders); i++)
        check_finder(finders[i], data, size);
    check_store(data, size);
    check_calls(data, size);
    check_ways(data, size);
    check_threads(data, size);
    return 0;
}
