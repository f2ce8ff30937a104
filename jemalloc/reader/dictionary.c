#include "jemalloc/reader/dictionary.h"
#include "base/list.h"

#include <endian.h>
#include <string.h>

enum { LG_RECENT = 12 };

struct dictionary_recent {
    uint64_t word; /* 0: none */
    uint32_t code;
};

void dictionary_free(struct dictionary *dictionary)
{
    free(dictionary->words);
    free(dictionary->recent);
    table_free(&dictionary->table);
    memset(dictionary, 0, sizeof *dictionary);
}

static bool is_known_word(const void *ctx, uint32_t index, const void *key)
{
    const struct dictionary *dictionary = ctx;
    const uint64_t *word = key;

    return dictionary->words[index] == *word;
}

static uint32_t find_code(struct dictionary *dictionary, uint64_t word)
{
    uint32_t code;

    if (!LIST_GROW(dictionary->words, dictionary->capacity, dictionary->count) ||
        dictionary->count >= TABLE_NONE)
        return TABLE_NONE;
    code = table_put(&dictionary->table, table_hash_number(&dictionary->table, word), is_known_word,
                     dictionary, &word, (uint32_t)dictionary->count);
    if (code == dictionary->count)
        dictionary->words[dictionary->count++] = word;
    return code;
}

static bool start_dictionary(struct dictionary *dictionary)
{
    if (!dictionary->recent) {
        table_init(&dictionary->table);
        dictionary->recent = calloc((size_t)1 << LG_RECENT, sizeof *dictionary->recent);
    }
    return dictionary->recent != NULL;
}

bool dictionary_encode(struct dictionary *dictionary, const uint64_t *words, size_t count,
                       uint32_t *codes)
{
    if (!start_dictionary(dictionary))
        return false;
    for (size_t i = 0; i < count; i++) {
        struct dictionary_recent *recent =
            &dictionary->recent[words[i] * 0x9e3779b97f4a7c15 >> (64 - LG_RECENT)];
        if (recent->word != words[i] || !words[i]) {
            *recent = (struct dictionary_recent){words[i], find_code(dictionary, words[i])};
            if (recent->code == TABLE_NONE)
                return false;
        }
        codes[i] = recent->code;
    }
    return true;
}

/* Sorts the words; sets new_codes[c] to the place of the word whose code was c. */
static void sort_dictionary(struct dictionary *dictionary, uint64_t *records, uint32_t *new_codes)
{
    const size_t count = dictionary->count;

    for (size_t i = 0; i < count; i++) {
        records[2 * i] = htobe64(dictionary->words[i]);
        records[2 * i + 1] = i;
    }
    sort_pairs(records, records + 2 * count, count);
    for (size_t i = 0; i < count; i++) {
        dictionary->words[i] = be64toh(records[2 * i]);
        new_codes[records[2 * i + 1]] = (uint32_t)i;
    }
}

bool dictionary_order(struct dictionary *dictionary, uint32_t *codes, size_t count)
{
    uint64_t *records = reallocarray(NULL, 4 * dictionary->count + 1, sizeof *records);
    uint32_t *new_codes = reallocarray(NULL, dictionary->count + 1, sizeof *new_codes);

    if (records && new_codes) {
        sort_dictionary(dictionary, records, new_codes);
        for (size_t i = 0; i < count; i++)
            codes[i] = new_codes[codes[i]];
    }
    free(records);
    free(new_codes);
    return records && new_codes;
}
