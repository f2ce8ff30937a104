#include "profile/name_cache.h"

#include <string.h>

enum { ADDRESSES_SPARE = 1 << 16 }; /* more than those of four profiles */

static bool is_file(const struct heap_mapping *mapping)
{
    return mapping->text[0] == '/';
}

/* Anonymous memory comes and goes if code is made at run time, and has no names anyway. */
static bool is_same(const struct name_cache *cache, const struct heap_profile *profile)
{
    size_t count = 0;

    for (size_t i = 0; i < profile->mapping_count; i++) {
        const struct heap_mapping *mapping = &profile->mappings[i];
        const struct name_file *file = &cache->files[count];
        if (!is_file(mapping))
            continue;
        if (count == cache->file_count || file->start != mapping->start ||
            file->end != mapping->end || file->offset != mapping->offset ||
            strcmp(file->text, mapping->text) != 0)
            return false;
        count++;
    }
    return count == cache->file_count;
}

void name_cache_free(struct name_cache *cache)
{
    symbols_free(cache->symbols);
    cache->symbols = NULL;
    for (size_t i = 0; i < cache->file_count; i++)
        free(cache->files[i].text);
    free(cache->files);
    cache->files = NULL;
    cache->file_count = 0;
}

static bool load_names(struct name_cache *cache, const struct heap_profile *profile)
{
    cache->files = calloc(profile->mapping_count + 1, sizeof *cache->files);
    for (size_t i = 0; cache->files && i < profile->mapping_count; i++) {
        const struct heap_mapping *mapping = &profile->mappings[i];
        struct name_file *file = &cache->files[cache->file_count];
        if (!is_file(mapping))
            continue;
        *file = (struct name_file){mapping->start, mapping->end, mapping->offset,
                                   strdup(mapping->text)};
        if (!file->text)
            return false;
        cache->file_count++;
    }
    cache->symbols = cache->files ? locations_symbols(profile, &cache->options) : NULL;
    return cache->symbols != NULL;
}

struct symbols *name_cache_symbols(struct name_cache *cache, const struct heap_profile *profile)
{
    if (cache->symbols && is_same(cache, profile) &&
        symbols_asked(cache->symbols) <= 4 * profile->address_count + ADDRESSES_SPARE)
        return cache->symbols;
    name_cache_free(cache);
    if (!load_names(cache, profile))
        name_cache_free(cache);
    return cache->symbols;
}
