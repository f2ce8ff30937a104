#include "profile/symbols/perf_map.h"
#include "base/cursor.h"
#include "base/list.h"
#include "base/search.h"
#include "base/text.h"
#include "elf/image.h"
#include "profile/names/short_name.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    if (first == map->count || map->names[first].address > last)
        return;
    AUTO_FREE char *whole = strndup(line.at, cursor_left(line));
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

size_t perf_map_take(struct perf_map *map, const char *text, size_t len)
{
    const char *at = text, *end;

    while (!map->overrun && (end = memchr(at, '\n', len - (size_t)(at - text))) != NULL) {
        take_perf_line(map, (struct cursor){at, end});
        at = end + 1;
    }
    for (size_t i = 0; map->overrun && i < map->count; i++)
        map->names[i].name = NULL;
    return (size_t)(at - text);
}

uint64_t perf_map_read(struct perf_map *map, int fd, uint64_t from)
{
    AUTO_FREE char *bytes = malloc(PERF_BLOCK);
    struct stat st;
    uint64_t end;
    size_t len = 0;
    bool skip = false; /* what is read starts within a line that is not taken */

    if (fstat(fd, &st) || st.st_size < 0)
        return from;
    end = (uint64_t)st.st_size;
    if (end > from && end - from > PERF_READ_MAX) {
        from = end - PERF_READ_MAX;
        skip = true;
    }
    while (bytes && from < end && !map->overrun) {
        size_t space = PERF_BLOCK - len, n = end - from < space ? (size_t)(end - from) : space;
        if (!file_read(fd, from, bytes + len, n))
            break;
        from += n;
        len += n;
        /* Takes the lines; moves the one that has not ended yet to the start. */
        const char *newline = skip ? memchr(bytes, '\n', len) : NULL;
        size_t taken = newline ? (size_t)(newline + 1 - bytes) : 0;
        skip = skip && !newline;
        if (!skip)
            taken += perf_map_take(map, bytes + taken, len - taken);
        len -= taken;
        if (!skip && len > PERF_LINE_MAX) {
            map->odd++;
            skip = true;
        }
        if (skip)
            len = 0;
        memmove(bytes, bytes + taken, len);
    }
    return from - len;
}

static void map_names_close(struct map_names *names)
{
    if (names->opened)
        util_close(&names->fd);
    names->opened = false;
}

bool map_names_open(struct map_names *names, const struct symbols_options *options)
{
    int fd = options->open_map ? options->open_map(options->ctx) : -ENOENT;

    names->count = 0;
    names->err = fd == -ENOENT || fd >= 0 ? 0 : -fd;
    map_names_close(names);
    names->opened = fd >= 0;
    names->fd = fd;
    return names->opened;
}

bool map_names_want(struct map_names *names, uint64_t address)
{
    if (!LIST_GROW(names->wanted, names->capacity, names->count))
        return false;
    names->wanted[names->count++] = address;
    return true;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* True if the map has been read for exactly these addresses. */
static bool were_wanted(const struct map_names *names)
{
    if (names->count != names->map.count)
        return false;
    for (size_t i = 0; i < names->count; i++)
        if (names->wanted[i] != names->map.names[i].address)
            return false;
    return true;
}

void map_names_read(struct map_names *names)
{
    struct perf_map *map = &names->map;
    struct stat st = {0};
    bool same, good = true;

    if (!names->opened)
        return;
    if (names->count)
        qsort(names->wanted, names->count, sizeof *names->wanted, by_number);
    same = fstat(names->fd, &st) == 0 && st.st_dev == names->device && st.st_ino == names->inode &&
           (uint64_t)st.st_size >= names->read_to;
    names->device = st.st_dev;
    names->inode = st.st_ino;
    if (!same || !were_wanted(names)) {
        free(map->names);
        arena_free(&names->arena);
        names->read_to = 0;
        *map = (struct perf_map){.names = calloc(names->count + 1, sizeof *map->names),
                                 .arena = &names->arena};
        map->count = map->names ? names->count : 0;
        for (size_t i = 0; i < map->count; i++)
            map->names[i].address = names->wanted[i];
        good = map->names != NULL;
    }
    if (good)
        names->read_to = perf_map_read(map, names->fd, names->read_to);
    map_names_close(names);
    if (names->map.overrun)
        names->err = EFBIG;
}

const char *map_names_find(const struct map_names *names, uint64_t address)
{
    const struct perf_map *map = &names->map;
    size_t i = SEARCH_FIRST(k, map->count, address <= map->names[k].address);

    return i < map->count && map->names[i].address == address ? map->names[i].name : NULL;
}

void map_names_free(struct map_names *names)
{
    map_names_close(names);
    free(names->wanted);
    free(names->map.names);
    arena_free(&names->arena);
    memset(names, 0, sizeof *names);
}

enum { JIT_NAME_SIZE = 512 };

struct v8_name {
    struct cursor function, path;
    uint64_t line;
};

/* Takes ":20" off the end. */
static bool drop_number(struct cursor *text, uint64_t *value)
{
    const char *at = text->end;
    struct cursor digits;

    while (at > text->at && at[-1] >= '0' && at[-1] <= '9')
        at--;
    digits = (struct cursor){at, text->end};
    if (at <= text->at || at[-1] != ':' || !cursor_take_decimal(&digits, value))
        return false;
    text->end = at - 1;
    return true;
}

/* Parses "JS:*handle /app/server.js:12:20"; the column may be missing. */
static bool split_v8(struct cursor text, struct v8_name *out)
{
    static const char *const kinds[] = {"JS:", "LazyCompile:", "Function:", "Script:", "Eval:"};
    uint64_t number;
    size_t kind = 0;

    while (kind < ARRAY_LEN(kinds) && !cursor_take_text(&text, kinds[kind]))
        kind++;
    if (kind == ARRAY_LEN(kinds))
        return false;
    while (text.at < text.end && strchr("*~^+'", *text.at))
        text.at++;
    if (!cursor_take_part(&text, ' ', &out->function) || !drop_number(&text, &out->line))
        return false;
    out->path = text;
    if (drop_number(&out->path, &number))
        out->line = number;
    else
        out->path = text;
    return out->path.at < out->path.end && out->line <= UINT32_MAX;
}

void jit_name_line(struct arena *arena, const char *name, struct symbol_line *line)
{
    char anonymous[JIT_NAME_SIZE];
    struct v8_name parts;
    const char *path = NULL;

    *line = (struct symbol_line){.linkage = name};
    if (split_v8(cursor_of(name, strlen(name)), &parts))
        path = arena_string(arena, parts.path.at, cursor_left(parts.path));
    if (path) {
        if (!cursor_left(parts.function)) {
            snprintf(anonymous, sizeof anonymous, "(anonymous %.400s:%u)", text_base_name(path),
                     (unsigned)parts.line);
            parts.function = cursor_of(anonymous, strlen(anonymous));
        }
        line->function = arena_string(arena, parts.function.at, cursor_left(parts.function));
        line->file = path;
        line->line = line->start_line = (unsigned)parts.line;
    }
    if (!line->function)
        line->function = name;
}
