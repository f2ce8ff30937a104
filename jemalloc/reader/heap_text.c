#include "jemalloc/reader/heap_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SHIFT = 3, COUNTS_LINE_MAX = 128, WORD_TEXT_MAX = 19, TITLE_MAX = 64 };

static uint64_t to_whole(double value)
{
    double rounded = round(value);

    return rounded < (double)UINT64_MAX ? (uint64_t)rounded : UINT64_MAX;
}

void heap_text_unbias(uint64_t shifted_objects, uint64_t bytes, unsigned lg_sample,
                      uint64_t *printed_objects, uint64_t *printed_bytes)
{
    *printed_objects = *printed_bytes = 0;
    if (!shifted_objects || !bytes)
        return;
    double objects = (double)shifted_objects / (double)(1 << SHIFT);
    double size = (double)bytes / objects;
    double scaled = (double)bytes * (1.0 - exp(-size / (double)((uint64_t)1 << lg_sample)));

    *printed_objects = to_whole(scaled / size);
    *printed_bytes = to_whole(scaled);
}

struct text_writer {
    const struct heap_text *text;
    struct sink *sink;
    char *at; /* where the next byte goes, in space that was reserved */
};

static bool reserve_text(struct text_writer *writer, size_t len)
{
    writer->at = (char *)sink_reserve(writer->sink, len);
    return writer->at != NULL;
}

static void commit_text(struct text_writer *writer)
{
    writer->sink->len = (size_t)((unsigned char *)writer->at - writer->sink->bytes);
}

static void put_text(struct text_writer *writer, const char *text)
{
    size_t n = strlen(text);

    memcpy(writer->at, text, n);
    writer->at += n;
}

static void put_decimal(struct text_writer *writer, uint64_t value)
{
    char digits[24], *first = digits + sizeof digits;

    do
        *--first = (char)('0' + value % 10);
    while (value /= 10);
    memcpy(writer->at, first, (size_t)(digits + sizeof digits - first));
    writer->at += digits + sizeof digits - first;
}

static void put_address(struct text_writer *writer, uint64_t value)
{
    char digits[16], *first = digits + sizeof digits;

    do
        *--first = "0123456789abcdef"[value & 15];
    while (value >>= 4);
    put_text(writer, " 0x");
    memcpy(writer->at, first, (size_t)(digits + sizeof digits - first));
    writer->at += digits + sizeof digits - first;
}

static void put_pair(struct text_writer *writer, const uint64_t counts[4])
{
    uint64_t objects = counts[0], bytes = counts[2];

    if (writer->text->is_unbiased)
        heap_text_unbias(counts[1], counts[3], writer->text->lg_sample, &objects, &bytes);
    put_decimal(writer, objects);
    put_text(writer, ": ");
    put_decimal(writer, bytes);
}

static void put_counts(struct text_writer *writer, const struct counts *counts)
{
    put_pair(writer, counts->at + COUNT_OBJECTS);
    put_text(writer, " [");
    put_pair(writer, counts->at + COUNT_ALL_OBJECTS);
    put_text(writer, "]");
}

static void put_thread(struct text_writer *writer, uint64_t thr_uid, const struct counts *counts)
{
    put_text(writer, "  t");
    put_decimal(writer, thr_uid);
    put_text(writer, ": ");
    put_counts(writer, counts);
}

static void put_all(struct text_writer *writer, const struct counts *counts)
{
    put_text(writer, "  t*: ");
    put_counts(writer, counts);
    put_text(writer, "\n");
}

static bool write_head(struct text_writer *writer, const struct model *model)
{
    struct counts sum = {0};

    for (size_t i = 0; i < model->tdata_count; i++)
        counts_add(&sum, &model->tdatas[i].sum);
    if (!reserve_text(writer, TITLE_MAX + COUNTS_LINE_MAX))
        return false;
    put_text(writer, "heap_v2/");
    put_decimal(writer, (uint64_t)1 << writer->text->lg_sample);
    put_text(writer, "\n");
    put_all(writer, &sum);
    commit_text(writer);
    return true;
}

static bool write_threads(struct text_writer *writer, const struct model *model)
{
    for (size_t i = 0; i < model->tdata_count; i++) {
        const struct tdata *tdata = &model->tdatas[i];
        const char *name = model->names + tdata->name;
        if (tdata->is_expired)
            continue;
        if (!reserve_text(writer, COUNTS_LINE_MAX + strlen(name)))
            return false;
        put_thread(writer, tdata->thr_uid, &tdata->sum);
        put_text(writer, name[0] ? " " : "");
        put_text(writer, name);
        put_text(writer, "\n");
        commit_text(writer);
    }
    return true;
}

static bool write_stack(struct text_writer *writer, const struct model *model,
                        const struct gctx *gctx, const struct counts *sum)
{
    if (!reserve_text(writer, gctx->words * WORD_TEXT_MAX + (gctx->tctxs + 2) * COUNTS_LINE_MAX))
        return false;
    put_text(writer, "@");
    for (size_t i = 0; i < gctx->words; i++)
        put_address(writer, model->words[gctx->first_word + i]);
    put_text(writer, "\n");
    put_all(writer, sum);
    for (size_t i = 0; i < gctx->tctxs; i++) {
        const struct tctx *tctx = &model->tctxs[gctx->first_tctx + i];
        put_thread(writer, tctx->thr_uid, &tctx->counts);
        put_text(writer, "\n");
    }
    commit_text(writer);
    return true;
}

static bool write_stacks(struct text_writer *writer, const struct model *model, size_t *stacks)
{
    *stacks = 0;
    for (size_t i = 0; i < model->gctx_count; i++) {
        const struct gctx *gctx = &model->gctxs[i];
        struct counts sum = {0};
        for (size_t k = 0; k < gctx->tctxs; k++)
            counts_add(&sum, &model->tctxs[gctx->first_tctx + k].counts);
        if (!sum.at[COUNT_OBJECTS] && !sum.at[COUNT_ALL_OBJECTS])
            continue; /* "no useful data", prof_dump_gctx */
        if (!write_stack(writer, model, gctx, &sum))
            return false;
        ++*stacks;
    }
    return true;
}

/* As prof_gctx_comp: by the bytes of the program counters, then by their number. */
static int compare_gctxs(const void *a, const void *b, void *ctx)
{
    const struct gctx *x = a, *y = b;
    const uint64_t *words = ctx;
    size_t common = x->words < y->words ? x->words : y->words;
    int order = memcmp(words + x->first_word, words + y->first_word, common * sizeof *words);

    return order ? order : (x->words > y->words) - (x->words < y->words);
}

bool heap_text_write(const struct heap_text *text, struct model *model, struct sink *sink,
                     size_t *stacks)
{
    struct text_writer writer = {.text = text, .sink = sink};

    if (model->gctx_count)
        qsort_r(model->gctxs, model->gctx_count, sizeof *model->gctxs, compare_gctxs, model->words);
    if (!write_head(&writer, model) || !write_threads(&writer, model) ||
        !write_stacks(&writer, model, stacks) || !reserve_text(&writer, TITLE_MAX))
        return false;
    put_text(&writer, "\nMAPPED_LIBRARIES:\n");
    commit_text(&writer);
    return true;
}
