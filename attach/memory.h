/*
 * The target's memory: read through process_vm_readv(2), else /proc/PID/mem,
 * else PTRACE_PEEKDATA once a thread is stopped; a small page cache for what
 * does not change (ELF structures).
 */
#pragma once

#include "attach/gate.h"
#include "attach/target.h"

enum { MEMORY_PAGE = 4096, MEMORY_CACHE_PAGES = 64 };

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
};

/* Returns FAULT_NONE even when every way is refused as yet; reads then fail. */
enum fault_code memory_open(struct memory *memory, const struct target *target, struct gate *gate,
                            struct fault *fault);
void memory_close(struct memory *memory);

/*
 * Is the process still the program that it was at memory_open? addr: what was
 * mapped then. Without /proc/PID/mem and maps nothing tells otherwise.
 */
bool memory_is_same(const struct memory *memory, remote_addr addr);

/* Reads exactly len bytes, else false with errno (EFAULT, ESRCH, EPERM). */
bool memory_read(struct memory *memory, remote_addr addr, void *buf, size_t len);

/* The same through the page cache: for bytes that the target does not change. */
bool memory_read_cached(struct memory *memory, remote_addr addr, void *buf, size_t len);
void memory_forget(struct memory *memory);

/* Reads a NUL-terminated string of at most size - 1 bytes. Returns its length or -1. */
ssize_t memory_read_string(struct memory *memory, remote_addr addr, char *buf, size_t size);

/* Writes exactly len bytes into pages that the target may write itself. */
bool memory_write(struct memory *memory, remote_addr addr, const void *buf, size_t len);

/*
 * Writes into private pages that the target may not write (its R-X scratch
 * page): /proc/PID/mem or PTRACE_POKEDATA, which override the protection
 * (mm/gup.c, FOLL_FORCE) and keep the instruction cache coherent. addr and len
 * are multiples of 8.
 */
bool memory_write_code(struct memory *memory, remote_addr addr, const void *buf, size_t len);
