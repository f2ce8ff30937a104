/*
 * Whose the anonymous mappings of a process are, from what their owners keep in memory:
 * jemalloc's records of extents, the head of each of glibc's heaps (malloc/arena.c, struct
 * _heap_info), and that of each of CPython's pools (Objects/obmalloc.c, struct pool_header).
 * Nothing is called and nothing is stopped; a page that is not in memory is not read.
 */
#pragma once

#include "run/attachment.h"
#include "run/grow/grow_sites.h"

/* What could not be told apart, and counts as GROW_MAPPED. */
struct grow_owners {
    bool jemalloc; /* it is there, and its extents are not known: before 5.0, or too large */
    bool pymalloc; /* some pools were not looked at */
};

/*
 * After the last look: splits the mappings (grow_pages_split), as far as the deadline permits, and
 * tells the samples the sizes of jemalloc's objects; kinds: those of heap_kinds_find.
 * FAULT_INTERNAL: out of memory.
 */
fault_code grow_kinds_find(struct grow_owners *owners, struct grow_pages *pages,
                           struct grow_sites *sites, struct attachment *attachment, unsigned kinds,
                           const struct deadline *deadline, struct fault *fault);

/* A head of a heap of glibc, at a multiple of GLIBC_HEAP; used: bytes of it that are mapped. */
enum { GLIBC_HEAP = 64 << 20, GLIBC_HEAD = 32 };
bool glibc_heap_take(const unsigned char head[GLIBC_HEAD], remote_addr addr, uint64_t *used);

/* A head of a pool of CPython; size: bytes of the pool, of 4 KiB before 3.10, then 16 KiB. */
enum { PYTHON_POOL = 16 << 10, PYTHON_POOL_OLD = 4 << 10, PYTHON_HEAD = 48 };
bool python_pool_take(const unsigned char head[PYTHON_HEAD], remote_addr addr, uint64_t *size);
