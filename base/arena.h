/* Memory that is given back all at once. */
#pragma once

#include "base/util.h"

#include <stdbool.h>
#include <stddef.h>

struct arena {
    struct arena_chunk *chunks;
    size_t used;  /* of the newest chunk */
    size_t total; /* of all chunks */
};

/* Bytes. Names that a target made can be as long as it likes. */
#define ARENA_MAX ((size_t)1 << 30)

/* Zeroed and aligned for any type. NULL: out of memory, or of ARENA_MAX. */
void *arena_alloc(struct arena *arena, size_t size);
/* A copy of len bytes and a NUL. */
char *arena_string(struct arena *arena, const char *text, size_t len);
void arena_free(struct arena *arena);
