/*
 * A probe runs one system call, or one long loop, with a known value in every
 * register of the thread, and records the registers afterwards. A register that
 * an interruption did not restore differs in the record.
 *
 * The offsets are shared with probe_x86_64.S.
 */
#ifndef VICTIM_PROBE_H
#define VICTIM_PROBE_H

#define PROBE_IN        0
#define PROBE_OUT       128
#define PROBE_FLAGS_IN  256
#define PROBE_FLAGS_OUT 264
#define PROBE_RSP_IN    272
#define PROBE_RSP_OUT   280
#define PROBE_XMASK     288
#define PROBE_X_IN      296
#define PROBE_X_OUT     304
#define PROBE_X_CLEAN   312
#define PROBE_RED_IN    320
#define PROBE_RED_OUT   448

#define PROBE_RED_WORDS 16

#ifndef __ASSEMBLER__

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Order of the general registers in probe.in and probe.out. */
enum probe_reg {
    PROBE_RAX,
    PROBE_RBX,
    PROBE_RCX,
    PROBE_RDX,
    PROBE_RSI,
    PROBE_RDI,
    PROBE_RBP,
    PROBE_R8,
    PROBE_R9,
    PROBE_R10,
    PROBE_R11,
    PROBE_R12,
    PROBE_R13,
    PROBE_R14,
    PROBE_R15,
    PROBE_REGS
};

struct probe {
    uint64_t in[16];
    uint64_t out[16];
    uint64_t flags_in;
    uint64_t flags_out;
    uint64_t rsp_in;
    uint64_t rsp_out;
    uint64_t xmask;
    void *x_in;
    void *x_out;
    void *x_clean;
    uint64_t red_in[PROBE_RED_WORDS];
    uint64_t red_out[PROBE_RED_WORDS];
};

/* One system call: in[RAX] is its number, in[RDI], in[RSI], ... its arguments. */
void probe_syscall(struct probe *probe);
/* in[RCX] turns of an empty loop, in which the thread does nothing else. */
void probe_spin(struct probe *probe);
/* The pc of the thread during a probe's system call or loop. */
extern const char probe_syscall_begin[], probe_syscall_end[];
extern const char probe_spin_begin[], probe_spin_end[];

/* Allocates the register images and fills in the patterns. False if the CPU has no XSAVE. */
bool probe_init(struct probe *probe);
/* Gives the general registers, the flags and the red zone new patterns. */
void probe_fill(struct probe *probe, uint64_t seed);
/* Compares the record with the patterns. False, with text: they differ. */
bool probe_check(const struct probe *probe, bool spin, char *text, size_t size);
/* True if the CPU has that state component and the kernel lets programs use it. */
bool probe_has(unsigned int component);
/* Offset of an extended state component in an XSAVE image; 0 if this CPU lacks it. */
size_t probe_component(unsigned int component, size_t *size);

#endif
#endif
