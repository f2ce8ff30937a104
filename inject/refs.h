/*
 * The references of code, decoded without knowing where its instructions start:
 * every byte is tried, so no reference of a known form is missed, and a few are
 * reported that are none. A caller must tolerate that: by asking for exact
 * addresses, or for several witnesses.
 *
 * One prototype for every architecture, implemented in inject/x86_64_refs.c.
 */
#pragma once

#include "base/util.h"
#include "elf/thread_pointers.h"

#include <stdbool.h>
#include <stddef.h>

enum { REF_OVERLAP = 16 }; /* bytes of the longest instruction */

enum ref_kind {
    REF_ADDRESS = 1, /* computes an address */
    REF_DATA = 2,    /* reads or writes memory */
    REF_CALL = 4,
    REF_JUMP = 8, /* conditional or not; only jumps that can lead out of a function */
};

/* What an instruction does to the memory that it refers to. */
enum ref_access {
    REF_OTHER, /* unknown, or neither of these */
    REF_READ,
    REF_WRITE, /* of a value that is not a constant */
};

struct ref {
    remote_addr at; /* an address in the instruction: of its opcode or operand */
    remote_addr target;
    enum ref_kind kind;
    enum ref_access access; /* REF_DATA: of moves and comparisons */
    unsigned size;          /* bytes that it reads or writes; 0: unknown */
};

typedef void (*ref_visitor)(void *ctx, const struct ref *ref);

struct ref_query {
    unsigned kinds; /* enum ref_kind */
    bool absolute;  /* the code is at a fixed address: its operands may be absolute addresses */
    remote_addr low, high; /* reports only targets in [low, high) */
    ref_visitor visit;
    void *ctx;
};

/*
 * Visits in ascending order the references in code[2..fresh + 2) that are
 * complete in code[0..len). code[0] is at address. Pieces that overlap by
 * REF_OVERLAP bytes miss only references in the first and last few bytes of the
 * whole.
 */
void refs_visit(const unsigned char *code, size_t len, size_t fresh, remote_addr address,
                const struct ref_query *query);

/* True if the bytes contain a system call instruction. */
bool refs_make_syscall(const unsigned char *code, size_t len);

/*
 * Returns the offset of the first system call instruction that creates a
 * process (fork, vfork, clone, clone3) and that is not followed by a branch to
 * the start of a thread; SIZE_MAX: none.
 */
size_t refs_find_fork(const unsigned char *code, size_t len);

/*
 * Returns the offset of the first constant that is the flags of clone for a
 * thread; SIZE_MAX: none.
 */
size_t refs_find_thread_flags(const unsigned char *code, size_t len);
/*
 * Returns the offset of the first direct call that gets the result of a function
 * called through a pointer just before: as musl's first function of a thread
 * calls its pthread_exit. SIZE_MAX: none. *target: bytes from code[0] to the
 * called function.
 */
size_t refs_find_thread_end(const unsigned char *code, size_t len, int64_t *target);
/* Returns the end of the first loop around the end of a thread (exit(2)); SIZE_MAX: none. */
size_t refs_find_exit_loop(const unsigned char *code, size_t len);

/*
 * Finds the offset of errno from the thread pointer, in code that sets errno
 * after a system call.
 */
bool refs_errno_offset(const unsigned char *code, size_t len, int32_t *offset);
/* Returns the offset of a function that returns the address of that variable; SIZE_MAX: none. */
size_t refs_find_errno_location(const unsigned char *code, size_t len, int32_t offset);

/* The relocations of thread-local storage of this machine (elf/thread_pointers.h). */
extern const struct tls_relocations arch_tls_relocations;
