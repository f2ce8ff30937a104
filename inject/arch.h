/*
 * The architecture-dependent part: one list of prototypes, implemented in
 * inject/x86_64*.c (CMake selects the files). No other file has an #if on the
 * architecture.
 */
#pragma once

#include "attach/session.h"

#include <sys/user.h>

typedef struct user_regs_struct arch_regs;

enum {
    ARCH_FP_MAX = 16384, /* bytes of the largest extended state (with AMX: about 11 KiB) */
    ARCH_FRAMES_MAX = 24576,
    ARCH_SIGRETURN_LEN = 9, /* bytes of the restorer's code */
    ARCH_SYSCALL_LEN = 2,   /* bytes of the instruction */
};

enum { ARCH_STORE_NONE, ARCH_STORE_PLAIN, ARCH_STORE_POPS };

/* Code that is already in the target and that a forged call borrows. */
struct arch_gadgets {
    remote_addr syscall_return; /* a system call instruction, then a return */
    remote_addr sigreturn;      /* the C library's signal restorer (__restore_rt) */
    remote_addr store;          /* stores a system call's result, then returns; 0: none */
    unsigned char store_form;   /* ARCH_STORE_*: the base register, and whether it pops one */
    int8_t store_disp;          /* displacement of its operand in bytes */
};

/* Floating-point and vector state, as in NT_X86_XSTATE or its equivalent. */
struct arch_fp {
    size_t len;
    _Alignas(64) unsigned char bytes[ARCH_FP_MAX];
};

/*
 * The signal frames on the thread's own stack, below its red zone:
 *
 *   sp      ->  (the thread's frames)
 *   sp-128      red zone, untouched
 *               extended state, shared by all frames
 *   frame0  ->  restores the thread as it was
 *   last    ->  makes it call a function, which returns into frame0
 *   unmap   ->  makes it call munmap(scratch), whose return leads to last
 *   map     ->  address of the store gadget: where the mmap of the scratch area
 *               returns to. It puts the new address into the unmap frame, so
 *               that not even a death just after the mmap leaves a mapping.
 *   addr    ->  lowest byte
 */
struct arch_frames {
    remote_addr addr; /* where bytes[0] is written */
    size_t len;
    remote_addr frame0, last, unmap; /* stack pointers at which a return runs that frame */
    remote_addr last_arg;  /* address of the 8 bytes with the argument of last's function */
    remote_addr map;       /* stack pointer at which a return stores the result, then runs unmap */
    remote_addr unmap_arg; /* address of the 8 bytes with munmap's address; 1 until it is known */
    unsigned char bytes[ARCH_FRAMES_MAX];
};

/* One record of the list that the trampoline executes; function 0 ends the list. */
struct arch_call {
    uint64_t function;
    uint64_t args[6];
    uint64_t result;
    uint64_t done; /* 1 once result is valid */
};

/* The header before the first record. */
struct arch_call_header {
    uint64_t errno_location; /* address of __errno_location; 0: errno is not preserved */
    uint64_t fp_control;     /* the control word that a called function expects */
};

/*
 * The buffer of the gathering function: a text that a called function reports
 * in thousands of pieces leaves the target in a few large ones.
 */
struct arch_gather {
    uint64_t used; /* bytes of text so far */
    uint64_t size; /* capacity in bytes; when it is full, the text is flushed */
    uint64_t fd;   /* file descriptor of the write; no process has it */
    /* followed by the text */
};

/* --- code bytes --- */

/* Return the offset of the first match in code, or SIZE_MAX. */
size_t arch_find_syscall_return(const unsigned char *code, size_t len);
size_t arch_find_sigreturn(const unsigned char *code, size_t len);
size_t arch_find_store_pops(const unsigned char *code, size_t len);
size_t arch_find_store(const unsigned char *code, size_t len);
/* Fills gadgets->store and its form from the 8 bytes of instructions at address. */
void arch_decode_store(struct arch_gadgets *gadgets, remote_addr address,
                       const unsigned char code[8]);
/* True if a call instruction ends just before the address that before[8] would have. */
bool arch_follows_call(const unsigned char before[8]);
/* True if that is a call whose target is encoded in the instruction, and no other call. */
bool arch_follows_direct_call(const unsigned char before[8]);
/* Returns the code that executes the records. Position-independent. */
const unsigned char *arch_trampoline(size_t *len);
/*
 * Offsets in the trampoline's code of void gather(struct arch_gather *, const
 * char *text), which appends a text, and of void flush(struct arch_gather *),
 * which calls write(2) with the gathered text. False: this architecture has
 * none.
 */
