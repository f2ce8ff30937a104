#include "jemalloc/reader/repeated.h"
#include "base/list.h"

#include <string.h>

/* A gctx, with a hash of its program counters. */
struct hashed {
    uint64_t hash, index;
};

/* FNV-1a, of words. */
static uint64_t hash_codes(const uint32_t *codes, size_t count)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < count; i++)
        hash = (hash ^ codes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static bool same_codes(const struct model *model, const struct gctx *x, const struct gctx *y)
{
    return x->words == y->words &&
           memcmp(model->codes + x->first_word, model->codes + y->first_word,
                  x->words * sizeof *model->codes) == 0;
}

/* Marks the one that was read first; those of equal hash are in the order of reading. */
static void mark_repeated(struct model *model, const struct hashed *list, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct gctx *former = &model->gctxs[list[i - 1].index];
        if (list[i].hash == list[i - 1].hash &&
            same_codes(model, former, &model->gctxs[list[i].index]))
            former->is_proven = false;
    }
}

static void drop_marked(struct model *model)
{
    size_t kept = 0;

    for (size_t i = 0; i < model->gctx_count; i++)
        if (model->gctxs[i].is_proven)
            model->gctxs[kept++] = model->gctxs[i];
    model->gctx_count = kept;
}

bool repeated_drop(struct model *model)
{
    const size_t count = model->gctx_count;
    struct hashed *list = reallocarray(NULL, 2 * count + 1, sizeof *list);

    if (!list)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct gctx *gctx = &model->gctxs[i];
        list[i] = (struct hashed){hash_codes(model->codes + gctx->first_word, gctx->words), i};
    }
    if (count)
        sort_pairs(&list[0].hash, &list[count].hash, count);
    mark_repeated(model, list, count);
    drop_marked(model);
    free(list);
    return true;
}
