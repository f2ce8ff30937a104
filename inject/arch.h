/*
 * What differs from machine to machine: one list of prototypes, implemented in
 * inject/x86_64*.c (CMake picks the files). No #if on the architecture stands
 * anywhere else.
 */
#pragma once

#include "attach/session.h"
#include "base/util.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/user.h>

typedef struct user_regs_struct arch_regs;

enum {
    ARCH_FP_MAX = 16384, /* bytes of the largest extended state (with AMX: about 11 KiB) */
    ARCH_FRAMES_MAX = 24576,
    ARCH_SIGRETURN_LEN = 9, /* bytes of the restorer's code */
    ARCH_SYSCALL_LEN = 2,   /* bytes of the instruction */
    ARCH_CALL_WORDS = 9,    /* 64-bit words of one call record, see struct arch_call */
};

enum { ARCH_STORE_NONE, ARCH_STORE_PLAIN, ARCH_STORE_POPS };

/* Code that lies in the target already and that a forged call borrows. */
struct arch_gadgets {
    remote_addr syscall_return; /* a system call instruction, then a return */
    remote_addr sigreturn;      /* the C library's signal restorer */
    remote_addr store;          /* stores a system call's result, then returns; 0: none */
    unsigned char store_form;   /* ARCH_STORE_*: by which register, and whether it pops one */
    int8_t store_disp;          /* displacement of its operand, bytes */
};

/* Floating-point and vector state, as NT_X86_XSTATE or the machine's like. */
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
    remote_addr addr; /* where bytes[0] goes */
    size_t len;
    remote_addr frame0, last, unmap; /* stack pointers at which a return runs that frame */
    remote_addr last_arg;            /* the 8 bytes that hold the argument of last's function */
    remote_addr map;                 /* and at which a return stores the result, then runs unmap */
    remote_addr unmap_arg; /* the 8 bytes that hold munmap's address; 1 until it is known */
    unsigned char bytes[ARCH_FRAMES_MAX];
};

/* One record of the list that the trampoline works through; function 0 ends it. */
struct arch_call {
    uint64_t function;
    uint64_t args[6];
    uint64_t result;
    uint64_t done; /* 1 once result is valid */
};

/* What stands before the first record. */
struct arch_call_header {
    uint64_t errno_location; /* address of the C library's function; 0: errno is not kept */
    uint64_t fp_control;     /* control word that a called function expects */
};

/*
 * What the gathering function fills: a text that a called function hands out
 * in thousands of pieces leaves the target in few large ones.
 */
struct arch_gather {
    uint64_t used; /* bytes of text so far */
    uint64_t size; /* room for them; when it is used up they are flushed */
    uint64_t fd;   /* that the system call names; no process has it */
    /* then the text */
};

/* --- code bytes --- */

/* Offset of the first match in code, or SIZE_MAX. */
size_t arch_find_syscall_return(const unsigned char *code, size_t len);
size_t arch_find_sigreturn(const unsigned char *code, size_t len);
size_t arch_find_store_pops(const unsigned char *code, size_t len);
size_t arch_find_store(const unsigned char *code, size_t len);
/* Fills gadgets->store and its form from the instructions at address, 8 bytes of them. */
void arch_decode_store(struct arch_gadgets *gadgets, remote_addr address,
                       const unsigned char code[8]);
/* Does a call instruction end where before[8] would be? */
bool arch_follows_call(const unsigned char before[8]);
/* Does one that names its target in the instruction, and no other? */
bool arch_follows_direct_call(const unsigned char before[8]);
/* The code that works through the records. Position-independent. */
const unsigned char *arch_trampoline(size_t *len);
/*
 * Offsets in the trampoline's code of void gather(struct arch_gather *, const
 * char *text), which appends a text, and of void flush(struct arch_gather *),
 * which calls write(2) with what there is. False: this machine has none.
 */
bool arch_gather_functions(size_t *gather, size_t *flush);
/* What stands before each abort handler of a restartable sequence (RSEQ_SIG of librseq). */
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
/* False in 32-bit code or with selectors of its own. */
bool arch_is_native(const arch_regs *regs);
/* Does *(tls) look like the C library's thread descriptor? head: its first 3 words. */
bool arch_tls_is_libc(remote_addr tls, const uint64_t head[3]);
/* By DWARF register number. False if it is none of the general ones or pc. */
bool arch_unwind_register(const arch_regs *regs, int number, uint64_t *value);
/* Number of the interrupted system call, or -1. */
long arch_syscall_nr(const arch_regs *regs);

/* --- restart of an interrupted system call --- */

/* It was interrupted and the kernel itself would restart it (-ERESTART...). */
bool arch_restarts(const arch_regs *regs);
/* Restarted by restart_syscall(2), with the remaining time. */
bool arch_restarts_by_block(const arch_regs *regs);
/* It returned EINTR only because of the stop, and can be made again without a difference. */
bool arch_eintr_by_stop(const arch_regs *regs);
/* Is it a result by which the kernel says that it will make the system call again? */
bool arch_is_restart(int64_t result);
/* A thread that waits in this system call must not be stopped: it ends, and cannot be repeated. */
bool arch_bears_no_stop(long nr);
/* Does this system call overwrite the block that arch_restarts_by_block needs? */
bool arch_uses_restart_block(uint64_t nr);
/* Is it restart_syscall(2), which stands for a call that was interrupted before? */
bool arch_is_restarted(const arch_regs *regs);
/* Puts the number of that call in its place, if it is one that can be restarted so. */
void arch_name_restarted(arch_regs *regs, long nr);
/* The number that the code before a system call, which ends at pc, loads; -1: not recognized. */
long arch_loaded_nr(const unsigned char *code_end);
/* A restart_syscall(2) may be what it does next: it is if a system call instruction lies at pc. */
bool arch_names_restart(const arch_regs *regs);
bool arch_is_syscall(const unsigned char code[ARCH_SYSCALL_LEN]);
/* Back to the moment at which the kernel chose it, so that it will choose it again. */
void arch_take_back_restart(arch_regs *regs);
/* Registers from which the system call is made again, from user space alone. */
void arch_rewind(arch_regs *regs);

