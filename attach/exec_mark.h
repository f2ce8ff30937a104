/*
 * What tells the processes that stem from one execve(2) by fork(2) from all others: the
 * kernel puts 16 random bytes on the stack of each new program (AT_RANDOM, getauxval(3)),
 * and a fork copies them, at the same address.
 */
#pragma once

#include "attach/memory.h"

enum { EXEC_MARK_BYTES = 16 };

struct exec_mark {
    remote_addr stack_start; /* as in struct proc_stat; 0: unknown */
    remote_addr random_at;   /* 0: they were not found, and nothing matches */
    unsigned char random[EXEC_MARK_BYTES];
};

/* Reads the mark of a process. What cannot be read stays 0. */
void exec_mark_read(struct exec_mark *mark, const struct target *target, struct memory *memory);

/* True if this memory certainly is of the same exec. */
bool exec_mark_matches(const struct exec_mark *mark, struct memory *memory);
