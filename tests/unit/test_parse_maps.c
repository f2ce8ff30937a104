/* Lines of /proc/PID/maps. */
#include "check.h"
#include "host/task.h"

#include <stdlib.h>
#include <string.h>

enum { PATH_ROOM = 4096 };

struct parsed {
    int rc;
    struct map_entry entry;
    char path[PATH_ROOM];
    size_t left; /* bytes behind the line */
};

/* Parses the first line of a copy of exactly len bytes. */
static struct parsed parse_bytes(const char *text, size_t len)
{
    struct parsed out = {0};
    char *copy = malloc(len ? len : 1);
    struct cursor rest;

    if (!copy)
        abort();
    rest = cursor_of(memcpy(copy, text, len), len);
    out.rc = parse_map_line(&rest, &out.entry);
    out.left = cursor_left(rest);
    CHECK(rest.end == copy + len);
    if (out.rc == 1 && out.entry.path_len < PATH_ROOM)
        memcpy(out.path, out.entry.path, out.entry.path_len);
    free(copy);
    return out;
}

static struct parsed parse_text(const char *text)
{
    return parse_bytes(text, strlen(text));
}

static void test_fields(void)
{
    static const char text[] = "7f0102030000-7f0102055000 r-xp 00028000 fd:1a "
                               "123456789012                       /usr/lib/libc.so.6\nnext";
    struct parsed line = parse_text(text);

    CHECK(line.rc == 1 && line.left == 4);
    CHECK(line.entry.start == 0x7f0102030000 && line.entry.end == 0x7f0102055000);
    CHECK(line.entry.prot == (MAP_READ | MAP_EXEC));
    CHECK(line.entry.offset == 0x28000);
    CHECK(line.entry.dev_major == 0xfd && line.entry.dev_minor == 0x1a);
    CHECK(line.entry.inode == 123456789012);
    CHECK(strcmp(line.path, "/usr/lib/libc.so.6") == 0);
}

static void test_paths(void)
{
    static const struct {
        const char *tail, *path;
    } rows[] = {
        {" /tmp/a b  c", "/tmp/a b  c"},
        {" /tmp/lib.so (deleted)", "/tmp/lib.so (deleted)"},
        {" /tmp/two\\012lines", "/tmp/two\\012lines"},
        {"                          [heap]", "[heap]"},
        {" /memfd:x (deleted)", "/memfd:x (deleted)"},
        {" [anon:a ]b]", "[anon:a ]b]"},
        {" /\xff\xfe\x01", "/\xff\xfe\x01"},
        {" ", ""},
        {"", ""},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256];
        snprintf(text, sizeof text, "1000-2000 rw-p 00000000 00:00 0%s\n", rows[i].tail);
        struct parsed line = parse_text(text);
        CHECK(line.rc == 1 && line.left == 0);
        CHECK(strcmp(line.path, rows[i].path) == 0);
        text[strlen(text) - 1] = '\0';
        line = parse_text(text); /* the same without a newline */
        CHECK(line.rc == 1 && line.left == 0);
        CHECK(strcmp(line.path, rows[i].path) == 0);
    }
}

static void test_protections(void)
{
    static const struct {
        const char *text;
        unsigned prot;
    } rows[] = {
        {"---p", 0},
        {"r--p", MAP_READ},
        {"rw-p", MAP_READ | MAP_WRITE},
        {"rw-s", MAP_READ | MAP_WRITE | MAP_SHARED_},
        {"--xp", MAP_EXEC},
        {"rwxs", MAP_READ | MAP_WRITE | MAP_EXEC | MAP_SHARED_},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[128];
        snprintf(text, sizeof text, "1000-2000 %s 00000000 00:00 0 \n", rows[i].text);
        struct parsed line = parse_text(text);
        CHECK(line.rc == 1 && line.entry.prot == rows[i].prot);
    }
}

