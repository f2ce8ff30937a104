/*
 * x86-64: code sequences that a target already contains, the trampoline, registers, and the
 * system calls that a stop has interrupted or that a thread is made to execute.
 */
#include "inject/arch.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum {
    USER_CS = 0x33,
    FLAG_TF = 1 << 8,
    FLAG_DF = 1 << 10,
    FLAG_RF = 1 << 16,
    FLAG_AC = 1 << 18,
    MXCSR_DEFAULT = 0x1f80,
};

_Static_assert(sizeof(struct arch_call) == 72, "the trampoline steps by 72");
_Static_assert(offsetof(struct arch_call, args) == 8, "read by the trampoline");
_Static_assert(offsetof(struct arch_call, result) == 56, "written by the trampoline");
_Static_assert(offsetof(struct arch_call, done) == 64, "written by the trampoline");
_Static_assert(sizeof(struct arch_call_header) == 16, "skipped by the trampoline");
_Static_assert(offsetof(struct arch_gather, size) == 8, "read by the gathering function");
_Static_assert(offsetof(struct arch_gather, fd) == 16, "read by the flushing function");
_Static_assert(sizeof(struct arch_gather) == 24, "the text follows");

/* ---- code in the target ---- */

uint32_t arch_rseq_signature(void)
{
    return 0x53053053;
}

static size_t find_bytes(const unsigned char *code, size_t len, const void *bytes, size_t n)
{
    const unsigned char *at = memmem(code, len, bytes, n);
    return at ? (size_t)(at - code) : SIZE_MAX;
}

/*
 * glibc's syscall(): syscall; cmp $-4095,%rax; jae ...; ret. The jae branch,
 * which sets errno, is taken only if the call fails. Otherwise any syscall;
 * ret.
 */
size_t arch_find_syscall_return(const unsigned char *code, size_t len)
{
    static const unsigned char glibc[] = {0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0,
                                          0xff, 0xff, 0x73, 0x01, 0xc3};
    static const unsigned char plain[] = {0x0f, 0x05, 0xc3};
    size_t at = find_bytes(code, len, glibc, sizeof glibc);

    return at != SIZE_MAX ? at : find_bytes(code, len, plain, sizeof plain);
}

/*
 * __restore_rt: mov $15,%rax; syscall. Unwinders recognize exactly these bytes,
 * so every libc has them.
 */
size_t arch_find_sigreturn(const unsigned char *code, size_t len)
{
    static const unsigned char bytes[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};

    return find_bytes(code, len, bytes, sizeof bytes);
}

/*
 * mov %rax,disp(%rdi); ret  or  mov %rax,disp(%rbx); pop %rbx; ret, disp absent
 * or one byte. Setters and constructors end in this way in every C library.
 * Returns the length of such a sequence at code, including its return; 0: none
 * in the len bytes there.
 */
static size_t store_length(const unsigned char *code, size_t len, unsigned char *form, int8_t *disp)
{
    if (len < 4 || code[0] != 0x48 || code[1] != 0x89)
        return 0;
    unsigned mod = code[2] >> 6, regs = code[2] & 0x3f;
    size_t at = 3 + mod, whole = at + (regs == 3 ? 2 : 1);
    if (mod > 1 || (regs != 7 && regs != 3) || whole > len)
        return 0;
    *disp = mod ? (int8_t)code[3] : 0;
    *form = regs == 7 ? ARCH_STORE_PLAIN : ARCH_STORE_POPS;
    if (regs == 3 && code[at] != 0x5b)
        return 0;
    return code[whole - 1] == 0xc3 ? whole : 0;
}

/* Returns are rare: from each of them, checks backwards where the store would start. */
static size_t find_store_form(const unsigned char *code, size_t len, bool pops)
{
    const unsigned char *ret = code + 5;

    while (len > 5 && (ret = memchr(ret, 0xc3, (size_t)(code + len - ret)))) {
        for (size_t length = 4; length <= 6; length++) {
            const unsigned char *start = ret + 1 - length;
            unsigned char form;
            int8_t disp;
            if (store_length(start, length, &form, &disp) == length &&
                (!pops || form == ARCH_STORE_POPS))
                return (size_t)(start - code);
        }
        ret++;
    }
    return SIZE_MAX;
}

