/* Buffered output: growth and limit. */
#include "check.h"
#include "jemalloc/sink.h"
#include "tree.h"

#include <stdint.h>
#include <string.h>

static bool append(struct sink *sink, unsigned char value, size_t len)
{
    unsigned char *room = sink_reserve(sink, len);

    if (!room)
        return false;
    memset(room, value, len);
    sink->len += len;
    return true;
}

static void test_growth(void)
{
    const size_t piece = 777777;
    struct sink sink;
    size_t count = 0;

    sink_init(&sink, 64 << 20);
    CHECK(sink.len == 0 && sink.mapped == 0 && sink.limit == 64 << 20);
    while (append(&sink, (unsigned char)count, piece))
        count++;
    CHECK(count == (64 << 20) / piece && sink.len == count * piece);
    CHECK(sink.len <= sink.limit && sink.mapped >= sink.len);
    for (size_t i = 0; i < count; i++)
        CHECK(sink.bytes[i * piece] == (unsigned char)i &&
              sink.bytes[(i + 1) * piece - 1] == (unsigned char)i);
    sink_free(&sink);
    CHECK(sink.bytes == NULL && sink.len == 0 && sink.mapped == 0);
    sink_free(&sink);
}

static void test_limit(void)
{
    struct sink sink;

    sink_init(&sink, 1000);
    CHECK(sink_reserve(&sink, 1001) == NULL && sink.mapped == 0);
    CHECK(sink_reserve(&sink, SIZE_MAX) == NULL);
    CHECK(append(&sink, 1, 600));
    CHECK(sink_reserve(&sink, 401) == NULL);
    CHECK(sink_reserve(&sink, SIZE_MAX - 599) == NULL); /* the sum wraps */
    CHECK(sink.len == 600);
    CHECK(append(&sink, 2, 400) && sink.len == 1000);
    CHECK(sink_reserve(&sink, 1) == NULL);
    CHECK(sink.bytes[599] == 1 && sink.bytes[600] == 2 && sink.bytes[999] == 2);
    sink_free(&sink);
}

/* More at once than the first mapping, and capacity that is not used. */
static void test_large_piece(void)
{
    struct sink sink;

    sink_init(&sink, 100 << 20);
    CHECK(append(&sink, 7, 50 << 20));
    CHECK(sink.bytes[(50 << 20) - 1] == 7);
    unsigned char *room = sink_reserve(&sink, 10);
    CHECK(room == sink.bytes + sink.len && sink_reserve(&sink, 10) == room);
    CHECK(sink.len == 50 << 20);
    sink_free(&sink);
}

/* An empty write is not an error, even as the first one. */
static void test_empty_piece(void)
{
    struct sink sink;

    sink_init(&sink, 1000);
    CHECK(sink_reserve(&sink, 0) != NULL);
    CHECK(append(&sink, 1, 1000));
    CHECK(sink_reserve(&sink, 0) != NULL);
    sink_free(&sink);
}

/* Half of the memory that the host has left, but never less than a usual profile needs. */
static void test_affordable(void)
{
    static const struct {
        const char *text;
        size_t limit;
    } rows[] = {
        {"MemTotal: 1 kB\nMemFree: 9 kB\nMemAvailable:    1000000 kB\n", 512000000},
        {"MemTotal: 1 kB\nMemAvailable: 18446744073709551615 kB\n", 1 << 30},
        {"MemTotal: 1 kB\nMemAvailable: 2 kB\n", 64 << 20},
        {"MemTotal: 1 kB\nMemAvailable: 0 kB\n", 1 << 30}, /* not plausible */
        {"MemTotal: 1 kB\n", 1 << 30},
        {"", 1 << 30},
    };
    struct procfs proc;
    struct tree tree;

    if (!CHECK(tree_make(&tree) && procfs_open(&proc, tree.path) == 0))
        return;
    CHECK(sink_affordable(&proc, 1 << 30) == 1 << 30);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK(tree_write(&tree, "meminfo", rows[i].text));
        CHECK(sink_affordable(&proc, 1 << 30) == rows[i].limit);
    }
    procfs_close(&proc);
    tree_remove(&tree);
}

/* A part of the bytes is freed; those around it stay, to the byte. */
static void test_forget(void)
{
    enum { SIZE = 8 << 20, FIRST = 12345, LEN = 5 << 20 };
    struct sink sink;
    size_t kept = 0, gone = 0;

    sink_init(&sink, 1 << 30);
    if (CHECK(sink_reserve(&sink, SIZE))) {
        memset(sink.bytes, 'x', SIZE);
        sink.len = SIZE;
        sink_forget(&sink, FIRST, LEN);
        sink_forget(&sink, FIRST, 1); /* less than a page */
        for (size_t i = 0; i < SIZE; i++)
            if (i < FIRST || i >= FIRST + LEN)
                kept += sink.bytes[i] == 'x';
            else
                gone += sink.bytes[i] == 0;
        CHECK(kept == SIZE - LEN && gone >= LEN - (256 << 10));
    }
    sink_free(&sink);
}

int main(void)
{
    test_forget();
    test_growth();
    test_limit();
    test_large_piece();
    test_empty_piece();
    test_affordable();
    return check_result();
}