static void test_vsyscall(void)
{
    struct parsed line =
        parse_text("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0       [vsyscall]\n");

    CHECK(line.rc == 1 && line.entry.start == 0xffffffffff600000);
    CHECK(line.entry.end == 0xffffffffff601000 && strcmp(line.path, "[vsyscall]") == 0);
    line = parse_text("0-ffffffffffffffff ---p ffffffffffffffff 00:00 18446744073709551615\n");
    CHECK(line.rc == 1 && line.entry.start == 0 && line.entry.end == UINT64_MAX);
    CHECK(line.entry.offset == UINT64_MAX && line.entry.inode == UINT64_MAX);
}

static void test_refused(void)
{
    static const char *const texts[] = {
        "\n",
        " \n",
        "garbage\n",
        "1000\n",
        "1000-\n",
        "-2000 r-xp 0 0:0 0\n",
        "1000 2000 r-xp 0 0:0 0\n",
        "2000-1000 r-xp 0 0:0 0 /a\n",
        "1000-1000 r-xp 0 0:0 0 /a\n",
        "1000-2000 r-x\n",
        "1000-2000r-xp 0 0:0 0 /a\n",
        "1000-2000 r-xp\n",
        "1000-2000 r-xp 0\n",
        "1000-2000 r-xp 0 0\n",
        "1000-2000 r-xp 0 0:\n",
        "1000-2000 r-xp 0 0:0\n",
        "1000-2000 r-xp 0 0:0 \n",
        "1000-2000 r-xp 0 0:0 x\n",
        "10000000000000000-20000000000000000 r-xp 0 0:0 0 /a\n",
        "1000-10000000000000000 r-xp 0 0:0 0 /a\n",
        "1000-2000 r-xp 10000000000000000 0:0 0 /a\n",
        "1000-2000 r-xp 0 0:0 18446744073709551616 /a\n",
        "Name:\tbash\n",
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct parsed line = parse_text(texts[i]);
        CHECK(line.rc == -1 && line.left == 0);
    }
}

/* A bad line affects no other line. */
static void test_skips(void)
{
    static const char text[] = "\nbad\n1000-2000 r--p 0 0:0 0 /a\n2000-1000 r--p 0 0:0 0 /b\n"
                               "3000-4000 r--p 0 0:0 0 /c";
    static const int results[] = {-1, -1, 1, -1, 1, 0, 0};
    struct cursor rest = cursor_of(text, sizeof text - 1);
    struct map_entry entry;

    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        CHECK(parse_map_line(&rest, &entry) == results[i]);
    CHECK(cursor_left(rest) == 0 && rest.at == text + sizeof text - 1);
    CHECK(entry.start == 0x3000 && entry.path_len == 2 && memcmp(entry.path, "/c", 2) == 0);
}

static void test_truncated(void)
{
    static const char text[] = "7f00-7f01 r-xp 0028 08:01 77 /lib/a b\n";
    const size_t shortest = strlen("7f00-7f01 r-xp 0028 08:01 7");

    for (size_t n = 0; n < sizeof text; n++) {
        struct parsed line = parse_bytes(text, n);
        CHECK(line.rc == (n == 0 ? 0 : n < shortest ? -1 : 1));
        CHECK(line.left == 0);
    }
}

static void test_huge_line(void)
{
    static const char head[] = "1000-2000 r--p 00000000 08:01 77 /";
    const size_t len = 4 << 20;
    char *text = malloc(len);

    if (!CHECK(text != NULL))
        return;
    memset(text, 'a', len);
    memcpy(text, head, sizeof head - 1);
    text[len - 1] = '\n';
    struct parsed line = parse_bytes(text, len);
    CHECK(line.rc == 1 && line.left == 0);
    CHECK(line.entry.path_len == len - (sizeof head - 1));
    memset(text, '7', len); /* endless digits */
    line = parse_bytes(text, len);
    CHECK(line.rc == -1 && line.left == 0);
    free(text);
}

int main(void)
{
    test_fields();
    test_paths();
    test_protections();
    test_vsyscall();
    test_refused();
    test_skips();
    test_truncated();
    test_huge_line();
    return check_result();
}