size_t arch_find_store_pops(const unsigned char *code, size_t len)
{
    return find_store_form(code, len, true);
}

size_t arch_find_store(const unsigned char *code, size_t len)
{
    return find_store_form(code, len, false);
}

void arch_decode_store(struct arch_gadgets *gadgets, remote_addr address,
                       const unsigned char code[8])
{
    if (store_length(code, 8, &gadgets->store_form, &gadgets->store_disp))
        gadgets->store = address;
}

/* A call through ModRM (ff /2), of 2 to 7 bytes. */
static bool follows_indirect_call(const unsigned char before[8])
{
    for (size_t len = 2; len <= 7; len++) {
        const unsigned char *code = before + 8 - len;
        unsigned mod = code[1] >> 6, reg = (code[1] >> 3) & 7, rm = code[1] & 7;
        bool sib = mod != 3 && rm == 4;
        size_t whole = sib ? 3 : 2; /* opcode, ModRM, optional SIB */
        if (code[0] != 0xff || reg != 2 || whole > len)
            continue;
        if (mod == 1)
            whole += 1;
        else if (mod == 2 || (mod == 0 && rm == 5) || (mod == 0 && sib && (code[2] & 7) == 5))
            whole += 4;
        if (whole == len)
            return true;
    }
    return false;
}

bool arch_follows_call(const unsigned char before[8])
{
    return before[3] == 0xe8 /* call rel32 */ || follows_indirect_call(before);
}

bool arch_follows_direct_call(const unsigned char before[8])
{
    return before[3] == 0xe8 && !follows_indirect_call(before);
}

/* ---- the trampoline ---- */

/*
 * In: rbx = header, r13 = stack pointer for rt_sigreturn, rsp aligned to 16.
 * The called functions preserve rbx, r13, r14 and r15. errno is saved and
 * restored here, so that it is preserved even if the tool has died. The last
 * instructions cannot fall through: a skipped sigreturn is tried again.
 *
 * They are followed by two functions that a called function may be given:
 * gather(rdi = struct arch_gather, rsi = text) and flush(rdi = struct
 * arch_gather).
 */
__asm__(".pushsection .rodata\n"
        ".balign 16\n"
        "trampoline_begin:\n"
        "   cld\n"
        "   fninit\n"
        "   ldmxcsr 8(%rbx)\n"
        "   xorl %r14d, %r14d\n"
        "   movq (%rbx), %rax\n"
        "   testq %rax, %rax\n"
        "   jz 1f\n"
        "   call *%rax\n"
        "   movq %rax, %r14\n"
        "   movl (%r14), %r15d\n"
        "1: addq $16, %rbx\n"
        "2: movq (%rbx), %rax\n"
        "   testq %rax, %rax\n"
        "   jz 3f\n"
        "   movq 8(%rbx), %rdi\n"
        "   movq 16(%rbx), %rsi\n"
        "   movq 24(%rbx), %rdx\n"
        "   movq 32(%rbx), %rcx\n"
        "   movq 40(%rbx), %r8\n"
        "   movq 48(%rbx), %r9\n"
        "   call *%rax\n"
        "   movq %rax, 56(%rbx)\n"
        "   movq $1, 64(%rbx)\n"
        "   addq $72, %rbx\n"
        "   jmp 2b\n"
        "3: testq %r14, %r14\n"
        "   jz 4f\n"
        "   movl %r15d, (%r14)\n"
        "4: movq %r13, %rsp\n"
        "   movq $15, %rax\n"
        "   syscall\n"
        "   jmp 4b\n"
        "gather_begin:\n"
        "   movq (%rdi), %rax\n"
        "5: movb (%rsi), %dl\n"
        "   testb %dl, %dl\n"
        "   jz 6f\n"
        "   movb %dl, 24(%rdi,%rax)\n"
        "   incq %rsi\n"
        "   incq %rax\n"
        "   cmpq 8(%rdi), %rax\n"
        "   jb 5b\n"
        "   movq %rax, (%rdi)\n"
        "   pushq %rsi\n"
        "   call gather_flush_begin\n"
        "   popq %rsi\n"
        "   xorl %eax, %eax\n"
        "   jmp 5b\n"
        "6: movq %rax, (%rdi)\n"
        "   ret\n"
        "gather_flush_begin:\n"
        "   pushq %rdi\n"
        "   leaq 24(%rdi), %rsi\n"
        "   movq (%rdi), %rdx\n"
        "   movq 16(%rdi), %rdi\n"
        "   movl $1, %eax\n"
        "   syscall\n"
        "   popq %rdi\n"
        "   movq $0, (%rdi)\n"
        "   ret\n"
        ".balign 8, 0xcc\n"
        "trampoline_end:\n"
        ".popsection\n");

