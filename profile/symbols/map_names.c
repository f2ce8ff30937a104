#include "profile/symbols/map_names.h"
#include "base/list.h"
#include "base/search.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

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

static bool start_again(struct map_names *names)
{
    free(names->map.names);
    arena_free(&names->arena);
    names->read_to = 0;
    names->map = (struct perf_map){.names = calloc(names->count + 1, sizeof *names->map.names),
                                   .arena = &names->arena};
    if (!names->map.names)
        return false;
    for (size_t i = 0; i < names->count; i++)
        names->map.names[i].address = names->wanted[i];
    names->map.count = names->count;
    return true;
}

static bool is_same_file(struct map_names *names)
{
    struct stat st = {0};
    bool same = fstat(names->fd, &st) == 0 && st.st_dev == names->device &&
                st.st_ino == names->inode && (uint64_t)st.st_size >= names->read_to;

    names->device = st.st_dev;
    names->inode = st.st_ino;
    return same;
}

void map_names_read(struct map_names *names)
{
    if (!names->opened)
        return;
    if (names->count)
        qsort(names->wanted, names->count, sizeof *names->wanted, by_number);
    if ((is_same_file(names) && were_wanted(names)) || start_again(names))
        names->read_to = perf_map_read(&names->map, names->fd, names->read_to);
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
