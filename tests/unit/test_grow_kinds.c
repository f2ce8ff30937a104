/* Whose a page is: heads of heaps and pools, parts of mappings, and shares kind by kind. */
#include "check.h"
#include "run/grow/grow.h"

#include <math.h>
#include <string.h>

enum { PAGE = 4096, LOOK_NS = 1000 };

static void put_word(unsigned char *at, uint64_t value)
{
    memcpy(at, &value, sizeof value);
}

static void put_half(unsigned char *at, uint32_t value)
{
    memcpy(at, &value, sizeof value);
}

/* ---- heads ---- */

static bool is_heap(uint64_t arena, uint64_t former, uint64_t size, uint64_t writable)
{
    const remote_addr addr = 0x7f0008000000;
    unsigned char head[GLIBC_HEAD];
    uint64_t used;

    put_word(head, arena);
    put_word(head + 8, former);
    put_word(head + 16, size);
    put_word(head + 24, writable);
    return glibc_heap_take(head, addr, &used) && used == writable;
}

static void test_heaps(void)
{
    const remote_addr addr = 0x7f0008000000, other = 0x7f0004000000;

    CHECK(is_heap(addr + 0x30, 0, 0x21000, 0x21000)); /* glibc 2.35 and later */
    CHECK(is_heap(addr + 0x20, 0, 0x21000, 0x22000));
    CHECK(is_heap(other + 0x30, other, 0x4000000, 0x4000000));
    CHECK(!is_heap(other + 0x30, 0, 0x21000, 0x21000)); /* a further one without a former one */
    CHECK(!is_heap(addr + 0x30, other, 0x21000, 0x21000));
    CHECK(!is_heap(addr + 0x30, 0, 0x22000, 0x21000));
    CHECK(!is_heap(addr + 0x30, 0, 0x21000, 0x21010));
    CHECK(!is_heap(addr + 0x30, 0, 0x21000, 0x8000000));
    CHECK(!is_heap(0, 0, 0, 0));
    CHECK(!is_heap(UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX));
}

struct pool {
    uint64_t freed;
    uint32_t count, class, offset, most;
};

static bool is_pool(const struct pool *pool, uint64_t wanted)
{
    const remote_addr addr = 0x7f0000104000;
    unsigned char head[PYTHON_HEAD] = {0};
    uint64_t size;

    put_half(head, pool->count);
    put_word(head + 8, pool->freed);
    put_word(head + 16, 0x5500001000);
    put_half(head + 36, pool->class);
    put_half(head + 40, pool->offset);
    put_half(head + 44, pool->most);
    return python_pool_take(head, addr, &size) && size == wanted;
}

static void test_pools(void)
{
    const struct pool good = {.count = 3, .class = 3, .offset = 48 + 3 * 64, .most = 16384 - 64};
    struct pool pool = good;

    CHECK(is_pool(&good, PYTHON_POOL));
    pool.most = 4096 - 64;
    CHECK(is_pool(&pool, PYTHON_POOL_OLD));
    pool.most = 4096 - 32; /* blocks of 8 bytes times the class */
    CHECK(is_pool(&pool, PYTHON_POOL_OLD));
    pool = good;
    pool.most = 16384 - 48;
    CHECK(!is_pool(&pool, PYTHON_POOL));
    pool = good;
    pool.freed = 0x1000; /* a free block is in its pool */
    CHECK(!is_pool(&pool, PYTHON_POOL));
    pool = good;
    pool.offset = 20000;
    CHECK(!is_pool(&pool, PYTHON_POOL));
    pool = good;
    pool.count = 256;
    CHECK(!is_pool(&pool, PYTHON_POOL));
    CHECK(!is_pool(&(struct pool){0}, PYTHON_POOL));
}

/* ---- mappings ---- */

