#include "jemalloc/reader/heap_text.h"
#include "base/list.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SHIFT = 3, COUNTS_LINE_MAX = 128, WORD_TEXT_MAX = 19, TITLE_MAX = 64 };
enum { KEYED_MIN = 64, KEYED_DEPTH = 16 };
enum { WITNESSES_MIN = 3, LG_MAX = 63 };

bool heap_find_period(const struct model *model, unsigned *lg_sample)
{
    size_t votes[LG_MAX + 1] = {0}, all = 0;

    /*
     * For objects of one size s and a period of R bytes, an object counts 1 / (1 -
     * exp(-s / R)). Objects that are much larger than R count 1, and prove nothing.
     */
    for (size_t i = 0; i < model->tctx_count; i++) {
        const struct counts *counts = &model->tctxs[i].counts;
        double objects = (double)counts->at[COUNT_OBJECTS];
        double unbiased = (double)counts->at[COUNT_OBJECTS_UNBIASED] / (1 << SHIFT);
        double size = (double)counts->at[COUNT_BYTES_UNBIASED] / unbiased;
        double share = objects / unbiased, lg;
        if (!(objects > 0) || !(size > 0) || !(share > 0 && share < 0.9))
            continue;
        lg = log2(-size / log1p(-share));
        if (!(lg > -0.4 && lg < LG_MAX))
            continue;
        votes[lrint(lg)]++;
        all++;
    }
    for (*lg_sample = 0; *lg_sample <= LG_MAX; ++*lg_sample)
        if (votes[*lg_sample] >= WITNESSES_MIN && votes[*lg_sample] >= all - all / 8)
            return true;
    return false;
}

bool heap_is_unbiased(const struct model *model)
{
    bool some = false;

    for (size_t i = 0; i < model->tctx_count; i++) {
        const struct counts *counts = &model->tctxs[i].counts;
        if (counts->at[COUNT_OBJECTS_UNBIASED] || counts->at[COUNT_ALL_OBJECTS_UNBIASED])
            return true;
        some |= counts->at[COUNT_OBJECTS] || counts->at[COUNT_ALL_OBJECTS];
    }
    return !some;
}

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

/* " 0x55...", ready to be copied */
struct word_text {
    unsigned char len;
    char text[WORD_TEXT_MAX];
};

