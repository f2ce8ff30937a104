#include "run/grow/object_growth.h"

#include <stdlib.h>

#define LOOK_LIMIT ((uint64_t)32 << 30) /* of memory whose records are read in one look */

static bool look_at_objects(struct object_look *look, const struct reader_source *source)
{
    struct extents *extents;
    struct fault fault;
    bool good;

    if (extents_open(&extents, source, &fault) != FAULT_NONE)
        return false;
    good = totals_read(extents, LOOK_LIMIT, &look->totals, &fault) == FAULT_NONE &&
           look->totals.pass.share >= 1;
    extents_close(extents);
    return good;
}

/* The mappings are those of now: objects in new ones count, too. */
void object_look_take(struct object_look *look, struct attachment *attachment,
                      const struct deadline *deadline)
{
    struct modules modules;
    struct instance instance;
    const struct reader_source source = {.instance = &instance,
                                         .modules = &modules,
                                         .target = &attachment->target,
                                         .memory = &attachment->memory,
                                         .deadline = deadline};
    struct fault fault;

    look->known = false;
    if (modules_load(&modules, source.target, &fault) == FAULT_NONE &&
        instance_find(&instance, &modules, source.target, source.memory, &fault) == FAULT_NONE) {
        instance.module.path = instance.path;
        look->known = look_at_objects(look, &source);
    }
    modules_free(&modules);
}

static int compare_sizes_grown(const void *a, const void *b)
{
    const struct object_growth_row *x = a, *y = b;

    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

void object_growth_make(struct object_growth *growth, const struct object_look *before,
                        const struct object_look *after)
{
    const struct extent_totals *from = &before->totals, *to = &after->totals;

    *growth = (struct object_growth){.known = before->known && after->known &&
                                              from->classes.count == to->classes.count};
    if (!growth->known)
        return;
    for (unsigned i = 0; i < to->classes.count; i++) {
        const struct class_total was = totals_of_class(from, i), is = totals_of_class(to, i);
        const struct object_growth_row row = {.size = to->classes.list[i].size,
                                              .objects = (int64_t)(is.objects - was.objects),
                                              .bytes = (int64_t)(is.bytes - was.bytes)};
        growth->bytes += row.bytes;
        if (row.objects || row.bytes)
            growth->rows[growth->count++] = row;
    }
    qsort(growth->rows, growth->count, sizeof *growth->rows, compare_sizes_grown);
}
