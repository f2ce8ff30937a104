#include "run/peek/peek_draw.h"
#include "base/search.h"

#include <math.h>
#include <string.h>
#include <sys/random.h>

enum { RESERVOIR_FIRST = 64, SHARE_ROUNDS = 8, LEAST_OF_ALL = 10 };

/* ---- random numbers ---- */

void peek_draw_seed(struct peek *peek)
{
    if (getrandom(&peek->random, sizeof peek->random, GRND_NONBLOCK) != sizeof peek->random)
        peek->random = clock_now();
}

/* In (0, 1). */
static double random_part(struct peek *peek)
{
    /* SplitMix64 (Steele, Lea, Flood 2014). */
    uint64_t z = peek->random += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return ((double)((z ^ z >> 31) >> 12) + 0.5) / (double)(UINT64_C(1) << 52);
}

static size_t random_below(struct peek *peek, size_t limit)
{
    return (size_t)(random_part(peek) * (double)limit);
}

/* ---- the reservoirs ---- */

static struct peek_class *class_of_size(struct peek *peek, uint64_t size)
{
    size_t i = SEARCH_FIRST(k, peek->class_count, peek->classes[k].size >= size);

    if (i < peek->class_count && peek->classes[i].size == size)
        return &peek->classes[i];
    if (peek->class_count == PEEK_CLASSES_MAX)
        return NULL;
    memmove(&peek->classes[i + 1], &peek->classes[i],
            (peek->class_count - i) * sizeof peek->classes[0]);
    peek->class_count++;
    peek->classes[i] = (struct peek_class){.size = size, .weight = 1};
    return &peek->classes[i];
}

static bool reservoir_grow(struct peek_class *class, size_t limit)
{
    size_t larger = class->capacity ? class->capacity * 2 : RESERVOIR_FIRST;
    remote_addr *moved;

    larger = larger < limit ? larger : limit;
    moved = reallocarray(class->reservoir, larger, sizeof *moved);
    if (!moved)
        return false;
    class->reservoir = moved;
    class->capacity = larger;
    return true;
}

static void skip_objects(struct peek *peek, struct peek_class *class)
{
    double step;

    class->weight *= exp(log(random_part(peek)) / (double)class->kept);
    step = floor(log(random_part(peek)) / log1p(-class->weight)) + 1;
    class->next += step < 0x1p62 ? (uint64_t)step : UINT64_C(1) << 62;
}

/* Returns the number of the object in the extent that is in use as number `rank`. */
static uint32_t object_of_rank(const struct extent *extent, uint64_t rank)
{
    for (uint32_t i = 0; i < extent->objects; i++)
        if (extent_in_use(extent, i) && rank-- == 0)
            return i;
    return 0;
}

static bool replace_object(struct peek_draw *draw, struct peek_class *class, remote_addr addr)
{
    if (class->kept < draw->samples) {
        if (class->kept == class->capacity && !reservoir_grow(class, draw->samples))
            return false;
        class->reservoir[class->kept++] = addr;
        class->next++;
        if (class->kept == draw->samples) {
            class->next--; /* of the object just taken */
            skip_objects(draw->peek, class);
        }
        return true;
    }
    class->reservoir[random_below(draw->peek, class->kept)] = addr;
    skip_objects(draw->peek, class);
    return true;
}

bool peek_draw_offer(struct peek_draw *draw, const struct extent *extent)
{
    struct peek_class *class = extent->size ? class_of_size(draw->peek, extent->size) : NULL;
    uint64_t used = 0;

    if (!class)
        return true;
    for (uint32_t i = 0; i < extent->objects; i++)
        used += extent_in_use(extent, i);
    while (class->next < class->objects + used) {
        uint32_t at = object_of_rank(extent, class->next - class->objects);
        if (!replace_object(draw, class, extent_object(extent, at))) {
            draw->failed = true;
            return false;
        }
    }
    class->objects += used;
    return true;
}

/* ---- how many of each ---- */

static size_t add_wanted(struct peek_class *class, double more)
{
    size_t left = class->kept - class->wanted;
    size_t added = more < (double)left ? (size_t)more : left;

    class->wanted += added;
    return added;
}

static double bytes_unfilled(const struct peek *peek)
{
    double bytes = 0;

    for (size_t i = 0; i < peek->class_count; i++)
        if (peek->classes[i].wanted < peek->classes[i].kept)
            bytes += (double)peek->classes[i].size * (double)peek->classes[i].objects;
    return bytes;
}

/* By bytes, but of each class some; what a class cannot take goes to the others. */
static void share_samples(struct peek *peek, size_t samples)
{
    size_t least = samples / (8 * (peek->class_count + 1)), left = samples;

    least = least > LEAST_OF_ALL ? least : LEAST_OF_ALL;
    for (size_t i = 0; i < peek->class_count; i++) {
        size_t added = add_wanted(&peek->classes[i], (double)(least < left ? least : left));
        left -= added;
    }
    for (int round = 0; round < SHARE_ROUNDS && left; round++) {
        double bytes = bytes_unfilled(peek), portion = (double)left;
        for (size_t i = 0; i < peek->class_count && bytes > 0; i++) {
            struct peek_class *class = &peek->classes[i];
            double part = (double)class->size * (double)class->objects / bytes;
            if (class->wanted < class->kept)
                left -= add_wanted(class, portion * part);
        }
    }
}

/* A random part of a uniform sample is one, too: the first steps of a shuffle. */
static void take_wanted(struct peek *peek, uint32_t of)
{
    struct peek_class *class = &peek->classes[of];

    for (size_t i = 0; i < class->wanted; i++) {
        size_t other = i + random_below(peek, class->kept - i);
        remote_addr addr = class->reservoir[other];
        class->reservoir[other] = class->reservoir[i];
        class->reservoir[i] = addr;
        peek->samples[peek->sample_count++] = (struct peek_sample){.addr = addr, .of = of};
    }
    free(class->reservoir);
    class->reservoir = NULL;
}

static int compare_sample_places(const void *a, const void *b)
{
    const struct peek_sample *one = a, *two = b;

    return one->addr < two->addr ? -1 : one->addr > two->addr;
}

bool peek_draw_choose(struct peek_draw *draw)
{
    struct peek *peek = draw->peek;
    size_t count = 0;

    share_samples(peek, draw->samples);
    for (size_t i = 0; i < peek->class_count; i++)
        count += peek->classes[i].wanted;
    peek->samples = calloc(count ? count : 1, sizeof *peek->samples);
    if (!peek->samples)
        return false;
    for (size_t i = 0; i < peek->class_count; i++)
        take_wanted(peek, (uint32_t)i);
    if (count)
        qsort(peek->samples, count, sizeof *peek->samples, compare_sample_places);
    return true;
}