/* --- forging --- */

/* Bytes below the stack pointer that the frames of any thread on this machine need. */
size_t arch_frames_room(void);
/*
 * A function that the thread calls on its own stack when the scratch area is
 * gone, from a signal frame as if a handler had been called.
 */
struct arch_last {
    remote_addr function; /* 0: there is none, last is frame0 */
    uint64_t arg, mask;   /* its first argument, the second is 0; the signals blocked meanwhile */
};
/*
 * Builds the frames for a thread whose registers were regs: frame0 leads to
 * resume with mask as signal mask. False if the state cannot be kept.
 */
bool arch_forge(struct arch_frames *frames, const arch_regs *regs, const arch_regs *resume,
                uint64_t mask, const struct arch_fp *fp, const struct arch_gadgets *gadgets,
                uint64_t scratch_len, const struct arch_last *last);
/* *regs at a system call's exit, so that the thread makes that call with arg at once. */
void arch_enter_last(arch_regs *regs, const struct arch_last *last,
                     const struct arch_frames *frames, uint64_t arg);

/* *regs, so that the thread maps the scratch area, stores its address and runs the unmap frame. */
void arch_enter_map(arch_regs *regs, const struct arch_gadgets *gadgets,
                    const struct arch_frames *frames, uint64_t scratch_len, int prot);
/* *regs, so that the thread makes a system call and then runs the frame at sp. */
void arch_enter_syscall(arch_regs *regs, const struct arch_gadgets *gadgets, remote_addr sp,
                        long nr, const uint64_t args[6]);
/*
 * The same for a thread at the entry of another system call, which nr takes
 * the place of: the new call is made at once.
 */
void arch_become_syscall(arch_regs *regs, const struct arch_gadgets *gadgets, remote_addr sp,
                         long nr, const uint64_t args[6]);
/* *regs, so that the thread works through the records at header. */
void arch_enter_trampoline(arch_regs *regs, remote_addr trampoline, remote_addr header,
                           remote_addr stack_top, remote_addr unmap_frame);

/* --- without executable memory --- */

enum { ARCH_CHAIN_FRAME = 16 }; /* where in the chain the frame begins */

/* Is there a store gadget that a function's return can lead into? */
bool arch_can_call_directly(const struct arch_gadgets *gadgets);
/*
 * What a function returns through, to lie at 8 more than a multiple of 16: the
 * store gadget, then a copy of the unmap frame for that scratch area. Returns
 * its length.
 */
size_t arch_return_chain(unsigned char *out, size_t size, const struct arch_frames *frames,
                         const struct arch_gadgets *gadgets, remote_addr scratch);
/* *regs at a system call's exit, so that the thread calls a function and returns into the chain. */
void arch_enter_direct(arch_regs *regs, const struct arch_gadgets *gadgets,
                       const struct arch_call *call, remote_addr result_at, remote_addr chain);
/* At a sigreturn's entry: makes it void, and to be made again. */
void arch_repeat_sigreturn(arch_regs *regs, const struct arch_gadgets *gadgets);
/* The state in which the ABI lets a function begin. */
void arch_reset_fp(struct arch_fp *fp);

/* --- system calls of the called function --- */

/*
 * At a system call's entry: turns it into one that the kernel refuses without
 * effect, whatever its arguments: munmap(2) of an odd address. So no seccomp
 * filter ever sees a number that the allocator itself does not use, and a
 * thread that loses its tracer here sees an ordinary failure.
 */
void arch_void_syscall(arch_regs *regs);
/* Would arch_void_syscall be refused, with these arguments? */
bool arch_can_void(const struct __ptrace_syscall_info *entry);
/* Is it the sigreturn of the trampoline, about to run the frame at unmap? */
bool arch_is_final_sigreturn(const struct __ptrace_syscall_info *entry, remote_addr unmap_frame);
/* An open that may create or truncate a file: where its path lies. */
bool arch_opens_for_writing(uint64_t nr, const uint64_t args[6], remote_addr *path);
/* Any other open. */
bool arch_opens_for_reading(uint64_t nr, const uint64_t args[6], remote_addr *path);
bool arch_is_read(uint64_t nr);
bool arch_is_write(uint64_t nr);
bool arch_is_close(uint64_t nr);
void arch_set_result(arch_regs *regs, int64_t result);

/* --- self-check --- */

/*
 * In a traced child of the tool: fills every vector and control register with
 * a pattern, stops itself by SIGSTOP, and returns whether all are unchanged.
 */
bool arch_hold_pattern(void);
/* Changes every register that arch_hold_pattern fills. */
void arch_wreck_fp(struct arch_fp *fp);
/* *regs, so that the thread runs the frame at sp at once. */
void arch_enter_sigreturn(arch_regs *regs, const struct arch_gadgets *gadgets, remote_addr sp);
/* The address in the tool itself of a sigreturn that the child can run. */
remote_addr arch_own_sigreturn(void);
