#include "jemalloc/stripped/globals.h"
#include "jemalloc/stripped/xrefs.h"

enum {
    PARTS_MAX = 12, /* the function of a name, and those that it calls */
    BYTES_MAX = 24, /* variables of one byte that they use */
};

/* --- options: a function that reads one variable --- */

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

/* --- switches: a getter and a setter --- */

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

static struct byte_uses *uses_of(struct parts *parts, remote_addr at)
{
    for (size_t i = 0; i < parts->byte_count; i++)
        if (parts->bytes[i].at == at)
            return &parts->bytes[i];
    if (parts->byte_count == BYTES_MAX)
        return NULL;
    parts->bytes[parts->byte_count].at = at;
    return &parts->bytes[parts->byte_count++];
}

static void visit_byte_use(void *ctx, const struct ref *ref)
{
    struct parts *parts = ctx;
    struct byte_uses *uses;
    unsigned use = USE_OTHER;

    if (!xrefs_is_variable(parts->view, ref->target))
        return;
    uses = uses_of(parts, ref->target);
    if (!uses) {
        parts->overflow = true;
        return;
    }
    if (ref->kind == REF_DATA && ref->size == 1)
        use = ref->access == REF_READ ? USE_READ : USE_WRITE;
    uses->by[parts->current] |= (unsigned char)use;
}

/* Collects the functions, and all that they do with variables. */
static bool collect_uses(struct parts *parts, remote_addr start)
{
    const struct ref_query calls = {
        .kinds = REF_CALL | REF_JUMP, .visit = visit_part, .ctx = parts};
    const struct ref_query uses = {
        .kinds = REF_ADDRESS | REF_DATA, .high = UINT64_MAX, .visit = visit_byte_use, .ctx = parts};

    parts->list[parts->count++] = eh_frames_from(parts->frames, start);
    if (!xrefs_visit_function(parts->view, parts->frames, parts->list[0], &calls))
        return false;
    for (parts->current = 0; parts->current < parts->count; parts->current++)
        if (!xrefs_visit_function(parts->view, parts->frames, parts->list[parts->current], &uses))
            return false;
    return !parts->overflow;
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
    remote_addr start = ctl_function(tables, path), found = 0;

    if (!start || !eh_frames_begin_at(frames, start) || !collect_uses(&parts, start))
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
