/* The registers of x86-64 in DWARF (System V ABI, figure 3.36) and in perf events. */
#include "perf/machine.h"

#include <asm/perf_regs.h>
#include <string.h>

enum { DWARF_RBP = 6, DWARF_RSP = 7, DWARF_RIP = 16 };

const struct machine machine = {
    .sp = DWARF_RSP,
    .fp = DWARF_RBP,
    .link = MACHINE_REGS,
    .pc = DWARF_RIP,
    .fp_gives_sp = true,
    .address_mask = UINT64_MAX,
    .call_size = 7,
};

int machine_perf_register(unsigned dwarf)
{
    static const unsigned char numbers[] = {
        PERF_REG_X86_AX,  PERF_REG_X86_DX,  PERF_REG_X86_CX,  PERF_REG_X86_BX,  PERF_REG_X86_SI,
        PERF_REG_X86_DI,  PERF_REG_X86_BP,  PERF_REG_X86_SP,  PERF_REG_X86_R8,  PERF_REG_X86_R9,
        PERF_REG_X86_R10, PERF_REG_X86_R11, PERF_REG_X86_R12, PERF_REG_X86_R13, PERF_REG_X86_R14,
        PERF_REG_X86_R15, PERF_REG_X86_IP,
    };

    return dwarf < sizeof numbers ? numbers[dwarf] : -1;
}

/* True if bytes are `call *operand` (FF /2), len bytes long, after an optional REX prefix. */
static bool is_indirect_call(const unsigned char *bytes, size_t len)
{
    unsigned mod, rm;
    size_t need = 2;

    if ((*bytes & 0xf0) == 0x40) {
        bytes++;
        len--;
    }
    if (len < 2 || bytes[0] != 0xff || (bytes[1] >> 3 & 7) != 2)
        return false;
    mod = bytes[1] >> 6;
    rm = bytes[1] & 7;
    if (mod != 3 && rm == 4)
        need++;
    if (mod == 1)
        need++;
    else if (mod == 2 || (mod == 0 && rm == 5) ||
             (mod == 0 && rm == 4 && len > 2 && (bytes[2] & 7) == 5))
        need += 4;
    return need == len;
}

static remote_addr add_distance(const unsigned char *bytes, remote_addr after)
{
    int32_t distance;

    memcpy(&distance, bytes, sizeof distance);
    return after + (uint64_t)(int64_t)distance;
}

bool machine_is_call(const unsigned char *bytes, remote_addr after, struct machine_call *call)
{
    *call = (struct machine_call){0};
    if (bytes[2] == 0xe8) {
        call->target = add_distance(bytes + 3, after);
        return true;
    }
    for (size_t len = 2; len <= machine.call_size; len++) {
        const unsigned char *at = bytes + machine.call_size - len;
        if (!is_indirect_call(at, len))
            continue;
        if (len == 6 && at[1] == 0x15) /* call *distance(%rip) */
            call->slot = add_distance(at + 2, after);
        return true;
    }
    return false;
}

/* endbr64, if there is one; bnd, if there is one; jmp *distance(%rip) */
remote_addr machine_jump_slot(const unsigned char code[16], remote_addr at)
{
    static const unsigned char endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
    size_t i = memcmp(code, endbr64, sizeof endbr64) == 0 ? sizeof endbr64 : 0;

    i += code[i] == 0xf2;
    if (code[i] != 0xff || code[i + 1] != 0x25)
        return 0;
    return add_distance(code + i + 2, at + i + 6);
}

/* mov $15, %rax or %eax; syscall */
bool machine_is_signal_return(const unsigned char code[16])
{
    static const unsigned char with_rax[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
    static const unsigned char with_eax[] = {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};

    return memcmp(code, with_rax, sizeof with_rax) == 0 ||
           memcmp(code, with_eax, sizeof with_eax) == 0;
}

/* struct ucontext (asm/ucontext.h): struct sigcontext_64 at 40, in the order of the kernel. */
size_t machine_signal_offset(unsigned dwarf)
{
    static const unsigned char places[] = {13, 12, 14, 11, 9, 8, 10, 15, 0,
                                           1,  2,  3,  4,  5, 6, 7,  16};

    return dwarf < sizeof places ? 40 + 8 * (size_t)places[dwarf] : SIZE_MAX;
}
