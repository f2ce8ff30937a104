/* Perf maps: lines of all forms, files of any size, and a file that grows. */
#include "check.h"
#include "profile/symbols/perf_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static struct arena arena;
static struct perf_name names[] = {
    {0x1000, NULL}, {0x1fff, NULL}, {0x2000, NULL}, {UINT64_MAX, NULL}};

static struct perf_map take(const char *text)
{
    struct perf_map map = {.names = names, .count = ARRAY_LEN(names), .arena = &arena};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        names[i].name = NULL;
    size_t taken = perf_map_take(&map, text, strlen(text));
    const char *last = strrchr(text, '\n');
    CHECK(taken == (last ? (size_t)(last + 1 - text) : 0));
    return map;
}

static bool is_named(size_t i, const char *name)
{
    return name ? names[i].name && strcmp(names[i].name, name) == 0 : !names[i].name;
}

static void test_forms(void)
{
    struct perf_map map = take("1000 1000 a b\n0x2000 0X1 c  \r\nffffffffffffffff 10 d\n");

    CHECK(is_named(0, "a b") && is_named(1, "a b") && is_named(2, "c") && is_named(3, "d"));
    CHECK(map.lines == 3 && map.odd == 0);
    map = take("1000 0 empty\n1fff 1 one\n0 1000 below\n2001 5 above\n");
    CHECK(is_named(0, NULL) && is_named(1, "one") && is_named(2, NULL) && map.odd == 0);
    map = take("\n1000\n1000 10\n1000 10 \nx 10 a\n1000 -1 a\n10000000000000000 1 a\n100010a\n");
    CHECK(map.lines == 8 && map.odd == 8 && is_named(0, NULL));
    map = take("1000 10 whole\n1000 10 cut");
    CHECK(is_named(0, "whole") && map.lines == 1);
}

static void test_order(void)
{
    take("2000 10 c\n0 ffffffffffffffff all\n1000 10 a\n");
    CHECK(is_named(0, "a") && is_named(1, "all") && is_named(2, "all") && is_named(3, NULL));
    take("1000 10 a\n0 ffffffffffffffff all\n");
    CHECK(is_named(0, "all"));
}

/* Any number of lines for all addresses is refused at some point, without names. */
static void test_overrun(void)
{
    enum { LINES = 70000, LEN = 1000 };
    char *text = malloc(LINES * (LEN + 1)), *at = text;

    for (size_t i = 0; text && i < LINES; i++) {
        memset(at, 'x', LEN);
        memcpy(at, "1000 10 ", 8);
        at[LEN] = '\n';
        at += LEN + 1;
    }
    struct perf_map map = {.names = names, .count = ARRAY_LEN(names), .arena = &arena};
    perf_map_take(&map, text, (size_t)(at - text));
    CHECK(map.overrun && is_named(0, NULL) && arena.total < 80 << 20);
    free(text);
    arena_free(&arena);
}

static int map_file;

static int open_again(void *ctx)
{
    char path[32];

    (void)ctx;
    snprintf(path, sizeof path, "/proc/self/fd/%d", map_file);
    return map_file < 0 ? map_file : open(path, O_RDONLY | O_CLOEXEC);
}

static void add_text(const char *text)
{
    CHECK(write(map_file, text, strlen(text)) == (ssize_t)strlen(text));
}

static bool finds(struct map_names *found, uint64_t address, const char *name)
{
    static const struct symbols_options options = {.open_map = open_again};

    if (!map_names_open(found, &options))
        return !name;
    CHECK(map_names_want(found, 0x5000) && map_names_want(found, address));
    map_names_read(found);
    const char *text = map_names_find(found, address);
    return name ? text && strcmp(text, name) == 0 : !text;
}

/* Lines longer than a block, a line that is completed later, and new addresses. */
static void test_file(void)
{
    struct map_names found = {0};
    char *line = malloc((3 << 20) + 1);

    map_file = memfd_create("map", MFD_CLOEXEC);
    CHECK(finds(&found, 0x1000, NULL));
    add_text("1000 10 first\n1000 10 sec");
    CHECK(finds(&found, 0x1000, "first"));
    add_text("ond\n");
    CHECK(finds(&found, 0x1000, "second") && finds(&found, 0x1000, "second"));
    uint64_t lines = found.map.lines;
    CHECK(lines == 2);
    memset(line, 'x', 3 << 20);
    line[3 << 20] = '\0';
    add_text(line);
    add_text("\n2000 10 third\n");
    CHECK(finds(&found, 0x1000, "second") && finds(&found, 0x2000, "third"));
    CHECK(finds(&found, 0x1001, "second") && found.map.odd == 1);
    CHECK(ftruncate(map_file, 0) == 0 && lseek(map_file, 0, SEEK_SET) == 0);
    add_text("1000 10 anew\n");
    CHECK(finds(&found, 0x1000, "anew") && !found.err);
    close(map_file);
    map_file = -EPERM;
    CHECK(finds(&found, 0x1000, NULL) && found.err == EPERM);
    map_file = -ENOENT;
    CHECK(finds(&found, 0x1000, NULL) && found.err == 0);
    map_names_free(&found);
    free(line);
}

int main(void)
{
    test_forms();
    test_order();
    test_overrun();
    test_file();
    arena_free(&arena);
    return check_result();
}
