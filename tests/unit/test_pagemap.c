/* The pages of this process, by each way of reading pagemap. */
#include "check.h"
#include "host/pagemap.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum { PIECES = 4 };

struct seen {
    uint64_t resident[PIECES + 1][PAGEMAP_WORDS];
    remote_addr start;
    size_t pieces, pages;
    size_t most; /* pieces that the action takes */
    remote_addr last;
    bool in_order;
};

static size_t count_bits(const uint64_t *words)
{
    size_t count = 0;

    for (size_t i = 0; i < PAGEMAP_WORDS; i++)
        count += (size_t)__builtin_popcountll(words[i]);
    return count;
}

static bool see(void *ctx, const struct pagemap_piece *piece)
{
    struct seen *seen = ctx;
    size_t number = (piece->start - seen->start) / ((size_t)PAGEMAP_PIECE * (size_t)getpagesize());

    seen->in_order &= piece->start > seen->last;
    seen->last = piece->start;
    seen->pages += count_bits(piece->resident);
    if (number <= PIECES)
        memcpy(seen->resident[number], piece->resident, sizeof piece->resident);
    return ++seen->pieces < seen->most;
}

static bool is_seen(const struct seen *seen, size_t page)
{
    return seen->resident[page / PAGEMAP_PIECE][page % PAGEMAP_PIECE / 64] >> page % 64 & 1;
}

/* Pages 3, 511, 512 and all of the third piece are touched, nothing of the second but its first. */
static void check_pages(struct pagemap *map, char *memory, size_t page)
{
    struct seen seen = {
        .start = (remote_addr)(uintptr_t)memory, .most = SIZE_MAX, .in_order = true};
    remote_addr end = seen.start + PIECES * PAGEMAP_PIECE * page;

    CHECK(pagemap_visit(map, seen.start, end, see, &seen) == 0);
    CHECK(seen.pieces == 3 && seen.pages == 3 + PAGEMAP_PIECE && seen.in_order);
    CHECK(is_seen(&seen, 3) && is_seen(&seen, 511) && is_seen(&seen, 512) && !is_seen(&seen, 4));
    CHECK(count_bits(seen.resident[2]) == PAGEMAP_PIECE && !count_bits(seen.resident[3]));
    /* A range that begins and ends within pieces. */
    memset(&seen.resident, 0, sizeof seen.resident);
    seen.pieces = seen.pages = 0;
    seen.last = 0;
    CHECK(pagemap_visit(map, seen.start + 4 * page, seen.start + 1030 * page, see, &seen) == 0);
    CHECK(seen.pages == 2 + 6 && !is_seen(&seen, 3) && is_seen(&seen, 1029));
    /* The action ends the visit. */
    seen.pieces = 0;
    seen.most = 1;
    CHECK(pagemap_visit(map, seen.start, end, see, &seen) == -ECANCELED && seen.pieces == 1);
    CHECK(pagemap_visit(map, seen.start, seen.start, see, &seen) == 0);
}

/* Returns memory whose start is that of a piece. */
static char *map_pieces(size_t page)
{
    size_t piece = PAGEMAP_PIECE * page;
    char *memory = mmap(NULL, (PIECES + 1) * piece, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        return NULL;
    memory += (piece - (uintptr_t)memory % piece) % piece;
    madvise(memory, PIECES * piece, MADV_NOHUGEPAGE);
    return memory;
}

int main(void)
{
    size_t page = (size_t)getpagesize();
    char *memory = map_pieces(page);
    struct pagemap map;
    struct procfs proc;

    if (!CHECK(memory && procfs_open(&proc, "/proc") == 0))
        return check_result();
    memory[3 * page] = memory[511 * page] = memory[512 * page] = 1;
    memset(memory + 1024 * page, 1, PAGEMAP_PIECE * page);
    if (CHECK(pagemap_open(&map, &proc, getpid()) == 0)) {
        check_pages(&map, memory, page);
        map.scans = false; /* as before Linux 6.7 */
        check_pages(&map, memory, page);
    }
    pagemap_close(&map);
    CHECK(pagemap_open(&map, &proc, 0) == -ENOENT);
    pagemap_close(&map);
    procfs_close(&proc);
    return check_result();
}
