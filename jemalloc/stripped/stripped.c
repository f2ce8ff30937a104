#include "jemalloc/stripped/stripped.h"
#include "jemalloc/faults.h"
#include "jemalloc/stripped/hull.h"

#include <stdio.h>
#include <string.h>

/* ---- variables ---- */

/*
 * Finds variables of jemalloc without symbols, by the functions that serve their
 * names in the tables of mallctl.
 *
 * A name of an option is served by a function that reads one variable and no
 * other (ctl.c, CTL_RO_NL_CGEN). prof.active and prof.thread_active_init are
 * served by a function that calls a getter or a setter (prof.c, prof_active_get,
 * prof_active_set). Both lock a mutex, so both use other variables, too. What is
 * looked for is the one byte that the setter reads and then writes, and that the
 * getter reads and does not write: the getter writes the mutex's flag `locked`,
 * and nobody writes an option.
 */
enum {
    PARTS_MAX = 12, /* the function of a name, and those that it calls */
    BYTES_MAX = 24, /* variables of one byte that they use */
};

struct only_variable {
    const struct view *view;
    unsigned size; /* of the variable; 0: an array, only its address is taken */
    remote_addr found;
    bool several;
};

static void visit_only(void *ctx, const struct ref *ref)
{
    struct only_variable *only = ctx;
    bool reads = ref->kind == REF_DATA && ref->access == REF_READ && ref->size == only->size;

    if ((ref->kind != REF_ADDRESS && !reads) || !xrefs_is_variable(only->view, ref->target))
        return;
    only->several |= only->found && only->found != ref->target;
    only->found = ref->target;
}

static remote_addr find_only(const struct view *view, const struct eh_frames *frames,
                             const struct ctl_tables *tables, const char *path, unsigned size)
{
    struct only_variable only = {.view = view, .size = size};
    const struct ref_query query = {
        .kinds = REF_ADDRESS | REF_DATA, .high = UINT64_MAX, .visit = visit_only, .ctx = &only};
    remote_addr start = ctl_function(tables, path);

    if (!start || !eh_frames_begin_at(frames, start) ||
        !xrefs_visit_function(view, frames, eh_frames_from(frames, start), &query))
        return 0;
    return only.several ? 0 : only.found;
}

/* How one function uses a byte. */
enum { USE_READ = 1, USE_WRITE = 2, USE_OTHER = 4 };

struct byte_uses {
    remote_addr at;
    unsigned char by[PARTS_MAX];
};

struct parts {
    const struct view *view;
    const struct eh_frames *frames;
    size_t list[PARTS_MAX]; /* indices of functions; the first serves the name */
    size_t count;
    size_t current;
    struct byte_uses bytes[BYTES_MAX];
    size_t byte_count;
    bool overflow;
};

static void visit_part(void *ctx, const struct ref *ref)
{
    struct parts *parts = ctx;
    size_t function;

    if (!eh_frames_begin_at(parts->frames, ref->target))
        return;
    function = eh_frames_from(parts->frames, ref->target);
    for (size_t i = 0; i < parts->count; i++)
        if (parts->list[i] == function)
            return;
    if (parts->count < PARTS_MAX)
        parts->list[parts->count++] = function;
    else
        parts->overflow = true;
}

static void visit_byte_use(void *ctx, const struct ref *ref)
{
    struct parts *parts = ctx;
    unsigned use = USE_OTHER;
    size_t i = 0;

    if (!xrefs_is_variable(parts->view, ref->target))
        return;
    while (i < parts->byte_count && parts->bytes[i].at != ref->target)
        i++;
    if (i == BYTES_MAX) {
        parts->overflow = true;
        return;
    }
    if (i == parts->byte_count)
        parts->bytes[parts->byte_count++].at = ref->target;
    if (ref->kind == REF_DATA && ref->size == 1)
        use = ref->access == REF_READ ? USE_READ : USE_WRITE;
    parts->bytes[i].by[parts->current] |= (unsigned char)use;
}

/*
 * True if one function reads and writes the byte, and no other writes it; one
 * other at least reads it. Where the linker's optimizer has put getter and setter
 * into the function that calls them, that one alone has to do it all.
 */
