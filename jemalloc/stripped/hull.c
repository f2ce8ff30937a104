#include "jemalloc/stripped/hull.h"
#include "jemalloc/faults.h"

#include <errno.h>
#include <string.h>

enum {
    GAP_MAX = 64 << 10, /* bytes between two functions with signs; measured: up to 25 KiB */
    HULL_MAX = 2 << 20, /* bytes; 5.3.1 has about 700 KiB */
    SIGNS_MIN = 100,    /* functions with signs; measured: 300 or more */
    JUMPED_MAX = 4096,  /* functions outside the hull that it jumps to */
    NEIGHBOURS = 4,     /* functions on each side */
    ROUNDS_MAX = 8,     /* length of a chain of jumps */
};

enum {
    MARK_SIGN = 1, /* it uses data that only jemalloc uses */
    MARK_USED = 2, /* it is nearby, and jemalloc calls it or takes its address */
    MARK_OURS = MARK_SIGN | MARK_USED,
    MARK_SEEN = 4,
    MARK_BETWEEN = 8, /* it is between such functions */
    MARK_FORBIDDEN = 16,
    MARK_NEW = 32,    /* forbidden, but not searched for jumps yet */
    MARK_JUMPED = 64, /* forbidden code jumps to it */
    MARK_BEGUN = 128, /* to its start, not its middle */
    MARK_CALLED = 256 /* other code calls it */
};

struct hull {
    const struct view *view;
    const struct eh_frames *frames;
    const struct ctl_tables *tables;
    struct code_ranges signs; /* data */
    uint16_t *marks;          /* one for each function */
    size_t first, last;       /* of the piece around mallctl */
    size_t jumped;
    struct code_ranges targets; /* their start addresses */
    bool changed;
    bool failed; /* out of memory */
};

/* --- data that only jemalloc uses --- */

static void visit_private_variable(void *ctx, const struct ref *ref)
{
    struct hull *hull = ctx;

    if (xrefs_is_variable(hull->view, ref->target))
        hull->failed |= !ranges_add(&hull->signs, ref->target, ref->target + 1, "");
}

/* Collects the variables that the functions of the tables use: all belong to jemalloc. */
static bool collect_signs(struct hull *hull)
{
    const struct ctl_tables *tables = hull->tables;
    const struct ref_query query = {.kinds = REF_ADDRESS | REF_DATA,
                                    .high = UINT64_MAX,
                                    .visit = visit_private_variable,
                                    .ctx = hull};

    for (size_t i = 0; i < tables->table_count; i++)
        hull->failed |=
            !ranges_add(&hull->signs, tables->tables[i].start, tables->tables[i].end, "");
    for (size_t i = 0; i < tables->node_count; i++) {
        remote_addr function = tables->nodes[i].function;
        if (!function)
            continue;
        if (!eh_frames_begin_at(hull->frames, function))
            return false;
        size_t index = eh_frames_from(hull->frames, function);
        hull->marks[index] |= MARK_SIGN;
        if (!xrefs_visit_function(hull->view, hull->frames, index, &query))
            return false;
    }
    ranges_sort(&hull->signs);
    return hull->signs.count > 0;
}

static void visit_sign(void *ctx, const struct ref *ref)
{
    struct hull *hull = ctx;
    size_t function;

    if (!ranges_find(&hull->signs, ref->target))
        return;
    function = eh_frames_at(hull->frames, ref->at);
    if (function != SIZE_MAX)
        hull->marks[function] |= MARK_SIGN;
}

static bool mark_signs(struct hull *hull)
{
    const struct code_ranges *signs = &hull->signs;
    const struct ref_query query = {.kinds = REF_ADDRESS | REF_DATA,
                                    .low = signs->list[0].start,
                                    .high = signs->list[signs->count - 1].end,
                                    .visit = visit_sign,
                                    .ctx = hull};

    return xrefs_visit_code(hull->view, &query);
}

/* --- pieces of code --- */

/* Returns the next function with one of the marks, or the number of functions. */
static size_t next_marked(const struct hull *hull, size_t from, unsigned marks)
{
    while (from < hull->frames->count && !(hull->marks[from] & marks))
        from++;
    return from;
}

/* Finds the piece around `inner` in which gaps between functions with signs are at most GAP_MAX. */
static void find_neighbourhood(struct hull *hull, size_t inner)
{
    size_t last, next;

    for (size_t first = next_marked(hull, 0, MARK_SIGN); first < hull->frames->count;
         first = next) {
        for (last = first; (next = next_marked(hull, last + 1, MARK_SIGN)) < hull->frames->count;
             last = next)
            if (eh_frames_start(hull->frames, next) - eh_frames_end(hull->frames, last) > GAP_MAX)
                break;
        hull->first = first;
        hull->last = last;
        if (inner <= last)
            return;
    }
}

static void visit_used(void *ctx, const struct ref *ref)
{
    struct hull *hull = ctx;
    size_t to = eh_frames_at(hull->frames, ref->target);

    if (to == SIZE_MAX || to < hull->first || to > hull->last || hull->marks[to] & MARK_OURS ||
        eh_frames_start(hull->frames, to) != ref->target)
        return;
    hull->marks[to] |= MARK_USED;
    hull->changed = true;
}

