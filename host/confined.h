/*
 * A child of the tool that reads what a stranger has made: symbol tables, debug information,
 * compressed data, names.
 *
 * It has one open file, the channel to the tool, and receives through it, read-only, the files
 * that it reads. It may not open, connect, execute, signal or trace, nor allocate more than its
 * limit. If it crashes, hangs or grows, the tool goes on without its answers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct confined {
    pid_t pid;         /* 0: none */
    int channel;       /* a stream socket */
    uint64_t used_ns;  /* its CPU time at the last look */
    uint64_t idle_ns;  /* how long it has not used any; 20 ms for each look */
    uint64_t slept_ns; /* in all */
};

/* How it ended. */
enum confined_end {
    CONFINED_DONE,    /* its function has returned */
    CONFINED_MEMORY,  /* out of memory */
    CONFINED_CRASHED, /* a signal that it caused itself */
    CONFINED_KILLED,  /* confined_stop, while it worked, or the kernel, for want of memory */
    CONFINED_REFUSED, /* the system did not let it confine itself */
};

/* The file descriptors that its function finds open, besides /dev/null. */
enum {
    CONFINED_CHANNEL = 3,
    CONFINED_OUT = 4, /* work->out, if there is one */
};

struct confined_work {
    uint64_t memory;            /* bytes that it may allocate besides what the tool has */
    int out;                    /* a file that it may write, up to out_max bytes; negative: none */
    uint64_t out_max;           /* bytes */
    void (*prepare)(void *ctx); /* called before it is confined; NULL: nothing */
    void (*serve)(void *ctx);   /* called when it is confined */
    void *ctx;
};

/*
 * Starts a child that confines itself and does the work, with a copy of all memory of the tool.
 * Returns 0 or -errno. confined_stop releases it. What the kernel does not have (Landlock before
 * 5.13), or what the tool itself may not use (seccomp in some containers), is left out.
 */
int confined_start(struct confined *child, const struct confined_work *work);

/*
 * Receives one answer of len bytes. Returns 0, -EINTR (a signal to end came meanwhile, or the
 * deadline), -ETIME (the child has used cpu_max ns, or idles), or -EBADMSG: it has ended without
 * an answer.
 */
int confined_receive(struct confined *child, void *answer, size_t len, uint64_t cpu_max);

/* Ends the child, if it has not ended. */
enum confined_end confined_stop(struct confined *child);

/*
 * Called every 20 ms while an answer is due. Returns child->idle_ns: honest work never sleeps, but
 * a page of a file may not come.
 */
uint64_t confined_idles(struct confined *child);
/* Returns the CPU time that it has used, ns. */
uint64_t confined_cpu_ns(const struct confined *child);
/* Returns its resident memory, bytes, that of files included; 0: unknown. */
uint64_t confined_resident(const struct confined *child);
