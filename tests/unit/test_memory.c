/* Reading and writing a process's memory: the test's own. */
#include "check.h"
#include "guard.h"
#include "own.h"
#include "tree.h"

#include <errno.h>

static struct own own;
static struct guard guard;

static remote_addr address(const void *p)
{
    return (remote_addr)(uintptr_t)p;
}

static void test_read(void)
{
    const unsigned char *end = guard.base + guard.size;
    unsigned char buf[64];

    for (size_t i = 0; i < guard.size; i++)
        guard.base[i] = (unsigned char)(i * 7 + (i >> 8));
    CHECK(memory_read(&own.memory, address(end - 64), buf, 64) && !memcmp(buf, end - 64, 64));
    errno = 0;
    CHECK(!memory_read(&own.memory, address(end - 63), buf, 64) && errno == EFAULT);
    CHECK(!memory_read(&own.memory, address(end), buf, 1) && errno == EFAULT);
    CHECK(!memory_read(&own.memory, 0, buf, 1));
    errno = 0;
    CHECK(!memory_read(&own.memory, UINT64_MAX - 7, buf, 64) && errno == EFAULT);
    CHECK(memory_read(&own.memory, address(end), buf, 0));
}

/* What follows the pages is not read by force, as /proc/PID/mem could. */
static void set_guarded(void)
{
    const remote_addr end = address(guard.base + guard.size);
    unsigned char byte;

    CHECK(memory_read(&own.memory, end, &byte, 1) && !memory_is_pinned(&own.memory));
    own_guard(&own, guard.base + guard.size, GUARD_PAGE);
    own.memory.no_vm = true;
    errno = 0;
    CHECK(!memory_read(&own.memory, end - 1, &byte, 2) && errno == EFAULT);
    CHECK(memory_read(&own.memory, end - 1, &byte, 1));
    own.memory.no_vm = false;
}

/* The same if process_vm_readv(2) is refused, or /proc/PID/mem; and with neither. */
static void test_other_ways(void)
{
    const unsigned char *end = guard.base + guard.size;
    int memfd = own.memory.memfd;
    unsigned char buf[16];

    own.memory.no_vm = true;
    CHECK(memory_read(&own.memory, address(end - 16), buf, 16) && !memcmp(buf, end - 16, 16));
    CHECK(!memory_read(&own.memory, 4096, buf, 16));
    CHECK(!memory_read(&own.memory, UINT64_MAX - 7, buf, 16));
    own.memory.memfd = -1;
    CHECK(memory_is_pinned(&own.memory));
    CHECK(!memory_read(&own.memory, address(end - 16), buf, 16) && errno == EPERM);
    own.memory.no_vm = false;
    CHECK(memory_read(&own.memory, address(end - 16), buf, 16) && !memcmp(buf, end - 16, 16));
    own.memory.memfd = memfd;
}

/* The range between is declared constant. */
static void set_unchanging(const void *start, const void *end)
{
    struct memory_range *range = malloc(sizeof *range);

    *range = (struct memory_range){address(start), address(end)};
    memory_set_unchanging(&own.memory, range, 1);
}

/* Memory that may change is not cached; all memory may, unless declared otherwise. */
static void test_changing(void)
{
    const remote_addr second = address(guard.base + GUARD_PAGE);
    unsigned char buf[20];

    for (int round = 0; round < 2; round++) {
        CHECK(!memory_is_unchanging(&own.memory, second));
        for (int i = 0; i < 3; i++) {
            guard.base[GUARD_PAGE]++;
            CHECK(memory_read_cached(&own.memory, second - 10, buf, sizeof buf));
            CHECK(memcmp(buf, guard.base + GUARD_PAGE - 10, sizeof buf) == 0);
        }
        set_unchanging(guard.base, guard.base + GUARD_PAGE);
        CHECK(memory_is_unchanging(&own.memory, second - 1));
    }
}

static void test_cached(void)
{
    unsigned char buf[3 * GUARD_PAGE], before = guard.base[100];

    set_unchanging(guard.base, guard.base + guard.size);
    CHECK(memory_read_cached(&own.memory, address(guard.base + 4090), buf, 20));
    CHECK(memcmp(buf, guard.base + 4090, 20) == 0);
    CHECK(memory_read_cached(&own.memory, address(guard.base), buf, 3 * GUARD_PAGE));
    CHECK(memcmp(buf, guard.base, 3 * GUARD_PAGE) == 0);
    guard.base[100]++;
    CHECK(memory_read_cached(&own.memory, address(guard.base + 100), buf, 1) && *buf == before);
    memory_forget(&own.memory);
    CHECK(memory_read_cached(&own.memory, address(guard.base + 100), buf, 1));
    CHECK(*buf == (unsigned char)(before + 1));
    guard.base[100]++;
    set_unchanging(guard.base, guard.base + guard.size);
    CHECK(memory_read_cached(&own.memory, address(guard.base + 100), buf, 1));
    CHECK(*buf == (unsigned char)(before + 2));
}

