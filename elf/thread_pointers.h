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

#include "elf/image.h"
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

/*
 * ---- thread-local storage ----
 *
 * Where a module's thread-local storage lies, per thread ("ELF Handling For
 * Thread-Local Storage", variant II: the static blocks are below the thread pointer).
 *
 * The program's block is the nearest. A library's is where its relocations say: a
 * word of the initial-exec model has the distance from the thread pointer, one of
 * the general-dynamic model the module's number, which is an index of the thread's
 * vector of blocks (dtv).
 */

/* The relocation types of one machine. */
struct tls_relocations {
    uint32_t offset; /* R_*_TPOFF */
    uint32_t module; /* R_*_DTPMOD */
};

enum tls_model { TLS_UNKNOWN, TLS_AT_DISTANCE, TLS_BY_NUMBER };

struct tls_block {
    enum tls_model model;
    int64_t distance; /* of its start from the thread pointer */
    uint64_t number;  /* of its module */
    uint64_t size;
};

/* Finds the block of a module; false: it has none, or it is unknown. */
bool tls_find(struct tls_block *block, const struct module *module, struct memory *memory,
              const struct tls_relocations *types);

/* Returns the address of the block of one thread; 0: it has none yet, or memory is unreadable. */
remote_addr tls_of_thread(const struct tls_block *block, remote_addr pointer,
                          struct memory *memory);
