#include "host/pagemap.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>

enum {
    ENTRY = 8,            /* bytes of a page in the file */
    FEW = 512,            /* pages in one read by pagemap_states */
    ENTRIES = 64 << 10,   /* pages in one read */
    REGIONS = 4096,       /* of one ioctl */
    SCAN_STEP = 64 << 20, /* bytes of address space in one ioctl, and pages that it finds: */
    SCAN_PAGES = 1024,    /* it has the lock meanwhile, for 0.1 ms (measured) */
    SCAN_MOST = 1 << 30,  /* twice as much after each that finds nothing, up to this */
};

/* Bits of an entry (Documentation/admin-guide/mm/pagemap.rst). */
#define ENTRY_FILE    ((uint64_t)1 << 61)
#define ENTRY_SWAPPED ((uint64_t)1 << 62)
#define ENTRY_PRESENT ((uint64_t)1 << 63)

/* include/uapi/linux/fs.h of Linux 6.7 */
enum {
    SCAN_IS_FILE = 1 << 2,
    SCAN_IS_PRESENT = 1 << 3,
    SCAN_IS_SWAPPED = 1 << 4,
    SCAN_IS_ZERO = 1 << 5,
    SCAN_IS_HUGE = 1 << 6,
};

struct scan_region {
    uint64_t start, end, categories;
};

struct scan_arg {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, category_inverted,
        category_mask, category_anyof_mask, return_mask;
};
_Static_assert(sizeof(struct scan_arg) == 96, "struct pm_scan_arg");

#define SCAN_REQUEST _IOWR('f', 16, struct scan_arg)

_Static_assert((size_t)ENTRIES *ENTRY >= REGIONS * sizeof(struct scan_region), "one space");

/* A visit: the piece that is being filled. */
struct visit {
    struct pagemap *map;
    struct pagemap_piece piece;
    bool any;      /* the piece has pages */
    uint64_t step; /* bytes of the next scan */
    pagemap_action action;
    void *ctx;
};

static struct scan_arg scan_of(const struct pagemap *map, remote_addr start, remote_addr end)
{
    const uint64_t unwanted = map->files ? SCAN_IS_ZERO : SCAN_IS_FILE | SCAN_IS_ZERO;

    return (struct scan_arg){
        .size = sizeof(struct scan_arg),
        .start = start,
        .end = end,
        .vec = (uint64_t)(uintptr_t)map->space,
        .vec_len = REGIONS,
        .max_pages = SCAN_PAGES,
        .category_inverted = unwanted,
        .category_mask = unwanted,
        .category_anyof_mask = SCAN_IS_PRESENT | SCAN_IS_SWAPPED,
        .return_mask = SCAN_IS_PRESENT | SCAN_IS_SWAPPED | SCAN_IS_HUGE,
    };
}

int pagemap_open(struct pagemap *map, const struct procfs *proc, pid_t pid)
{
    *map = (struct pagemap){.page = (unsigned)sysconf(_SC_PAGESIZE)};
    map->fd = procfs_openf(proc, O_RDONLY, "%d/pagemap", (int)pid);
    return map->fd < 0 ? map->fd : 0;
}

void pagemap_close(struct pagemap *map)
{
    util_close(&map->fd);
    free(map->space);
    map->space = NULL;
}

/* Returns the number of pages that the file tells about, from page number `first` on; or -errno. */
static ssize_t read_entries(const struct pagemap *map, uint64_t first, void *entries, size_t count)
{
    ssize_t n = pread(map->fd, entries, count * ENTRY, (off_t)(first * ENTRY));

    return n < 0 ? -errno : n / ENTRY;
}

/* ---- the states of a few pages ---- */

void pagemap_states(const struct pagemap *map, remote_addr addr, enum page_state *states,
                    size_t count)
{
    uint64_t entries[FEW];

    for (size_t at = 0, n; at < count; at += n) {
        ssize_t known;
        n = count - at < FEW ? count - at : FEW;
        known = read_entries(map, addr / map->page + at, entries, n);
        for (size_t i = 0; i < n; i++)
            states[at + i] = (ssize_t)i >= known          ? PAGE_UNKNOWN
                             : entries[i] & ENTRY_PRESENT ? PAGE_PRESENT
                             : entries[i] & ENTRY_SWAPPED ? PAGE_SWAPPED
                                                          : PAGE_EMPTY;
    }
}

/* ---- the pages of a range ---- */

