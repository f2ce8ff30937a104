#include "jemalloc/stripped/catalog.h"
#include "base/list.h"
#include "jemalloc/stripped/xrefs.h"

#include <stdio.h>
#include <string.h>

/* The longest known name has 10 parts. A cycle of damaged tables ends at these limits. */
enum { DEPTH_MAX = 16, NODES_READ_MAX = 8192 };

enum { RETURNS_NULL_MAX = 12 }; /* bytes of a function that returns NULL and does nothing else */

struct catalog_walk {
    struct catalog *catalog;
    const struct view *view;
    const struct eh_frames *frames;
    size_t nodes_read;
};

/* One table on the way from the root. */
struct catalog_place {
    remote_addr start;
    uint32_t count;
    unsigned depth;
    char path[CATALOG_NAME_MAX];
};

/* ctl_indexed_node_t (ctl.h) */
struct indexed_node {
    uint64_t named; /* one byte: 0 */
    uint64_t function;
};

static void walk_table(struct catalog_walk *walk, const struct catalog_place *place);

/* --- an index --- */

struct index_target {
    const struct view *view;
    struct ctl_node node; /* children 0: none was found */
    bool several;
};

static void visit_index_ref(void *ctx, const struct ref *ref)
{
    struct index_target *target = ctx;
    struct ctl_node node;

    if (!ctl_node_read(target->view, ref->target, &node) || node.name[0] || !node.children)
        return;
    target->several |= target->node.children && target->node.children != node.children;
    target->node = node;
}

/*
 * Finds the table that the function of an index returns; children 0: none. A
 * build without profiling has no prof.stats.bins.<i>: its function is so short
 * that it can only return NULL.
 */
static bool find_indexed(const struct catalog_walk *walk, remote_addr at, struct ctl_node *node)
{
    struct index_target target = {.view = walk->view};
    const struct ref_query query = {
        .kinds = REF_ADDRESS | REF_DATA, .visit = visit_index_ref, .ctx = &target};
    struct indexed_node indexed;
    size_t frame;

    if (!view_read(walk->view, at, &indexed, sizeof indexed) || (indexed.named & 0xff) ||
        !eh_frames_begin_at(walk->frames, indexed.function))
        return false;
    frame = eh_frames_from(walk->frames, indexed.function);
    if (!xrefs_visit_function(walk->view, walk->frames, frame, &query))
        return false;
    *node = target.node;
    if (!target.node.children)
        return eh_frames_end(walk->frames, frame) - indexed.function <= RETURNS_NULL_MAX;
    return !target.several;
}

/* --- all tables --- */

/* False if the name is too long for a name of jemalloc. */
static bool extend_path(struct catalog_place *below, const struct catalog_place *place,
                        const char *part)
{
    int n = snprintf(below->path, sizeof below->path, "%s%s%s", place->path,
                     place->path[0] ? "." : "", part);

    below->depth = place->depth + 1;
    return n > 0 && (size_t)n < sizeof below->path && below->depth < DEPTH_MAX;
}

static bool add_catalog_name(struct catalog *catalog, const char *name)
{
    if (catalog->count == CTL_NODES_MAX ||
        !LIST_GROW(catalog->list, catalog->capacity, catalog->count))
        return false;
    memcpy(catalog->list[catalog->count++], name, CATALOG_NAME_MAX);
    return true;
}

static void walk_node(struct catalog_walk *walk, const struct catalog_place *place,
                      const struct ctl_node *node)
{
    struct catalog_place below = {.start = node->children, .count = node->child_count};

    if (!node->name[0] || !extend_path(&below, place, node->name))
        walk->catalog->whole = false;
    else if (node->children)
        walk_table(walk, &below);
    else if (!add_catalog_name(walk->catalog, below.path))
        walk->catalog->whole = false;
}

static void walk_index(struct catalog_walk *walk, const struct catalog_place *place)
{
    struct catalog_place below = {0};
    struct ctl_node node;

    if (!find_indexed(walk, place->start, &node) || !extend_path(&below, place, "<i>")) {
        walk->catalog->whole = false;
        return;
    }
    if (!node.children)
        return;
    below.start = node.children;
    below.count = node.child_count;
    walk_table(walk, &below);
}

static void walk_table(struct catalog_walk *walk, const struct catalog_place *place)
{
    struct ctl_node node;

    if (!ctl_node_read(walk->view, place->start, &node)) {
        walk_index(walk, place);
        return;
    }
    for (uint32_t i = 0; i < place->count; i++) {
        if (walk->nodes_read++ == NODES_READ_MAX ||
            !ctl_node_read(walk->view, place->start + (remote_addr)i * CTL_NODE_SIZE, &node)) {
            walk->nodes_read = NODES_READ_MAX;
            walk->catalog->whole = false;
            return;
        }
        walk_node(walk, place, &node);
    }
}

void catalog_fill(struct catalog *catalog, const struct view *view, const struct eh_frames *frames,
                  remote_addr super_root)
{
    struct catalog_walk walk = {.catalog = catalog, .view = view, .frames = frames};
    struct ctl_node root;

    catalog->whole = ctl_node_read(view, super_root, &root) && root.children;
    if (catalog->whole)
        walk_table(&walk,
                   &(struct catalog_place){.start = root.children, .count = root.child_count});
}

void catalog_free(struct catalog *catalog)
{
    free(catalog->list);
    *catalog = (struct catalog){0};
}
