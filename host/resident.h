/* What the resident memory of a process consists of, as the kernel counts it. */
#pragma once

#include "base/cursor.h"
#include "base/util.h"
#include "host/procfs.h"
#include "host/task.h"

#include <stdbool.h>

/* From /proc/PID/status, in bytes. Reading it walks no page table and takes no lock. */
struct resident {
    uint64_t rss;                      /* VmRSS: the sum of the next three */
    uint64_t anonymous, files, shared; /* RssAnon, RssFile, RssShmem; 0 before Linux 4.5 */
    uint64_t swap;                     /* VmSwap: not in rss */
    uint64_t peak;                     /* VmHWM: the largest rss so far */
    uint64_t size;                     /* VmSize: address space */
    uint64_t huge_tlb;                 /* HugetlbPages: not in rss */
};

/* False if the text has no VmRSS: the process has no memory. */
bool resident_parse(const char *text, size_t len, struct resident *out);
/* Reads the file. Returns 0 or -errno; -ESRCH: the process has no memory any more. */
int resident_read(const struct procfs *proc, pid_t pid, struct resident *out);

/* What a mapping is of, by its whole name and its flags. */
enum mapping_kind {
    MAPPING_ANONYMOUS,
    MAPPING_HEAP,    /* [heap]: what brk(2) has made */
    MAPPING_STACK,   /* [stack] */
    MAPPING_FILE,    /* a file in another tmpfs than those of MAPPING_SHARED, too */
    MAPPING_SHARED,  /* on a tmpfs that nobody has mounted, or at the usual place for one */
    MAPPING_DEVICE,  /* buffers of the kernel: sockets, rings, devices */
    MAPPING_HUGE,    /* of hugetlbfs, which the RSS does not count */
    MAPPING_SPECIAL, /* [vdso], [vvar], [vsyscall]: no pages of its own */
};
enum mapping_kind mapping_kind(const struct map_entry *entry);

/*
 * From /proc/PID/smaps, in bytes: for this file the kernel walks the page tables.
 * rss is the sum of the seven kinds.
 */
struct resident_parts {
    uint64_t rss;
    uint64_t heap;        /* [heap]: what brk(2) has made */
    uint64_t stacks;      /* [stack], and those of the threads that were found */
    uint64_t anonymous;   /* all other memory without a file */
    uint64_t written;     /* changed pages of private mappings of files: variables of modules */
    uint64_t files;       /* unchanged pages of files: code, mapped data */
    uint64_t shared;      /* shared memory */
    uint64_t devices;     /* buffers of the kernel: sockets, rings, devices */
    uint64_t huge;        /* of anonymous memory: in huge pages (AnonHugePages) */
    uint64_t lazy_free;   /* released with MADV_FREE, not yet reclaimed by the kernel */
    uint64_t swap;        /* not in rss */
    size_t mappings;      /* their number */
    size_t thread_stacks; /* in how many of them a thread's stack was found */
};

/*
 * Parses the text. A mapping without a file is the stack of a thread if it contains
 * one of the stack pointers, ascending, at most RESIDENT_STACK_MAX below its end, and
 * has a guard below it: mappings that have merged with others are not taken for one.
 */
enum { RESIDENT_STACK_MAX = 1 << 20 };
bool resident_parts_parse(const char *text, size_t len, const remote_addr *pointers, size_t count,
                          struct resident_parts *out);
/* Reads the file, of at most limit bytes. Returns 0 or -errno. */
int resident_parts_read(const struct procfs *proc, pid_t pid, size_t limit,
                        const remote_addr *pointers, size_t count, struct resident_parts *out);
