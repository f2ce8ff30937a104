#include "run/peek/peek_rows.h"

#include <math.h>
#include <string.h>

enum { PREFIX_LEAST = 3, PREFIX_SHARE = 10 };

struct prefix_search {
    const struct peek_sample *samples;
    size_t total;
    struct peek_prefix found[PEEK_SHOWN * 2];
    size_t count;
};

/* -1: the text is shorter. */
static int byte_of(const struct peek_sample *sample, size_t at)
{
    return at < sample->shown_len ? sample->shown[at] : -1;
}

/* Returns the end of the texts that have the same byte at `at` as the first one. */
static size_t group_end(const struct prefix_search *search, size_t first, size_t end, size_t at)
{
    size_t i = first;

    while (i < end && byte_of(&search->samples[i], at) == byte_of(&search->samples[first], at))
        i++;
    return i;
}

/* Returns how many of the texts [first, end) have the commonest byte at `at`. */
static size_t largest_group(const struct prefix_search *search, size_t first, size_t end, size_t at)
{
    size_t largest = 0;

    for (size_t i = first, next; i < end; i = next) {
        next = group_end(search, i, end, at);
        if (byte_of(&search->samples[i], at) >= 0 && next - i > largest)
            largest = next - i;
    }
    return largest;
}

/* Of the texts [first, end), which agree in len bytes: a longer prefix is worth more than this
 * one if most texts have it. */
static void search_prefixes(struct prefix_search *search, size_t first, size_t end, size_t len)
{
    if (len >= PREFIX_LEAST &&
        (len == PEEK_SHOWN || largest_group(search, first, end, len) * 3 < (end - first) * 2)) {
        if (search->count < ARRAY_LEN(search->found))
            search->found[search->count++] = (struct peek_prefix){len, end - first, first};
        return;
    }
    for (size_t i = first, next; i < end; i = next) {
        next = group_end(search, i, end, len);
        if (byte_of(&search->samples[i], len) >= 0 && (next - i) * PREFIX_SHARE >= search->total &&
            (next - i) > 1)
            search_prefixes(search, i, next, len + 1);
    }
}

static int compare_prefixes(const void *a, const void *b)
{
    const struct peek_prefix *one = a, *two = b;

    return one->hits > two->hits ? -1 : one->hits < two->hits;
}

size_t peek_prefixes_find(const struct peek_sample *samples, size_t count,
                          struct peek_prefix prefixes[PEEK_PREFIXES])
{
    struct prefix_search search = {.samples = samples, .total = count};
    size_t n;

    search_prefixes(&search, 0, count, 0);
    qsort(search.found, search.count, sizeof *search.found, compare_prefixes);
    n = search.count < PEEK_PREFIXES ? search.count : PEEK_PREFIXES;
    memcpy(prefixes, search.found, n * sizeof *prefixes);
    return n;
}

enum { SHAPES_COUNTED = 64 };

static const double normal_95 = 1.96; /* 95 % of a normal distribution are within it */

/* ---- the order of samples ---- */

static int compare_rows_of(const struct peek_sample *one, const struct peek_sample *two)
{
    if (one->of != two->of)
        return one->of < two->of ? -1 : 1;
    /* What ends a row; the rest of the order is for the beginnings of texts. */
    int differ;
    if (one->state != two->state)
        return one->state < two->state ? -1 : 1;
    if (one->content.kind != two->content.kind)
        return one->content.kind < two->content.kind ? -1 : 1;
    differ = strcmp(one->detail, two->detail);
    if (!differ)
        differ = one->content.in_middle - two->content.in_middle;
    if (differ || one->content.kind != CONTENT_CLASS)
        return differ;
    return one->content.at - two->content.at;
}

static int compare_samples(const void *a, const void *b)
{
    const struct peek_sample *one = a, *two = b;
    size_t len = one->shown_len < two->shown_len ? one->shown_len : two->shown_len;
    int differ = compare_rows_of(one, two);

    if (!differ)
        differ = memcmp(one->shown, two->shown, len);
    return differ ? differ : one->shown_len - two->shown_len;
}

