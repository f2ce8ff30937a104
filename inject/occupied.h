/*
 * Whether a thread of the target keeps its address space locked (mmap_lock) for long.
 *
 * A thread that populates, pins or unmaps gigabytes keeps that lock for seconds. A
 * forged mmap(2) then waits for it uninterruptibly, with the thread's signals blocked;
 * and before Linux 6.4 a waiting mmap stops every page fault of the process. No file
 * shows who has the lock. What /proc shows is a thread that has not left the kernel for
 * a while: running, with time in the kernel and none in user mode, or asleep uninterruptibly in a
 * page fault or in a system call that wants the lock.
 */
#pragma once

#include "attach/target.h"
#include "base/interruptions.h"

enum occupancy {
    OCCUPANCY_NONE,
    OCCUPANCY_SHARED, /* nobody waits for the lock: memory can be read, page faults work */
    OCCUPANCY_WAITED, /* a thread waits for it: so would every other, and every page fault */
};

struct occupied {
    enum occupancy occupancy;
    pid_t tid; /* the thread that waits, else the one that has not left the kernel */
    long nr;   /* the system call in which it waits; -1: a page fault, or it runs */
};

/*
 * Looks at the other threads for some milliseconds, for a tenth of a second if one may
 * have the lock; no thread is stopped. A process with a single thread has no other.
 * Ends early with OCCUPANCY_NONE on Ctrl-C.
 */
void occupied_look(const struct target *target, const struct deadline *deadline,
                   struct occupied *out);
