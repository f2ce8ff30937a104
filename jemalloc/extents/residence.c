#include "jemalloc/extents/residence.h"
#include "attach/memory.h"

#include <fcntl.h>

enum { ENTRIES = 512 };

/* Documentation/admin-guide/mm/pagemap.rst: bit 63 page present, bit 62 page swapped. */
#define HAS_CONTENTS (UINT64_C(3) << 62)

void residence_open(struct residence *residence, const struct target *target)
{
    long page = sysconf(_SC_PAGESIZE);

    residence->page = page > MEMORY_PAGE ? (size_t)page : MEMORY_PAGE;
    residence->fd = -1;
    if (!target->record && target->proc->dirfd >= 0)
        residence->fd = procfs_openf(target->proc, O_RDONLY, "%d/pagemap", (int)target_via(target));
}

void residence_close(struct residence *residence)
{
    util_close(&residence->fd);
}

/* Returns the number of pages that the file told about. */
static size_t read_entries(const struct residence *residence, uint64_t number, uint64_t *entries,
                           size_t count)
{
    ssize_t n = residence->fd < 0 ? -1
                                  : pread(residence->fd, entries, count * sizeof *entries,
                                          (off_t)(number * sizeof *entries));

    return n < 0 ? 0 : (size_t)n / sizeof *entries;
}

/* What the file does not tell about has contents, as far as is known. */
static size_t read_some_pages(const struct residence *residence, remote_addr start, bool *has,
                              size_t count)
{
    const uint64_t first = start / residence->page;
    uint64_t entries[ENTRIES];
    size_t known, with = 0;

    known = read_entries(residence, first, entries,
                         (start + (count - 1) * MEMORY_PAGE) / residence->page - first + 1);
    for (size_t i = 0; i < count; i++) {
        uint64_t at = (start + i * MEMORY_PAGE) / residence->page - first;
        has[i] = at >= known || entries[at] & HAS_CONTENTS;
        with += has[i];
    }
    return with;
}

size_t residence_of(const struct residence *residence, remote_addr start, bool *has, size_t count)
{
    size_t with = 0;

    for (size_t at = 0, n; at < count; at += n) {
        n = count - at < ENTRIES ? count - at : ENTRIES;
        with += read_some_pages(residence, start + at * MEMORY_PAGE, has + at, n);
    }
    return with;
}
