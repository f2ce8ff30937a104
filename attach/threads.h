/* The threads of a target, as /proc/PID/task shows them without stopping any. */
#pragma once

#include "attach/target.h"

struct thread {
    pid_t tid;
    char state;         /* as in struct proc_stat */
    unsigned flags;     /* as in struct proc_stat */
    int cpu;            /* the CPU that it last ran on */
    uint64_t cpu_ticks; /* CPU time, clock ticks */
    char comm[16];      /* untrusted: the process names its threads */
};

struct threads {
    struct thread *list;
    size_t count;
};

enum { THREADS_MAX = 1 << 20 };

/* Lists the threads, without any that end in between; threads_free releases the list. */
fault_code threads_list(struct threads *threads, const struct target *target, struct fault *fault);
void threads_free(struct threads *threads);

/*
 * Reads where a sleeping thread is, without stopping it; false if it has ended or
 * may not be read.
 */
bool thread_read_syscall(const struct thread *thread, const struct target *target,
                         struct proc_syscall *out);

/* Reads the thread's present state; false if it has ended. */
bool thread_refresh(struct thread *thread, const struct target *target);