/* Marks functions there that jemalloc calls, or whose address it takes: they belong to it. */
static bool mark_used(struct hull *hull)
{
    const struct ref_query query = {
        .kinds = REF_CALL | REF_JUMP | REF_ADDRESS, .visit = visit_used, .ctx = hull};

    do {
        hull->changed = false;
        for (size_t i = hull->first; i <= hull->last; i++) {
            if (!(hull->marks[i] & MARK_OURS) || hull->marks[i] & MARK_SEEN)
                continue;
            hull->marks[i] |= MARK_SEEN;
            if (!xrefs_visit_function(hull->view, hull->frames, i, &query))
                return false;
        }
    } while (hull->changed);
    return true;
}

/*
 * Forbids everything between jemalloc's functions in the piece around `inner`.
 *
 * ld puts the parts that compilers split off, and main, before all other code,
 * which starts with _start; the program's first object follows. In a small
 * program all that is close together. So the piece ends at _start, and functions
 * on its other side are forbidden one by one.
 */
static void bridge_gaps(struct hull *hull, size_t inner)
{
    remote_addr entry = hull->view->image.header.e_entry + hull->view->image.bias;
    size_t next;

    for (size_t i = hull->first; i < hull->last; i = next) {
        next = next_marked(hull, i + 1, MARK_OURS);
        if (entry >= eh_frames_end(hull->frames, i) &&
            entry < eh_frames_start(hull->frames, next)) {
            if (next <= inner)
                hull->first = next;
            else
                hull->last = i;
        }
    }
    for (size_t i = hull->first; i <= hull->last; i++)
        hull->marks[i] |= MARK_BETWEEN;
}

static const char *mark_pieces(struct hull *hull, remote_addr mallctl)
{
    size_t inner = eh_frames_from(hull->frames, mallctl), inside = 0, outside = 0;

    hull->marks[inner] |= MARK_SIGN;
    find_neighbourhood(hull, inner);
    if (inner < hull->first ||
        eh_frames_end(hull->frames, hull->last) - eh_frames_start(hull->frames, hull->first) >
            HULL_MAX)
        return "its functions are not in one piece (link-time optimization?)";
    if (!mark_used(hull))
        return "its code cannot be read";
    bridge_gaps(hull, inner);
    for (size_t i = 0; i < hull->frames->count; i++) {
        if (!(hull->marks[i] & MARK_SIGN))
            continue;
        if (i >= hull->first && i <= hull->last)
            inside++;
        else
            outside++;
    }
    if (inside < SIGNS_MIN)
        return "too few functions around its mallctl use its data";
    if (outside > inside)
        return "its functions are scattered (link-time optimization?)";
    for (size_t i = 0; i < hull->frames->count; i++)
        if (hull->marks[i] & (MARK_OURS | MARK_BETWEEN))
            hull->marks[i] |= MARK_FORBIDDEN | MARK_NEW;
    return NULL;
}

/* --- jumps out of the pieces --- */

/* If its address is taken, others may call it: a destructor, a fork handler. */
static void visit_jump(void *ctx, const struct ref *ref)
{
    struct hull *hull = ctx;
    size_t to = eh_frames_at(hull->frames, ref->target);

    if (to == SIZE_MAX ||
        (ref->kind == REF_ADDRESS && eh_frames_start(hull->frames, to) != ref->target) ||
        hull->marks[to] & MARK_FORBIDDEN)
        return;
    hull->jumped += !(hull->marks[to] & MARK_JUMPED);
    hull->marks[to] |= MARK_JUMPED;
    if (eh_frames_start(hull->frames, to) == ref->target)
        hull->marks[to] |= MARK_BEGUN;
}

static void visit_jump_caller(void *ctx, const struct ref *ref)
{
    struct hull *hull = ctx;
    size_t to, from;

    if (!ranges_find(&hull->targets, ref->target))
        return;
    to = eh_frames_from(hull->frames, ref->target);
    from = eh_frames_at(hull->frames, ref->at);
    if (from == SIZE_MAX || !(hull->marks[from] & MARK_FORBIDDEN))
        hull->marks[to] |= MARK_CALLED;
}

/* Finds callers of the functions that are jumped to and not forbidden yet. */
static bool find_callers(struct hull *hull)
{
    struct ref_query calls = {.kinds = REF_CALL, .visit = visit_jump_caller, .ctx = hull};
    const struct code_ranges *targets = &hull->targets;
    bool done;

    for (size_t i = 0; i < hull->frames->count; i++) {
        remote_addr start = eh_frames_start(hull->frames, i);
        if (hull->marks[i] & MARK_JUMPED && !(hull->marks[i] & MARK_FORBIDDEN))
            hull->failed |= !ranges_add(&hull->targets, start, start + 1, "");
    }
    ranges_sort(&hull->targets);
    calls.low = targets->list[0].start;
    calls.high = targets->list[targets->count - 1].end;
    done = xrefs_visit_code(hull->view, &calls);
    ranges_free(&hull->targets);
    return done;
}