static void test_cached_borders(void)
{
    const unsigned char *end = guard.base + guard.size;
    unsigned char buf[2 * GUARD_PAGE];

    CHECK(memory_read_cached(&own.memory, address(end - 8), buf, 8));
    CHECK(!memory_read_cached(&own.memory, address(end - 8), buf, 9));
    CHECK(!memory_read_cached(&own.memory, address(end), buf, 1));
    CHECK(!memory_read_cached(&own.memory, UINT64_MAX, buf, 2));
    CHECK(!memory_read_cached(&own.memory, UINT64_MAX - GUARD_PAGE, buf, sizeof buf));
    CHECK(memory_read_cached(&own.memory, address(end - 8), buf, 8));
}

/* Pages that share a slot of the cache: more of them than it has slots. */
static void test_cache_conflicts(void)
{
    const size_t stride = (size_t)MEMORY_CACHE_PAGES * MEMORY_PAGE;
    unsigned char *base = mmap(NULL, 3 * stride, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (!CHECK(base != MAP_FAILED))
        return;
    for (unsigned i = 0; i < 3; i++)
        base[i * stride] = (unsigned char)(i + 1);
    set_unchanging(base, base + 3 * stride);
    for (unsigned i = 0; i < 9; i++) {
        unsigned char byte = 0;
        CHECK(memory_read_cached(&own.memory, address(base + i % 3 * stride), &byte, 1));
        CHECK(byte == i % 3 + 1);
    }
    munmap(base, 3 * stride);
}

static void test_string(void)
{
    char *end = (char *)guard.base + guard.size;
    char buf[GUARD_PAGE * 2];

    memset(guard.base, 'a', guard.size);
    memcpy(end - 6, "hello", 6);
    CHECK(memory_read_string(&own.memory, address(end - 6), buf, sizeof buf) == 5);
    CHECK(strcmp(buf, "hello") == 0);
    CHECK(memory_read_string(&own.memory, address(end - 6), buf, 6) == 5);
    errno = 0;
    CHECK(memory_read_string(&own.memory, address(end - 6), buf, 5) == -1);
    CHECK(errno == ENAMETOOLONG);
    CHECK(memory_read_string(&own.memory, address(end - 6 - 5000), buf, sizeof buf) == 5005);
    end[-1] = 'x'; /* unterminated up to unreadable memory */
    CHECK(memory_read_string(&own.memory, address(end - 6), buf, sizeof buf) == -1);
    end[-1] = '\0';
    CHECK(memory_read_string(&own.memory, address(end - 1), buf, sizeof buf) == 0);
    CHECK(memory_read_string(&own.memory, 1, buf, sizeof buf) == -1);
}

static void test_write(void)
{
    unsigned char *end = guard.base + guard.size;
    unsigned count = own.gate.count;

    CHECK(memory_write(&own.memory, address(end - 8), "12345678", 8));
    CHECK(memcmp(end - 8, "12345678", 8) == 0);
    CHECK(own.gate.count == count + 1);
    CHECK(!memory_write(&own.memory, 4096, "12345678", 8));
}

/* Into pages that the target may write itself, and into no others: a stack's guard stays one. */
static void test_write_protected(void)
{
    unsigned char *end = guard.base + guard.size;

    memcpy(end - 8, "abcdefgh", 8);
    CHECK(!memory_write(&own.memory, address(end - 4), "12345678", 8));
    CHECK(!memory_write(&own.memory, address(end), "12345678", 8));
    CHECK(mprotect(guard.base, GUARD_PAGE, PROT_READ) == 0);
    CHECK(!memory_write(&own.memory, address(guard.base), "12345678", 8));
    CHECK(memcmp(guard.base, "12345678", 8) != 0);
    CHECK(mprotect(guard.base, GUARD_PAGE, PROT_READ | PROT_WRITE) == 0);
}

/* ---- pages in swap, by a recorded pagemap of the test's own pages ---- */

enum { PRESENT, SWAPPED, EMPTY, UNMAPPED };

static bool record(const struct tree *tree, const char *name, const char *text)
{
    char path[128];

    snprintf(path, sizeof path, "%d/%s", (int)getpid(), name);
    return tree_write(tree, path, text);
}

static bool record_limit(const struct tree *tree, const char *limit)
{
    const char *group = "self/root/sys/fs/cgroup/a";
    char name[64];
    bool good =
        tree_write(tree, "meminfo", "SwapFree: 0 kB\n") && record(tree, "cgroup", "0::/a\n");

    snprintf(name, sizeof name, "%s/memory.max", group);
    good &= tree_write(tree, name, limit);
    snprintf(name, sizeof name, "%s/memory.current", group);
    good &= tree_write(tree, name, "1048576\n");
    snprintf(name, sizeof name, "%s/memory.stat", group);
    return good & tree_write(tree, name, "anon 1048576\n");
}

/* The second of the guard's pages is in swap, and the file ends before the fourth. */
static bool record_pages(const struct tree *tree)
{
    const uint64_t entries[] = {1ull << 63, 1ull << 62, 0};
    char path[TREE_PATH_MAX + 32];
    int fd;
    bool good;

    snprintf(path, sizeof path, "%s/%d/pagemap", tree->path, (int)getpid());
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    good = pwrite(fd, entries, sizeof entries, (off_t)(address(guard.base) / 4096 * 8)) ==
           sizeof entries;
    close(fd);
    return good;
}

static bool reads_page(struct memory *memory, int page, size_t len)
{
    unsigned char buf[3 * 4096];

    return memory_read(memory, address(guard.base) + (remote_addr)page * 4096, buf, len);
}

/* Near the limit what is in swap is not read, with others or alone, nor written. */
static void test_swap_left(struct memory *memory)
{
    const unsigned char byte = 0;

    CHECK(memory->leaves_swapped);
    CHECK(reads_page(memory, PRESENT, 4096) && memory->left_out == 0);
    CHECK(reads_page(memory, EMPTY, 4096) && memory->left_out == 0);
    errno = 0;
    CHECK(!reads_page(memory, SWAPPED, 1) && errno == EFAULT && memory->left_out == 1);
    CHECK(!reads_page(memory, PRESENT, 3 * 4096) && memory->left_out == 2);
    CHECK(!reads_page(memory, UNMAPPED, 1) && memory->left_out == 3); /* unknown */
    CHECK(memory_write_running(memory, address(guard.base), &byte, 1));
    CHECK(!memory_write_running(memory, address(guard.base) + 4096, &byte, 1));
    memory->stopped_tid = getpid(); /* a call: what it touches is accounted for */
    CHECK(reads_page(memory, SWAPPED, 1));
    memory->stopped_tid = 0;
}

static void test_swap(void)
{
    struct tree tree;
    struct procfs proc;
    struct gate gate;
    struct memory memory;
    struct target target = {.proc = &proc, .pid = getpid()};

    if (!CHECK(tree_make(&tree)) || !CHECK(procfs_open(&proc, tree.path) == 0))
        return;
    CHECK(record_limit(&tree, "1052672\n") && record_pages(&tree)); /* a page is left */
    gate_init(&gate);
    memory_open(&memory, &target, &gate);
    CHECK(!memory.leaves_swapped && reads_page(&memory, SWAPPED, 1)); /* nothing is in swap */
    target.status.swap_bytes = 8192;
    memory_heed_swap(&memory, &target);
    test_swap_left(&memory);
    CHECK(record_limit(&tree, "1056768\n")); /* enough for all that is in swap */
    memory_heed_swap(&memory, &target);
    CHECK(!memory.leaves_swapped && reads_page(&memory, SWAPPED, 1));
    CHECK(record_limit(&tree, "max\n"));
    memory_heed_swap(&memory, &target);
    CHECK(!memory.leaves_swapped);
    memory_close(&memory);
    procfs_close(&proc);
    tree_remove(&tree);
}

int main(void)
{
    if (!CHECK(own_open(&own)) || !CHECK(guard_make(&guard, 4)))
        return check_result();
    set_guarded();
    test_read();
    test_other_ways();
    test_changing();
    test_cached();
    test_cached_borders();
    test_cache_conflicts();
    test_string();
    test_write();
    test_write_protected();
    test_swap();
    guard_free(&guard);
    own_close(&own);
    return check_result();
}
