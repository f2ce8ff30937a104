#include "jemalloc/stripped/getters.h"
#include "jemalloc/stripped/xrefs.h"

#include <string.h>

enum {
    CODE_MAX = 16 << 10, /* bytes of a function that are read: epoch may contain ctl_refresh */
    LOADS_MAX = 256,
    STATS_MAX = 4096,    /* limit of an offset in ctl_stats_t */
    ASTATS_LINK = 80,    /* offset of astats in struct ctl_arena_s, since 5.0 (ctl.h) */
    ASTATS_MAX = 1 << 20 /* limit of an offset in ctl_arena_stats_t */
};

static const char *const gauge_names[CTL_GAUGES] = {
    [CTL_ALLOCATED] = "stats.allocated", [CTL_ACTIVE] = "stats.active",
    [CTL_METADATA] = "stats.metadata",   [CTL_RESIDENT] = "stats.resident",
    [CTL_MAPPED] = "stats.mapped",       [CTL_RETAINED] = "stats.retained",
    [CTL_PINNED] = "stats.pinned",
};

/* The loads of one function, in the order of its code. */
struct loads {
    const struct view *view;
    struct ref_load list[LOADS_MAX];
    size_t count;
};

struct getter_search {
    struct view view;
    struct eh_frames frames;
    struct ctl_tables *tables;
    unsigned char code[CODE_MAX];
    struct loads gauges[CTL_GAUGES];
};

/* --- code --- */

/* Reads a function into search->code. Returns its length; 0: there is none. */
static size_t read_getter(struct getter_search *search, remote_addr start)
{
    size_t frame, len;

    if (!start || !eh_frames_begin_at(&search->frames, start))
        return 0;
    frame = eh_frames_from(&search->frames, start);
    len = (size_t)(eh_frames_end(&search->frames, frame) - start);
    len = len < CODE_MAX ? len : CODE_MAX;
    return view_read(&search->view, start, search->code, len) ? len : 0;
}

static void take_load(void *ctx, const struct ref_load *load)
{
    struct loads *loads = ctx;

    if (loads->count < LOADS_MAX && xrefs_is_variable(loads->view, load->variable))
        loads->list[loads->count++] = *load;
}

static void find_loads(struct getter_search *search, const char *name, struct loads *loads)
{
    remote_addr start = ctl_function(search->tables, name);
    size_t len = read_getter(search, start);

    loads->view = &search->view;
    loads->count = 0;
    refs_visit_loads(search->code, len, start, take_load, loads);
}

/* --- the gauges --- */

/* Returns the nearest load through that variable; NULL: none. */
static const struct ref_load *load_through(const struct loads *loads, remote_addr variable)
{
    for (size_t i = 0; i < loads->count; i++)
        if (loads->list[i].through && loads->list[i].variable == variable)
            return &loads->list[i];
    return NULL;
}

static bool loads_directly(const struct loads *loads, remote_addr variable)
{
    for (size_t i = 0; i < loads->count; i++)
        if (!loads->list[i].through && loads->list[i].variable == variable)
            return true;
    return false;
}

/* The last gauges are those of newer releases. */
static bool gauge_lacking(const struct getter_search *search, size_t gauge)
{
    return gauge >= CTL_RETAINED && !ctl_function(search->tables, gauge_names[gauge]);
}

/* True if all gauges are members behind that pointer, in the order of ctl_stats_t. */
static bool match_pointer(struct getters *getters, const struct getter_search *search,
                          remote_addr variable)
{
    int64_t last = -8;

    for (size_t i = 0; i < CTL_GAUGES; i++) {
        const struct ref_load *load = load_through(&search->gauges[i], variable);
        if (!load && gauge_lacking(search, i))
            break;
        if (!load || load->offset <= last || load->offset >= STATS_MAX || load->offset % 8 ||
            (i == 0 && load->offset != 0))
            return false;
        getters->offset[i] = last = load->offset;
    }
    return true;
}

/* True if all gauges are members of the structure at that address, one after the other. */
static bool match_structure(struct getters *getters, const struct getter_search *search,
                            remote_addr variable)
{
    for (size_t i = 0; i < CTL_GAUGES; i++) {
        if (gauge_lacking(search, i))
            break;
        if (!loads_directly(&search->gauges[i], variable + 8 * i))
            return false;
        getters->offset[i] = 8 * (int64_t)i;
    }
    return true;
}

/* Finds the one variable that all gauges lead to. */
static bool find_stats(struct getters *getters, struct getter_search *search)
{
    const struct loads *first = &search->gauges[CTL_ALLOCATED];

    for (size_t i = 0; i < CTL_GAUGES; i++)
        find_loads(search, gauge_names[i], &search->gauges[i]);
    for (size_t i = 0; i < first->count; i++) {
        const struct ref_load *load = &first->list[i];
        struct getters found = {.stats = load->variable, .through = load->through};
        if (found.stats == getters->stats ||
            !(load->through ? match_pointer : match_structure)(&found, search, found.stats))
            continue;
        if (getters->stats)
            return false;
        *getters = found;
    }
    return getters->stats != 0;
}

/* --- the epoch, and the arenas --- */

static void add_variable(struct getter_variables *variables, remote_addr address)
{
    for (size_t i = 0; i < variables->count; i++)
        if (variables->list[i] == address)
            return;
    if (variables->count < GETTER_VARIABLES)
        variables->list[variables->count++] = address;
}

static void find_epochs(struct getters *getters, struct getter_search *search)
{
    struct loads *loads = &search->gauges[0];

    find_loads(search, "epoch", loads);
    for (size_t i = 0; i < loads->count; i++) {
        const struct ref_load *load = &loads->list[i];
        if (load->through == getters->through && load->offset == 0 &&
            load->variable - getters->stats >= (getters->through ? 8 : 8 * (CTL_RETAINED + 1)))
            add_variable(&getters->epochs, load->variable);
    }
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
static void find_arenas(struct getters *getters, const struct getter_search *search)
{
    struct arena_search arenas = {.view = &search->view, .variables = &getters->arenas};
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

/* -1: several that differ. */
static void take_uptime(void *ctx, int64_t offset)
{
    int64_t *found = ctx;

    if (offset <= 0 || offset >= ASTATS_MAX || offset % 8)
        return;
    *found = !*found || *found == offset ? offset : -1;
}

static void find_uptime(struct getters *getters, struct getter_search *search)
{
    size_t len = read_getter(search, ctl_indexed_function(&search->view, "uptime"));

    refs_visit_fields(search->code, len, ASTATS_LINK, take_uptime, &getters->uptime);
    if (getters->uptime < 0)
        getters->uptime = 0;
}

/* --- the search --- */

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
    free(search);
}

bool getters_find(struct getters *getters, const struct instance *instance,
                  const struct target *target, struct memory *memory)
{
    struct getter_search *search = calloc(1, sizeof *search);
    bool found;

    memset(getters, 0, sizeof *getters);
    if (!search)
        return false;
    search->view.fd = -1;
    found = open_getters(search, instance, target, memory) && find_stats(getters, search);
    if (found) {
        find_epochs(getters, search);
        find_arenas(getters, search);
        if (getters->through)
            find_uptime(getters, search);
    }
    close_getters(search);
    return found;
}
