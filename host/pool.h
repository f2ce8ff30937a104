/*
 * Worker processes of the tool that each read strangers, one after the other, and
 * that can be given up.
 *
 * A page or a file of a process may have to come from another one that does not
 * answer (userfaultfd(2), FUSE, NFS). The kernel waits for it in a way that only
 * SIGKILL ends (TASK_KILLABLE; process_vm_readv(2) waits like that in mm/gup.c), and
 * SIGKILL ends a whole process: so a thread would not do. One worker does all the
 * work as long as it advances. Beside each one that does not, another one
 * continues with the items that are left. An item whose worker is for a second
 * in one and the same sleep is given up, and so is one that crashes its worker.
 *
 * The results come through a socket, as records of a limited size, and the
 * receiver checks them: a worker that a stranger has misled can spoil only results.
 */
#pragma once

#include "host/procfs.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { POOL_RECORD_MAX = 32 << 10 };

enum pool_end {
    POOL_LATE,  /* the time was over, or the operator interrupted */
    POOL_DONE,  /* value is what perform has returned */
    POOL_STUCK, /* the worker was asleep in one call for too long */
    POOL_SLOW,  /* the worker computed for too long */
    POOL_LOST,  /* the worker was killed, or has sent what is no record */
};

struct pool_answer {
    enum pool_end end;
    bool begun;
    int value;  /* POOL_DONE: of perform; else the last one of pool_mark, or 0 */
    long call;  /* POOL_STUCK: number of the system call; -1: unknown */
    int signal; /* POOL_LOST: the signal that has killed the worker; 0: unknown */
};

struct pool_line;

struct pool_job {
    size_t count;
    /* In a worker: works on one item. line NULL: in the calling process, without a worker. */
    int (*perform)(void *ctx, size_t item, struct pool_line *line);
    /*
     * In the tool: takes a record; item is below count. It may take the descriptor over by
     * setting *fd to -1. False: the record is not valid.
     */
    bool (*receive)(void *ctx, size_t item, const void *record, size_t size, int *fd);
    void *ctx;
    const struct procfs *proc;
    uint64_t until;                           /* CLOCK_MONOTONIC, nanoseconds */
    const volatile sig_atomic_t *interrupted; /* may be NULL */
};

/*
 * Works on all items; answers has one for each. Items are begun in ascending order.
 * Where no process can be forked, the calling one works on them. No worker survives
 * the tool, except one in a sleep that not even SIGKILL ends (some of FUSE); the tool
 * does not wait for it, nor does the reader of the tool's output. Returns 0 or errno.
 */
int pool_run(const struct pool_job *job, struct pool_answer *answers);

/* For perform: sends at most POOL_RECORD_MAX bytes to the tool, with a copy of fd if it is not -1.
 */
void pool_send(struct pool_line *line, const void *record, size_t size, int fd);
/* For perform: sets the value of an item that is given up from now on. */
void pool_mark(struct pool_line *line, int value);
