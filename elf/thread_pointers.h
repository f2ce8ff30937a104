/*
 * The thread pointer of each thread of a process (fs base on x86-64), without a
 * stop: from the C library's own list of threads. glibc exports the layout of that
 * list for debuggers (_thread_db_*, nptl_db/structs.def); in musl each descriptor
 * links the next one.
 */
#pragma once

#include "attach/deadline.h"
#include "elf/modules.h"

struct thread_pointer {
    pid_t tid; /* in the innermost pid namespace of the target, as the C library knows it */
    remote_addr pointer;
};

struct thread_pointers {
    struct thread_pointer *list; /* ascending by tid */
    size_t count;
};

/*
 * Reads the list; thread_pointers_free releases it. False: this C library does not
 * tell, or the list changed during each attempt. The list may lack a thread that was
 * just created, and may contain one that is ending: compare with threads_list.
 */
bool thread_pointers_read(struct thread_pointers *pointers, const struct modules *modules,
                          const struct target *target, struct memory *memory);
void thread_pointers_free(struct thread_pointers *pointers);

/* Returns the thread pointer of a thread; 0: not in the list. */
remote_addr thread_pointer_of(const struct thread_pointers *pointers, pid_t tid);
