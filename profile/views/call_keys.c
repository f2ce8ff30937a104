#include "profile/views/call_keys.h"

#include <stdlib.h>
#include <string.h>

struct line_key {
    const struct locations *locations;
    uint32_t *first; /* for each key, a line that has it */
};

static bool same_source_line(const void *ctx, uint32_t place, const void *key)
{
    const struct line_key *keys = ctx;
    const struct location_line *x = &keys->locations->lines[keys->first[place]], *y = key;
    const struct function *a = &keys->locations->functions[x->function],
                          *b = &keys->locations->functions[y->function];

    return x->line == y->line && a->group == b->group && strcmp(a->file, b->file) == 0;
}

/* Numbers the lines of the source. */
static bool number_lines(struct call_keys *keys, const struct locations *locations)
{
    AUTO_FREE uint32_t *first = reallocarray(NULL, locations->line_count + 1, sizeof *first);
    const struct line_key known = {locations, first};
    struct table table;
    bool good = first != NULL;

    table_init(&table);
    for (size_t i = 0; good && i < locations->line_count; i++) {
        const struct location_line *line = &locations->lines[i];
        uint64_t number = (uint64_t)locations->functions[line->function].group << 32 | line->line;
        first[keys->count] = (uint32_t)i;
        keys->of_line[i] = table_put(&table, table_hash_number(&table, number), same_source_line,
                                     &known, line, (uint32_t)keys->count);
        good = keys->of_line[i] != TABLE_NONE;
        keys->count += good && keys->of_line[i] == keys->count;
    }
    table_free(&table);
    return good;
}

bool call_keys_make(struct call_keys *keys, const struct locations *locations, enum call_key key)
{
    keys->count = key == KEY_FUNCTION ? locations->group_count : 0;
    keys->of_line = reallocarray(NULL, locations->line_count + 1, sizeof *keys->of_line);
    if (!keys->of_line)
        return false;
    if (key != KEY_FUNCTION)
        return number_lines(keys, locations);
    for (size_t i = 0; i < locations->line_count; i++)
        keys->of_line[i] = locations->functions[locations->lines[i].function].group;
    return true;
}

void call_keys_free(struct call_keys *keys)
{
    free(keys->of_line);
    keys->of_line = NULL;
}