/* False: the action has ended the visit. */
static bool pass_piece(struct visit *visit)
{
    bool goes_on = !visit->any || visit->action(visit->ctx, &visit->piece);

    memset(&visit->piece, 0, sizeof visit->piece);
    visit->any = false;
    return goes_on;
}

/* Adds pages from start on that are in one piece. */
static bool add_to_piece(struct visit *visit, remote_addr start, size_t pages, uint64_t categories)
{
    uint64_t bytes = pagemap_piece_bytes(visit->map);
    remote_addr of = start - start % bytes;
    size_t first = (size_t)(start % bytes / visit->map->page);
    struct pagemap_piece *piece = &visit->piece;
    uint64_t *set = categories & SCAN_IS_PRESENT ? piece->resident : piece->swapped;

    if (visit->any && piece->start != of && !pass_piece(visit))
        return false;
    piece->start = of;
    visit->any = true;
    for (size_t i = first; i < first + pages && i < PAGEMAP_PIECE; i++)
        set[i / 64] |= (uint64_t)1 << i % 64;
    if (categories & SCAN_IS_HUGE)
        piece->huge += (unsigned)pages;
    return true;
}

static bool add_pages(struct visit *visit, remote_addr start, remote_addr end, uint64_t categories)
{
    uint64_t bytes = pagemap_piece_bytes(visit->map);

    while (start < end) {
        remote_addr next = start - start % bytes + bytes;
        if (next > end || next < start)
            next = end;
        if (!add_to_piece(visit, start, (size_t)((next - start) / visit->map->page), categories))
            return false;
        start = next;
    }
    return true;
}

/* Scans from start on. Returns 0 and sets *walked, or returns -errno. */
static int scan_step(struct visit *visit, remote_addr start, remote_addr end, remote_addr *walked)
{
    struct pagemap *map = visit->map;
    struct scan_arg arg =
        scan_of(map, start, end - start > visit->step ? start + visit->step : end);
    const struct scan_region *regions = (const struct scan_region *)(const void *)map->space;
    int count = ioctl(map->fd, SCAN_REQUEST, &arg);

    if (count < 0)
        return -errno;
    for (int i = 0; i < count && i < REGIONS; i++)
        if (!add_pages(visit, regions[i].start, regions[i].end, regions[i].categories))
            return -ECANCELED;
    *walked = arg.walk_end;
    if (count)
        visit->step = SCAN_STEP;
    else if (visit->step < SCAN_MOST)
        visit->step *= 2;
    return arg.walk_end > start ? 0 : -EIO;
}

static int read_step(struct visit *visit, remote_addr start, remote_addr end, remote_addr *walked)
{
    struct pagemap *map = visit->map;
    const uint64_t *entries = (const uint64_t *)(const void *)map->space;
    size_t pages = (size_t)((end - start) / map->page);
    ssize_t n;

    if (pages > ENTRIES)
        pages = ENTRIES;
    n = read_entries(map, start / map->page, map->space, pages);
    if (n <= 0) /* 0: its memory is gone */
        return n < 0 ? (int)n : -ESRCH;
    for (size_t i = 0; i < (size_t)n; i++) {
        const uint64_t entry = entries[i];
        if (!(entry & (ENTRY_PRESENT | ENTRY_SWAPPED)) || (entry & ENTRY_FILE && !map->files))
            continue;
        if (!add_to_piece(visit, start + i * map->page, 1,
                          entry & ENTRY_PRESENT ? SCAN_IS_PRESENT : SCAN_IS_SWAPPED))
            return -ECANCELED;
    }
    *walked = start + (uint64_t)n * map->page;
    return 0;
}

int pagemap_visit(struct pagemap *map, remote_addr start, remote_addr end, pagemap_action action,
                  void *ctx)
{
    struct visit visit = {.map = map, .step = SCAN_STEP, .action = action, .ctx = ctx};
    int err = 0;

    if (!map->space) {
        map->space = malloc((size_t)ENTRIES * ENTRY);
        if (!map->space)
            return -ENOMEM;
        struct scan_arg none = scan_of(map, 0, 0);
        map->scans = ioctl(map->fd, SCAN_REQUEST, &none) >= 0;
    }
    while (!err && start < end)
        err = map->scans ? scan_step(&visit, start, end, &start)
                         : read_step(&visit, start, end, &start);
    if (!err && !pass_piece(&visit))
        err = -ECANCELED;
    return err;
}
