/* x86-64: the forged signal frames, read back as the C library declares them. */
#include "check.h"
#include "inject/arch.h"
#include "inject/perform.h"

#include <cpuid.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>

enum { RED_ZONE = 128, SCRATCH = 0x41000, XSAVE_BV = 512, SOFTWARE = 464 };

static const struct arch_gadgets gadgets = {.syscall_return = 0x7f0000001000,
                                            .sigreturn = 0x7f0000002000,
                                            .store = 0x7f0000003000,
                                            .store_form = ARCH_STORE_PLAIN,
                                            .store_disp = 8};
static const uint64_t blocked = 0xfedcba9876543210;

static struct arch_frames frames;
static struct arch_fp fp;
static arch_regs regs, resume;

/* Every register with a value of its own. */
static void make_regs(arch_regs *out, uint64_t seed, uint64_t sp)
{
    unsigned long long *words = (unsigned long long *)(void *)out;

    for (size_t i = 0; i < sizeof *out / sizeof *words; i++)
        words[i] = seed + i * 0x101010101;
    out->rsp = sp;
    out->cs = 0x33;
    out->ss = 0x2b;
    out->eflags = 0x40502 | 1 << 8 | 1 << 16;
}

static void make_fp(size_t len, uint64_t xcr0, uint64_t used)
{
    fp.len = len;
    for (size_t i = 0; i < len; i++)
        fp.bytes[i] = (unsigned char)(i * 31 + 7);
    memcpy(fp.bytes + SOFTWARE, &xcr0, sizeof xcr0);
    memcpy(fp.bytes + XSAVE_BV, &used, sizeof used);
}

static struct arch_last last;

static bool forge(uint64_t sp, const struct arch_gadgets *with)
{
    make_regs(&regs, 0x1000, sp);
    make_regs(&resume, 0x9000, sp + 16);
    memset(&frames, 0xee, sizeof frames);
    return arch_forge(&frames, &regs, &resume, blocked, &fp, with, SCRATCH, &last);
}

static const void *at(remote_addr addr)
{
    return frames.bytes + (addr - frames.addr);
}

static uint64_t word_at(remote_addr addr)
{
    uint64_t word;

    memcpy(&word, at(addr), sizeof word);
    return word;
}

static ucontext_t context_at(remote_addr frame)
{
    ucontext_t context;

    /* A kernel's ucontext is shorter than the C library's; the rest is not compared. */
    memcpy(&context, at(frame + 8), offsetof(ucontext_t, uc_sigmask) + 8);
    return context;
}

static remote_addr fpstate_of(remote_addr frame)
{
    ucontext_t context = context_at(frame);
    return (remote_addr)(uintptr_t)context.uc_mcontext.fpregs;
}

/* Requirements of the kernel, and of the called functions, on the addresses. */
static void check_layout(uint64_t sp, size_t fp_len)
{
    remote_addr fpstate = fpstate_of(frames.frame0);

    CHECK(frames.frame0 % 16 == 8 && frames.unmap % 16 == 8 && frames.addr % 8 == 0);
    CHECK(fpstate % 64 == 0 && fpstate_of(frames.unmap) == fpstate);
    CHECK(frames.addr + frames.len <= sp - RED_ZONE);
    CHECK(fpstate + fp_len + 4 <= frames.addr + frames.len);
    CHECK(sp - frames.addr <= RED_ZONE + fp_len + 4 + 64 + 2 * (312 + 16) + 16);
    CHECK(frames.frame0 + 312 <= fpstate);
    CHECK(frames.unmap + 312 <= frames.frame0 && frames.addr + 16 <= frames.unmap);
    CHECK(frames.len <= sizeof frames.bytes);
}

static void test_layout(void)
{
    static const size_t sizes[] = {576, 832, 1088, 2432, 2688, 2696, 8192, 11008};

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        make_fp(sizes[i], 3, 3);
        for (uint64_t sp = 0x7ffe00000000; sp < 0x7ffe00000000 + 192; sp += 8)
            if (CHECK(forge(sp, &gadgets)))
                check_layout(sp, sizes[i]);
    }
}

static void test_pointers(void)
{
    struct arch_gadgets pops = gadgets, none = {.syscall_return = 1, .sigreturn = 2};

    make_fp(576, 3, 3);
    CHECK(forge(0x7ffe00000000, &gadgets));
    CHECK(word_at(frames.frame0) == gadgets.sigreturn &&
          word_at(frames.unmap) == gadgets.sigreturn);
    /* The map step returns to the store, that to the unmap frame's restorer. */
    CHECK(word_at(frames.map) == gadgets.store && frames.map + 8 == frames.unmap);
    pops.store_form = ARCH_STORE_POPS;
    CHECK(forge(0x7ffe00000000, &pops));
    CHECK(word_at(frames.map) == gadgets.store && frames.map + 16 == frames.unmap);
    CHECK(forge(0x7ffe00000000, &none) && word_at(frames.unmap) == 2);
}

