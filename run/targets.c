#include "run/targets.h"
#include "attach/permit.h"
#include "run/faults.h"
#include "run/interrupt.h"
#include "run/stall_guard.h"

#include <errno.h>
#include <string.h>

/* ---- a search ---- */

static bool take_pins(struct targets *targets)
{
    struct selection *selection = &targets->selection;

    targets->pins = calloc(selection->count + 1, sizeof *targets->pins);
    for (size_t i = 0; targets->pins && i < selection->count; i++) {
        targets->pins[i] = selection->list[i].pin;
        selection->list[i].pin.pidfd = -1;
        targets->count++;
    }
    return targets->count == selection->count;
}

static fault_code search(struct selection *selection, const struct targets_request *request,
                         struct fault *fault)
{
    struct procfs proc = {.dirfd = -1};
    struct deadline deadline = {0};
    struct census *census = census_new();
    fault_code rc = deadline_start(&deadline, request->timeout_ns, interrupt_flag(), fault);
    int err = procfs_open(&proc, "/proc");

    if (rc == FAULT_NONE && (err || !census))
        rc = fault_set(fault, FAULT_INTERNAL, -err, "open", "/proc");
    if (rc == FAULT_NONE)
        rc = permit_check_procfs(&proc, fault);
    if (rc == FAULT_NONE)
        rc = selection_find(selection, &request->selector, request->any_allocator, &proc, census,
                            &deadline, fault);
    deadline_stop(&deadline);
    procfs_close(&proc);
    census_free(census);
    return rc;
}

/* False if it is known that profiling is not on in it. */
static bool may_sample(const struct selected *selected)
{
    const struct prof_state *prof = &selected->entry.prof;

    return prof->build.config_prof != FACT_NO && prof->build.opt_prof != FACT_NO &&
           prof->prof_active != FACT_NO;
}

static void drop_silent(struct selection *selection)
{
    size_t kept = 0;

    for (size_t i = 0; i < selection->count; i++)
        if (may_sample(&selection->list[i]))
            selection->list[kept++] = selection->list[i];
        else
            target_pin_close(&selection->list[i].pin);
    selection->count = kept;
}

static fault_code find_selected(struct targets *targets, const struct targets_request *request,
                                struct fault *fault)
{
    const struct stall_guard_case stall = {.stalled = request->stalled, .ctx = request->ctx};
    struct stall_guard stall_guard;
    fault_code rc;

    stall_guard_start(&stall_guard, request->timeout_ns, &stall);
    rc = search(&targets->selection, request, fault);
    stall_guard_stop(&stall_guard);
    if (rc != FAULT_NONE)
        return rc;
    if (request->several)
        rc = selection_drop_left_out(&targets->selection, fault);
    if (rc != FAULT_NONE)
        return rc;
    if (request->several && request->sampling)
        drop_silent(&targets->selection);
    if (targets->selection.count > 1 && !request->several)
        return fault_set(fault, FAULT_SEVERAL, 0, "choose", "%zu", targets->selection.count);
    if (!take_pins(targets))
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "list processes", "/proc");
    return FAULT_NONE;
}

/* ---- pids ---- */

static bool is_pinned(const struct targets *targets, pid_t pid)
{
    for (size_t i = 0; i < targets->count; i++)
        if (targets->pins[i].pid == pid)
            return true;
    return false;
}

/* If there is no such process now, the pin never matches: not a later process of that pid either.
 */
static struct target_pin pin_now(struct procfs *proc, pid_t pid)
{
    struct target target;
    struct target_pin pin = {pid, TARGET_NO_START, -1};

    if (target_open(&target, proc, pid, NULL) == FAULT_NONE)
        pin = target_take_pin(&target);
    target_close(&target);
    return pin;
}

static fault_code pin_pids(struct targets *targets, const struct targets_request *request,
                           struct fault *fault)
{
    struct procfs proc;
    int err = procfs_open(&proc, "/proc");

    targets->pins = err ? NULL : calloc(request->pid_count, sizeof *targets->pins);
    if (!targets->pins)
        return fault_set(fault, FAULT_INTERNAL, err ? -err : ENOMEM, "open", "/proc");
    for (size_t i = 0; i < request->pid_count; i++)
        if (!is_pinned(targets, request->pids[i]))
            targets->pins[targets->count++] = pin_now(&proc, request->pids[i]);
    procfs_close(&proc);
    return FAULT_NONE;
}

fault_code targets_find(struct targets *targets, const struct targets_request *request,
                        struct fault *fault)
{
    memset(targets, 0, sizeof *targets);
    return request->search ? find_selected(targets, request, fault)
                           : pin_pids(targets, request, fault);
}

void targets_free(struct targets *targets)
{
    for (size_t i = 0; i < targets->count; i++)
        target_pin_close(&targets->pins[i]);
    free(targets->pins);
    selection_free(&targets->selection);
    memset(targets, 0, sizeof *targets);
}