static void settle_sample(struct peek *peek, struct peek_sample *sample)
{
    struct peek_class *class = &peek->classes[sample->of];

    sample->detail = "";
    if (sample->state == PEEK_FREED) {
        class->freed++;
        return;
    }
    class->sampled++;
    if (sample->state == PEEK_SWAPPED)
        sample->detail = "swapped out";
    else if (sample->state == PEEK_UNWRITTEN)
        sample->detail = "never written";
    else
        contents_settle(peek->contents, &sample->content);
    if (sample->state == PEEK_JUDGED && sample->content.detail)
        sample->detail = sample->content.detail;
}

/* ---- one row ---- */

struct shape_counts {
    const char *shapes[SHAPES_COUNTED];
    size_t hits[SHAPES_COUNTED], count;
};

static void count_shape(struct shape_counts *counts, const char *shape)
{
    for (size_t i = 0; i < counts->count; i++)
        if (strcmp(counts->shapes[i], shape) == 0) {
            counts->hits[i]++;
            return;
        }
    if (counts->count == SHAPES_COUNTED)
        return;
    counts->shapes[counts->count] = shape;
    counts->hits[counts->count++] = 1;
}

/* The variance of the number of objects of a kind, of which `hits` of `sampled` were. */
static double variance_of(const struct peek_class *class, size_t hits)
{
    double all = (double)class->objects, n = (double)class->sampled;
    double share = ((double)hits + 2) / (n + 4);

    if (class->sampled >= class->objects)
        return 0;
    return all * all * share * (1 - share) / (n + 4) * (all - n) / (all - 1);
}

static struct peek_row make_row(const struct peek *peek, size_t first, size_t end)
{
    const struct peek_sample *sample = &peek->samples[first];
    const struct peek_class *class = &peek->classes[sample->of];
    const double whole = peek->pass.share > 0 && peek->pass.share < 1 ? peek->pass.share : 1;
    struct peek_row row = {.size = class->size,
                           .of = sample->of,
                           .absent = sample->state != PEEK_JUDGED,
                           .kind = sample->content.kind,
                           .detail = sample->detail,
                           .in_middle = sample->content.in_middle,
                           .at = sample->content.kind == CONTENT_CLASS ? sample->content.at : 0,
                           .hits = end - first,
                           .first = first};

    row.objects = (double)class->objects * (double)row.hits / (double)class->sampled / whole;
    row.objects_error = normal_95 * sqrt(variance_of(class, row.hits)) / whole;
    row.bytes = row.objects * (double)class->size;
    row.bytes_error = row.objects_error * (double)class->size;
    struct shape_counts counts = {.count = 0};
    /* What a type, a class or a text is does not depend on its other words. */
    enum content_kind kind = sample->content.kind;
    if (sample->state == PEEK_JUDGED && (kind == CONTENT_POINTERS || kind == CONTENT_NUMBERS ||
                                         kind == CONTENT_OTHER || kind == CONTENT_TYPE)) {
        for (size_t i = 0; i < row.hits; i++)
            count_shape(&counts, sample[i].content.shape);
        for (size_t i = 0; i < counts.count; i++)
            if (counts.hits[i] > row.shape_hits) {
                row.shape_hits = counts.hits[i];
                memcpy(row.shape, counts.shapes[i], sizeof row.shape);
            }
    }
    if (!row.absent && row.kind == CONTENT_TEXT)
        row.prefix_count = row.in_middle ? 0 : peek_prefixes_find(sample, row.hits, row.prefixes);
    return row;
}

static int compare_row_bytes(const void *a, const void *b)
{
    const struct peek_row *one = a, *two = b;

    if (one->absent != two->absent)
        return one->absent - two->absent;
    return one->bytes > two->bytes ? -1 : one->bytes < two->bytes;
}

