/*
 * The names of one process for a sequence of its profiles: each address is
 * looked up once, until the mapped files change.
 */
#pragma once

#include "profile/locations.h"

struct name_cache {
    struct symbols_options options; /* the data they point to must live as long as the cache */
    struct symbols *symbols;        /* NULL: none yet */
    struct name_file {
        remote_addr start, end;
        uint64_t offset;
        char *text; /* the line of the maps */
    } * files;      /* files that are mapped executable */
    size_t file_count;
};

/*
 * Returns the symbolizer for a profile: the same as for the last one, unless
 * other files are mapped now, or so many addresses have come and gone (code
 * made at run time) that it would grow forever. Owned by the cache, and valid
 * until the next call. NULL: out of memory.
 */
struct symbols *name_cache_symbols(struct name_cache *cache, const struct heap_profile *profile);
void name_cache_free(struct name_cache *cache);
