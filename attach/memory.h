/*
 * The target's memory: read through process_vm_readv(2), else /proc/PID/mem,
 * else PTRACE_PEEKDATA once a thread is stopped; a small page cache for the
 * mappings whose bytes do not change (ELF structures, code), for no others.
 */
#pragma once

#include "attach/gate.h"
#include "attach/target.h"

enum { MEMORY_PAGE = 4096, MEMORY_CACHE_PAGES = 64 };

struct memory_range {
    remote_addr start, end;
};

struct memory {
    pid_t pid;
    struct gate *gate;
    int memfd; /* /proc/PID/mem, read-write if the kernel allowed; -1: refused */
    bool memfd_writable;
    int mapsfd;              /* /proc/PID/maps, where memfd is refused; else -1 */
    bool no_vm, no_vm_write; /* process_vm_readv, process_vm_writev is refused */
    pid_t stopped_tid;       /* a ptrace-stopped thread, for PEEK and POKE; 0: none */
    struct memory_page {
        remote_addr addr; /* page-aligned; 1: empty */
        unsigned char bytes[MEMORY_PAGE];
    } * cache;
    struct memory_range *unchanging; /* in ascending order; what the cache may hold */
    size_t unchanging_count;
};

/* Returns FAULT_NONE even when every way is refused as yet; reads then fail. */
fault_code memory_open(struct memory *memory, const struct target *target, struct gate *gate,
                       struct fault *fault);
void memory_close(struct memory *memory);

/*
 * Is the process still the program that it was at memory_open? addr: what was
 * mapped then. Without /proc/PID/mem and maps nothing tells otherwise.
 */
bool memory_is_same(const struct memory *memory, remote_addr addr);

/* Has the kernel refused every way to read it while no thread is stopped? */
static inline bool memory_is_refused(const struct memory *memory)
{
    return memory->no_vm && memory->memfd < 0 && !memory->stopped_tid;
}

/* Reads exactly len bytes, else false with errno (EFAULT, ESRCH, EPERM). */
bool memory_read(struct memory *memory, remote_addr addr, void *buf, size_t len);

/*
 * The same, and where addr lies in an unchanging range through the page cache.
 * Whatever the target may write is read anew each time.
 */
bool memory_read_cached(struct memory *memory, remote_addr addr, void *buf, size_t len);
/*
 * Says which ranges do not change, until the next call; empties the cache.
 * ranges, in ascending order and allocated by malloc(3), is memory's from then
 * on; NULL and 0: nothing is cached, as after memory_open.
 */
void memory_set_unchanging(struct memory *memory, struct memory_range *ranges, size_t count);
bool memory_is_unchanging(const struct memory *memory, remote_addr addr);
void memory_forget(struct memory *memory);

/* Reads a NUL-terminated string of at most size - 1 bytes. Returns its length or -1. */
ssize_t memory_read_string(struct memory *memory, remote_addr addr, char *buf, size_t size);

/*
 * Makes the kernel grow the stack of the first thread down to addr, within its
 * guard gap, as an access of the thread's own would. It does that for
 * /proc/PID/mem and PTRACE_PEEKDATA (mm/memory.c, __access_remote_vm), and
 * since 6.5 no longer for process_vm_writev(2). False: it does not.
 */
bool memory_grow_stack(struct memory *memory, remote_addr addr);

/* Writes exactly len bytes into pages that the target may write itself. */
bool memory_write(struct memory *memory, remote_addr addr, const void *buf, size_t len);

/*
 * Writes into private pages that the target may not write (its R-X scratch
 * page): /proc/PID/mem or PTRACE_POKEDATA, which override the protection
 * (mm/gup.c, FOLL_FORCE) and keep the instruction cache coherent. addr and len
 * are multiples of 8.
 */
bool memory_write_code(struct memory *memory, remote_addr addr, const void *buf, size_t len);
