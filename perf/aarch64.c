/* The registers of aarch64 in DWARF (ABI, "DWARF for the Arm 64-bit Architecture"). */
#include "perf/machine.h"

#include <asm/perf_regs.h>
#include <string.h>

enum { DWARF_X29 = 29, DWARF_X30 = 30, DWARF_SP = 31, DWARF_PC = 32 };

/* With 48-bit addresses, pointer authentication uses the bits above them. */
const struct machine machine = {
    .sp = DWARF_SP,
    .fp = DWARF_X29,
    .link = DWARF_X30,
    .pc = DWARF_PC,
    .fp_gives_sp = false,
    .address_mask = 0x0000ffffffffffff,
    .call_size = 4,
};

int machine_perf_register(unsigned dwarf)
{
    if (dwarf <= DWARF_X30)
        return PERF_REG_ARM64_X0 + (int)dwarf;
    if (dwarf == DWARF_SP)
        return PERF_REG_ARM64_SP;
    return dwarf == DWARF_PC ? PERF_REG_ARM64_PC : -1;
}

bool machine_is_call(const unsigned char *bytes, remote_addr after, struct machine_call *call)
{
    uint32_t code;

    *call = (struct machine_call){0};
    memcpy(&code, bytes, sizeof code);
    if ((code & 0xfc000000) == 0x94000000) { /* BL: 26 bits, in words */
        int32_t distance = (int32_t)(code << 6) >> 4;
        call->target = after - 4 + (uint64_t)(int64_t)distance;
        return true;
    }
    return (code & 0xfefff000) == 0xd63f0000; /* BLR, BLRAA and the like */
}

remote_addr machine_jump_slot(const unsigned char code[16], remote_addr at)
{
    (void)code;
    (void)at;
    return 0;
}

/* Functions without call frame information are left by their frame record. */
bool machine_read_prologue(const unsigned char *code, size_t len, struct machine_prologue *out)
{
    (void)code;
    (void)len;
    *out = (struct machine_prologue){.depth = 0};
    return false;
}

/* mov x8, #139; svc #0 */
bool machine_is_signal_return(const unsigned char code[16])
{
    static const unsigned char wanted[] = {0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4};

    return memcmp(code, wanted, sizeof wanted) == 0;
}

/* struct rt_sigframe: siginfo (128), ucontext: struct sigcontext at 176; regs after the fault
 * address. */
size_t machine_signal_offset(unsigned dwarf)
{
    return dwarf <= DWARF_PC ? 128 + 176 + 8 + 8 * (size_t)dwarf : SIZE_MAX;
}