extern const unsigned char trampoline_begin[], trampoline_end[];
extern const unsigned char gather_begin[], gather_flush_begin[];

const unsigned char *arch_trampoline(size_t *len)
{
    *len = (size_t)(trampoline_end - trampoline_begin);
    return trampoline_begin;
}

bool arch_gather_functions(size_t *gather, size_t *flush)
{
    *gather = (size_t)(gather_begin - trampoline_begin);
    *flush = (size_t)(gather_flush_begin - trampoline_begin);
    return true;
}

uint64_t arch_fp_control(void)
{
    return MXCSR_DEFAULT;
}

/* ---- registers ---- */

bool arch_get_regs(struct session *session, arch_regs *regs)
{
    size_t len = sizeof *regs;

    memset(regs, 0, sizeof *regs);
    /* A shorter set is that of a 32-bit tracee; cs stays 0 and arch_is_native returns false. */
    return session_get_regset(session, NT_PRSTATUS, regs, &len) && len == sizeof *regs;
}

bool arch_set_regs(struct session *session, const arch_regs *regs)
{
    return session_set_regset(session, NT_PRSTATUS, regs, sizeof *regs);
}

bool arch_get_fp(struct session *session, struct arch_fp *fp)
{
    fp->len = sizeof fp->bytes;
    return session_get_regset(session, NT_X86_XSTATE, fp->bytes, &fp->len);
}

bool arch_set_fp(struct session *session, const struct arch_fp *fp)
{
    return session_set_regset(session, NT_X86_XSTATE, fp->bytes, fp->len);
}

remote_addr arch_pc(const arch_regs *regs)
{
    return regs->rip;
}

remote_addr arch_sp(const arch_regs *regs)
{
    return regs->rsp;
}

remote_addr arch_tls(const arch_regs *regs)
{
    return regs->fs_base;
}

void arch_set_pc(arch_regs *regs, remote_addr pc)
{
    regs->rip = pc;
}

bool arch_is_native(const arch_regs *regs)
{
    return regs->cs == USER_CS;
}

/*
 * tcbhead_t: tcb at 0, self at 16, both contain its own address (glibc,
 * sysdeps/x86_64/nptl/tls.h); musl's struct pthread has self at 0.
 */
bool arch_tls_is_libc(remote_addr tls, const uint64_t head[3])
{
    return tls != 0 && head[0] == tls;
}

/* System V ABI, AMD64 supplement, "DWARF Register Number Mapping". */
bool arch_unwind_register(const arch_regs *regs, int number, uint64_t *value)
{
    const unsigned long long by_number[] = {
        regs->rax, regs->rdx, regs->rcx, regs->rbx, regs->rsi, regs->rdi,
        regs->rbp, regs->rsp, regs->r8,  regs->r9,  regs->r10, regs->r11,
        regs->r12, regs->r13, regs->r14, regs->r15, regs->rip,
    };

    if (number < 0 || (size_t)number >= ARRAY_LEN(by_number))
        return false;
    *value = by_number[number];
    return true;
}

long arch_syscall_nr(const arch_regs *regs)
{
    return (long)regs->orig_rax;
}

/* ---- restart of an interrupted system call ---- */

