/*
 * x86-64: the signal frames, and the pattern by which the self-check finds out whether this
 * kernel restores every extended register from one.
 *
 * The kernel restores a thread from a frame regardless of who wrote it; the
 * rules are those of arch/x86/kernel/signal_64.c (rt_sigreturn,
 * restore_sigcontext) and arch/x86/kernel/fpu/signal.c (fpu__restore_sig).
 */
#include "inject/arch.h"
#include "inject/perform.h"

#include <cpuid.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

enum {
    RED_ZONE = 128,
    FRAME_SIZE = 312,
    XSAVE_LEGACY = 512, /* FXSAVE area */
    SW_RESERVED = 464,  /* offset of the bytes of the FXSAVE area that are reserved for software */
    MAGIC2_LEN = 4,
    MAP_SLOTS = 16, /* the store gadget's address and a register that it may pop */
    UC_FLAGS = 7,   /* UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS */
    XSTATE_COMPONENTS = 63,
    FCW_AT = 0, /* byte offsets in the FXSAVE area */
    XSTATE_LEGACY_MXCSR = 24,
    XSTATE_LEGACY_XMM = 160,
    XSTATE_BV = 512, /* first word of the XSAVE header */
    XSTATE_HEADER_END = 576,
    MXCSR_INITIAL = 0x1f80,
    XSAVE_MAX = 16384,
};

#define XFEATURES_AMX   (3ull << 17) /* XTILECFG, XTILEDATA */
#define XFEATURES_FPSSE 3ull
/*
 * An invalid mode: the kernel refuses it and leaves the alternate stack as it
 * is (restore_altstack ignores the error). SS_DISABLE or zeros could change it.
 */
#define ALTSTACK_LEFT_ALONE 0x40000000

/*
 * struct rt_sigframe with struct ucontext and struct sigcontext expanded, without the
 * siginfo at its end, which rt_sigreturn does not read: so the frames together need no
 * more space than the frame of a signal and a small handler.
 */
struct signal_frame {
    uint64_t pretcode;
    uint64_t uc_flags, uc_link;
    uint64_t ss_sp;
    uint32_t ss_flags, ss_pad;
    uint64_t ss_size;
    uint64_t r8, r9, r10, r11, r12, r13, r14, r15, di, si, bp, bx, dx, ax, cx, sp, ip, flags;
    uint16_t cs, gs, fs, ss;
    uint64_t err, trapno, oldmask, cr2, fpstate, reserved[8];
    uint64_t sigmask;
};

_Static_assert(sizeof(struct signal_frame) == FRAME_SIZE, "the frames follow each other");
_Static_assert(offsetof(struct signal_frame, uc_flags) == 8, "struct ucontext begins here");
_Static_assert(offsetof(struct signal_frame, r8) == 8 + 40, "uc_mcontext");
_Static_assert(offsetof(struct signal_frame, ip) == 8 + 40 + 128, "sigcontext.ip");
_Static_assert(offsetof(struct signal_frame, cs) == 8 + 40 + 144, "sigcontext.cs");
_Static_assert(offsetof(struct signal_frame, fpstate) == 8 + 40 + 184, "sigcontext.fpstate");
_Static_assert(offsetof(struct signal_frame, sigmask) == 8 + 40 + 256, "uc_sigmask");

/* struct _fpx_sw_bytes (uapi/asm/sigcontext.h). */
struct sw_bytes {
    uint32_t magic1, extended_size;
    uint64_t xfeatures;
    uint32_t xstate_size, padding[7];
};
_Static_assert(sizeof(struct sw_bytes) == XSAVE_LEGACY - SW_RESERVED, "_fpx_sw_bytes");

/* ---- the extended state ---- */

struct xstate_component {
    uint32_t size, offset; /* bytes, standard format; size 0: the CPU does not have it */
};

/*
 * Returns component n, from 2 on (CPUID leaf 0xd). Read once and cached: in a
 * virtual machine each CPUID costs 8 microseconds, and some are needed while a
 * thread is stopped.
 */
static struct xstate_component xstate_component(unsigned n)
{
    static struct {
        bool known;
        struct xstate_component value;
    } table[XSTATE_COMPONENTS];
    unsigned ecx, edx;

    if (!table[n].known)
        __cpuid_count(0xd, n, table[n].value.size, table[n].value.offset, ecx, edx);
    table[n].known = true;
    return table[n].value;
}

/*
 * Returns the size of the task's own XSAVE area: of the enabled features
 * without AMX, which a task has only after it requested it. The register set
 * always has the largest size (CPUID leaf 0xd: eax size, ebx offset of each
 * feature).
 */
