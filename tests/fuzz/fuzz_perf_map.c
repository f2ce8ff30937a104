/*
 * A perf map in parts of any length, and as a file: the names are those of a
 * plain search for the last line that covers an address.
 */
#include "fuzz.h"
#include "profile/symbols/perf_map.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { NAMES = 16 };

static const uint64_t addresses[NAMES] = {
    0,      1,      0x0f,   0x10,         0x1f,       0x100,          0x1000,         0x1001,
    0x1fff, 0x2000, 0xffff, (1ull << 32), 1ull << 47, UINT64_MAX - 1, UINT64_MAX - 0, 0};

static void open_map(struct perf_map *map, struct perf_name names[NAMES], struct arena *arena)
{
    *map = (struct perf_map){.names = names, .count = NAMES - 1, .arena = arena};
    for (size_t i = 0; i < NAMES - 1; i++)
        names[i] = (struct perf_name){addresses[i], NULL};
}

/* The first byte of the input chooses the length of the parts. */
static void take_parts(struct perf_map *map, const char *text, size_t len, size_t step)
{
    size_t start = 0;

    for (size_t end = step < len ? step : len; start < len;
         end = end + step < len ? end + step : len) {
        size_t taken = perf_map_take(map, text + start, end - start);
        expect(taken <= end - start && (!taken || text[start + taken - 1] == '\n'));
        start += taken;
        if (end == len)
            break;
    }
}

static void expect_same(const struct perf_map *a, const struct perf_map *b)
{
    expect(a->lines == b->lines && a->odd == b->odd && a->overrun == b->overrun);
    for (size_t i = 0; i < a->count; i++) {
        const char *x = a->names[i].name, *y = b->names[i].name;
        expect(!x == !y && (!x || strcmp(x, y) == 0));
    }
}

/* What sscanf understands, the parser understands as well, and the other way round if it is short.
 */
static const char *last_name(char *text, uint64_t address, char *name, size_t size)
{
    bool found = false;

    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        unsigned long long start, length;
        int at = 0;
        *end = '\0';
        if (sscanf(line, "%llx %llx %n", &start, &length, &at) == 2 && at && line[at] &&
            line[0] != '-' && address >= start && address - start < length) {
            snprintf(name, size, "%s", line + at);
            found = true;
        }
        *end = '\n';
    }
    return found ? name : NULL;
}

/* Only texts of the digits, blanks and letters that both read alike. */
static void compare_with_sscanf(const struct perf_map *map, const char *text, size_t len)
{
    char copy[512], name[512];
    static const char plain[] = "0123456789abcdefghijklmn \n";

    if (len >= sizeof copy || strspn(text, plain) < len || map->odd || map->overrun)
        return;
    memcpy(copy, text, len);
    copy[len] = '\0';
    for (size_t i = 0; i < map->count; i++) {
        const char *expected = last_name(copy, map->names[i].address, name, sizeof name);
        size_t n = expected ? strlen(expected) : 0;
        while (n && name[n - 1] == ' ')
            name[--n] = '\0';
        expect(!expected == !map->names[i].name);
        expect(!expected || strcmp(expected, map->names[i].name) == 0);
    }
}

static void read_file(const struct perf_map *whole, const char *text, size_t len)
{
    struct perf_name names[NAMES];
    struct arena arena = {0};
    struct perf_map map;
    int fd = memfd_create("map", MFD_CLOEXEC);

    expect(fd >= 0 && write(fd, text, len) == (ssize_t)len);
    open_map(&map, names, &arena);
    uint64_t end = perf_map_read(&map, fd, 0);
    expect(end <= len && (map.overrun || perf_map_read(&map, fd, end) == end));
    expect_same(whole, &map);
    close(fd);
    arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct perf_name whole_names[NAMES], part_names[NAMES];
    struct arena arena = {0};
    struct perf_map whole, parts;
    char *text = malloc(size + 1);

    if (!text || !size)
        return free(text), 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    open_map(&whole, whole_names, &arena);
    perf_map_take(&whole, text, size - 1);
    open_map(&parts, part_names, &arena);
    take_parts(&parts, text, size - 1, data[0] % 37 + 1u);
    expect_same(&whole, &parts);
    compare_with_sscanf(&whole, text, size - 1);
    if (size < 32 << 10)
        read_file(&whole, text, size - 1);
    free(text);
    arena_free(&arena);
    return 0;
}