static void check_resume_registers(const mcontext_t *m)
{
    const greg_t *g = m->gregs;

    CHECK((uint64_t)g[REG_RIP] == resume.rip && (uint64_t)g[REG_RSP] == resume.rsp);
    CHECK((uint64_t)g[REG_RAX] == resume.rax && (uint64_t)g[REG_RBX] == resume.rbx);
    CHECK((uint64_t)g[REG_RCX] == resume.rcx && (uint64_t)g[REG_RDX] == resume.rdx);
    CHECK((uint64_t)g[REG_RSI] == resume.rsi && (uint64_t)g[REG_RDI] == resume.rdi);
    CHECK((uint64_t)g[REG_RBP] == resume.rbp && (uint64_t)g[REG_EFL] == resume.eflags);
    CHECK((uint64_t)g[REG_R8] == resume.r8 && (uint64_t)g[REG_R9] == resume.r9);
    CHECK((uint64_t)g[REG_R10] == resume.r10 && (uint64_t)g[REG_R11] == resume.r11);
    CHECK((uint64_t)g[REG_R12] == resume.r12 && (uint64_t)g[REG_R13] == resume.r13);
    CHECK((uint64_t)g[REG_R14] == resume.r14 && (uint64_t)g[REG_R15] == resume.r15);
}

static void check_context(const ucontext_t *context, uint64_t wanted)
{
    uint64_t mask;

    memcpy(&mask, &context->uc_sigmask, sizeof mask);
    CHECK(mask == wanted);
    CHECK(context->uc_flags == 7); /* extended state; ss is included, and is restored unchanged */
    CHECK(context->uc_link == NULL);
    /* Neither SS_DISABLE nor a stack: the kernel must refuse it. */
    CHECK(context->uc_stack.ss_flags != SS_DISABLE && context->uc_stack.ss_flags != SS_ONSTACK &&
          context->uc_stack.ss_flags != 0);
    CHECK((context->uc_mcontext.gregs[REG_CSGSFS] & 0xffff) == 0x33);
    CHECK((uint64_t)context->uc_mcontext.gregs[REG_CSGSFS] >> 48 == 0x2b);
}

static void test_resume_frame(void)
{
    make_fp(576, 3, 3);
    if (!CHECK(forge(0x7ffe00000008, &gadgets)))
        return;
    ucontext_t context = context_at(frames.frame0);
    check_context(&context, blocked);
    check_resume_registers(&context.uc_mcontext);
}

/* It makes the thread call munmap, whose return enters the first frame. */
static void test_unmap_frame(void)
{
    make_fp(576, 3, 3);
    if (!CHECK(forge(0x7ffe00000008, &gadgets)))
        return;
    ucontext_t context = context_at(frames.unmap);
    const greg_t *g = context.uc_mcontext.gregs;
    check_context(&context, perform_call_mask());
    CHECK((uint64_t)g[REG_RIP] == gadgets.syscall_return && g[REG_RAX] == SYS_munmap);
    CHECK((uint64_t)g[REG_RSP] == frames.frame0);
    CHECK(g[REG_RDI] == 1 && g[REG_RSI] == SCRATCH); /* refused until the address is known */
    CHECK((g[REG_EFL] & (1 << 8 | 1 << 10 | 1 << 16 | 1 << 18)) == 0);
    CHECK(word_at(frames.unmap_arg) == 1);
    const uint64_t scratch = 0x7f0000010000;
    memcpy(frames.bytes + (frames.unmap_arg - frames.addr), &scratch, sizeof scratch);
    context = context_at(frames.unmap);
    CHECK((uint64_t)context.uc_mcontext.gregs[REG_RDI] == scratch);
}

