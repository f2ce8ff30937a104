#include "jemalloc/extents/classes.h"
#include "jemalloc/extents/extents.h"

#include <string.h>

enum { BINS_LEAST = 20, BINS_MAX = 64, PAGE_LEAST = 4096, SHARDS_MAX = 64, IN_GROUP = 4 };

#define LARGEST (UINT64_C(7) << 60) /* SC_LARGE_MAXCLASS */

/* bin_info_s, with a bitmap that is no tree (bitmap.h): one of at most 512 bits. */
struct bin_info {
    uint64_t size, slab_bytes;
    uint32_t objects, shards; /* since 5.2; before: unused */
    uint64_t bits, groups;
};

static bool info_valid(const struct bin_info *info)
{
    return info->size && info->size % 8 == 0 && info->objects &&
           info->objects <= EXTENT_OBJECTS_MAX && info->slab_bytes % PAGE_LEAST == 0 &&
           info->slab_bytes / info->size == info->objects && info->shards <= SHARDS_MAX &&
           info->bits == info->objects && info->groups == (info->bits + 63) / 64;
}

/* Takes the table that begins there; false: there is none. */
static bool take_infos(struct classes *classes, const unsigned char *bytes, size_t len)
{
    struct bin_info info;
    uint64_t last = 0, size, step;

    memset(classes, 0, sizeof *classes);
    while (classes->bins < BINS_MAX && (classes->bins + 1) * sizeof info <= len) {
        memcpy(&info, bytes + classes->bins * sizeof info, sizeof info);
        if (!info_valid(&info) || info.size <= last)
            break;
        classes->list[classes->bins++] =
            (struct extent_class){info.size, info.slab_bytes, info.objects};
        last = info.size;
    }
    /*
     * The largest small class is three and a half pages (SC_SMALL_MAXCLASS). Builds with pages
     * of 64 KiB have more objects in a slab than are read here.
     */
    if (classes->bins < BINS_LEAST || classes->list[0].size != 8 || last % 7 ||
        last / 7 * 2 != PAGE_LEAST)
        return false;
    classes->page = PAGE_LEAST;
    size = classes->page * IN_GROUP;
    step = classes->page;
    for (classes->count = classes->bins; classes->count < CLASSES_MAX && size <= LARGEST;) {
        classes->list[classes->count++] = (struct extent_class){.size = size};
        size += step;
        if (size == step * 2 * IN_GROUP)
            step *= 2;
    }
    return true;
}

static bool visit_infos(void *ctx, remote_addr at, const unsigned char *bytes, size_t len)
{
    struct classes *classes = ctx;

    (void)at;
    for (size_t i = 0; i + BINS_LEAST * sizeof(struct bin_info) <= len; i += 8)
        if (bytes[i] == 8 && take_infos(classes, bytes + i, len - i))
            return false;
    classes->bins = 0;
    return true;
}

/* The table is constant up to 5.1, and filled at the start since. */
bool classes_find(struct classes *classes, const struct heap_pages *heap)
{
    const size_t overlap = BINS_MAX * sizeof(struct bin_info);

    memset(classes, 0, sizeof *classes);
    pages_segments(heap, true, overlap, visit_infos, classes);
    if (!classes->bins)
        pages_segments(heap, false, overlap, visit_infos, classes);
    return classes->bins > 0;
}
