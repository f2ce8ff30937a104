#include "jemalloc/stripped/stripped.h"
#include "jemalloc/faults.h"
#include "jemalloc/stripped/hull.h"

#include <stdio.h>
#include <string.h>

struct tables_search {
    struct view view;
    struct eh_frames frames;
    struct ctl_tables *tables;
    struct texts texts;
    struct xrefs xrefs;
};

static void fill_instance(struct instance *instance, const struct tables_search *search)
{
    const struct view *view = &search->view;

    instance->tables = search->tables->super_root;
    instance->mallctl = search->xrefs.mallctl;
    instance->stats_print = search->xrefs.stats_print;
    globals_find(&instance->globals, view, &search->frames, search->tables);
    if (prefix_valid(search->texts.config_prefix, strlen(search->texts.config_prefix)))
        snprintf(instance->prefix, sizeof instance->prefix, "%s", search->texts.config_prefix);
}

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
    remote_addr anchors[CTL_ANCHORS_MAX];

    memset(search, 0, sizeof *search);
    search->view.fd = -1;
    if (!view_open(&search->view, module, target, memory))
        return NULL;
    search->tables =
        ctl_find_tables(&search->view, anchors, ctl_find_anchors(&search->view, anchors), nth);
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
    struct tables_search search;

    *why = NULL;
    bool found = open_search(&search, module, target, memory, nth) != NULL;
    if (found) {
        *why = check_instance(&search, instance);
        found = !*why;
    }
    if (found)
        fill_instance(instance, &search);
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

/* Looks for the tables that this mallctl uses. Call close_search in any case. */
static bool open_own_tables(struct tables_search *search, const struct instance *instance,
                            const struct target *target, struct memory *memory)
{
    for (size_t nth = 0;; nth++) {
        if (!open_search(search, &instance->module, target, memory, nth) ||
            !eh_frames_load(&search->frames, &search->view))
            return false;
        if (belong_together(search, instance) &&
            xrefs_reach_root(&search->view, &search->frames, search->tables, instance->mallctl))
            return true;
        close_search(search);
    }
}

bool stripped_globals(const struct instance *instance, const struct target *target,
                      struct memory *memory, struct globals *globals)
{
    struct tables_search search;
    bool found = open_own_tables(&search, instance, target, memory);

    memset(globals, 0, sizeof *globals);
    if (found)
        globals_find(globals, &search.view, &search.frames, search.tables);
    close_search(&search);
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
