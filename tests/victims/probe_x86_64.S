/*
 * See probe.h. rdi is the probe; it is kept at (%rsp) while its register
 * carries a pattern. Nothing between `body` and the stores that follow it
 * may touch the flags or the 128 bytes below rsp.
 */
#include "probe.h"

.macro save reg
    push %\reg
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset \reg, 0
.endm

.macro restore reg
    pop %\reg
    .cfi_adjust_cfa_offset -8
    .cfi_restore \reg
.endm

.macro enter
    save rbx
    save rbp
    save r12
    save r13
    save r14
    save r15
    push %rdi
    .cfi_adjust_cfa_offset 8
    mov %rsp, PROBE_RSP_IN(%rdi)
.endm

.macro load_extended
    mov PROBE_XMASK(%rdi), %eax
    xor %edx, %edx
    mov PROBE_X_IN(%rdi), %rcx
    xrstor64 (%rcx)
.endm

.macro load_flags
    pushq PROBE_FLAGS_IN(%rdi)
    .cfi_adjust_cfa_offset 8
    popfq
    .cfi_adjust_cfa_offset -8
.endm

.macro load_red_zone
    .set i, 0
    .rept PROBE_RED_WORDS
    mov PROBE_RED_IN + i(%rdi), %rax
    mov %rax, i - 128(%rsp)
    .set i, i + 8
    .endr
.endm

.macro load_general
    mov PROBE_IN + 0(%rdi), %rax
    mov PROBE_IN + 8(%rdi), %rbx
    mov PROBE_IN + 16(%rdi), %rcx
    mov PROBE_IN + 24(%rdi), %rdx
    mov PROBE_IN + 32(%rdi), %rsi
    mov PROBE_IN + 48(%rdi), %rbp
    mov PROBE_IN + 56(%rdi), %r8
    mov PROBE_IN + 64(%rdi), %r9
    mov PROBE_IN + 72(%rdi), %r10
    mov PROBE_IN + 80(%rdi), %r11
    mov PROBE_IN + 88(%rdi), %r12
    mov PROBE_IN + 96(%rdi), %r13
    mov PROBE_IN + 104(%rdi), %r14
    mov PROBE_IN + 112(%rdi), %r15
    mov PROBE_IN + 40(%rdi), %rdi
.endm

/* After either body rcx is the only register without a value to keep. */
.macro store_general
    mov (%rsp), %rcx
    mov %rax, PROBE_OUT + 0(%rcx)
    mov %rbx, PROBE_OUT + 8(%rcx)
    mov %rdx, PROBE_OUT + 24(%rcx)
    mov %rsi, PROBE_OUT + 32(%rcx)
    mov %rdi, PROBE_OUT + 40(%rcx)
    mov %rbp, PROBE_OUT + 48(%rcx)
    mov %r8, PROBE_OUT + 56(%rcx)
    mov %r9, PROBE_OUT + 64(%rcx)
    mov %r10, PROBE_OUT + 72(%rcx)
    mov %r11, PROBE_OUT + 80(%rcx)
    mov %r12, PROBE_OUT + 88(%rcx)
    mov %r13, PROBE_OUT + 96(%rcx)
    mov %r14, PROBE_OUT + 104(%rcx)
    mov %r15, PROBE_OUT + 112(%rcx)
    mov %rsp, PROBE_RSP_OUT(%rcx)
.endm

.macro store_red_zone
    .set i, 0
    .rept PROBE_RED_WORDS
    mov i - 128(%rsp), %rax
    mov %rax, PROBE_RED_OUT + i(%rcx)
    .set i, i + 8
    .endr
.endm

.macro store_flags
    pushfq
    .cfi_adjust_cfa_offset 8
    popq PROBE_FLAGS_OUT(%rcx)
    .cfi_adjust_cfa_offset -8
    pushq $0x202
    .cfi_adjust_cfa_offset 8
    popfq
    .cfi_adjust_cfa_offset -8
.endm

.macro store_extended
    mov PROBE_XMASK(%rcx), %eax
    xor %edx, %edx
    mov PROBE_X_OUT(%rcx), %rbx
    xsave64 (%rbx)
    mov PROBE_X_CLEAN(%rcx), %rbx
    xrstor64 (%rbx)
.endm

.macro leave_probe
    pop %rdi
    .cfi_adjust_cfa_offset -8
    restore r15
    restore r14
    restore r13
    restore r12
    restore rbp
    restore rbx
    ret
.endm

.macro before_body
    enter
    load_extended
    load_flags
    load_red_zone
    load_general
.endm

.macro after_body
    store_general
    store_red_zone
    store_flags
    store_extended
    leave_probe
.endm

    .text
    .globl probe_syscall, probe_syscall_begin, probe_syscall_end
    .type probe_syscall, @function
probe_syscall:
    .cfi_startproc
    before_body
probe_syscall_begin:
    syscall
probe_syscall_end:
    after_body
    .cfi_endproc
    .size probe_syscall, . - probe_syscall

    .globl probe_spin, probe_spin_begin, probe_spin_end
    .type probe_spin, @function
probe_spin:
    .cfi_startproc
    before_body
probe_spin_begin:
    loop probe_spin_begin
probe_spin_end:
    after_body
    .cfi_endproc
    .size probe_spin, . - probe_spin

    .section .note.GNU-stack, "", @progbits
