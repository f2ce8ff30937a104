/* Memory that is freed all at once. */
#pragma once

#include "base/util.h"

#include <stdbool.h>
#include <stddef.h>

struct arena {
    struct arena_chunk *chunks;
    size_t used;  /* of the newest chunk */
    size_t total; /* of all chunks */
};

/* Bytes. A limit is needed because names from a target can have any length. */
#define ARENA_MAX ((size_t)1 << 30)

/* Returns zeroed memory, aligned for any type. NULL: out of memory, or ARENA_MAX is reached. */
void *arena_alloc(struct arena *arena, size_t size);
/* Returns a copy of len bytes with a NUL. */
char *arena_string(struct arena *arena, const char *text, size_t len);
void arena_free(struct arena *arena);