/* Kernel-internal restart codes (include/linux/errno.h); found in rax at an event stop. */
enum { ERESTARTSYS = 512, ERESTARTNOINTR = 513, ERESTARTNOHAND = 514, ERESTART_RESTARTBLOCK = 516 };

static int64_t syscall_error(const arch_regs *regs)
{
    return (int64_t)regs->orig_rax < 0 ? 0 : (int64_t)(0 - regs->rax);
}

/* A positive errno, or one of the kernel's own. */
static bool is_restart_code(int64_t error)
{
    switch (error) {
    case ERESTARTSYS:
    case ERESTARTNOINTR:
    case ERESTARTNOHAND:
    case ERESTART_RESTARTBLOCK:
        return true;
    default:
        return false;
    }
}

bool arch_is_restart(int64_t result)
{
    return is_restart_code((int64_t)(0 - (uint64_t)result));
}

bool arch_restarts(const arch_regs *regs)
{
    return is_restart_code(syscall_error(regs));
}

bool arch_restarts_by_block(const arch_regs *regs)
{
    return syscall_error(regs) == ERESTART_RESTARTBLOCK;
}

/* From signal(7), "the following interfaces are never restarted". */
static const uint16_t never_restarted[] = {
    SYS_epoll_wait,     SYS_epoll_pwait, SYS_epoll_pwait2, SYS_rt_sigtimedwait,
    SYS_semop,          SYS_semtimedop,  SYS_io_getevents, SYS_io_pgetevents,
    SYS_io_uring_enter, SYS_recvfrom,    SYS_recvmsg,      SYS_recvmmsg,
    SYS_sendto,         SYS_sendmsg,     SYS_sendmmsg,     SYS_accept,
    SYS_accept4,        SYS_connect,     SYS_read,         SYS_readv,
    SYS_write,          SYS_writev,      SYS_preadv2,      SYS_pwritev2,
};

static bool is_in(const uint16_t *list, size_t count, long nr)
{
    for (size_t i = 0; i < count; i++)
        if (list[i] == nr)
            return true;
    return false;
}

bool arch_eintr_by_stop(const arch_regs *regs)
{
    return syscall_error(regs) == EINTR &&
           is_in(never_restarted, ARRAY_LEN(never_restarted), arch_syscall_nr(regs));
}

/* restart_syscall stands for one of poll, nanosleep, clock_nanosleep and futex. */
bool arch_is_repeatable(long nr)
{
    static const uint16_t waiting[] = {
        SYS_futex,           SYS_futex_waitv,   SYS_epoll_wait, SYS_epoll_pwait,
        SYS_epoll_pwait2,    SYS_poll,          SYS_ppoll,      SYS_select,
        SYS_pselect6,        SYS_nanosleep,     SYS_read,       SYS_clock_nanosleep,
        SYS_readv,           SYS_recvfrom,      SYS_recvmsg,    SYS_recvmmsg,
        SYS_accept,          SYS_accept4,       SYS_wait4,      SYS_waitid,
        SYS_rt_sigtimedwait, SYS_rt_sigsuspend, SYS_pause,      SYS_restart_syscall,
    };

    return is_in(waiting, ARRAY_LEN(waiting), nr);
}

/* mm/mmap.c, mm/mremap.c, mm/mprotect.c, mm/madvise.c, mm/mlock.c: mmap_write_lock. */
bool arch_locks_memory(long nr)
{
    static const uint16_t locking[] = {
        SYS_mmap,  SYS_munmap, SYS_mremap,  SYS_mprotect, SYS_pkey_mprotect, SYS_madvise, SYS_brk,
        SYS_mlock, SYS_mlock2, SYS_munlock, SYS_mlockall, SYS_munlockall,    SYS_shmat,   SYS_shmdt,
    };

    return is_in(locking, ARRAY_LEN(locking), nr);
}

/*
 * kernel/time/hrtimer.c: each nanosleep sets its restart function at its entry;
 * kernel/signal.c: the end of a signal handler clears it.
 */
bool arch_uses_restart_block(uint64_t nr)
{
    return nr == SYS_rt_sigreturn || nr == SYS_nanosleep || nr == SYS_clock_nanosleep ||
           nr == SYS_restart_syscall;
}