/* Between the two, a frame that makes the thread call a function which returns into the first. */
static void test_last_frame(void)
{
    make_fp(576, 3, 3);
    last = (struct arch_last){0xabcde0, 7, 0x1234};
    bool good = forge(0x7ffe00000008, &gadgets);
    last = (struct arch_last){0};
    if (!CHECK(good))
        return;
    CHECK(frames.last % 16 == 8 && frames.last + 312 <= frames.frame0);
    CHECK(frames.unmap + 312 <= frames.last && word_at(frames.last) == gadgets.sigreturn);
    ucontext_t context = context_at(frames.last);
    const greg_t *g = context.uc_mcontext.gregs;
    CHECK(g[REG_RIP] == 0xabcde0 && g[REG_RDI] == 7 && g[REG_RSI] == 0);
    CHECK((uint64_t)g[REG_RSP] == frames.frame0 && word_at(frames.last_arg) == 7);
    CHECK(memcmp(&context.uc_sigmask, &(uint64_t){0x1234}, 8) == 0);
    context = context_at(frames.unmap);
    CHECK((uint64_t)context.uc_mcontext.gregs[REG_RSP] == frames.last);
    CHECK(forge(0x7ffe00000008, &gadgets) && frames.last == frames.frame0 && !frames.last_arg);
}

struct software {
    uint32_t magic1, extended_size;
    uint64_t features;
    uint32_t size;
};

/* struct _fpx_sw_bytes in its place, and the second mark behind either size. */
static void check_extended(uint64_t features, uint64_t used, size_t size)
{
    remote_addr fpstate = fpstate_of(frames.frame0);
    struct software software;
    uint32_t magic;

    memcpy(&software, at(fpstate + SOFTWARE), sizeof software);
    CHECK(software.magic1 == 0x46505853 && software.features == features);
    CHECK(software.size == size && software.extended_size == size + 4);
    CHECK(word_at(fpstate + XSAVE_BV) == used);
    memcpy(&magic, at(fpstate + size), sizeof magic);
    CHECK(magic == 0x46505845);
    memcpy(&magic, at(fpstate + fp.len), sizeof magic);
    CHECK(magic == 0x46505845);
    CHECK(memcmp(at(fpstate), fp.bytes, SOFTWARE) == 0);
}

static size_t feature_end(unsigned feature)
{
    unsigned eax = 0, ebx = 0, ecx, edx;

    __get_cpuid_count(0xd, feature, &eax, &ebx, &ecx, &edx);
    return ebx + eax > 576 ? ebx + eax : 576;
}

static void test_extended_state(void)
{
    const uint64_t amx = 3ull << 17;

    make_fp(1024, 3, 0);
    CHECK(forge(0x7ffe00000000, &gadgets));
    check_extended(3, 3, 576);
    CHECK(memcmp(at(fpstate_of(frames.frame0) + 580), fp.bytes + 580, 1024 - 580) == 0);
    make_fp(4096, 7, 4);
    CHECK(forge(0x7ffe00000000, &gadgets));
    check_extended(7, 7, feature_end(2));
    make_fp(4096, 3 | amx,
            3); /* no tile is in use: the frame of such a task has no space for them */
    CHECK(forge(0x7ffe00000000, &gadgets));
    check_extended(3, 3, 576);
}

static void test_refused(void)
{
    make_fp(575, 3, 3);
    CHECK(!forge(0x7ffe00000000, &gadgets));
    make_fp(512, 3, 3);
    CHECK(!forge(0x7ffe00000000, &gadgets));
    make_fp(sizeof fp.bytes, 3, 3);
    CHECK(forge(0x7ffe00000000, &gadgets)); /* the largest that is kept fits */
    make_fp(576, 7, 7);
    CHECK(forge(0x7ffe00000000, &gadgets) == (feature_end(2) == 576));
}

static void test_entries(void)
{
    const uint64_t args[6] = {1, 2, 3, 4, 5, 6};
    arch_regs r;

    make_regs(&r, 0x1000, 0x7000);
    arch_enter_syscall(&r, &gadgets, 0x6000, SYS_mmap, args);
    CHECK(r.rip == gadgets.syscall_return && r.rsp == 0x6000 && r.rax == SYS_mmap);
    CHECK((int64_t)r.orig_rax == -1);
    CHECK(r.rdi == 1 && r.rsi == 2 && r.rdx == 3 && r.r10 == 4 && r.r8 == 5 && r.r9 == 6);
    arch_become_syscall(&r, &gadgets, 0x6000, SYS_mmap, args);
    CHECK(r.rip == gadgets.syscall_return + 2 && r.orig_rax == SYS_mmap);
    make_regs(&r, 0x1000, 0x7000);
    arch_enter_trampoline(&r, 0x100000, 0x101000, 0x141238, 0x5008);
    CHECK(r.rip == 0x100000 && r.rbx == 0x101000 && r.rsp == 0x141230 && r.r13 == 0x5010);
    CHECK((r.eflags & (1 << 8 | 1 << 10 | 1 << 16 | 1 << 18)) == 0);
    CHECK((int64_t)r.orig_rax == -1 && r.rax == 0);
    make_regs(&r, 0x1000, 0x7000);
    arch_enter_sigreturn(&r, &gadgets, 0x5008);
    CHECK(r.rip == gadgets.sigreturn && r.rsp == 0x5010 && (int64_t)r.orig_rax == -1);
}