bool arch_gather_functions(size_t *gather, size_t *flush);
/* The word before each abort handler of a restartable sequence (RSEQ_SIG of librseq). */
uint32_t arch_rseq_signature(void);
/* The value of arch_call_header.fp_control. */
uint64_t arch_fp_control(void);

/* --- registers --- */

bool arch_get_regs(struct session *session, arch_regs *regs);
/* One system call: there is no state between the old registers and the new ones. */
bool arch_set_regs(struct session *session, const arch_regs *regs);
bool arch_get_fp(struct session *session, struct arch_fp *fp);
bool arch_set_fp(struct session *session, const struct arch_fp *fp);

remote_addr arch_pc(const arch_regs *regs);
remote_addr arch_sp(const arch_regs *regs);
remote_addr arch_tls(const arch_regs *regs);
void arch_set_pc(arch_regs *regs, remote_addr pc);
/* False in 32-bit code, or if the thread uses its own selectors. */
bool arch_is_native(const arch_regs *regs);
/* True if *(tls) looks like the C library's thread descriptor. head: its first 3 words. */
bool arch_tls_is_libc(remote_addr tls, const uint64_t head[3]);
/* Reads a register by its DWARF number. False if it is neither a general register nor pc. */
bool arch_unwind_register(const arch_regs *regs, int number, uint64_t *value);
/* Returns the number of the interrupted system call, or -1. */
long arch_syscall_nr(const arch_regs *regs);

/* --- restart of an interrupted system call --- */

/* True if the call was interrupted and the kernel itself would restart it (-ERESTART...). */
bool arch_restarts(const arch_regs *regs);
/* True if it would be restarted by restart_syscall(2), with the remaining time. */
bool arch_restarts_by_block(const arch_regs *regs);
/* True if it returned EINTR only because of the stop, and repeating it makes no difference. */
bool arch_eintr_by_stop(const arch_regs *regs);
/* True if the result means that the kernel will restart the system call. */
bool arch_is_restart(int64_t result);
/*
 * True if this system call only waits: it does nothing until its end, and a stop makes it begin
 * again. Any other may be done twice (a supervisor by seccomp's user notification is notified
 * again) or in part, or cannot be repeated (close(2)).
 */
bool arch_is_repeatable(long nr);
/* True if this system call takes the lock of the address space to change it. */
bool arch_locks_memory(long nr);
/* True if this system call overwrites the block that arch_restarts_by_block needs. */
bool arch_uses_restart_block(uint64_t nr);
/* True if it is restart_syscall(2), which stands for a call that was interrupted before. */
bool arch_is_restarted(const arch_regs *regs);
/* Replaces restart_syscall(2) by nr, if that call can be restarted in this way. */
void arch_name_restarted(arch_regs *regs, long nr);
/*
 * Returns the number that the code before a system call loads; the code ends at
 * pc. -1: not recognized.
 */
long arch_loaded_nr(const unsigned char *code_end);
/*
 * True if the thread may be about to execute restart_syscall(2): it is, if a
 * system call instruction is at pc.
 */
bool arch_names_restart(const arch_regs *regs);
bool arch_is_syscall(const unsigned char code[ARCH_SYSCALL_LEN]);
/*
 * Takes the thread back to the moment at which the kernel chose
 * restart_syscall(2), so that the kernel chooses it again.
 */
void arch_take_back_restart(arch_regs *regs);
/* Sets the registers so that the system call is repeated from user space. */
void arch_rewind(arch_regs *regs);

/* --- forging --- */

/*
 * Returns the number of bytes below the stack pointer that the frames of any
 * thread on this machine need.
 */
size_t arch_frames_size(void);
/*
 * A function that the thread calls on its own stack after the scratch area is
 * unmapped, from a signal frame as if a handler had been called.
 */
struct arch_last {
    remote_addr function; /* 0: none, last is frame0 */
    uint64_t arg, mask;   /* first argument, the second is 0; signals blocked in the call */
};
/*
 * Builds the frames for a thread whose registers were regs: frame0 restores
 * resume, with mask as signal mask. False if the state cannot be preserved.
 */
bool arch_forge(struct arch_frames *frames, const arch_regs *regs, const arch_regs *resume,
                uint64_t mask, const struct arch_fp *fp, const struct arch_gadgets *gadgets,
                uint64_t scratch_len, const struct arch_last *last);