/* One round: follows the jumps from newly forbidden functions. */
static bool follow_jumps(struct hull *hull)
{
    const struct ref_query jumps = {
        .kinds = REF_JUMP | REF_ADDRESS, .visit = visit_jump, .ctx = hull};

    hull->jumped = 0;
    for (size_t i = 0; i < hull->frames->count; i++) {
        if (!(hull->marks[i] & MARK_NEW))
            continue;
        hull->marks[i] &= (uint16_t)~MARK_NEW;
        if (!xrefs_visit_function(hull->view, hull->frames, i, &jumps))
            return false;
    }
    return !hull->jumped || find_callers(hull);
}

/* True if functions next to it are jumped to, or forbidden. */
static bool has_company(const struct hull *hull, size_t i)
{
    size_t from = i < NEIGHBOURS ? 0 : i - NEIGHBOURS;

    for (size_t k = from; k <= i + NEIGHBOURS && k < hull->frames->count; k++)
        if (k != i && hull->marks[k] & (MARK_FORBIDDEN | MARK_JUMPED))
            return true;
    return false;
}

/*
 * True if the target of a jump belongs to jemalloc, or is a tail call of it.
 *
 * A jump into the middle of a function leads to a part that was split off. Such
 * parts are never called, and the linker puts those of one archive together. If
 * others call it, or if it is alone, it was no jump: other bytes looked like one.
 * (If that forbade a function of the program that is on every stack of a thread,
 * no safe point would ever be found.) A jump to the start of a function is a tail
 * call. Functions that make system calls for others too are not included.
 */
static bool belongs_to_hull(const struct hull *hull, size_t i)
{
    if (!(hull->marks[i] & MARK_BEGUN))
        return !(hull->marks[i] & MARK_CALLED) && has_company(hull, i);
    return !(hull->marks[i] & MARK_CALLED) || !xrefs_makes_syscall(hull->view, hull->frames, i);
}

static const char *close_jumps(struct hull *hull)
{
    const unsigned either = MARK_JUMPED | MARK_FORBIDDEN;

    for (unsigned round = 0; round < ROUNDS_MAX; round++) {
        if (!follow_jumps(hull))
            return "its code cannot be read";
        if (!hull->jumped)
            return NULL;
        for (size_t i = 0; i < hull->frames->count; i++)
            if ((hull->marks[i] & either) == MARK_JUMPED && belongs_to_hull(hull, i))
                hull->marks[i] |= MARK_FORBIDDEN | MARK_NEW;
        if (hull->jumped > JUMPED_MAX)
            break;
    }
    return "its code jumps to too many functions";
}

/* --- the hull --- */

static const char *hull_find(struct hull *hull, remote_addr mallctl)
{
    const struct ctl_tables *tables = hull->tables;
    const char *why;

    if (!collect_signs(hull) || !mark_signs(hull))
        return "the functions of its tables cannot be read";
    why = mark_pieces(hull, mallctl);
    if (why)
        return why;
    for (size_t i = 0; i < tables->node_count; i++) {
        remote_addr function = tables->nodes[i].function;
        if (function && (function < eh_frames_start(hull->frames, hull->first) ||
                         function >= eh_frames_end(hull->frames, hull->last)))
            return "the functions of its tables are scattered (link-time optimization?)";
    }
    return close_jumps(hull);
}

/* Adjacent functions become one range, with the padding between them. */
static fault_code forbid_marked(const struct hull *hull, struct plan *plan, struct fault *fault)
{
    const struct eh_frames *frames = hull->frames;
    fault_code rc = FAULT_NONE;

    for (size_t first = 0, end; first < frames->count && rc == FAULT_NONE; first = end + 1) {
        for (end = first; end < frames->count && hull->marks[end] & MARK_FORBIDDEN; end++)
            ;
        if (end > first)
            rc = plan_forbid(plan, eh_frames_start(frames, first), eh_frames_end(frames, end - 1),
                             "jemalloc", fault);
    }
    return rc;
}

fault_code hull_forbid(struct plan *plan, const struct view *view, const struct eh_frames *frames,
                       const struct ctl_tables *tables, remote_addr mallctl, struct fault *fault)
{
    struct hull hull = {.view = view, .frames = frames, .tables = tables};
    fault_code rc = FAULT_NONE;
    const char *why = NULL;

    hull.marks = calloc(frames->count, sizeof *hull.marks);
    if (hull.marks)
        why = hull_find(&hull, mallctl);
    if (!hull.marks || hull.failed)
        rc = fault_set(fault, FAULT_INTERNAL, ENOMEM, "plan", "%s", view->module->path);
    else if (why)
        rc = fault_set(fault, FAULT_UNSUPPORTED, 0, "plan",
                       "jemalloc is linked into %s, whose symbols are stripped, and %s",
                       view->module->path, why);
    else
        rc = forbid_marked(&hull, plan, fault);
    ranges_free(&hull.signs);
    free(hull.marks);
    return rc;
}
