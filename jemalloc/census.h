/*
 * Finds the processes of a host that use jemalloc, quickly and without stopping
 * any of them.
 *
 * Most processes map files that other processes map too. Each file is examined
 * once; the result is cached under its device, its inode and its first bytes as
 * they are mapped, because device and inode do not identify a file on overlayfs
 * and btrfs.
 */
#pragma once

#include "jemalloc/facts.h"

enum linkage {
    LINKAGE_UNKNOWN,   /* a library, and neither the loader nor the environment tells why */
    LINKAGE_SHARED,    /* the library libjemalloc */
    LINKAGE_PRELOADED, /* that library, named by LD_PRELOAD or /etc/ld.so.preload */
    LINKAGE_STATIC,    /* linked into the program, or into a library with other code */
};

struct census; /* the cache of files */

/* Returns NULL if out of memory. */
struct census *census_new(void);
void census_free(struct census *census);

/*
 * Calls tell for each file that is examined from now on. Its record is for
 * census_learn of another census, or of the same one in the process that this
 * one was forked from.
 */
void census_on_file(struct census *census, void (*tell)(void *ctx, const void *record, size_t size),
                    void *ctx);
/* Caches the file of a record. False: it is no such record. */
bool census_learn(struct census *census, const void *record, size_t size);

/* One process that uses jemalloc. */
struct census_entry {
    struct proc_stat stat;     /* with its name: untrusted */
    struct proc_status status; /* with its pid in its own namespace and its RSS */
    char path[4096];           /* the module, as the process sees it: untrusted */
    char prefix[PREFIX_MAX];
    enum found_by found_by;
    enum linkage linkage;
    struct prof_state prof;
};

/*
 * Examines one process. FAULT_NO_ALLOCATOR: it has no jemalloc, or is not a
 * 64-bit program of this machine. FAULT_GONE, FAULT_ZOMBIE, FAULT_REUSED,
 * FAULT_EXECED, FAULT_KERNEL_THREAD: there is nothing to examine. FAULT_DENIED:
 * no permission to read its mappings or its memory.
 */
fault_code census_look(struct census *census, struct procfs *proc, pid_t pid,
                       struct census_entry *entry, struct fault *fault);
