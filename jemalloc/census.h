/*
 * Which processes of a host use jemalloc: many processes looked at quickly,
 * none of them touched.
 *
 * Most processes of a host map files that others map too. What a file holds is
 * found out once and remembered under its device, its inode and the start of
 * its bytes as they are mapped: device and inode alone do not tell files apart
 * on overlayfs and btrfs.
 */
#pragma once

#include "jemalloc/facts.h"

enum linkage {
    LINKAGE_SHARED,    /* a library of its own */
    LINKAGE_PRELOADED, /* the same, named by LD_PRELOAD or /etc/ld.so.preload */
    LINKAGE_STATIC,    /* linked into the program, or into a library that does other things */
};

struct census; /* what is known about files */

/* NULL: out of memory. */
struct census *census_new(void);
void census_free(struct census *census);

/* One process with jemalloc. */
struct census_entry {
    struct proc_stat stat;     /* its name among them: untrusted */
    struct proc_status status; /* its pid in its own namespace, its resident memory */
    char path[4096];           /* the module, as the process sees it: untrusted */
    char prefix[PREFIX_MAX];
    enum found_by found_by;
    enum linkage linkage;
    struct prof_state prof;
};

/*
 * Looks at one process. FAULT_NO_ALLOCATOR: it has no jemalloc, or is no
 * program of this machine; FAULT_GONE, FAULT_ZOMBIE, FAULT_REUSED,
 * FAULT_EXECED, FAULT_KERNEL_THREAD: nothing to look at; FAULT_DENIED: its
 * mappings or its memory may not be read.
 */
fault_code census_look(struct census *census, struct procfs *proc, pid_t pid,
                       struct census_entry *entry, struct fault *fault);
