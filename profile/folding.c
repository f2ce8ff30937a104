#include "profile/folding.h"

#include <stdlib.h>

static uint32_t count_foreign_lines(const struct locations *locations,
                                    const struct location *location)
{
    const struct location_line *lines = &locations->lines[location->first];
    uint32_t count = 0;

    while (count < location->count && locations->functions[lines[count].function].kind != CODE_OWN)
        count++;
    return count;
}

bool folding_make(struct folding *folding, struct locations *locations)
{
    size_t count = locations->count;

    folding->begins = reallocarray(NULL, count + 1, sizeof *folding->begins);
    for (size_t i = 0; folding->begins && i < count; i++) {
        uint32_t foreign = count_foreign_lines(locations, &locations->list[i]);
        folding->begins[i] = foreign == locations->list[i].count ? TABLE_NONE : (uint32_t)i;
        if (foreign && folding->begins[i] != TABLE_NONE) {
            folding->begins[i] = locations_add_outer(locations, (uint32_t)i, foreign);
            if (folding->begins[i] == TABLE_NONE)
                return false;
        }
    }
    return folding->begins != NULL;
}

uint32_t folding_apply(const struct folding *folding, const struct locations *locations,
                       uint32_t *list, uint32_t depth, size_t *calls)
{
    uint32_t folded = 0;

    while (folded < depth && folding->begins[list[folded]] == TABLE_NONE)
        folded++;
    if (folded == depth)
        return 0;
    for (uint32_t i = 0; i <= folded; i++)
        *calls += locations->list[list[i]].count;
    list[folded] = folding->begins[list[folded]];
    *calls -= locations->list[list[folded]].count;
    return folded;
}