static bool make_rows_of_sizes(struct peek *peek)
{
    peek->rows = calloc(peek->sample_count + 1, sizeof *peek->rows);
    if (!peek->rows)
        return false;
    for (size_t i = 0, end; i < peek->sample_count; i = end) {
        const struct peek_sample *sample = &peek->samples[i];
        for (end = i + 1;
             end < peek->sample_count && compare_rows_of(sample, &peek->samples[end]) == 0;)
            end++;
        if (sample->state != PEEK_FREED)
            peek->rows[peek->row_count++] = make_row(peek, i, end);
    }
    qsort(peek->rows, peek->row_count, sizeof *peek->rows, compare_row_bytes);
    return true;
}

/* ---- sums ---- */

static int compare_row_kinds(const void *a, const void *b)
{
    const struct peek_row *one = a, *two = b;

    if (one->absent != two->absent)
        return one->absent - two->absent;
    return one->kind < two->kind ? -1 : one->kind > two->kind;
}

static int compare_row_details(const void *a, const void *b)
{
    const struct peek_row *one = a, *two = b;
    int differ = compare_row_kinds(a, b);

    if (!differ)
        differ = strcmp(one->detail, two->detail);
    if (!differ)
        differ = one->in_middle - two->in_middle;
    return differ ? differ : (int)one->at - (int)two->at;
}

static struct peek_row *sum_rows(const struct peek *peek,
                                 int (*compare)(const void *, const void *), bool by_detail,
                                 size_t *count)
{
    struct peek_row *sums = calloc(peek->row_count + 1, sizeof *sums);

    *count = 0;
    if (!sums)
        return NULL;
    memcpy(sums, peek->rows, peek->row_count * sizeof *sums);
    qsort(sums, peek->row_count, sizeof *sums, compare);
    for (size_t i = 0; i < peek->row_count; i++) {
        struct peek_row row = sums[i];
        row.shape[0] = '\0';
        row.shape_hits = row.prefix_count = 0;
        row.detail = by_detail ? row.detail : "";
        row.at = by_detail ? row.at : 0;
        row.in_middle = by_detail && row.in_middle;
        if (*count && compare(&sums[*count - 1], &row) == 0) {
            /* Errors of different sizes are independent of each other. */
            struct peek_row *sum = &sums[*count - 1];
            sum->size = sum->size == row.size ? sum->size : 0;
            sum->hits += row.hits;
            sum->objects += row.objects;
            sum->bytes += row.bytes;
            sum->objects_error = hypot(sum->objects_error, row.objects_error);
            sum->bytes_error = hypot(sum->bytes_error, row.bytes_error);
        } else {
            sums[(*count)++] = row;
        }
    }
    qsort(sums, *count, sizeof *sums, compare_row_bytes);
    return sums;
}

bool peek_rows_make(struct peek *peek)
{
    for (size_t i = 0; i < peek->sample_count; i++)
        settle_sample(peek, &peek->samples[i]);
    if (peek->sample_count)
        qsort(peek->samples, peek->sample_count, sizeof *peek->samples, compare_samples);
    const double whole = peek->pass.share > 0 && peek->pass.share < 1 ? peek->pass.share : 1;
    for (size_t i = 0; i < peek->class_count; i++) {
        const struct peek_class *class = &peek->classes[i];
        double objects = (double)class->objects / whole;
        peek->objects += objects;
        peek->bytes += objects * (double)class->size;
        peek->judged += class->sampled;
        peek->freed += class->freed;
        if (!class->sampled)
            peek->unjudged += objects * (double)class->size;
    }
    if (!make_rows_of_sizes(peek))
        return false;
    peek->totals = sum_rows(peek, compare_row_details, true, &peek->total_count);
    peek->kinds = sum_rows(peek, compare_row_kinds, false, &peek->kind_count);
    return peek->totals && peek->kinds;
}
