#include "jemalloc/reader/model.h"
#include "base/list.h"

#include <string.h>

void model_free(struct model *model)
{
    free(model->tdatas);
    free(model->gctxs);
    free(model->tctxs);
    free(model->words);
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
    size_t wanted = model->word_count + count, capacity = model->word_capacity;
    uint64_t *moved;

    if (wanted <= capacity)
        return true;
    capacity = capacity * 2 > wanted ? capacity * 2 : wanted;
    moved = reallocarray(model->words, capacity, sizeof *moved);
    if (!moved)
        return false;
    model->words = moved;
    model->word_capacity = capacity;
    return true;
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

static bool add_tctx(struct model *model, const struct tctx *tctx)
{
    if (!LIST_GROW(model->tctxs, model->tctx_capacity, model->tctx_count))
        return false;
    model->tctxs[model->tctx_count++] = *tctx;
    return true;
}

bool model_copy_gctx(struct model *model, const struct model *from, const struct gctx *gctx)
{
    struct gctx copy = *gctx;

    copy.first_word = model->word_count;
    copy.first_tctx = model->tctx_count;
    if (!model_reserve_words(model, gctx->words) ||
        !LIST_GROW(model->gctxs, model->gctx_capacity, model->gctx_count))
        return false;
    memcpy(model->words + copy.first_word, from->words + gctx->first_word,
           gctx->words * sizeof *model->words);
    model->word_count += gctx->words;
    for (size_t i = 0; i < gctx->tctxs; i++)
        if (!add_tctx(model, &from->tctxs[gctx->first_tctx + i]))
            return false;
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