static bool is_switch(const struct parts *parts, const struct byte_uses *uses)
{
    size_t setters = 0, getters = 0;

    for (size_t i = 0; i < parts->count; i++) {
        if (uses->by[i] & USE_OTHER || uses->by[i] == USE_WRITE)
            return false;
        setters += uses->by[i] == (USE_READ | USE_WRITE);
        getters += uses->by[i] == USE_READ;
    }
    return setters == 1 && (getters == 1 || uses->by[0] == (USE_READ | USE_WRITE));
}

static remote_addr find_switch(const struct view *view, const struct eh_frames *frames,
                               const struct ctl_tables *tables, const char *path)
{
    struct parts parts = {.view = view, .frames = frames};
    const struct ref_query calls = {
        .kinds = REF_CALL | REF_JUMP, .visit = visit_part, .ctx = &parts};
    const struct ref_query uses = {.kinds = REF_ADDRESS | REF_DATA,
                                   .high = UINT64_MAX,
                                   .visit = visit_byte_use,
                                   .ctx = &parts};
    remote_addr start = ctl_function(tables, path), found = 0;

    if (!start || !eh_frames_begin_at(frames, start))
        return 0;
    /* Collects the functions, and all that they do with variables. */
    parts.list[parts.count++] = eh_frames_from(frames, start);
    if (!xrefs_visit_function(view, frames, parts.list[0], &calls))
        return 0;
    for (parts.current = 0; parts.current < parts.count; parts.current++)
        if (!xrefs_visit_function(view, frames, parts.list[parts.current], &uses))
            return 0;
    if (parts.overflow)
        return 0;

    for (size_t i = 0; i < parts.byte_count; i++) {
        if (!is_switch(&parts, &parts.bytes[i]))
            continue;
        if (found)
            return 0;
        found = parts.bytes[i].at;
    }
    return found;
}

void globals_find(struct globals *globals, const struct view *view, const struct eh_frames *frames,
                  const struct ctl_tables *tables)
{
    globals->opt_prof = find_only(view, frames, tables, "opt.prof", 1);
    globals->prof_active = find_switch(view, frames, tables, "prof.active");
    globals->thread_init = find_switch(view, frames, tables, "prof.thread_active_init");
    globals->lg_sample = find_only(view, frames, tables, "prof.lg_sample", 8);
    globals->prefix = find_only(view, frames, tables, "opt.prof_prefix", 0);
    /* Two names of one byte: it is neither. */
    if (globals->prof_active == globals->thread_init || globals->prof_active == globals->opt_prof)
        globals->prof_active = globals->thread_init = 0;
}

/* ---- tables ---- */

struct tables_search {
    struct view view;
    struct eh_frames frames;
    struct ctl_tables *tables;
    struct texts texts;
    struct xrefs xrefs;
};

/* The tables were found: checks everything else that must match them. */
static const char *check_instance(struct tables_search *search, struct instance *instance)
{
    if (!eh_frames_load(&search->frames, &search->view))
        return "without .eh_frame the starts of its functions are unknown";
    if (!xrefs_version(&search->view, &search->frames, search->tables, instance->version,
                       sizeof instance->version))
        return "its version text was not found";
    texts_find(&search->texts, &search->view);
    return xrefs_find(&search->xrefs, &search->view, &search->frames, &search->texts,
                      search->tables);
}

/* Opens the view and finds the nth tables; NULL: none. Call close_search in any case. */
static struct ctl_tables *open_search(struct tables_search *search, const struct module *module,
                                      const struct target *target, struct memory *memory,
                                      size_t nth)
{
    memset(search, 0, sizeof *search);
    search->view.fd = -1;
    if (!view_open(&search->view, module, target, memory))
        return NULL;
    search->tables = ctl_find_tables(&search->view, nth);
    return search->tables;
}

static void close_search(struct tables_search *search)
{
    eh_frames_free(&search->frames);
    free(search->tables);
    view_close(&search->view);
}

