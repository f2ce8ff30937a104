#include "jemalloc/extents/residence.h"
#include "attach/memory.h"

enum { PAGES = 512 };

void residence_open(struct residence *residence, const struct target *target)
{
    residence->pages = (struct pagemap){.fd = -1, .page = (unsigned)sysconf(_SC_PAGESIZE)};
    if (!target->record && target->proc->dirfd >= 0)
        pagemap_open(&residence->pages, target->proc, target_via(target));
}

void residence_close(struct residence *residence)
{
    pagemap_close(&residence->pages);
}

/* What the file does not tell about has contents, as far as is known. */
static size_t find_contents(const struct residence *residence, remote_addr start, bool *has,
                            size_t count)
{
    const unsigned page = residence->pages.page;
    const uint64_t first = start / page;
    enum page_state states[PAGES];
    size_t with = 0;

    pagemap_states(&residence->pages, start, states,
                   (start + (count - 1) * MEMORY_PAGE) / page - first + 1);
    for (size_t i = 0; i < count; i++) {
        has[i] = states[(start + i * MEMORY_PAGE) / page - first] != PAGE_EMPTY;
        with += has[i];
    }
    return with;
}

size_t residence_of(const struct residence *residence, remote_addr start, bool *has, size_t count)
{
    size_t with = 0;

    for (size_t at = 0, n; at < count; at += n) {
        n = count - at < PAGES ? count - at : PAGES;
        with += find_contents(residence, start + at * MEMORY_PAGE, has + at, n);
    }
    return with;
}