static size_t user_size(uint64_t xfeatures)
{
    size_t size = XSTATE_HEADER_END;

    for (unsigned i = 2; i < XSTATE_COMPONENTS; i++) {
        if (!(xfeatures >> i & 1))
            continue;
        struct xstate_component component = xstate_component(i);
        if (component.offset + component.size > size)
            size = component.offset + component.size;
    }
    return size;
}

/*
 * Turns the image of a register set into that of a frame: the kernel keeps XCR0
 * where the frame has magic1, so a plain copy would silently restore only x87
 * and SSE. magic2 is written at the end of both sizes, because kernels differ
 * in where they look for it.
 */
static bool image_for_frame(unsigned char *image, const struct arch_fp *fp)
{
    struct sw_bytes sw = {.magic1 = FP_XSTATE_MAGIC1};
    const uint32_t magic2 = FP_XSTATE_MAGIC2;
    uint64_t xcr0, used;

    if (fp->len < XSTATE_HEADER_END)
        return false;
    memcpy(&xcr0, fp->bytes + SW_RESERVED, sizeof xcr0);
    memcpy(&used, fp->bytes + XSTATE_BV, sizeof used);
    if (!(used & XFEATURES_AMX))
        xcr0 &= ~XFEATURES_AMX;
    size_t size = user_size(xcr0);
    if (size > fp->len)
        return false;
    sw.xfeatures = xcr0;
    sw.xstate_size = (uint32_t)size;
    sw.extended_size = (uint32_t)size + MAGIC2_LEN;
    used |= XFEATURES_FPSSE; /* as save_xstate_epilog does; the set contains their initial values */
    memcpy(image, fp->bytes, fp->len);
    memcpy(image + fp->len, &magic2, sizeof magic2);
    memcpy(image + size, &magic2, sizeof magic2);
    memcpy(image + SW_RESERVED, &sw, sizeof sw);
    memcpy(image + XSTATE_BV, &used, sizeof used);
    return true;
}

/* An empty XSTATE_BV gives every component its initial value (XRSTOR); MXCSR is used as it is. */
void arch_reset_fp(struct arch_fp *fp)
{
    const uint64_t none = 0;
    const uint32_t mxcsr = MXCSR_INITIAL;

    memcpy(fp->bytes + XSTATE_BV, &none, sizeof none);
    memcpy(fp->bytes + XSTATE_LEGACY_MXCSR, &mxcsr, sizeof mxcsr);
}

/* ---- the frames ---- */

static void fill_frame(struct signal_frame *frame, const arch_regs *regs, remote_addr fpstate,
                       uint64_t mask, remote_addr restorer)
{
    *frame = (struct signal_frame){
        .pretcode = restorer,
        .uc_flags = UC_FLAGS,
        .ss_flags = ALTSTACK_LEFT_ALONE,
        .r8 = regs->r8,
        .r9 = regs->r9,
        .r10 = regs->r10,
        .r11 = regs->r11,
        .r12 = regs->r12,
        .r13 = regs->r13,
        .r14 = regs->r14,
        .r15 = regs->r15,
        .di = regs->rdi,
        .si = regs->rsi,
        .bp = regs->rbp,
        .bx = regs->rbx,
        .dx = regs->rdx,
        .ax = regs->rax,
        .cx = regs->rcx,
        .sp = regs->rsp,
        .ip = regs->rip,
        .flags = regs->eflags,
        .cs = (uint16_t)regs->cs,
        .ss = (uint16_t)regs->ss,
        .fpstate = fpstate,
        .sigmask = mask,
    };
}

size_t arch_frames_size(void)
{
    size_t xstate = user_size(~0ull);

    return RED_ZONE + xstate + MAGIC2_LEN + 64 + 3 * (FRAME_SIZE + 16) + MAP_SLOTS;
}

/* The kernel's own alignment: 8 more than a multiple of 16, as after a call. */
static remote_addr frame_below(remote_addr top)
{
    return ((top - FRAME_SIZE) & ~15ull) - 8;
}

