#include "inject/nameless.h"
#include "elf/eh_frames.h"
#include "inject/faults.h"
#include "inject/refs.h"

#include <errno.h>

enum {
    MAKERS_MAX = 64,    /* functions that make a process */
    STARTERS_MAX = 8,   /* functions that start a thread */
    PATTERN_MAX = 64,   /* bytes of code that a finder must see at once */
    AROUND_CALL = 1024, /* bytes around a place in code without call frame information */
    ENDER_MAX = 1024,   /* bytes of musl's pthread_exit; measured: 523 and 591 */
};

struct range {
    remote_addr start, end;
};

struct learner {
    struct plan *plan;
    const struct view *view;
    struct eh_frames frames;
    struct range makers[MAKERS_MAX];
    size_t maker_count;
    remote_addr starters[STARTERS_MAX];
    size_t starter_count;
    int32_t errno_offset;
    bool has_errno;
    bool failed;
};

/* Returns the function around addr; if nothing shows its bounds (musl), the bytes around addr. */
static struct range function_around(const struct learner *learner, remote_addr addr)
{
    size_t i = eh_frames_at(&learner->frames, addr);

    if (i != SIZE_MAX)
        return (struct range){eh_frames_start(&learner->frames, i),
                              eh_frames_end(&learner->frames, i)};
    return (struct range){addr - AROUND_CALL, addr + AROUND_CALL};
}

static void forbid_range(struct learner *learner, const struct range *range, const char *what)
{
    learner->failed |=
        plan_forbid(learner->plan, range->start, range->end, what, NULL) != FAULT_NONE;
}

static bool visit_makers(void *ctx, const struct piece *piece)
{
    struct learner *learner = ctx;
    size_t at = 0, found;

    while (at < piece->fresh &&
           (found = refs_find_fork(piece->bytes + at, piece->len - at)) != SIZE_MAX) {
        struct range range = function_around(learner, piece->at + at + found);
        at += found + 1;
        if (learner->maker_count == MAKERS_MAX)
            return false;
        forbid_range(learner, &range, "fork");
        learner->makers[learner->maker_count++] = range;
    }
    return true;
}

static void forbid_caller(void *ctx, const struct ref *ref)
{
    struct learner *learner = ctx;

    for (size_t i = 0; i < learner->maker_count; i++) {
        const struct range *maker = &learner->makers[i];
        struct range caller;
        if (ref->target < maker->start || ref->target >= maker->end ||
            (ref->at >= maker->start && ref->at < maker->end))
            continue;
        caller = function_around(learner, ref->at);
        forbid_range(learner, &caller, "fork");
    }
}

static bool visit_call_code(void *ctx, const struct piece *piece)
{
    struct learner *learner = ctx;
    const struct ref_query query = {.kinds = REF_CALL,
                                    .low = learner->view->module->exec_start,
                                    .high = learner->view->module->exec_end,
                                    .visit = forbid_caller,
                                    .ctx = learner};

    refs_visit(piece->bytes, piece->len, piece->fresh, piece->at, &query);
    return true;
}

/* --- threads --- */

/*
 * The function that starts a thread contains the flags. Without call frame
 * information it is what lies between the two called functions around them; the
 * first function of every thread may be next to it, and must not be forbidden.
 */
struct neighbours {
    remote_addr at, low, high;
};

static void visit_neighbour(void *ctx, const struct ref *ref)
{
    struct neighbours *near = ctx;

    if (ref->target <= near->at && ref->target > near->low)
        near->low = ref->target;
    if (ref->target > near->at && ref->target < near->high)
        near->high = ref->target;
}

static bool visit_neighbour_code(void *ctx, const struct piece *piece)
{
    struct neighbours *near = ctx;
    const struct ref_query query = {.kinds = REF_CALL | REF_ADDRESS,
                                    .low = near->low,
                                    .high = near->high,
                                    .visit = visit_neighbour,
                                    .ctx = near};

    refs_visit(piece->bytes, piece->len, piece->fresh, piece->at, &query);
    return true;
}