bool arch_is_restarted(const arch_regs *regs)
{
    return regs->orig_rax == SYS_restart_syscall;
}

void arch_name_restarted(arch_regs *regs, long nr)
{
    static const uint16_t by_block[] = {SYS_poll, SYS_nanosleep, SYS_clock_nanosleep, SYS_futex};

    if (is_in(by_block, ARRAY_LEN(by_block), nr))
        regs->orig_rax = (unsigned long long)nr;
}

bool arch_names_restart(const arch_regs *regs)
{
    return regs->rax == SYS_restart_syscall;
}

bool arch_is_syscall(const unsigned char code[ARCH_SYSCALL_LEN])
{
    return code[0] == 0x0f && code[1] == 0x05;
}

/* Reverses arch_do_signal_or_restart of arch/x86/kernel/signal.c. */
void arch_take_back_restart(arch_regs *regs)
{
    long nr = arch_syscall_nr(regs);

    regs->rip += ARCH_SYSCALL_LEN;
    regs->rax = (unsigned long long)-ERESTART_RESTARTBLOCK;
    regs->orig_rax = SYS_restart_syscall;
    arch_name_restarted(regs, nr);
}

/* mov $nr,%eax; syscall: how glibc makes the calls that restart in this way. */
long arch_loaded_nr(const unsigned char *code_end)
{
    const unsigned char *load = code_end - ARCH_SYSCALL_LEN - 5;
    uint32_t nr;

    if (load[0] != 0xb8)
        return -1;
    memcpy(&nr, load + 1, sizeof nr);
    return (long)nr;
}

void arch_rewind(arch_regs *regs)
{
    regs->rip -= ARCH_SYSCALL_LEN;
    regs->rax = regs->orig_rax;
    regs->orig_rax = (unsigned long long)-1;
}

/* ---- what the thread executes ---- */

/*
 * Clears the flags that the kernel clears before a handler runs
 * (arch/x86/kernel/signal.c, handle_signal), and AC: the called code makes
 * unaligned accesses.
 */
static void clear_flags(arch_regs *regs)
{
    regs->eflags &= ~(unsigned long long)(FLAG_TF | FLAG_DF | FLAG_RF | FLAG_AC);
}

void arch_enter_syscall(arch_regs *regs, const struct arch_gadgets *gadgets, remote_addr sp,
                        long nr, const uint64_t args[6])
{
    clear_flags(regs);
    regs->rdi = args[0];
    regs->rsi = args[1];
    regs->rdx = args[2];
    regs->r10 = args[3];
    regs->r8 = args[4];
    regs->r9 = args[5];
    regs->rax = (unsigned long long)nr;
    regs->orig_rax = (unsigned long long)-1; /* no restart of the interrupted call */
    regs->rip = gadgets->syscall_return;
    regs->rsp = sp;
}

void arch_enter_map(arch_regs *regs, const struct arch_gadgets *gadgets,
                    const struct arch_frames *frames, uint64_t scratch_len, int prot)
{
    const remote_addr slot = frames->unmap_arg - (uint64_t)(int64_t)gadgets->store_disp;
    /* A hint that is already in use: the kernel chooses another address (mm/mmap.c). */
    const uint64_t hint = gadgets->store && gadgets->store_form == ARCH_STORE_PLAIN ? slot : 0;
    const uint64_t args[6] = {
        hint, scratch_len, (uint64_t)prot, MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0};

    arch_enter_syscall(regs, gadgets, gadgets->store ? frames->map : frames->unmap, SYS_mmap, args);
    if (gadgets->store)
        regs->rbx = slot;
}

/* Its return pops the first word of frame0, the restorer's address. */
void arch_enter_last(arch_regs *regs, const struct arch_last *last,
                     const struct arch_frames *frames, uint64_t arg)
{
    clear_flags(regs);
    regs->rip = last->function;
    regs->rsp = frames->frame0;
    regs->rdi = arg;
    regs->rsi = 0;
    regs->rax = 0;
    regs->orig_rax = (unsigned long long)-1;
}