bool arch_forge(struct arch_frames *frames, const arch_regs *regs, const arch_regs *resume,
                uint64_t mask, const struct arch_fp *fp, const struct arch_gadgets *gadgets,
                uint64_t scratch_len, const struct arch_last *last)
{
    const uint64_t unmap_args[6] = {1, scratch_len, 0, 0, 0, 0};
    const uint64_t image_size = fp->len + MAGIC2_LEN;
    remote_addr fpstate = (arch_sp(regs) - RED_ZONE - image_size) & ~63ull;
    arch_regs unmap = *regs, then = *regs;
    struct signal_frame frame;

    frames->frame0 = frame_below(fpstate);
    frames->last = last->function ? frame_below(frames->frame0) : frames->frame0;
    frames->last_arg = last->function ? frames->last + offsetof(struct signal_frame, di) : 0;
    frames->unmap = frame_below(frames->last);
    frames->addr = frames->unmap - MAP_SLOTS;
    /* A store that pops a register takes both slots; one that does not takes only the upper. */
    frames->map = frames->addr + (gadgets->store_form == ARCH_STORE_POPS ? 0 : 8);
    frames->unmap_arg = frames->unmap + offsetof(struct signal_frame, di);
    frames->len = (size_t)(fpstate + image_size - frames->addr);
    if (frames->len > sizeof frames->bytes)
        return false;
    memset(frames->bytes, 0, frames->len);
    fill_frame(&frame, resume, fpstate, mask, gadgets->sigreturn);
    memcpy(frames->bytes + (frames->frame0 - frames->addr), &frame, sizeof frame);
    if (last->function) {
        arch_enter_last(&then, last, frames, last->arg);
        fill_frame(&frame, &then, fpstate, last->mask, gadgets->sigreturn);
        memcpy(frames->bytes + (frames->last - frames->addr), &frame, sizeof frame);
    }
    arch_enter_syscall(&unmap, gadgets, frames->last, SYS_munmap, unmap_args);
    /* The handler of a signal that waited must not leave before the area is unmapped. */
    fill_frame(&frame, &unmap, fpstate, perform_call_mask(), gadgets->sigreturn);
    memcpy(frames->bytes + MAP_SLOTS, &frame, sizeof frame);
    memcpy(frames->bytes + (frames->map - frames->addr), &gadgets->store, sizeof gadgets->store);
    return image_for_frame(frames->bytes + (fpstate - frames->addr), fp);
}

size_t arch_return_chain(unsigned char *out, size_t size, const struct arch_frames *frames,
                         const struct arch_gadgets *gadgets, remote_addr scratch)
{
    const size_t len = ARCH_CHAIN_FRAME + FRAME_SIZE;

    if (size < len)
        return 0;
    memset(out, 0, ARCH_CHAIN_FRAME);
    memcpy(out, &gadgets->store, sizeof gadgets->store);
    memcpy(out + ARCH_CHAIN_FRAME, frames->bytes + MAP_SLOTS, FRAME_SIZE);
    memcpy(out + ARCH_CHAIN_FRAME + offsetof(struct signal_frame, di), &scratch, sizeof scratch);
    return len;
}

/* ---- the self-check ---- */

#define FEATURE_PKRU 9

/* Components without reserved bits: AVX, opmask, ZMM_Hi256, Hi16_ZMM. */
static const unsigned free_form[] = {2, 5, 6, 7};

static void fill_bytes(unsigned char *at, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        at[i] = (unsigned char)(seed + i * 7 + (i >> 5) * 13);
}

/* Fills only state without reserved bits: xmm, ymm, zmm, mask registers, MXCSR, x87 control. */
static uint64_t make_pattern(unsigned char *area, uint64_t features)
{
    const uint32_t mxcsr = MXCSR_INITIAL | 0x6000; /* round toward zero */
    const uint16_t control = 0x037f | 0x0400;      /* x87: round down */
    uint64_t used = XFEATURES_FPSSE;

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

bool arch_hold_pattern(void)
{
    static _Alignas(64) unsigned char before[XSAVE_MAX], after[XSAVE_MAX];
    uint32_t low, high;
    unsigned eax, ebx, ecx = 0, edx;

    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_OSXSAVE))
        return false;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    uint64_t features = ((uint64_t)high << 32 | low) & ~XFEATURES_AMX & ~(1ull << FEATURE_PKRU);
    uint64_t used = make_pattern(before, features);
    hold_registers(before, after, used, getpid());
    if (memcmp(before + XSTATE_LEGACY_XMM, after + XSTATE_LEGACY_XMM, 256) != 0 ||
        memcmp(before + XSTATE_LEGACY_MXCSR, after + XSTATE_LEGACY_MXCSR, 4) != 0 ||
        memcmp(before + FCW_AT, after + FCW_AT, 2) != 0)
        return false;
    for (unsigned n = 2; n < 9; n++) {
        struct xstate_component component = xstate_component(n);
        if (used >> n & 1 &&
            memcmp(before + component.offset, after + component.offset, component.size) != 0)
            return false;
    }
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
