/*
 * The names of one process whose profiles follow each other: each address is
 * looked up once, until the files that are mapped change.
 */
#pragma once

#include "profile/locations.h"

struct name_cache {
    struct symbols_options options; /* what they point to must live as long as the cache */
    struct symbols *symbols;        /* NULL: none yet */
    struct name_file {
        remote_addr start, end;
        uint64_t offset;
        char *text; /* as it stands in the maps */
    } * files;      /* mapped executably */
    size_t file_count;
    uint64_t loads; /* how often it began anew */
};

/*
 * The symbolizer for a profile: the same as for the last one, unless other
 * files are mapped now, or so many addresses have come and gone (code made at
 * run time) that it would grow for ever. Belongs to the cache, and lives until
 * the next call. NULL: out of memory.
 */
struct symbols *name_cache_symbols(struct name_cache *cache, const struct heap_profile *profile);
void name_cache_free(struct name_cache *cache);
