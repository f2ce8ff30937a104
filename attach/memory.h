/*
 * Access to the target's memory: reads from /proc/PID/mem, else with process_vm_readv(2),
 * else with PTRACE_PEEKDATA once a thread is stopped. A small page cache serves only
 * mappings whose bytes do not change (ELF structures, code).
 *
 * process_vm_readv(2) pins pages: since Linux 5.19 the kernel first copies an anonymous page
 * that the target shares with a child (mm/gup.c, FAULT_FLAG_UNSHARE), and splits huge pages,
 * so that a read of the heap makes a process that has forked grow. /proc/PID/mem does
 * neither, but it reads by force: what the target itself may not read, the registers of
 * devices, and the gap below a stack, which grows by that. Such ranges are guarded:
 * process_vm_readv(2) alone reads there what may be read.
 *
 * A read brings a page that is in swap back, and charges it to the cgroup of the
 * target (mm/memory.c, do_swap_page). Where a memory limit leaves too little for that,
 * such pages are not read: these reads fail, and are counted. While a thread is
 * stopped all pages are read: run/need.h has made sure of what a call touches.
 *
 * The memory can also come from another source, such as a core file: then there is
 * no process, and every write fails.
 */
#pragma once

#include "attach/gate.h"
#include "attach/target.h"
#include "host/pagemap.h"

enum { MEMORY_PAGE = 4096, MEMORY_CACHE_PAGES = 64 };

struct memory_range {
    remote_addr start, end;
};

struct memory_source {
    /* Reads exactly len bytes; otherwise returns false with errno. addr + len does not wrap. */
    bool (*read)(void *ctx, remote_addr addr, void *buf, size_t len);
    void *ctx;
};

struct memory {
    pid_t pid;
    struct memory_source source; /* read NULL: the process */
    struct gate *gate;
    int memfd; /* /proc/PID/mem, read-write if the kernel allowed it; -1: refused */
    bool memfd_writable;
    int mapsfd;              /* /proc/PID/maps, if memfd is refused; else -1 */
    bool no_vm, no_vm_write; /* process_vm_readv or process_vm_writev is refused */
    pid_t stopped_tid;       /* a ptrace-stopped thread, for PEEK and POKE; 0: none */
    struct memory_page {
        remote_addr addr; /* page-aligned; 1: empty */
        unsigned char bytes[MEMORY_PAGE];
    } * cache;
    bool leaves_swapped;             /* pages in swap are not read */
    struct pagemap pages;            /* if leaves_swapped */
    uint64_t left_out;               /* reads and writes that were not made because of that */
    struct memory_range *unchanging; /* in ascending order; the cache holds no others */
    struct memory_range *guarded;    /* in ascending order; not read by force */
    size_t unchanging_count, guarded_count;
};

/* Cannot fail: if every way is refused so far, reads fail. */
void memory_open(struct memory *memory, const struct target *target, struct gate *gate);
/*
 * Decides whether pages in swap are read; memory_open does so, too. The target's status
 * is that of its last renewal: what has no page in swap costs nothing.
 */
void memory_heed_swap(struct memory *memory, const struct target *target);
/* Takes the memory from a source, which must outlive it, and from no process. */
void memory_open_source(struct memory *memory, const struct memory_source *source);
void memory_close(struct memory *memory);

/*
 * True if the process still runs the program that it ran at memory_open; addr was
 * mapped then. Also true if neither /proc/PID/mem nor maps is open, as with a source.
 */
bool memory_is_same(const struct memory *memory, remote_addr addr);

/* True if the kernel has refused every way to read, and no thread is stopped. */
static inline bool memory_is_refused(const struct memory *memory)
{
    return memory->no_vm && memory->memfd < 0 && !memory->stopped_tid;
}

/* True if reads of much of it may make a process grow that has forked. */
static inline bool memory_is_pinned(const struct memory *memory)
{
    return memory->memfd < 0 && !memory->source.read;
}

/*
 * Reads exactly len bytes; otherwise returns false with errno: EFAULT, EPERM, ESRCH if the
 * process has ended or runs another program.
 */
bool memory_read(struct memory *memory, remote_addr addr, void *buf, size_t len);

/* Reads what can be read of len bytes: pages that cannot, those of a core file say, are zero. */
void memory_read_pages(struct memory *memory, remote_addr addr, unsigned char *buf, size_t len);

/*
 * Does the same as memory_read; reads through the page cache if addr is in an unchanging range.
 * Memory that the target may write is never cached.
 */
bool memory_read_cached(struct memory *memory, remote_addr addr, void *buf, size_t len);
/*
 * Sets the ranges that do not change until the next call; empties the cache. ranges
 * is in ascending order and was allocated with malloc(3); memory takes it over.
 * NULL and 0: nothing is cached, as after memory_open.
 */
void memory_set_unchanging(struct memory *memory, struct memory_range *ranges, size_t count);
bool memory_is_unchanging(const struct memory *memory, remote_addr addr);
/* Sets the ranges that are not read by force, in the same way. */
void memory_set_guarded(struct memory *memory, struct memory_range *ranges, size_t count);
void memory_forget(struct memory *memory);

/* Reads a NUL-terminated string of at most size - 1 bytes. Returns its length or -1. */
ssize_t memory_read_string(struct memory *memory, remote_addr addr, char *buf, size_t size);

/*
 * Makes the kernel grow the stack of the first thread down to addr, within its
 * guard gap, as if the thread had accessed it. The kernel does that for
 * /proc/PID/mem and PTRACE_PEEKDATA (mm/memory.c, __access_remote_vm), and since
 * 6.5 no longer for process_vm_writev(2). False if it did not.
 */
bool memory_grow_stack(struct memory *memory, remote_addr addr);

/* Writes exactly len bytes to pages that the target may write itself. EROFS: it has a source. */
bool memory_write(struct memory *memory, remote_addr addr, const void *buf, size_t len);

/*
 * Does the same while no thread is stopped: only into the program that the process
 * ran at memory_open, so preferably through the open /proc/PID/mem, which exec
 * does not redirect. addr is in a page that the target may write.
 */
bool memory_write_running(struct memory *memory, remote_addr addr, const void *buf, size_t len);

/*
 * Writes to private pages that the target may not write (its R-X scratch page).
 * Uses /proc/PID/mem or PTRACE_POKEDATA, which override the protection (mm/gup.c,
 * FOLL_FORCE) and keep the instruction cache coherent. addr and len are multiples
 * of 8.
 */
bool memory_write_code(struct memory *memory, remote_addr addr, const void *buf, size_t len);

/* The environment that a process was started with. */

/*
 * Reads /proc/PID/environ. Only the process's owner and users who can bypass file
 * permissions may open it; for others, reads the same bytes from its memory, at the
 * address in /proc/PID/stat. *out ends with a NUL; the caller frees it. Returns the
 * length or -errno; -EFBIG if it exceeds limit.
 */
ssize_t environ_read(const struct target *target, struct memory *memory, char **out, size_t limit);
