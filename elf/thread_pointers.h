/*
 * The thread pointer of each thread of a process (fs base on x86-64), without a
 * stop: from the C library's own list of threads, or from the stacks of threads that
 * sleep. glibc exports the layout of its list for debuggers (_thread_db_*,
 * nptl_db/structs.def); in musl each descriptor links the next one.
 *
 * A thread pointer is proven by what it points to: itself, which the ABI of machines
 * with the thread control block above the static TLS requires ("ELF Handling For
 * Thread-Local Storage", variant II), and by the thread's id, at the same distance
 * in all descriptors.
 */
#pragma once

#include "attach/deadline.h"
#include "elf/modules.h"

struct thread_pointer {
    pid_t tid; /* as in struct thread, not as the C library knows it */
    remote_addr pointer;
};

struct thread_pointers {
    struct thread_pointer *list; /* ascending by tid */
    size_t count;
};

/*
 * Reads the list; thread_pointers_free releases it. False: none was found. The list
 * may lack threads, such as one that was just created; a thread may end later.
 */
bool thread_pointers_read(struct thread_pointers *pointers, const struct modules *modules,
                          const struct target *target, struct memory *memory);
void thread_pointers_free(struct thread_pointers *pointers);

/* Returns the thread pointer of a thread; 0: not in the list. */
remote_addr thread_pointer_of(const struct thread_pointers *pointers, pid_t tid);