void arch_become_syscall(arch_regs *regs, const struct arch_gadgets *gadgets, remote_addr sp,
                         long nr, const uint64_t args[6])
{
    arch_enter_syscall(regs, gadgets, sp, nr, args);
    regs->orig_rax = (unsigned long long)nr;
    regs->rip = gadgets->syscall_return + ARCH_SYSCALL_LEN;
}

void arch_enter_trampoline(arch_regs *regs, remote_addr trampoline, remote_addr header,
                           remote_addr stack_top, remote_addr unmap_frame)
{
    clear_flags(regs);
    regs->rip = trampoline;
    regs->rsp = stack_top & ~15ull;
    regs->rbx = header;
    regs->rbp = 0;
    /* A return would have popped the frame's first word: rt_sigreturn reads below rsp. */
    regs->r13 = unmap_frame + 8;
    /* At the entry of a system call, the call is skipped. */
    regs->rax = 0;
    regs->orig_rax = (unsigned long long)-1;
}

/* Every function preserves rbx; the store gadget that pops it can follow a function. */
bool arch_can_call_directly(const struct arch_gadgets *gadgets)
{
    return gadgets->store && gadgets->store_form == ARCH_STORE_POPS;
}

void arch_enter_direct(arch_regs *regs, const struct arch_gadgets *gadgets,
                       const struct arch_call *call, remote_addr result_at, remote_addr chain)
{
    clear_flags(regs);
    regs->rip = call->function;
    regs->rsp = chain;
    regs->rbp = 0;
    regs->rbx = result_at - (uint64_t)(int64_t)gadgets->store_disp;
    regs->rdi = call->args[0];
    regs->rsi = call->args[1];
    regs->rdx = call->args[2];
    regs->rcx = call->args[3];
    regs->r8 = call->args[4];
    regs->r9 = call->args[5];
    regs->rax = 0;
    regs->orig_rax = (unsigned long long)-1;
}

void arch_repeat_sigreturn(arch_regs *regs, const struct arch_gadgets *gadgets, bool filtered)
{
    regs->rdi = 1;
    regs->rsi = 1;
    regs->rip = gadgets->sigreturn;
    arch_void_syscall(regs, filtered);
}

void arch_void_syscall(arch_regs *regs, bool filtered)
{
    regs->orig_rax = filtered ? SYS_munmap : (unsigned long long)-1;
    regs->rax = (unsigned long long)-EINVAL;
}

bool arch_can_void(const struct __ptrace_syscall_info *entry, bool filtered)
{
    return !filtered || (entry->entry.args[0] & 0xfff) != 0;
}

bool arch_is_final_sigreturn(const struct __ptrace_syscall_info *entry, remote_addr unmap_frame)
{
    return entry->op == PTRACE_SYSCALL_INFO_ENTRY && entry->entry.nr == SYS_rt_sigreturn &&
           entry->stack_pointer == unmap_frame + 8;
}

/* ---- system calls of the called function ---- */

bool arch_opens_for_writing(uint64_t nr, const uint64_t args[6], remote_addr *path)
{
    switch (nr) {
    case SYS_creat:
        *path = args[0];
        return true;
    case SYS_open:
        *path = args[0];
        return args[1] & O_CREAT;
    case SYS_openat:
        *path = args[1];
        return args[2] & O_CREAT;
    default:
        return false;
    }
}

bool arch_opens_for_reading(uint64_t nr, const uint64_t args[6], remote_addr *path)
{
    if (nr == SYS_open)
        *path = args[0];
    else if (nr == SYS_openat)
        *path = args[1];
    else
        return false;
    return (args[nr == SYS_open ? 1 : 2] & (O_ACCMODE | O_CREAT)) == O_RDONLY;
}

bool arch_is_read(uint64_t nr)
{
    return nr == SYS_read;
}

bool arch_is_write(uint64_t nr)
{
    return nr == SYS_write;
}

bool arch_is_close(uint64_t nr)
{
    return nr == SYS_close;
}

void arch_set_result(arch_regs *regs, int64_t result)
{
    regs->rax = (unsigned long long)result;
}