static bool scan_code(struct learner *learner, piece_visitor visit, void *ctx)
{
    return view_scan_segments(learner->view, PF_X, PF_X, PATTERN_MAX, visit, ctx);
}

static bool visit_starters(void *ctx, const struct piece *piece)
{
    struct learner *learner = ctx;
    size_t at = 0, found;

    while (at < piece->fresh &&
           (found = refs_find_thread_flags(piece->bytes + at, piece->len - at)) != SIZE_MAX) {
        if (learner->starter_count < STARTERS_MAX)
            learner->starters[learner->starter_count++] = piece->at + at + found;
        at += found + 1;
    }
    return true;
}

/* musl's pthread_exit, from its start to the loop around exit(2). */
static bool visit_enders(void *ctx, const struct piece *piece)
{
    struct learner *learner = ctx;
    unsigned char code[ENDER_MAX];
    size_t at = 0, found;
    int64_t target;

    while (at < piece->fresh && (found = refs_find_thread_end(piece->bytes + at, piece->len - at,
                                                              &target)) != SIZE_MAX) {
        remote_addr start = piece->at + at + (uint64_t)target;
        size_t len = view_read(learner->view, start, code, sizeof code)
                         ? refs_find_exit_loop(code, sizeof code)
                         : SIZE_MAX;
        const struct range range = {start, start + len};
        if (len != SIZE_MAX)
            forbid_range(learner, &range, "pthread_exit");
        at += found + 1;
    }
    return true;
}

/* --- errno --- */

static bool visit_errno_offset(void *ctx, const struct piece *piece)
{
    struct learner *learner = ctx;

    learner->has_errno = refs_errno_offset(piece->bytes, piece->len, &learner->errno_offset);
    return !learner->has_errno;
}

static bool visit_errno_location(void *ctx, const struct piece *piece)
{
    struct learner *learner = ctx;
    size_t at = refs_find_errno_location(piece->bytes, piece->len, learner->errno_offset);

    if (at != SIZE_MAX)
        learner->plan->errno_location = piece->at + at;
    return at == SIZE_MAX;
}

static fault_code learn_from_code(struct learner *learner, struct fault *fault)
{
    const char *path = learner->view->module->path;

    if (!eh_frames_load(&learner->frames, learner->view))
        return fault_set(fault, FAULT_UNSUPPORTED, 0, "plan",
                         "%s has neither symbols nor .eh_frame, so its fork cannot be found", path);
    scan_code(learner, visit_errno_offset, learner);
    if (learner->has_errno)
        scan_code(learner, visit_errno_location, learner);
    if (!scan_code(learner, visit_makers, learner))
        return fault_set(fault, FAULT_UNSUPPORTED, 0, "plan",
                         "%s has no symbols, and too many of its functions look like fork", path);
    if (learner->maker_count)
        scan_code(learner, visit_call_code, learner);
    scan_code(learner, visit_enders, learner);
    scan_code(learner, visit_starters, learner);
    for (size_t i = 0; i < learner->starter_count; i++) {
        remote_addr at = learner->starters[i];
        struct range range = function_around(learner, at);
        if (eh_frames_at(&learner->frames, at) == SIZE_MAX) {
            struct neighbours near = {at, range.start, range.end};
            scan_code(learner, visit_neighbour_code, &near);
            range = (struct range){near.low, near.high};
        }
        forbid_range(learner, &range, "pthread_create");
    }
    if (learner->failed)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "plan", "%s", path);
    return FAULT_NONE;
}

fault_code nameless_learn(struct plan *plan, const struct module *module,
                          const struct target *target, struct memory *memory, struct fault *fault)
{
    struct view view;
    struct learner learner = {.plan = plan, .view = &view};
    fault_code rc;

    if (!view_open(&view, module, target, memory))
        return FAULT_NONE;
    rc = learn_from_code(&learner, fault);
    eh_frames_free(&learner.frames);
    view_close(&view);
    return rc;
}