/* One piece, in which a mapping of the heap ends and one of shared memory begins. */
static bool pages_forge(struct grow_pages *pages)
{
    const struct grow_range ranges[] = {
        {.start = 0x200000, .end = 0x200000 + 256 * PAGE, .kind = GROW_MAPPED},
        {.start = 0x200000 + 256 * PAGE, .end = 0x400000, .kind = GROW_SHARED},
        {.start = 0x800000, .end = 0x800000 + PAGE, .kind = GROW_DATA},
    };

    memset(pages, 0, sizeof *pages);
    pages->map.fd = -1;
    pages->map.page = PAGE;
    pages->ranges = calloc(ARRAY_LEN(ranges), sizeof *ranges);
    pages->list = calloc(1, sizeof *pages->list);
    if (!pages->ranges || !pages->list)
        return false;
    memcpy(pages->ranges, ranges, sizeof ranges);
    pages->range_count = ARRAY_LEN(ranges);
    pages->list[0].start = 0x200000;
    pages->list[0].born = calloc(PAGEMAP_PIECE, 1);
    pages->count = 1;
    pages->looks = 3;
    for (unsigned i = 0; i < pages->looks; i++)
        pages->began_ns[i] = i * LOOK_NS;
    return pages->list[0].born != NULL && grow_pages_keep_former(pages);
}

static void test_split(void)
{
    const struct grow_range parts[] = {
        {.start = 0x1ff000, .end = 0x201000, .kind = GROW_JEMALLOC}, /* begins before it */
        {.start = 0x210000, .end = 0x220000, .kind = GROW_JEMALLOC},
        {.start = 0x2f0000, .end = 0x310000, .kind = GROW_JEMALLOC}, /* ends in shared memory */
    };
    static const struct grow_range wanted[] = {
        {0x200000, 0x201000, GROW_JEMALLOC, false}, {0x201000, 0x210000, GROW_MAPPED, false},
        {0x210000, 0x220000, GROW_JEMALLOC, false}, {0x220000, 0x2f0000, GROW_MAPPED, false},
        {0x2f0000, 0x300000, GROW_JEMALLOC, false}, {0x300000, 0x400000, GROW_SHARED, false},
        {0x800000, 0x801000, GROW_DATA, false},
    };
    struct grow_pages pages;

    if (!CHECK(pages_forge(&pages)))
        return;
    CHECK(grow_pages_split(&pages, parts, ARRAY_LEN(parts)));
    CHECK(pages.range_count == ARRAY_LEN(wanted));
    for (size_t i = 0; i < ARRAY_LEN(wanted) && i < pages.range_count; i++)
        CHECK(pages.ranges[i].start == wanted[i].start && pages.ranges[i].end == wanted[i].end &&
              pages.ranges[i].kind == wanted[i].kind);
    CHECK(grow_pages_kind(&pages, 0x215000) == GROW_JEMALLOC);
    CHECK(grow_pages_kind(&pages, 0x500000) == GROW_MAPPED); /* never mapped, as far as known */
    pages.range_count = 1;
    CHECK(grow_pages_kind(&pages, 0x305000) == GROW_SHARED); /* gone: as it was */
    CHECK(grow_pages_split(&pages, NULL, 0) && pages.range_count == 1);
    grow_pages_close(&pages);
}

/* ---- shares ---- */

static void set_pages(uint64_t *words, size_t from, size_t count)
{
    for (size_t i = from; i < from + count; i++)
        words[i / 64] |= (uint64_t)1 << i % 64;
}

static void add_sample(struct grow_sites *sites, const struct grow_pages *pages, size_t page,
                       remote_addr call)
{
    const struct grow_sample sample = {
        .page = 0x200000 + page * PAGE, .time_ns = LOOK_NS / 2, .weight = 10};

    grow_sites_add(sites, pages, &sample, 1, 0, &call, 1);
}

/* Each kind has its own pages, whoever else touched pages nearby. */
static void test_shares(void)
{
    struct grow_pages pages;
    struct grow_sites sites;
    struct grow_sum sum;
    struct grow_piece *piece;
    const struct grow_part *mapped = &sum.parts[GROW_MAPPED], *shared = &sum.parts[GROW_SHARED];

    if (!CHECK(pages_forge(&pages)))
        return;
    grow_sites_init(&sites);
    piece = &pages.list[0];
    set_pages(piece->first, 0, 50);
    set_pages(piece->now, 10, 130);  /* 40 stay, 10 are lost, 90 are gained */
    set_pages(piece->now, 300, 200); /* shared memory */
    memset(piece->born, 1, PAGEMAP_PIECE);
    add_sample(&sites, &pages, 100, 0x1111);
    for (size_t page = 310; page < 350; page += 10)
        add_sample(&sites, &pages, page, 0x2222);
    CHECK(grow_sites_share(&sites, &pages, 0, &sum));
    CHECK(mapped->before == 50 && mapped->now == 130 && mapped->gained == 90 && mapped->lost == 10);
    CHECK(shared->before == 0 && shared->now == 200 && shared->gained == 200);
    CHECK(fabs(mapped->by_stack - 90) < 1e-6 && fabs(shared->by_stack - 200) < 1e-6);
    CHECK(mapped->samples == 1 && shared->samples == 4 && sum.samples == 1);
    CHECK(sum.gained == 90 && sum.lost == 10 && fabs(sum.by_stack - 90) < 1e-6);
    CHECK(fabs(grow_site_part(&sites.list[0], GROW_MAPPED) - 90) < 1e-6);
    CHECK(grow_site_part(&sites.list[0], GROW_SHARED) == 0);
    CHECK(fabs(grow_site_growth(&sites.list[1]) - 200) < 1e-6);
    grow_sites_free(&sites);
    grow_pages_close(&pages);
}