struct text_writer {
    const struct heap_text *text;
    struct sink *sink;
    struct word_text *words; /* by code */
    char *at;                /* where the next byte goes, in space that was reserved */
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

static bool make_word_texts(struct text_writer *writer, const struct dictionary *dictionary)
{
    writer->words = calloc(dictionary->count + 1, sizeof *writer->words);
    for (size_t i = 0; writer->words && i < dictionary->count; i++) {
        struct word_text *text = &writer->words[i];
        uint64_t value = dictionary->words[i];
        char *at = text->text + 3;
        unsigned digits = 1;

        memcpy(text->text, " 0x", 3);
        while (digits < 16 && value >> 4 * digits)
            digits++;
        for (unsigned k = digits; k-- > 0; value >>= 4)
            at[k] = "0123456789abcdef"[value & 15];
        text->len = (unsigned char)(3 + digits);
    }
    return writer->words != NULL;
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

/* The title, the sum of all threads, and each thread. */
static bool write_threads(struct text_writer *writer, const struct model *model)
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

/* The place of a stack in the profile: the first word for sort_pairs, the second its index. */
struct place {
    uint64_t key, index;
};

static bool write_stacks(struct text_writer *writer, const struct model *model,
                         const struct place *places, size_t *stacks)
{
    *stacks = 0;
    for (size_t i = 0; i < model->gctx_count; i++) {
        const struct gctx *gctx = &model->gctxs[places[i].index];
        struct counts sum = {0};

        for (size_t k = 0; k < gctx->tctxs; k++)
            counts_add(&sum, &model->tctxs[gctx->first_tctx + k].counts);
        if (!sum.at[COUNT_OBJECTS] && !sum.at[COUNT_ALL_OBJECTS])
            continue; /* "no useful data", prof_dump_gctx */
        if (!reserve_text(writer,
                          gctx->words * WORD_TEXT_MAX + (gctx->tctxs + 2) * COUNTS_LINE_MAX))
            return false;
        put_text(writer, "@");
        for (size_t k = 0; k < gctx->words; k++) {
            const struct word_text *word = &writer->words[model->codes[gctx->first_word + k]];
            /* All bytes, in one instruction or two: those behind the text are written over. */
            memcpy(writer->at, word->text, sizeof word->text);
            writer->at += word->len;
        }
        put_text(writer, "\n");
        put_all(writer, &sum);
        for (size_t k = 0; k < gctx->tctxs; k++) {
            const struct tctx *tctx = &model->tctxs[gctx->first_tctx + k];
            put_thread(writer, tctx->thr_uid, &tctx->counts);
            put_text(writer, "\n");
        }
        commit_text(writer);
        ++*stacks;
    }
    return true;
}

/* ---- the order: as prof_gctx_comp, by the bytes of the program counters, then by their number */

static int compare_places(const void *a, const void *b, void *ctx)
{
    const struct place *p = a, *q = b;
    const struct model *model = ctx;
    const struct gctx *x = &model->gctxs[p->index], *y = &model->gctxs[q->index];
    const uint32_t *codes = model->codes + x->first_word, *others = model->codes + y->first_word;

    for (size_t i = 0; i < x->words && i < y->words; i++)
        if (codes[i] != others[i])
            return codes[i] < others[i] ? -1 : 1;
    return (x->words > y->words) - (x->words < y->words);
}

struct sorting {
    struct model *model;
    struct place *scratch;
    unsigned bits; /* of a code */
};

/* Sorts stacks that are the same up to code `first`: by keys, then those with the same key. */
static void sort_places(const struct sorting *sorting, struct place *places, size_t count,
                        size_t first, unsigned depth)
{
    const unsigned bits = sorting->bits;
    struct model *model = sorting->model;

    if (count < KEYED_MIN || depth == KEYED_DEPTH) {
        qsort_r(places, count, sizeof *places, compare_places, model);
        return;
    }
    /* As many codes as a word has space for, each plus one: 0 is behind the stack. */
    for (size_t i = 0; i < count; i++) {
        const struct gctx *gctx = &model->gctxs[places[i].index];
        const uint32_t *codes = model->codes + gctx->first_word;
        uint64_t key = 0;
        for (size_t k = first; k < first + 64 / bits; k++)
            key = key << bits | (k < gctx->words ? codes[k] + (uint64_t)1 : 0);
        places[i].key = key;
    }
    sort_pairs(&places->key, &sorting->scratch->key, count);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && places[end].key == places[i].key;)
            end++;
        if (end - i > 1)
            sort_places(sorting, places + i, end - i, first + 64 / bits, depth + 1);
    }
}

/* Returns the stacks in the order of prof.dump, with space for as many behind them; NULL: failed.
 */
static struct place *order_stacks(struct model *model)
{
    struct place *places = reallocarray(NULL, 2 * model->gctx_count + 1, sizeof *places);
    unsigned bits = 1;

    if (!places || !model_order_words(model)) {
        free(places);
        return NULL;
    }
    while (model->dictionary.count >> bits)
        bits++;
    for (size_t i = 0; i < model->gctx_count; i++)
        places[i].index = i;
    sort_places(&(struct sorting){model, places + model->gctx_count, bits}, places,
                model->gctx_count, 0, 0);
    return places;
}

bool heap_text_write(const struct heap_text *text, struct model *model, struct sink *sink,
                     size_t *stacks)
{
    struct text_writer writer = {.text = text, .sink = sink};
    struct place *places = order_stacks(model);
    bool done = places && make_word_texts(&writer, &model->dictionary) &&
                write_threads(&writer, model) && write_stacks(&writer, model, places, stacks) &&
                reserve_text(&writer, TITLE_MAX);

    free(writer.words);
    free(places);
    if (!done)
        return false;
    put_text(&writer, "\nMAPPED_LIBRARIES:\n");
    commit_text(&writer);
    return true;
}
