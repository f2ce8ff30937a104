#include "jemalloc/extents/profile_objects.h"
#include "jemalloc/reader/roots.h"
#include "jemalloc/reader/stacks.h"
#include "jemalloc/reader/threads.h"

#include <string.h>

enum { SEARCHES_MAX = 4 };

void profile_objects_open(struct profile_objects *objects, const struct reader_source *source,
                          struct batch *batch)
{
    struct reader *reader = &objects->reader;
    struct fault ignored;

    memset(objects, 0, sizeof *objects);
    objects->batch = batch;
    if (reader_open(reader, source, &ignored) != FAULT_NONE)
        reader->stacks = reader->threads = 0;
    /* A proof while the process allocates may find another layout than that of its version. */
    objects->layout = reader->layout = reader_layout_of(version_parse(reader->variables.version));
}

void profile_objects_close(struct profile_objects *objects)
{
    model_free(&objects->threads);
}

static void count_size(struct extents *extents, uint64_t size, uint64_t counts[CLASSES_MAX])
{
    const struct classes *classes = extents_classes(extents);

    for (unsigned i = 0; i < classes->count; i++)
        if (classes->list[i].size >= size) {
            counts[i]++;
            return;
        }
}

/* A table has an array of buckets (ckh.c, ckh_grow). */
static void count_table(struct extents *extents, const struct reader_table *table,
                        uint64_t counts[CLASSES_MAX])
{
    count_size(extents, READER_BUCKET_CELLS * sizeof(struct reader_cell) << table->lg_now, counts);
}

/* Without names, an empty table cannot be told from others (roots.c): it is searched again. */
static bool find_stacks(struct profile_objects *objects, bool has_samples)
{
    struct reader *reader = &objects->reader;
    struct fault ignored;

    if (!reader->stacks && has_samples && objects->searches < SEARCHES_MAX) {
        objects->searches++;
        if (roots_find_stacks(reader, objects->batch, &ignored) != FAULT_NONE)
            reader->stacks = 0;
    }
    return reader->stacks != 0;
}

/* The list stays as it was if it cannot be read. */
static void renew_threads(struct profile_objects *objects, const struct reader_table *table)
{
    struct reader *reader = &objects->reader;
    struct model threads = {0};

    if (!reader->threads)
        roots_find_threads(reader, objects->batch);
    if (reader->threads && threads_read(objects->batch, objects->layout, reader->threads, table,
                                        reader->source.is_still, &threads)) {
        model_free(&objects->threads);
        objects->threads = threads;
    } else {
        model_free(&threads);
    }
}

static void count_tdatas(const struct profile_objects *objects, struct extents *extents,
                         uint64_t counts[CLASSES_MAX])
{
    struct memory *memory = objects->reader.source.memory;
    struct reader_table table;
    struct extent extent;

    for (size_t i = 0; i < objects->threads.tdata_count; i++) {
        const remote_addr tdata = objects->threads.tdatas[i].address;
        if (reader_check_time(&objects->reader, NULL) != FAULT_NONE)
            return;
        if (!extents_at(extents, tdata, &extent) ||
            !table_open(&table, memory, tdata + objects->layout->tdata_table))
            continue;
        counts[extent.class]++;
        count_table(extents, &table, counts);
    }
}

static void count_origins(const struct reader_layout *layout, struct extents *extents,
                          const struct origin *origins, size_t count, uint64_t counts[CLASSES_MAX])
{
    for (size_t i = 0; i < count; i++) {
        const struct origin *origin = &origins[i];
        if (origin->state != ORIGIN_PROVEN || !origin->objects)
            continue;
        count_size(extents, reader_tctx_bytes(layout), counts);
        if (origin->is_first)
            count_size(extents, layout->gctx_vec + UINT64_C(8) * origin->depth, counts);
    }
}

/* The first table of stacks is older than the sampling: only one that has grown counts. */
void profile_objects_count(struct profile_objects *objects, struct extents *extents,
                           const struct origin *origins, size_t origin_count,
                           uint64_t counts[CLASSES_MAX])
{
    struct reader_table table;

    count_origins(objects->layout, extents, origins, origin_count, counts);
    if (!find_stacks(objects, origin_count > 0) ||
        !table_open(&table, objects->reader.source.memory, objects->reader.stacks))
        return;
    if (table.lg_now > table.lg_min)
        count_table(extents, &table, counts);
    renew_threads(objects, &table);
    count_tdatas(objects, extents, counts);
}
