/*
 * The one door through which the tool touches a target.
 *
 * Every ptrace request and every write into a target's memory passes here, so
 * that each can be counted, traced and, in the tests, be the last thing that
 * the tool does: the kill matrix lets it die at call 1, 2, 3, ...
 */
#pragma once

#include "base/util.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct gate {
    unsigned count;     /* calls made so far */
    unsigned die_at;    /* die_signal to itself just before this call; 0: never */
    unsigned die_after; /* and just after this one; 0: never */
    int die_signal;     /* SIGKILL, or another to interrupt or stop the tool there */
    FILE *trace;        /* a line for each call; NULL: none */
};

/* Takes them from JEATTACH_DIE_AT, JEATTACH_DIE_AFTER and JEATTACH_DIE_SIGNAL. */
void gate_init(struct gate *gate, FILE *trace);

/* ptrace(2) with its errno; unlike libc's wrapper PEEK requests store at data. */
long gate_ptrace(struct gate *gate, int request, pid_t tid, uint64_t addr, uint64_t data);

/* process_vm_writev(2) and pwrite(2) to /proc/PID/mem. Bytes written, or -1 with errno. */
ssize_t gate_vm_write(struct gate *gate, pid_t pid, remote_addr addr, const void *buf, size_t len);
ssize_t gate_mem_write(struct gate *gate, int memfd, remote_addr addr, const void *buf, size_t len);
