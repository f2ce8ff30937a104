/*
 * Where a module's thread-local storage lies, per thread ("ELF Handling For
 * Thread-Local Storage", variant II: the static blocks are below the thread pointer).
 *
 * The program's block is the nearest. A library's is where its relocations say: a
 * word of the initial-exec model has the distance from the thread pointer, one of
 * the general-dynamic model the module's number, which is an index of the thread's
 * vector of blocks (dtv).
 */
#pragma once

#include "elf/image.h"
#include "elf/modules.h"

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
