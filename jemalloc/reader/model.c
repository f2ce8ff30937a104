#include "jemalloc/reader/model.h"
#include "base/list.h"

#include <endian.h>
#include <string.h>

enum { LG_RECENT = 12 };

struct dictionary_recent {
    uint64_t word; /* 0: none */
    uint32_t code;
};

void model_free(struct model *model)
{
    free(model->tdatas);
    large_list_free(model->gctxs, model->gctx_capacity, sizeof *model->gctxs);
    large_list_free(model->tctxs, model->tctx_capacity, sizeof *model->tctxs);
    large_list_free(model->words, model->word_capacity, sizeof *model->words);
    large_list_free(model->codes, model->code_capacity, sizeof *model->codes);
    free(model->dictionary.words);
    free(model->dictionary.recent);
    table_free(&model->dictionary.table);
    free(model->names);
    memset(model, 0, sizeof *model);
}

void model_clear(struct model *model)
{
    model->tdata_count = model->gctx_count = model->tctx_count = 0;
    model->word_count = model->name_count = 0;
}

bool model_reserve_words(struct model *model, size_t count)
{
    return LARGE_LIST_RESERVE(model->words, model->word_capacity, model->word_count + count);
}

bool model_reserve_gctxs(struct model *model, size_t count)
{
    return LARGE_LIST_RESERVE(model->gctxs, model->gctx_capacity, model->gctx_count + count);
}

bool model_reserve_tctxs(struct model *model, size_t count)
{
    return LARGE_LIST_RESERVE(model->tctxs, model->tctx_capacity, model->tctx_count + count);
}

size_t model_add_name(struct model *model, const char *name, size_t len)
{
    const size_t at = model->name_count;

    for (size_t i = 0; i <= len; i++) {
        if (!LIST_GROW(model->names, model->name_capacity, model->name_count))
            return SIZE_MAX;
        model->names[model->name_count++] = i < len ? name[i] : '\0';
    }
    return at;
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

/* Sets codes[i] to the number of words[i]. False: out of memory. */
static bool encode_words(struct dictionary *dictionary, const uint64_t *words, size_t count,
                         uint32_t *codes)
{
    if (!dictionary->recent) {
        table_init(&dictionary->table);
        dictionary->recent = calloc((size_t)1 << LG_RECENT, sizeof *dictionary->recent);
        if (!dictionary->recent)
            return false;
    }
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

bool model_take_gctx(struct model *model, const struct model *from, const struct gctx *gctx)
{
    struct gctx copy = *gctx;

    copy.first_word = model->code_count;
    copy.first_tctx = model->tctx_count;
    if (!LARGE_LIST_RESERVE(model->codes, model->code_capacity, model->code_count + gctx->words) ||
        !model_reserve_gctxs(model, 1) || !model_reserve_tctxs(model, gctx->tctxs) ||
        !encode_words(&model->dictionary, from->words + gctx->first_word, gctx->words,
                      model->codes + model->code_count))
        return false;
    if (gctx->tctxs)
        memcpy(model->tctxs + model->tctx_count, from->tctxs + gctx->first_tctx,
               gctx->tctxs * sizeof *model->tctxs);
    model->code_count += gctx->words;
    model->tctx_count += gctx->tctxs;
    model->gctxs[model->gctx_count++] = copy;
    return true;
}

bool model_order_words(struct model *model)
{
    struct dictionary *dictionary = &model->dictionary;
    const size_t count = dictionary->count;
    uint64_t *records = reallocarray(NULL, 4 * count + 1, sizeof *records);
    uint32_t *new_codes = reallocarray(NULL, count + 1, sizeof *new_codes);
    const bool good = records && new_codes;

    if (good) {
        for (size_t i = 0; i < count; i++) {
            records[2 * i] = htobe64(dictionary->words[i]);
            records[2 * i + 1] = i;
        }
        sort_pairs(records, records + 2 * count, count);
        for (size_t i = 0; i < count; i++) {
            dictionary->words[i] = be64toh(records[2 * i]);
            new_codes[records[2 * i + 1]] = (uint32_t)i;
        }
        for (size_t i = 0; i < model->code_count; i++)
            model->codes[i] = new_codes[model->codes[i]];
    }
    free(records);
    free(new_codes);
    return good;
}

void counts_add(struct counts *sum, const struct counts *counts)
{
    for (size_t i = 0; i < COUNTS; i++)
        sum->at[i] += counts->at[i];
}