/* The store's operand is unmap_arg, through either register. */
static void test_enter_map(void)
{
    struct arch_gadgets with = gadgets;
    arch_regs r;

    make_fp(576, 3, 3);
    CHECK(forge(0x7ffe00000000, &with));
    make_regs(&r, 0x1000, 0x7ffe00000000);
    arch_enter_map(&r, &with, &frames, SCRATCH, PROT_READ);
    CHECK(r.rax == SYS_mmap && r.rip == with.syscall_return && r.rsp == frames.map);
    CHECK(r.rdi + 8 == frames.unmap_arg && r.rsi == SCRATCH && r.rdx == PROT_READ && r.r10 == 0x22);
    with.store_form = ARCH_STORE_POPS;
    with.store_disp = -16;
    make_regs(&r, 0x1000, 0x7ffe00000000);
    arch_enter_map(&r, &with, &frames, SCRATCH, PROT_READ);
    CHECK(r.rdi == 0 && r.rbx - 16 == frames.unmap_arg && r.rsp == frames.map);
    with.store = 0;
    make_regs(&r, 0x1000, 0x7ffe00000000);
    arch_enter_map(&r, &with, &frames, SCRATCH, PROT_READ);
    CHECK(r.rdi == 0 && r.rsp == frames.unmap);
}

/* A call without a trampoline: the function returns into the store, that into the unmap frame. */
static void test_direct(void)
{
    struct arch_gadgets with = gadgets;
    const struct arch_call call = {.function = 0x5000, .args = {1, 2, 3, 4, 5, 6}};
    unsigned char chain[ARCH_CHAIN_FRAME + 312];
    arch_regs r;

    CHECK(!arch_can_call_directly(&with));
    with.store_form = ARCH_STORE_POPS;
    CHECK(arch_can_call_directly(&with));
    make_regs(&r, 0x1000, 0x7ffe00000000);
    arch_enter_direct(&r, &with, &call, 0x6000, 0x7008);
    CHECK(r.rip == 0x5000 && r.rsp == 0x7008 && r.rbx + 8 == 0x6000 && (int64_t)r.orig_rax == -1);
    CHECK(r.rdi == 1 && r.rsi == 2 && r.rdx == 3 && r.rcx == 4 && r.r8 == 5 && r.r9 == 6);
    CHECK((r.eflags & (1 << 8 | 1 << 10 | 1 << 16 | 1 << 18)) == 0);
    make_fp(576, 3, 3);
    CHECK(forge(0x7ffe00000000, &with));
    CHECK(arch_return_chain(chain, sizeof chain - 1, &frames, &with, 0x100000) == 0);
    CHECK(arch_return_chain(chain, sizeof chain, &frames, &with, 0x100000) == sizeof chain);
    CHECK(memcmp(chain, &with.store, 8) == 0);
    const uint64_t scratch = 0x100000;
    memcpy(frames.bytes + (frames.unmap_arg - frames.addr), &scratch, sizeof scratch);
    CHECK(memcmp(chain + ARCH_CHAIN_FRAME, at(frames.unmap), 312) == 0);
}

static void test_repeat_sigreturn(void)
{
    arch_regs r;

    make_regs(&r, 0x1000, 0x7ffe00000000);
    arch_repeat_sigreturn(&r, &gadgets, true);
    CHECK(r.rip == gadgets.sigreturn && r.orig_rax == SYS_munmap && r.rdi % 4096 != 0);
    CHECK(r.rsp == 0x7ffe00000000);
    arch_repeat_sigreturn(&r, &gadgets, false);
    CHECK(r.rip == gadgets.sigreturn && (int64_t)r.orig_rax == -1);
}

static void test_reset_fp(void)
{
    uint64_t used;
    uint32_t mxcsr;

    make_fp(576, 3, 3);
    arch_reset_fp(&fp);
    memcpy(&used, fp.bytes + XSAVE_BV, sizeof used);
    memcpy(&mxcsr, fp.bytes + 24, sizeof mxcsr);
    CHECK(used == 0 && mxcsr == 0x1f80 && fp.len == 576);
}

int main(void)
{
    test_layout();
    test_pointers();
    test_resume_frame();
    test_unmap_frame();
    test_last_frame();
    test_extended_state();
    test_refused();
    test_entries();
    test_enter_map();
    test_direct();
    test_repeat_sigreturn();
    test_reset_fp();
    return check_result();
}