/* Sets *regs at the exit of a system call so that the thread makes that call with arg at once. */
void arch_enter_last(arch_regs *regs, const struct arch_last *last,
                     const struct arch_frames *frames, uint64_t arg);

/*
 * Sets *regs so that the thread maps the scratch area, stores its address and
 * runs the unmap frame.
 */
void arch_enter_map(arch_regs *regs, const struct arch_gadgets *gadgets,
                    const struct arch_frames *frames, uint64_t scratch_len, int prot);
/* Sets *regs so that the thread makes a system call and then runs the frame at sp. */
void arch_enter_syscall(arch_regs *regs, const struct arch_gadgets *gadgets, remote_addr sp,
                        long nr, const uint64_t args[6]);
/*
 * Does the same for a thread at the entry of another system call, which nr
 * replaces: the new call is made at once.
 */
void arch_become_syscall(arch_regs *regs, const struct arch_gadgets *gadgets, remote_addr sp,
                         long nr, const uint64_t args[6]);
/* Sets *regs so that the thread executes the records at header. */
void arch_enter_trampoline(arch_regs *regs, remote_addr trampoline, remote_addr header,
                           remote_addr stack_top, remote_addr unmap_frame);

/* --- without executable memory --- */

enum { ARCH_CHAIN_FRAME = 16 }; /* offset of the frame in the chain */

/* True if there is a store gadget that a function can return into. */
bool arch_can_call_directly(const struct arch_gadgets *gadgets);
/*
 * Builds the words that a function returns through: the store gadget, then a
 * copy of the unmap frame for that scratch area. They must be at 8 more than a
 * multiple of 16. Returns their length.
 */
size_t arch_return_chain(unsigned char *out, size_t size, const struct arch_frames *frames,
                         const struct arch_gadgets *gadgets, remote_addr scratch);
/*
 * Sets *regs at the exit of a system call so that the thread calls a function
 * and returns into the chain.
 */
void arch_enter_direct(arch_regs *regs, const struct arch_gadgets *gadgets,
                       const struct arch_call *call, remote_addr result_at, remote_addr chain);
/* At the entry of a sigreturn: makes it void, and lets the thread repeat it. */
void arch_repeat_sigreturn(arch_regs *regs, const struct arch_gadgets *gadgets, bool filtered);
/* Sets the state that the ABI requires at the start of a function. */
void arch_reset_fp(struct arch_fp *fp);

/* --- system calls of the called function --- */

/*
 * At the entry of a system call: makes it void. A thread that loses its tracer here sees
 * an ordinary failure, EINVAL.
 *
 * Without a seccomp filter the kernel skips the call: its number becomes -1. A filter
 * might kill for that number, so a filtered thread makes a call that the allocator itself
 * uses and that the kernel refuses, whatever its arguments: munmap(2) of an odd address.
 * That one waits for the lock of the address space (mm/mmap.c, __vm_munmap).
 */
void arch_void_syscall(arch_regs *regs, bool filtered);
/* True if arch_void_syscall has no effect with these arguments. */
bool arch_can_void(const struct __ptrace_syscall_info *entry, bool filtered);
/* True if it is the sigreturn of the trampoline, about to run the frame at unmap. */
bool arch_is_final_sigreturn(const struct __ptrace_syscall_info *entry, remote_addr unmap_frame);
/* True if it is an open that may create or truncate a file; *path: address of its path. */
bool arch_opens_for_writing(uint64_t nr, const uint64_t args[6], remote_addr *path);
/* True if it is any other open. */
bool arch_opens_for_reading(uint64_t nr, const uint64_t args[6], remote_addr *path);
bool arch_is_read(uint64_t nr);
bool arch_is_write(uint64_t nr);
bool arch_is_close(uint64_t nr);
void arch_set_result(arch_regs *regs, int64_t result);

/* --- self-check --- */

/*
 * In a traced child of the tool: fills every vector and control register with a
 * pattern, stops itself by SIGSTOP, and returns true if all are unchanged.
 */
bool arch_hold_pattern(void);
/* Changes every register that arch_hold_pattern fills. */
void arch_wreck_fp(struct arch_fp *fp);
/* Sets *regs so that the thread runs the frame at sp at once. */
void arch_enter_sigreturn(arch_regs *regs, const struct arch_gadgets *gadgets, remote_addr sp);
/* Returns the address, in the tool itself, of a sigreturn that the child can run. */
remote_addr arch_own_sigreturn(void);
