#include "jemalloc/reader/model.h"
#include "base/list.h"

#include <string.h>

void model_free(struct model *model)
{
    free(model->tdatas);
    large_list_free(model->gctxs, model->gctx_capacity, sizeof *model->gctxs);
    large_list_free(model->tctxs, model->tctx_capacity, sizeof *model->tctxs);
    large_list_free(model->words, model->word_capacity, sizeof *model->words);
    large_list_free(model->codes, model->code_capacity, sizeof *model->codes);
    dictionary_free(&model->dictionary);
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

bool model_take_gctx(struct model *model, const struct model *from, const struct gctx *gctx)
{
    struct gctx copy = *gctx;

    copy.first_word = model->code_count;
    copy.first_tctx = model->tctx_count;
    if (!LARGE_LIST_RESERVE(model->codes, model->code_capacity, model->code_count + gctx->words) ||
        !model_reserve_gctxs(model, 1) || !model_reserve_tctxs(model, gctx->tctxs) ||
        !dictionary_encode(&model->dictionary, from->words + gctx->first_word, gctx->words,
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

_Static_assert(sizeof(struct tctx) == 8 * (5 + COUNTS), "no padding");

bool model_same_gctx(const struct model *a, const struct gctx *x, const struct model *b,
                     const struct gctx *y)
{
    return x->address == y->address && x->words == y->words && x->tctxs == y->tctxs &&
           memcmp(a->words + x->first_word, b->words + y->first_word,
                  x->words * sizeof *a->words) == 0 &&
           (!x->tctxs || memcmp(a->tctxs + x->first_tctx, b->tctxs + y->first_tctx,
                                x->tctxs * sizeof *a->tctxs) == 0);
}

void counts_add(struct counts *sum, const struct counts *counts)
{
    for (size_t i = 0; i < COUNTS; i++)
        sum->at[i] += counts->at[i];
}
