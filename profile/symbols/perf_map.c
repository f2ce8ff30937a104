#include "profile/symbols/perf_map.h"
#include "base/cursor.h"
#include "base/search.h"
#include "elf/image.h"
#include "profile/names/short_name.h"

#include <stdlib.h>
#include <sys/stat.h>

enum { PERF_BLOCK = 1 << 20, PERF_LINE_MAX = SYMBOL_NAME_MAX };

/* Many times what a compiler causes that moves and replaces its code. */
#define HITS_MAX (1u << 26)
#define KEPT_MAX (64u << 20)
/* Of a larger file only the end is read, which is newer. */
#define PERF_READ_MAX (512ull << 20)

static bool take_perf_number(struct cursor *line, uint64_t *value)
{
    cursor_skip_blanks(line);
    if (!cursor_take_text(line, "0x"))
        (void)cursor_take_text(line, "0X");
    return cursor_take_hex(line, value);
}

/* Takes "3f2a040 1c8 name"; the name may contain any bytes but NUL, blanks as well. */
static bool take_perf_entry(struct cursor *line, uint64_t *start, uint64_t *size)
{
    if (!take_perf_number(line, start) || !take_perf_number(line, size) || line->at == line->end ||
        (*line->at != ' ' && *line->at != '\t'))
        return false;
    cursor_skip_blanks(line);
    while (line->end > line->at && (line->end[-1] == '\r' || line->end[-1] == ' '))
        line->end--;
    return line->at < line->end && !memchr(line->at, 0, cursor_left(*line));
}

static void set_names(struct perf_map *map, size_t first, uint64_t last, struct cursor name)
{
    AUTO_FREE char *whole = strndup(name.at, cursor_left(name));
    char bounded[NAME_MAX_SHOWN + 1];
    const char *shown = whole ? bounded_name(whole, bounded) : "", *copy = NULL;

    map->kept += strlen(shown) + 1;
    if (whole && map->kept <= KEPT_MAX)
        copy = arena_string(map->arena, shown, strlen(shown));
    for (size_t i = first; copy && i < map->count && map->names[i].address <= last; i++) {
        map->names[i].name = copy;
        map->overrun |= ++map->hits > HITS_MAX;
        if (map->overrun)
            return;
    }
    map->overrun |= !copy;
}

static void take_perf_line(struct perf_map *map, struct cursor line)
{
    uint64_t start, size;
    size_t first;

    map->lines++;
    if (!take_perf_entry(&line, &start, &size)) {
        map->odd++;
        return;
    }
    if (!size)
        return;
    uint64_t last = size - 1 > UINT64_MAX - start ? UINT64_MAX : start + size - 1;
    first = SEARCH_FIRST(i, map->count, start <= map->names[i].address);
    if (first < map->count && map->names[first].address <= last)
        set_names(map, first, last, line);
}

static void forget_names(struct perf_map *map)
{
    for (size_t i = 0; i < map->count; i++)
        map->names[i].name = NULL;
}

size_t perf_map_take(struct perf_map *map, const char *text, size_t len)
{
    const char *at = text, *end;

    while (!map->overrun && (end = memchr(at, '\n', len - (size_t)(at - text))) != NULL) {
        take_perf_line(map, (struct cursor){at, end});
        at = end + 1;
    }
    if (map->overrun)
        forget_names(map);
    return (size_t)(at - text);
}

struct block {
    char *bytes;
    size_t len;
    bool skip; /* it starts within a line that is not taken */
};

/* Takes the lines of a block; moves the one that has not ended yet to its start. */
static void take_block(struct perf_map *map, struct block *block)
{
    const char *newline = block->skip ? memchr(block->bytes, '\n', block->len) : NULL;
    size_t taken = newline ? (size_t)(newline + 1 - block->bytes) : 0;

    block->skip = block->skip && !newline;
    if (!block->skip)
        taken += perf_map_take(map, block->bytes + taken, block->len - taken);
    block->len -= taken;
    if (!block->skip && block->len > PERF_LINE_MAX) {
        map->odd++;
        block->skip = true;
    }
    if (block->skip)
        block->len = 0;
    memmove(block->bytes, block->bytes + taken, block->len);
}

static uint64_t read_blocks(struct perf_map *map, int fd, uint64_t from, uint64_t end, bool skip)
{
    AUTO_FREE char *bytes = malloc(PERF_BLOCK);
    struct block block = {bytes, 0, skip};

    while (bytes && from < end && !map->overrun) {
        size_t space = PERF_BLOCK - block.len,
               n = end - from < space ? (size_t)(end - from) : space;
        if (!file_read(fd, from, bytes + block.len, n))
            break;
        from += n;
        block.len += n;
        take_block(map, &block);
    }
    return from - block.len;
}

uint64_t perf_map_read(struct perf_map *map, int fd, uint64_t from)
{
    struct stat st;
    uint64_t end;
    bool skip = false;

    if (fstat(fd, &st) || st.st_size < 0)
        return from;
    end = (uint64_t)st.st_size;
    if (end > from && end - from > PERF_READ_MAX) {
        from = end - PERF_READ_MAX;
        skip = true;
    }
    return read_blocks(map, fd, from, end, skip);
}
