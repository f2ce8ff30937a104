#include "profile/views/symbolized.h"
#include "base/text.h"

#include <string.h>

/*
 * Writes callers before the calls that are inlined into them. jeprof leaves out
 * the calls up to one that is named malloc: calls of a jemalloc without symbols
 * get that name.
 */
static void write_address(const struct locations *locations, const struct location *location,
                          uint64_t address, FILE *out)
{
    bool allocator = !location->named && location->mapping != TABLE_NONE &&
                     filter_is_allocator_module(&locations->mappings[location->mapping]);

    fprintf(out, "0x%016llx", (unsigned long long)address);
    for (uint32_t i = location->count; i-- > 0;) {
        const struct location_line *line = &locations->lines[location->first + i];
        fputs(i + 1 == location->count ? " " : "--", out);
        /* "--" separates names in the file, so a name must not contain it. */
        char *copy = strdup(allocator ? "malloc" : locations->functions[line->function].name);
        for (char *at = copy; at && (at = strstr(at, "--")) != NULL;)
            at[1] = '_';
        text_write_clean(out, copy ? copy : "?", "");
        free(copy);
    }
    fputc('\n', out);
}

void symbolized_write(const struct locations *locations, uint32_t first_location,
                      const struct heap_profile *profile, const char *text, size_t len, FILE *out)
{
    size_t program = 0;

    while (program < profile->mapping_count && profile->mappings[program].path[0] != '/')
        program++;
    fputs("--- symbol\nbinary=", out);
    if (program < profile->mapping_count)
        text_write_clean(out, profile->mappings[program].path, "");
    fputc('\n', out);
    for (size_t i = 0; i < profile->address_count; i++) {
        const struct location *location = &locations->list[first_location + i];
        write_address(locations, location, location->address, out);
        write_address(locations, location, profile->addresses[i], out);
    }
    fputs("---\n--- heap\n", out);
    fwrite(text, 1, len, out);
}