bool stripped_find(struct instance *instance, const struct module *module,
                   const struct target *target, struct memory *memory, size_t nth, const char **why)
{
    const char *prefix;
    struct tables_search search;

    *why = NULL;
    bool found = open_search(&search, module, target, memory, nth) != NULL;
    if (found) {
        *why = check_instance(&search, instance);
        found = !*why;
    }
    if (found) {
        instance->tables = search.tables->super_root;
        instance->mallctl = search.xrefs.mallctl;
        instance->stats_print = search.xrefs.stats_print;
        globals_find(&instance->globals, &search.view, &search.frames, search.tables);
        prefix = search.texts.config_prefix;
        if (prefix_valid(prefix, strlen(prefix)))
            snprintf(instance->prefix, sizeof instance->prefix, "%s", prefix);
    }
    close_search(&search);
    return found;
}

/* True if these are the tables of the instance; one found by name is assumed to be the only one. */
static bool belong_together(const struct tables_search *search, const struct instance *instance)
{
    return !instance->tables || search->tables->super_root == instance->tables;
}

/* Opens the tables of an instance; NULL: none. Call close_search in any case. */
static struct ctl_tables *open_instance(struct tables_search *search,
                                        const struct instance *instance,
                                        const struct target *target, struct memory *memory)
{
    for (size_t nth = 0;; nth++) {
        struct ctl_tables *tables = open_search(search, &instance->module, target, memory, nth);
        if (!tables || belong_together(search, instance))
            return tables;
        close_search(search);
    }
}

void stripped_facts(const struct instance *instance, const struct target *target,
                    struct memory *memory, char *version, size_t size, struct globals *globals)
{
    struct tables_search search;

    snprintf(version, size, "%s", instance->version);
    *globals = instance->globals;
    if (instance->found_by == FOUND_TABLES)
        return;
    if (open_instance(&search, instance, target, memory) &&
        eh_frames_load(&search.frames, &search.view)) {
        if (!xrefs_version(&search.view, &search.frames, search.tables, version, size))
            version[0] = '\0';
        globals_find(globals, &search.view, &search.frames, search.tables);
    }
    close_search(&search);
}

bool stripped_constant(const struct instance *instance, const char *path,
                       const struct target *target, struct memory *memory, char *out, size_t size)
{
    struct tables_search search;
    bool found = open_instance(&search, instance, target, memory) &&
                 eh_frames_load(&search.frames, &search.view) &&
                 xrefs_constant(&search.view, &search.frames, search.tables, path, out, size);

    close_search(&search);
    return found;
}

bool stripped_globals(const struct instance *instance, const struct target *target,
                      struct memory *memory, struct globals *globals)
{
    struct tables_search search;
    bool found = false, more = true;

    memset(globals, 0, sizeof *globals);
    for (size_t nth = 0; more && !found; nth++) {
        more = open_search(&search, &instance->module, target, memory, nth) &&
               eh_frames_load(&search.frames, &search.view);
        found = more && belong_together(&search, instance) &&
                xrefs_reach_root(&search.view, &search.frames, search.tables, instance->mallctl);
        if (found)
            globals_find(globals, &search.view, &search.frames, search.tables);
        close_search(&search);
    }
    return found;
}

bool stripped_version(const struct instance *instance, const struct target *target,
                      struct memory *memory, char *out, size_t size)
{
    struct globals globals;

    stripped_facts(instance, target, memory, out, size, &globals);
    return out[0] != '\0';
}

static fault_code refuse_stripped(const struct instance *instance, const char *why,
                                  struct fault *fault)
{
    return fault_set(fault, FAULT_UNSUPPORTED, 0, "plan",
                     "jemalloc is linked into %s, whose symbols are stripped, and %s",
                     instance->module.path, why);
}

fault_code stripped_forbid(const struct instance *instance, struct plan *plan,
                           const struct target *target, struct memory *memory, struct fault *fault)
{
    struct tables_search search;
    fault_code rc;

    if (!open_instance(&search, instance, target, memory))
        rc = refuse_stripped(instance, "its tables were not found", fault);
    else if (!eh_frames_load(&search.frames, &search.view))
        rc = refuse_stripped(instance, "without .eh_frame the starts of its functions are unknown",
                             fault);
    else
        rc = hull_forbid(plan, &search.view, &search.frames, search.tables, instance->mallctl,
                         fault);
    close_search(&search);
    return rc;
}