/* Pages without a sample of their kind are nobody's, and no other kind's. */
static void test_without_sample(void)
{
    struct grow_pages pages;
    struct grow_sites sites;
    struct grow_sum sum;

    if (!CHECK(pages_forge(&pages)))
        return;
    grow_sites_init(&sites);
    set_pages(pages.list[0].now, 100, 50);
    set_pages(pages.list[0].now, 300, 20);
    memset(pages.list[0].born, 1, PAGEMAP_PIECE);
    add_sample(&sites, &pages, 310, 0x2222);
    CHECK(grow_sites_share(&sites, &pages, 0, &sum));
    CHECK(sum.parts[GROW_MAPPED].nobody == 50 && sum.parts[GROW_SHARED].nobody == 0);
    CHECK(sum.nobody == 50 && sum.by_stack == 0 && sum.parts[GROW_SHARED].by_stack == 20);
    grow_sites_free(&sites);
    grow_pages_close(&pages);
}

/* Of files only their number at both ends is known, and who touched some. */
static void test_files(void)
{
    struct grow_pages pages;
    struct grow_sites sites;
    struct grow_sum sum;
    const struct grow_part *files = &sum.parts[GROW_FILES];

    if (!CHECK(pages_forge(&pages)))
        return;
    grow_sites_init(&sites);
    pages.ranges[1].kind = GROW_FILES;
    for (size_t page = 300; page < 340; page += 10)
        add_sample(&sites, &pages, page, page < 330 ? 0x1111 : 0x2222);
    CHECK(grow_sites_share(&sites, &pages, 0, &sum));
    grow_sites_share_files(&sites, 1000, 5000, &sum);
    CHECK(files->before == 1000 && files->now == 5000 && files->gained == 4000);
    CHECK(files->samples == 4 && files->nobody == 0 && files->by_stack == 4000);
    CHECK(fabs(grow_site_part(&sites.list[0], GROW_FILES) - 3000) < 1e-6);
    CHECK(grow_site_growth(&sites.list[0]) == 0 && sum.gained == 0);
    grow_sites_share_files(&sites, 5000, 1000, &sum);
    CHECK(files->gained == 0 && files->lost == 4000 && files->samples == 0);
    grow_sites_free(&sites);
    grow_pages_close(&pages);
}

/* Shares of all kinds rest on the samples of all kinds. */
static void test_error(void)
{
    const struct grow_request request = {.duration_ns = LOOK_NS};
    struct grow grow;
    double whole = 100.0 * PAGE;

    grow_init(&grow, &request);
    grow.pages.map.page = PAGE;
    CHECK(grow_error(&grow, GROW_KINDS, whole) == whole); /* without a sample */
    grow.sum.parts[GROW_SHARED] = (struct grow_part){.by_stack = 100, .samples = 50};
    grow.sum.parts[GROW_FILES] = (struct grow_part){.by_stack = 1000, .samples = 500};
    CHECK(grow_error(&grow, GROW_KINDS, whole) < whole / 20);
    CHECK(grow_error(&grow, GROW_KINDS, whole) == grow_error(&grow, GROW_SHARED, whole));
    CHECK(grow_error(&grow, GROW_SHARED, whole / 2) > whole / 10);
    CHECK(grow_error(&grow, GROW_MAPPED, whole) == whole);
    grow_free(&grow);
}

int main(void)
{
    test_heaps();
    test_pools();
    test_split();
    test_shares();
    test_without_sample();
    test_files();
    test_error();
    return check_result();
}
