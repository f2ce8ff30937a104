/*
 * The only door through which the tool touches a target.
 *
 * Every ptrace request and every write to a target's memory passes here, so that
 * each can be counted, and in the tests be traced, and be the last action of the tool:
 * the kill matrix makes it die at call 1, 2, 3, ...
 */
#pragma once

#include "base/util.h"

#include <stdbool.h>
#include <sys/types.h>

struct gate {
    unsigned count;     /* calls so far */
    unsigned die_at;    /* raise die_signal just before this call; 0: never */
    unsigned die_after; /* raise die_signal just after this call; 0: never */
    int die_signal;     /* SIGKILL, or a signal that interrupts or stops the tool */
};

/* Reads JEATTACH_DIE_AT, JEATTACH_DIE_AFTER and JEATTACH_DIE_SIGNAL. */
void gate_init(struct gate *gate);

/* ptrace(2) with its errno. PEEK requests store the word at data, unlike libc's wrapper. */
long gate_ptrace(struct gate *gate, int request, pid_t tid, uint64_t addr, uint64_t data);

/*
 * process_vm_writev(2), and pwrite(2) to /proc/PID/mem. Return the number of bytes
 * written, or -1 with errno.
 */
ssize_t gate_vm_write(struct gate *gate, pid_t pid, remote_addr addr, const void *buf, size_t len);
ssize_t gate_mem_write(struct gate *gate, int memfd, remote_addr addr, const void *buf, size_t len);
