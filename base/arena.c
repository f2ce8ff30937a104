#include "base/arena.h"

#include <string.h>

enum { CHUNK_SIZE = 64 << 10 };

struct arena_chunk {
    struct arena_chunk *next;
    size_t size;
    _Alignas(max_align_t) unsigned char bytes[];
};

void *arena_alloc(struct arena *arena, size_t size)
{
    size_t align = _Alignof(max_align_t);
    unsigned char *at;

    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + align - 1) / align * align;
    if (!arena->chunks || arena->chunks->size - arena->used < size) {
        size_t room = size > CHUNK_SIZE ? size : CHUNK_SIZE;
        struct arena_chunk *chunk =
            room <= ARENA_MAX - arena->total ? calloc(1, sizeof *chunk + room) : NULL;
        if (!chunk)
            return NULL;
        arena->total += room;
        chunk->size = room;
        chunk->next = arena->chunks;
        arena->chunks = chunk;
        arena->used = 0;
    }
    at = arena->chunks->bytes + arena->used;
    arena->used += size;
    return at;
}

char *arena_string(struct arena *arena, const char *text, size_t len)
{
    char *copy = arena_alloc(arena, len + 1);

    if (copy)
        memcpy(copy, text, len);
    return copy;
}

void arena_free(struct arena *arena)
{
    while (arena->chunks) {
        struct arena_chunk *next = arena->chunks->next;
        free(arena->chunks);
        arena->chunks = next;
    }
    arena->used = arena->total = 0;
}
