/* Memory that ends before an unreadable page: one byte beyond it is a segmentation fault. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

enum { GUARD_PAGE = 4096 };

struct guard {
    unsigned char *base;
    size_t size; /* usable bytes, whole pages */
};

static inline bool guard_make(struct guard *guard, size_t pages)
{
    guard->size = pages * GUARD_PAGE;
    guard->base = mmap(NULL, guard->size + GUARD_PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return guard->base != MAP_FAILED &&
           mprotect(guard->base + guard->size, GUARD_PAGE, PROT_NONE) == 0;
}

static inline void guard_free(struct guard *guard)
{
    munmap(guard->base, guard->size + GUARD_PAGE);
}

/* A copy of bytes that ends where the guard begins. */
static inline unsigned char *guard_put(struct guard *guard, const void *bytes, size_t len)
{
    return memcpy(guard->base + guard->size - len, bytes, len);
}
