#include "jemalloc/stripped/getters.h"
#include "jemalloc/stripped/xrefs.h"

#include <string.h>

struct getter_search {
    struct view view;
    struct eh_frames frames;
    struct ctl_tables *tables;
};

static void add_variable(struct getter_variables *variables, remote_addr address)
{
    for (size_t i = 0; i < variables->count; i++)
        if (variables->list[i] == address)
            return;
    if (variables->count < GETTER_VARIABLES)
        variables->list[variables->count++] = address;
}

struct arena_search {
    const struct view *view;
    struct getter_variables *variables, callees;
};

static void note_arena_ref(void *ctx, const struct ref *ref)
{
    struct arena_search *search = ctx;

    if (ref->kind == REF_CALL)
        add_variable(&search->callees, ref->target);
    else if (ref->target % 8 == 0 && xrefs_is_variable(search->view, ref->target))
        add_variable(search->variables, ref->target);
}

/* thread_arena_ctl contains arena_get, or calls it (jemalloc_internal_inlines_b.h). */
static void find_arenas(struct getter_variables *variables, const struct getter_search *search)
{
    struct arena_search arenas = {.view = &search->view, .variables = variables};
    struct ref_query query = {.kinds = REF_ADDRESS | REF_DATA | REF_CALL,
                              .high = UINT64_MAX,
                              .visit = note_arena_ref,
                              .ctx = &arenas};
    remote_addr start = ctl_function(search->tables, "thread.arena");

    if (!start || !eh_frames_begin_at(&search->frames, start))
        return;
    xrefs_visit_function(&search->view, &search->frames, eh_frames_from(&search->frames, start),
                         &query);
    query.kinds = REF_ADDRESS | REF_DATA;
    for (size_t i = 0; i < arenas.callees.count; i++)
        if (eh_frames_begin_at(&search->frames, arenas.callees.list[i]))
            xrefs_visit_function(&search->view, &search->frames,
                                 eh_frames_from(&search->frames, arenas.callees.list[i]), &query);
}

/* An instance that was found by name is assumed to be the only one of its file. */
static bool open_getters(struct getter_search *search, const struct instance *instance,
                         const struct target *target, struct memory *memory)
{
    remote_addr anchors[CTL_ANCHORS_MAX];
    size_t count;

    if (!view_open(&search->view, &instance->module, target, memory))
        return false;
    count = ctl_find_anchors(&search->view, anchors);
    for (size_t nth = 0; !search->tables; nth++) {
        search->tables = ctl_find_tables(&search->view, anchors, count, nth);
        if (!search->tables)
            return false;
        if (!instance->tables || search->tables->super_root == instance->tables)
            break;
        free(search->tables);
        search->tables = NULL;
    }
    return eh_frames_load(&search->frames, &search->view);
}

static void close_getters(struct getter_search *search)
{
    eh_frames_free(&search->frames);
    free(search->tables);
    view_close(&search->view);
}

void getters_find_arenas(struct getter_variables *arenas, const struct instance *instance,
                         const struct target *target, struct memory *memory)
{
    struct getter_search search = {.view = {.fd = -1}};

    arenas->count = 0;
    if (open_getters(&search, instance, target, memory))
        find_arenas(arenas, &search);
    close_getters(&search);
}
