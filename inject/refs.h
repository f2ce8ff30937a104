/*
 * What code refers to, decoded without knowing where its instructions begin:
 * every byte is tried, so nothing is missed that has one of the known forms,
 * and a few things are seen that are none. Whoever asks must be content with
 * that: by asking for exact addresses, or by several witnesses.
 *
 * One prototype for every machine, implemented in inject/x86_64_refs.c.
 */
#pragma once

#include "base/util.h"

#include <stdbool.h>
#include <stddef.h>

enum { REF_OVERLAP = 16 }; /* bytes of the longest instruction */

enum ref_kind {
    REF_ADDRESS = 1, /* an address is made */
    REF_DATA = 2,    /* memory is read or written */
    REF_CALL = 4,
    REF_JUMP = 8, /* conditional or not; only those that can lead out of a function */
};

struct ref {
    remote_addr at; /* of the instruction's opcode or operand: within it */
    remote_addr target;
    enum ref_kind kind;
};

typedef void (*ref_visitor)(void *ctx, const struct ref *ref);

struct ref_query {
    unsigned kinds;        /* enum ref_kind */
    bool absolute;         /* the code lies at a fixed address: its operands may be absolute ones */
    remote_addr low, high; /* only targets in [low, high) */
    ref_visitor visit;
    void *ctx;
};

/*
 * Visits in ascending order what stands in code[2..fresh + 2), which lies at
 * address, if it is complete in code[0..len): pieces that overlap by
 * REF_OVERLAP bytes miss nothing but the first and last few bytes of all.
 */
void refs_visit(const unsigned char *code, size_t len, size_t fresh, remote_addr address,
                const struct ref_query *query);

/* Is there a system call instruction among the bytes? */
bool refs_make_syscall(const unsigned char *code, size_t len);

/*
 * Offset of the first system call instruction that makes a process (fork,
 * vfork, clone, clone3) and after which the code does not branch off to begin
 * a thread; SIZE_MAX: none.
 */
size_t refs_find_fork(const unsigned char *code, size_t len);

/* Where errno lies, relative to the thread pointer: from code that sets it after a system call. */
bool refs_errno_offset(const unsigned char *code, size_t len, int32_t *offset);
/* Offset of a function that returns the address of that variable; SIZE_MAX: none. */
size_t refs_find_errno_location(const unsigned char *code, size_t len, int32_t offset);
