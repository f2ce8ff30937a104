/*
 * A file of slots, mapped by a measured process and by the harness. A slot belongs to one thread,
 * which raises longest_ns; the harness reads it and sets it to 0 at the start of a window.
 */
#ifndef BENCH_SLOTS_H
#define BENCH_SLOTS_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* bench/harness.py reads the same layout: 8 words of 8 bytes, one cache line for each slot. */
struct slot {
    _Atomic uint64_t tid;
    _Atomic uint64_t longest_ns;
    _Atomic uint64_t count;  /* iterations since the start */
    _Atomic uint64_t broken; /* sleeps that ended with an error since the start */
    uint64_t unused[4];
};
_Static_assert(sizeof(struct slot) == 64, "the harness relies on it");

static inline uint64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void slot_record(struct slot *slot, uint64_t ns)
{
    if (ns > atomic_load_explicit(&slot->longest_ns, memory_order_relaxed))
        atomic_store_explicit(&slot->longest_ns, ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&slot->count, 1, memory_order_relaxed);
}

/* Creates and maps a file of `count` slots. Returns NULL on failure, errno set. */
static inline struct slot *slots_map(const char *path, size_t count)
{
    size_t size = count * sizeof(struct slot);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    void *map = MAP_FAILED;

    if (fd < 0)
        return NULL;
    if (ftruncate(fd, (off_t)size) == 0)
        map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return map == MAP_FAILED ? NULL : map;
}

#endif
