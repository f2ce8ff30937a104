/*
 * The memory of a core file. The bytes that the core left out, because they are those
 * of a file (core(5), coredump_filter), are read from that file, if it is proven to be
 * the one that was mapped.
 */
#pragma once

#include "elf/core.h"
#include "elf/modules.h"

enum { CORE_LACKS_COUNTED = 1 << 13 }; /* pages; more are not counted */

/* The file of one module. */
struct core_module {
    bool tried;
    int fd;                       /* -1: it cannot be used */
    int err;                      /* then why: an errno; ESTALE: the file is another one */
    struct memory_range fixed[8]; /* its parts that were mapped without write permission */
    size_t fixed_count;
    size_t lacks; /* pages of it that were needed and not found */
};

struct core_memory {
    const struct core *core;
    const struct modules *modules;
    const struct target *target;
    struct memory own;           /* only what is in the core itself */
    struct core_module *list;    /* parallel to modules->list; NULL: not used yet */
    size_t count;                /* of it */
    size_t lacks;                /* distinct pages that were needed and not found */
    size_t anonymous_lacks;      /* those of them that are of no file */
    remote_addr *lacking;        /* a hash table of these */
    struct memory_source source; /* for memory_open_source */
};

/*
 * Prepares it. modules may be empty until the first read, and must not change after
 * it. Everything must outlive it, and it must not move.
 */
void core_memory_init(struct core_memory *memory, const struct core *core,
                      const struct modules *modules, const struct target *target);
void core_memory_free(struct core_memory *memory);

/*
 * Returns the module number *at or a later one of which pages were needed and not
 * found, and sets *at behind it. NULL: no more.
 */
const struct module *core_memory_lack(const struct core_memory *memory, size_t *at,
                                      const struct core_module **state);
