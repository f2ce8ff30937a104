/* x86-64: the pattern that the self-check keeps in every extended register. */
#include "inject/arch.h"
#include "inject/x86_64_xstate.h"

#include <cpuid.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

enum { XSAVE_MAX = 16384, FCW_AT = 0 };

#define FEATURE_PKRU 9
#define FEATURES_AMX (3ull << 17)

/* Components without reserved bits: AVX, opmask, ZMM_Hi256, Hi16_ZMM. */
static const unsigned free_form[] = {2, 5, 6, 7};

static uint64_t enabled_features(void)
{
    uint32_t low, high;
    unsigned eax, ebx, ecx = 0, edx;

    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_OSXSAVE))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return ((uint64_t)high << 32 | low) & ~FEATURES_AMX & ~(1ull << FEATURE_PKRU);
}

static void fill_bytes(unsigned char *at, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        at[i] = (unsigned char)(seed + i * 7 + (i >> 5) * 13);
}

/* Fills only state without reserved bits: xmm, ymm, zmm, mask registers, MXCSR, x87 control. */
static uint64_t make_pattern(unsigned char *area, uint64_t features)
{
    const uint32_t mxcsr = 0x1f80 | 0x6000;   /* round toward zero */
    const uint16_t control = 0x037f | 0x0400; /* x87: round down */
    uint64_t used = 3;

    memset(area, 0, XSAVE_MAX);
    memcpy(area + FCW_AT, &control, sizeof control);
    memcpy(area + XSTATE_LEGACY_MXCSR, &mxcsr, sizeof mxcsr);
    fill_bytes(area + XSTATE_LEGACY_XMM, 256, 1);
    for (size_t i = 0; i < ARRAY_LEN(free_form); i++) {
        struct xstate_component component = xstate_component(free_form[i]);
        if (!(features >> free_form[i] & 1))
            continue;
        fill_bytes(area + component.offset, component.size, free_form[i] * 31);
        used |= 1ull << free_form[i];
    }
    memcpy(area + XSTATE_BV, &used, sizeof used);
    return used;
}

/* No vector register may be touched between the two instructions, so they are one asm block. */
static void hold_registers(unsigned char *before, unsigned char *after, uint64_t used, long pid)
{
    register uint64_t features __asm__("r8") = used;

    __asm__ volatile("movl %%r8d, %%eax\n"
                     "movq %%r8, %%rdx\n"
                     "shrq $32, %%rdx\n"
                     "xrstor64 (%[before])\n"
                     "movl %[kill], %%eax\n"
                     "syscall\n"
                     "movl %%r8d, %%eax\n"
                     "movq %%r8, %%rdx\n"
                     "shrq $32, %%rdx\n"
                     "xsave64 (%[after])\n"
                     :
                     : [before] "r"(before), [after] "r"(after), [kill] "i"(SYS_kill),
                       "r"(features), "D"(pid), "S"((long)SIGSTOP)
                     : "rax", "rcx", "rdx", "r11", "memory", "cc");
}

static bool component_equal(const unsigned char *before, const unsigned char *after, unsigned n)
{
    struct xstate_component component = xstate_component(n);

    return memcmp(before + component.offset, after + component.offset, component.size) == 0;
}

bool arch_hold_pattern(void)
{
    static _Alignas(64) unsigned char before[XSAVE_MAX], after[XSAVE_MAX];
    uint64_t features = enabled_features();

    if (!features)
        return false;
    uint64_t used = make_pattern(before, features);
    hold_registers(before, after, used, getpid());
    if (memcmp(before + XSTATE_LEGACY_XMM, after + XSTATE_LEGACY_XMM, 256) != 0 ||
        memcmp(before + XSTATE_LEGACY_MXCSR, after + XSTATE_LEGACY_MXCSR, 4) != 0 ||
        memcmp(before + FCW_AT, after + FCW_AT, 2) != 0)
        return false;
    for (unsigned n = 2; n < 9; n++)
        if (used >> n & 1 && !component_equal(before, after, n))
            return false;
    return true;
}

void arch_wreck_fp(struct arch_fp *fp)
{
    uint64_t used;

    memset(fp->bytes + XSTATE_LEGACY_XMM, 0x5a, 256);
    memcpy(&used, fp->bytes + XSTATE_BV, sizeof used);
    for (size_t i = 0; i < ARRAY_LEN(free_form); i++) {
        struct xstate_component component = xstate_component(free_form[i]);
        if (used >> free_form[i] & 1 && component.offset + component.size <= fp->len)
            memset(fp->bytes + component.offset, 0x5a, component.size);
    }
}

void arch_enter_sigreturn(arch_regs *regs, const struct arch_gadgets *gadgets, remote_addr sp)
{
    regs->rip = gadgets->sigreturn;
    regs->rsp = sp + 8;
    regs->orig_rax = (unsigned long long)-1;
}

__asm__(".pushsection .text\n"
        ".balign 16\n"
        "own_sigreturn:\n"
        "   movq $15, %rax\n"
        "   syscall\n"
        ".popsection\n");
extern const unsigned char own_sigreturn[];

remote_addr arch_own_sigreturn(void)
{
    return (remote_addr)(uintptr_t)own_sigreturn;
}
