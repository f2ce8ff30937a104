#include "base/large_list.h"

#include <stdint.h>
#include <sys/mman.h>

enum { LEAST = 64 << 10, HUGE_FROM = 4 << 20 };

/* Returns the bytes of the mapping of a list: the power of 2 for which its capacity was chosen. */
static size_t find_mapped_size(size_t bytes)
{
    size_t size = LEAST;

    while (size < bytes && size <= SIZE_MAX / 4)
        size *= 2;
    return size;
}

void *large_list_grow(void *list, size_t *capacity, size_t wanted, size_t item)
{
    size_t size;
    void *at;

    if (list && wanted <= *capacity)
        return list;
    if (wanted > SIZE_MAX / 4 / item)
        return NULL;
    size = find_mapped_size(wanted * item);
    if (list)
        at = mremap(list, find_mapped_size(*capacity * item), size, MREMAP_MAYMOVE);
    else
        at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    if (size >= HUGE_FROM)
        madvise(at, size, MADV_HUGEPAGE);
    *capacity = size / item;
    return at;
}

void large_list_free(void *list, size_t capacity, size_t item)
{
    if (list)
        munmap(list, find_mapped_size(capacity * item));
}
