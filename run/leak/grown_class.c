#include "run/leak/grown_class.h"
#include "base/util.h"
#include "run/peek/peek.h"

#include <math.h>
#include <string.h>

enum {
    SAMPLES = 3000,     /* objects */
    LEAST = 50,         /* new objects among them, and growth, objects */
    NOTABLE = 64 << 10, /* growth, bytes */
};

static const double MOST = 0.9, THREE_QUARTERS = 0.75; /* of the growth */

static double growth_of(const struct looks *looks, unsigned class)
{
    return (double)looks->list[looks->count - 1].objects[class] -
           (double)looks->list[0].objects[class];
}

/* Numbers of the classes that have grown most; returns how many. */
static size_t largest_growths(const struct looks *looks, unsigned list[GROWN_CLASSES])
{
    const struct extent_class *sizes = looks->classes->list;
    size_t count = 0;

    for (unsigned i = 0; i < looks->classes->count; i++) {
        const double bytes = growth_of(looks, i) * (double)sizes[i].size;
        size_t at = count;
        if (growth_of(looks, i) < LEAST || bytes < NOTABLE)
            continue;
        while (at > 0 && growth_of(looks, list[at - 1]) * (double)sizes[list[at - 1]].size < bytes)
            at--;
        if (at == GROWN_CLASSES)
            continue;
        count += count < GROWN_CLASSES;
        memmove(&list[at + 1], &list[at], (count - 1 - at) * sizeof *list);
        list[at] = i;
    }
    return count;
}

/* Samples of one size. */
struct tally {
    size_t all, fresh; /* fresh: in pages that were not there at the first look */
};

static bool is_fresh(const struct grow_pages *pages, remote_addr addr)
{
    const struct grow_piece *piece = pages->count ? grow_pages_piece(pages, addr) : NULL;
    const uint64_t page = piece ? (addr - piece->start) / pages->map.page : 0;

    return piece && grow_piece_gained(piece, page / 64) >> page % 64 & 1;
}

static struct tally tally_up(const struct peek_sample *samples, size_t count, uint32_t of,
                             const struct grow_pages *pages)
{
    struct tally tally = {0};

    for (size_t i = 0; i < count; i++)
        if (samples[i].of == of && samples[i].state != PEEK_FREED) {
            tally.all++;
            tally.fresh += is_fresh(pages, samples[i].addr);
        }
    return tally;
}

/* objects: of that size, in use. */
static bool is_class_of_growth(struct tally whole, struct tally part, double objects, double growth)
{
    const double each = objects / (double)whole.all;
    double others = (double)(whole.all - part.all);

    if (whole.fresh >= LEAST && (double)whole.fresh * each >= THREE_QUARTERS * growth &&
        (double)part.fresh >= MOST * (double)whole.fresh)
        return true;
    if (each > 1) /* 95 of 100 times they are fewer (Poisson) */
        others += 3 + 2 * sqrt(others);
    return others * each <= (1 - MOST) * growth;
}

static void name_class(struct grown_class *found, const struct peek *peek, uint32_t of,
                       double growth, const struct grow_pages *pages)
{
    const double share = peek->pass.share > 0 && peek->pass.share < 1 ? peek->pass.share : 1;
    const double objects = (double)peek->classes[of].objects / share;
    const struct tally whole = tally_up(peek->samples, peek->sample_count, of, pages);

    for (size_t i = 0; i < peek->row_count; i++) {
        const struct peek_row *row = &peek->rows[i];
        if (row->of != of || row->absent || row->kind != CONTENT_CLASS)
            continue;
        const struct tally part = tally_up(&peek->samples[row->first], row->hits, of, pages);
        if (!is_class_of_growth(whole, part, objects, growth))
            continue;
        found->size = row->size;
        snprintf(found->name, sizeof found->name, "%s", row->detail);
        return;
    }
}

void grown_classes_find(struct grown_class found[GROWN_CLASSES], const struct looks *looks,
                        const struct grow_pages *pages, struct attachment *attachment)
{
    AUTO_FREE struct peek *peek = calloc(1, sizeof *peek);
    unsigned classes[GROWN_CLASSES];
    uint64_t sizes[GROWN_CLASSES];
    const size_t count = largest_growths(looks, classes);
    const struct peek_request request = {.samples = SAMPLES, .sizes = sizes, .size_count = count};
    struct fault ignored;

    for (size_t i = 0; i < count; i++)
        sizes[i] = looks->classes->list[classes[i]].size;
    if (!peek || !count)
        return;
    if (peek_run(peek, attachment, &request, &ignored) == FAULT_NONE)
        for (uint32_t of = 0; of < peek->class_count; of++)
            for (size_t i = 0; i < count; i++)
                if (sizes[i] == peek->classes[of].size)
                    name_class(&found[i], peek, of, growth_of(looks, classes[i]), pages);
    peek_free(peek);
}
